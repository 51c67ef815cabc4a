"""What a model file says besides its network: named entries, in the place its format has for them.

A .tflite file has them in `Model.metadata`, each a name and a buffer of bytes; an .onnx file in
`ModelProto.metadata_props`, pairs of texts. Both are read as bytes by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import tflite

from mcutrain.formats.tflite.file import LARGEST_FILE, is_tflite, naming
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.flatbuffer import read_model as read_tables

MOST_ENTRIES = 64
MOST_BYTES = 1 << 20
"""Most bytes of one entry. More of either serves nothing here, and is left out."""


def read_metadata(path: Path) -> dict[str, bytes]:
    """The entries of a .tflite or .onnx file by name; of one name the first counts.

    Raises ModelError for a file that cannot be read.
    """
    if is_tflite(path):
        with naming(path):
            is_large = path.stat().st_size > LARGEST_FILE  # whoever reads the network refuses it
            return {} if is_large else entries_of_tflite(path.read_bytes())
    from mcutrain.formats.onnx.file import read_model  # onnx is slow to import

    entries = read_model(path).metadata_props[:MOST_ENTRIES]
    return _bounded((entry.key, entry.value.encode()) for entry in entries)


def with_entries(path: Path, entries: Mapping[str, bytes]) -> bytes:
    """The bytes of a .tflite or .onnx file with these entries, in the place of others so called.

    All else is kept. Raises ModelError for a file that cannot be read.
    """
    if is_tflite(path):
        with naming(path):
            return _tflite_with(path.read_bytes(), entries)
    from mcutrain.formats.onnx.file import read_model  # onnx is slow to import

    model = read_model(path)
    kept = [e for e in model.metadata_props if e.key not in entries]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    for name, content in entries.items():
        model.metadata_props.add(key=name, value=content.decode())
    return bytes(model.SerializeToString(deterministic=True))


def _tflite_with(content: bytes, entries: Mapping[str, bytes]) -> bytes:
    root = read_tables(content)
    kept = [t for t in root.get("Metadata", []) if _name_of(t) not in entries]
    for name, value in entries.items():
        root["Buffers"].append(Table("Buffer", {"Data": np.frombuffer(value, np.uint8)}))
        kept.append(Table("Metadata", {"Name": name, "Buffer": len(root["Buffers"]) - 1}))
    root["Metadata"] = kept
    return root.file()


def _name_of(entry: Table) -> str:
    name = entry.get("Name", "")
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


def entries_of_tflite(content: bytes) -> dict[str, bytes]:
    """Return the entries of a .tflite file's bytes. The caller catches what the bindings raise."""
    root = tflite.Model.GetRootAs(content, 0)
    entries = [root.Metadata(i) for i in range(min(root.MetadataLength(), MOST_ENTRIES))]
    found = []
    for entry in entries:
        buffer = root.Buffers(entry.Buffer()) if entry.Buffer() < root.BuffersLength() else None
        if buffer is not None and 0 < buffer.DataLength() <= MOST_BYTES:
            name = (entry.Name() or b"").decode("utf-8", "replace")
            found.append((name, bytes(buffer.DataAsNumpy())))
    return _bounded(found)


def _bounded(entries: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name, content in entries:
        if len(content) <= MOST_BYTES:
            found.setdefault(name, content)
    return found

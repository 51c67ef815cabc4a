"""What a model file says besides its network: named entries, in the place its format has for them.

A .tflite file has them in `Model.metadata`, each a name and a buffer of bytes; an .onnx file in
`ModelProto.metadata_props`, pairs of texts. Both are read as bytes by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import tflite

from mcutrain.formats.tflite.file import LARGEST_FILE, is_tflite, naming

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

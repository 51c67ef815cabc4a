"""The names of a model's classes in its file: where mcutrain, and where others write them.

mcutrain has an entry of its own in the metadata, a list as JSON. TensorFlow Lite's metadata names a
file of labels for an output, which lies in a zip archive behind the model. ONNX files have no rule:
Ultralytics writes `names`, a dictionary, others a list under a name such as `classes`.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flatbuffers import encode, number_types, packer, table

from mcutrain.data import Outputs
from mcutrain.data.names import MOST_BYTES, parse_names
from mcutrain.errors import DataError, ModelError
from mcutrain.formats.metadata import entries_of_tflite, read_metadata
from mcutrain.formats.tflite.file import BINDING_ERRORS
from mcutrain.formats.tflite.flatbuffer import Table, read_model
from mcutrain.ir.graph import Graph

KEY = "mcutrain.classes"
ONNX_KEYS = ("class_names", "names", "classes", "labels", "id2label", "class_to_idx", "label2id")
"""Under which others have them in an .onnx file, the most telling name first."""
TFLITE_METADATA = "TFLITE_METADATA"
AXIS_LABELS = 2
"""AssociatedFileType.TENSOR_AXIS_LABELS of TensorFlow Lite's metadata schema."""
SUBGRAPHS, OUTPUTS, TENSOR_FILES = 3, 3, 6
FILE_NAME, FILE_TYPE, FILE_LOCALE = 0, 2, 3
"""Numbers of fields in that schema: of ModelMetadata, SubGraphMetadata, TensorMetadata, and of
AssociatedFile."""
MOST_TABLES = 32
ARCHIVE_ERRORS = (
    OSError,
    ValueError,
    RuntimeError,
    EOFError,
    zlib.error,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
)
"""What zipfile raises for a damaged archive."""


def named(graph: Graph, path: Path) -> Graph:
    """The graph with the class names of its file, if that has one for each of its outputs."""
    return replace(graph, class_names=read_class_names(path, outputs_of(graph)))


def with_class_names(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph with these. Raises DataError if there is not one for each output."""
    given = Outputs.of(outputs_of(graph), (), names).names
    return replace(graph, class_names=given)


def outputs_of(graph: Graph) -> int:
    """Return how many classes its first output tells apart: two if it is one number."""
    kind = graph.tensors[graph.outputs[0]].type
    return 2 if kind.elements == 1 else kind.shape[-1]


def read_class_names(path: Path, outputs: int) -> tuple[str, ...]:
    """The names of so many outputs; () where the file has none, or not one for each.

    What mcutrain wrote counts before all else. What cannot be read counts as none.
    """
    try:
        entries = read_metadata(path)
    except ModelError:
        return ()
    own = entries.get(KEY)
    if own is not None:
        return _fitting([own], outputs)
    if TFLITE_METADATA in entries or zipfile.is_zipfile(path):
        return _fitting(_associated(path, entries.get(TFLITE_METADATA, b"")), outputs)
    return _fitting((entries[key] for key in ONNX_KEYS if key in entries), outputs)


def entry_of(graph: Graph) -> dict[str, bytes]:
    """Return what a file of the graph says of its classes; nothing where they have no names."""
    names = names_of_outputs(graph)
    return encoded(names) if names else {}


def names_of_outputs(graph: Graph) -> tuple[str, ...]:
    """The graph's class names, if there is one for each output."""
    return graph.class_names if len(graph.class_names) == outputs_of(graph) else ()


def encoded(names: Sequence[str]) -> dict[str, bytes]:
    """The entry with these names; without any it says that nobody knows them."""
    return {KEY: json.dumps(list(names), ensure_ascii=False).encode()}


def in_onnx(content: bytes, names: Sequence[str]) -> bytes:
    """The file with these names in place of all that it says of them."""
    from onnx import ModelProto  # slow to import

    model = ModelProto.FromString(content)
    kept = [entry for entry in model.metadata_props if entry.key != KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    for key, value in encoded(names).items():
        model.metadata_props.add(key=key, value=value.decode())
    return bytes(model.SerializeToString(deterministic=True))


def in_tflite(content: bytes, names: Sequence[str]) -> bytes:
    """Write names into .tflite content, also as labels of TensorFlow Lite's metadata."""
    root = read_model(content)
    entries = [e for e in root.get("Metadata", []) if e.get("Name") not in (KEY, KEY.encode())]
    root["Metadata"] = entries
    for key, value in encoded(names).items():
        buffer = Table("Buffer", {"Data": np.frombuffer(value, np.uint8)})
        entries.append(Table("Metadata", {"Name": key, "Buffer": len(root["Buffers"])}))
        root["Buffers"].append(buffer)
    return _with_archive(content, root.file(), names)


def _with_archive(content: bytes, anew: bytes, names: Sequence[str]) -> bytes:
    """A file that was written anew, with the archive that lay behind the old one."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return anew
    found = io.BytesIO(anew)
    found.seek(0, io.SEEK_END)
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(found, "a") as archive:
        metadata = entries_of_tflite(content).get(TFLITE_METADATA, b"")
        labels = {entry.filename for entry in _label_files(old, metadata)}
        for entry in old.infolist():
            is_labels = entry.filename in labels
            text = "".join(f"{name}\n" for name in names).encode()
            archive.writestr(entry, text if is_labels else old.read(entry))
    return found.getvalue()


def _fitting(found: Iterable[bytes], outputs: int) -> tuple[str, ...]:
    """The first of several lists that has a name for each output."""
    for content in found:
        try:
            names = parse_names(content)
        except (DataError, UnicodeDecodeError):
            continue
        if len(names) == outputs:
            return names
    return ()


# ------------------------------------------------------------------- TensorFlow Lite's metadata


def _associated(path: Path, metadata: bytes) -> list[bytes]:
    """The label files behind a .tflite file: those that the metadata gives an output, else all."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [archive.read(entry) for entry in _label_files(archive, metadata)]
    except ARCHIVE_ERRORS:
        return []


def _label_files(archive: zipfile.ZipFile, metadata: bytes) -> list[zipfile.ZipInfo]:
    there = [entry for entry in archive.infolist() if entry.file_size <= MOST_BYTES][:MOST_TABLES]
    wanted = [e for name in _declared(metadata) for e in there if e.filename == name]
    texts = [entry for entry in there if entry.filename.endswith(".txt")]
    return wanted or (texts if len(texts) == 1 else [])


def _declared(metadata: bytes) -> list[str]:
    """The names of the files that label an output's axis, those of no language first."""
    try:
        root = _Foreign(metadata, encode.Get(packer.uoffset, metadata, 0))
        files = [
            file
            for part in root.tables(SUBGRAPHS)
            for output in part.tables(OUTPUTS)
            for file in output.tables(TENSOR_FILES)
        ]
        labels = [file for file in files if file.byte(FILE_TYPE) == AXIS_LABELS]
        labels.sort(key=lambda file: file.text(FILE_LOCALE) not in ("", "en"))
        return [file.text(FILE_NAME) for file in labels]
    except BINDING_ERRORS:
        return []


class _Foreign:
    """A table of a flatbuffer whose schema is not at hand, its fields by number."""

    def __init__(self, content: bytes, place: int) -> None:
        self.found: Any = table.Table(content, place)

    def _offset(self, field: int) -> int:
        return int(self.found.Offset(4 + 2 * field))

    def tables(self, field: int) -> Iterator[_Foreign]:
        """Yield the tables of a vector."""
        offset = self._offset(field)
        if not offset:
            return
        first, length = self.found.Vector(offset), self.found.VectorLen(offset)
        for i in range(min(length, MOST_TABLES)):
            yield _Foreign(self.found.Bytes, self.found.Indirect(first + 4 * i))

    def text(self, field: int) -> str:
        """Empty where there is none."""
        offset = self._offset(field)
        return self.found.String(offset + self.found.Pos).decode("utf-8") if offset else ""

    def byte(self, field: int) -> int:
        """0 where there is none."""
        offset = self._offset(field)
        place = offset + self.found.Pos
        return int(self.found.Get(number_types.Int8Flags, place)) if offset else 0

"""Models out of what was trained: in the original's file if that can be, else written anew."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats import load_tflite
from mcutrain.formats.onnx import patch as onnx_patch
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.formats.onnx.write import write_onnx
from mcutrain.formats.replacing import replace_checked
from mcutrain.formats.tflite import patch as tflite_patch
from mcutrain.formats.tflite.file import BINDING_ERRORS
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ir.difference import changed, difference
from mcutrain.ir.graph import Graph
from mcutrain.shown import Record, Shown

SUFFIXES = (".tflite", ".onnx")


@dataclass(frozen=True, repr=False)
class Export(Shown):
    """What was written. changed: names of the constants that are other than the original's.

    reason: why the file was written anew; empty if it is the original's with other parameters.
    other_bits: why mcutrain, reading the file back, computes other bits; empty if it does not.
    """

    path: Path
    size_bytes: int
    changed: tuple[str, ...]
    reason: str = ""
    other_bits: str = ""

    @property
    def is_original(self) -> bool:
        """Whether it is the original's file with other parameters."""
        return not self.reason

    def summary(self) -> str:
        """In a line."""
        how = f"written anew: {self.reason}" if self.reason else "all else is the original's"
        return f"{self.path}, {self.size_bytes:,} bytes, {len(self.changed)} tensors new, {how}"

    def records(self) -> list[Record]:
        """The names of what changed."""
        return [{"tensor": name} for name in self.changed]

    def to_dict(self) -> Record:
        """As `mcutrain export --json` prints it, without what it was made from."""
        return {
            "file": str(self.path),
            "bytes": self.size_bytes,
            "changed": list(self.changed),
            "kept_the_file": self.is_original,
            "written_anew_because": self.reason or None,
            "other_bits_because": self.other_bits or None,
        }


def export(source: Path, original: Graph, trained: Graph, path: Path) -> Export:
    """Write the trained graph as a file of the format that its name says.

    source: the file that `original` was loaded from. If the format stays, all but the parameters
    (names, metadata, signatures, types of inputs and outputs) is kept from it. What is written is
    read back before it takes its place; a .tflite file must then compute the same bits. Raises
    McutrainError.
    """
    suffix = format_of(path)
    names = changed(original, trained)
    reason = f"{source.name} is of another format"
    if suffix == _format_of(source):
        reason = _patch(source, (original, trained), path)
    other_bits = _write(trained, path, suffix) if reason else ""
    return Export(path, path.stat().st_size, names, reason, other_bits)


def format_of(path: Path) -> str:
    """The format that a name says, as its suffix. Raises ModelError for another name."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ModelError(f"{path} must end with {' or '.join(SUFFIXES)}, which tells its format")
    return suffix


def _format_of(source: Path) -> str:
    with source.open("rb") as file:
        return ".tflite" if file.read(8)[4:] == b"TFL3" else ".onnx"


def _patch(source: Path, graphs: tuple[Graph, Graph], path: Path) -> str:
    """Write the original's file with other parameters; why that cannot be, if it cannot."""
    original, trained = graphs
    is_tflite = _format_of(source) == ".tflite"
    patcher, load = (
        (tflite_patch.patched, load_tflite) if is_tflite else (onnx_patch.patched, load_onnx)
    )
    try:
        content = patcher(source, original, trained)
    except BINDING_ERRORS as error:
        return f"the original cannot be taken apart: {error or type(error).__name__}"
    if content is None:
        return "the original stores a trained parameter in another form"

    def check(part: Path) -> None:
        found = difference(trained, load(part))
        if found:
            raise UnsupportedError(found)

    try:
        replace_checked(path, content, check)
    except ModelError as error:
        return f"the original with other parameters is read differently: {error}"
    return ""


def _write(trained: Graph, path: Path, suffix: str) -> str:
    """Write it anew; why it computes other bits when it is read back."""
    if suffix == ".tflite":
        write_tflite(trained, path)
        return ""
    return write_onnx(trained, path)

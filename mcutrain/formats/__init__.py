"""Model files and graphs: .tflite and .onnx, int8 and float, read and written.

`load` reads an int8 model, `read_float` one to quantize, `write` writes a graph, `patch` a file
with other parameters. What a format knows about an operator lies in its own folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.class_names import (
    entry_of,
    in_onnx,
    in_tflite,
    named,
    names_of_outputs,
    with_class_names,
)
from mcutrain.formats.float_model import FloatModel, read_float
from mcutrain.formats.foreign import is_saved_model, not_a_model
from mcutrain.formats.input_order import order_metadata, saying_order, with_input_order
from mcutrain.formats.outputs import apart, in_a_row
from mcutrain.formats.replacing import replace_checked
from mcutrain.formats.tflite.curves import TABLES
from mcutrain.formats.tflite.file import BINDING_ERRORS, is_tflite
from mcutrain.formats.tflite.patch import patched as patch_tflite
from mcutrain.formats.tflite.read import load_tflite, rounding_of_uint8
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.quant.float_elementwise import Function
from mcutrain.quant.float_graph import FloatGraph
from mcutrain.quant.float_norm import FloatLayerNorm
from mcutrain.quant.float_op import FloatOp
from mcutrain.quant.float_recurrent import FloatGru, FloatLstm
from mcutrain.quant.rounding import rounding_once

__all__ = [
    "FloatModel",
    "as_format",
    "format_of",
    "format_of_content",
    "format_of_quantized",
    "load",
    "load_tflite",
    "patch",
    "read_float",
    "saying_order",
    "with_class_names",
    "write",
]

SUFFIXES = (".tflite", ".onnx")
ONLY_ONNX: dict[type[FloatOp], str] = {
    FloatLayerNorm: "layer normalization",
    FloatLstm: "LSTM that mcutrain writes",
    FloatGru: "GRU",
}
"""Float operators whose int8 form no .tflite file has, in words."""


def load(path: str | Path) -> Graph:
    """The int8 graph of a model file, in canonical form, with the names of its classes.

    It says in which order of axes users have samples, see `mcutrain.data.layout`. Raises ModelError
    with a sentence.
    """
    path = Path(path)
    if is_saved_model(path):
        raise not_a_model(path)
    if is_tflite(path):
        return with_input_order(in_a_row(named(load_tflite(path), path)), path)
    if path.suffix.lower() == ".tflite":
        raise ModelError(f"{path} is not a .tflite file: the identifier TFL3 is missing")
    if path.suffix.lower() == ".onnx":
        from mcutrain.formats.onnx.read import load_onnx  # onnx is slow to import

        return with_input_order(in_a_row(named(load_onnx(path), path)), path)
    raise not_a_model(path)


def rounding_of(path: Path) -> str:
    """Return what `load` had to change of a file's weights, as a clause; nothing for most files."""
    if is_tflite(path):
        return rounding_of_uint8(path)
    from mcutrain.formats.onnx.read import rounding_of_weights  # onnx is slow to import

    return rounding_of_weights(path)


def format_of(path: Path) -> str:
    """The format that a name says, as its suffix. Raises ModelError for another name."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ModelError(f"{path} must end with {' or '.join(SUFFIXES)}, which tells its format")
    return suffix


def _only_onnx(op: FloatOp) -> str:
    """Return what .tflite has no operator for, in words; nothing of what it has one for."""
    if isinstance(op, Function) and op.name not in TABLES:
        return f"operator for the function {op.name}"
    return ONLY_ONNX.get(type(op), "")


def format_of_quantized(network: FloatGraph, path: Path | None) -> str:
    """The format for a float network's int8 form, as a suffix. path: where, if that is known.

    Raises ModelError, UnsupportedError if the name says a format that cannot hold it.
    """
    found = next(((n, said) for n in network.nodes if (said := _only_onnx(n.op))), None)
    if path is None:
        return ".onnx" if found else ".tflite"
    suffix = format_of(path)
    if suffix == ".tflite" and found:
        raise UnsupportedError(
            f"node {found[0].name!r}: .tflite files have no {found[1]}; write "
            f"{path.with_suffix('.onnx')}"
        )
    return suffix


def format_of_content(path: Path) -> str:
    """The format of a file that `load` has read, whatever its name is."""
    return ".tflite" if is_tflite(path) else ".onnx"


def as_format(graph: Graph, path: Path) -> Graph:
    """The graph with the rounding of the format that the name says: ONNX' rounds once.

    A new file then computes what its graph does.
    """
    if format_of(path) == ".tflite":
        return graph
    return rounding_once(graph)


def write(
    graph: Graph,
    path: Path,
    *,
    description: str = "",
    metadata: Mapping[str, bytes] | None = None,
) -> str:
    """Write an int8 graph in the format that the name says, read back before it takes its place.

    description: of a .tflite file. metadata: what the file says besides, content by name; text in
    UTF-8, as `mcutrain.formats.metadata` reads it; names of classes are there too, and how the
    input relates to samples. An .onnx file takes samples as the .onnx file did that the graph was
    read from. Returns why mcutrain, reading the file, computes other bits (only .onnx), or nothing.
    Raises ModelError, UnsupportedError.
    """
    graph = apart(graph)
    metadata = {**entry_of(graph), **(metadata or {})}
    stored = tuple(range(len(graph.tensors[graph.inputs[0]].type.shape)))
    if format_of(path) == ".onnx":
        from mcutrain.formats.onnx.write import write_onnx
        from mcutrain.formats.onnx.writer import input_axes

        said = {**(metadata or {}), **order_metadata(graph, input_axes(graph, graph.inputs[0]))}
        return write_onnx(graph, path, metadata=said)
    said = {**(metadata or {}), **order_metadata(graph, stored)}
    write_tflite(graph, path, description=description, metadata=said)
    return ""


def patch(source: Path, original: Graph, trained: Graph, path: Path) -> str:
    """Write the file `source`, from which `original` was read, with the parameters of `trained`.

    Where both name other classes, the file says those of `trained`. It is read back before it takes
    its place. Returns why that cannot be, if it cannot; nothing is written then.
    """
    load_content, patched = _patcher(source)
    if told := rounding_of(source):
        return told
    try:
        content = patched(source, original, trained)
        if content is not None and trained.class_names != original.class_names:
            rename = in_tflite if load_content is load_tflite else in_onnx
            content = rename(content, names_of_outputs(trained))
    except BINDING_ERRORS as error:
        return f"the original cannot be taken apart: {error or type(error).__name__}"
    if content is None:
        return "the original stores a trained parameter in another form"

    def check(part: Path) -> None:
        found = difference(trained, in_a_row(load_content(part)))
        if found:
            raise UnsupportedError(found)

    try:
        replace_checked(path, content, check)
    except ModelError as error:
        return f"the original with other parameters is read differently: {error}"
    return ""


def _patcher(source: Path) -> tuple[Callable[[Path], Graph], Callable[..., bytes | None]]:
    if format_of_content(source) == ".tflite":
        return load_tflite, patch_tflite
    from mcutrain.formats.onnx.patch import patched
    from mcutrain.formats.onnx.read import load_onnx

    return load_onnx, patched

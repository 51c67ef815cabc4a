"""A graph as a QDQ .onnx file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.onnx.activations import GELUS
from mcutrain.formats.onnx.operators import EMITTERS
from mcutrain.formats.onnx.read import (
    AXES,
    CHANNELS_FIRST,
    ROUNDING,
    ROUNDS_TWICE,
    load_onnx,
)
from mcutrain.formats.onnx.reading import is_turned
from mcutrain.formats.onnx.write_sums import is_one_row, source_of_row
from mcutrain.formats.onnx.writer import GELU_OPSET, OPSET, OnnxWriter, axis_order, input_axes
from mcutrain.formats.replacing import replace_checked
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.ir.verify import verify
from mcutrain.ops.lookup import Lookup


def write_onnx(
    graph: Graph,
    path: str | Path,
    *,
    description: str = "",
    metadata: Mapping[str, bytes] | None = None,
) -> str:
    """Write any int8 graph with QuantizeLinear and DequantizeLinear; real numbers in and out.

    The integer tensors, weights and biases keep their names; images are [1, c, h, w]. Runtimes
    compute such a file in floating point, so single outputs may differ by a step from ours. A graph
    that rounds twice where ONNX rounds once says so in the file, and is read back so. metadata:
    what the file says besides, text in UTF-8 by name. The file is read back before it takes its
    place. Returns a sentence if it then computes other bits than the graph, else nothing: ONNX has
    one kind of rounding where TFLite has two. Raises UnsupportedError for what has no operator, and
    for what could not be read back.
    """
    found: list[str] = []

    def check(part: Path) -> None:
        try:
            other = difference(graph, verify(load_onnx(part)))
        except ModelError as error:
            raise UnsupportedError(
                f"{graph.name!r} cannot be written as .onnx: mcutrain could not read the file: "
                f"{error}"
            ) from error
        found.append(other and f"read back by mcutrain, it computes other bits: {other}")

    replace_checked(Path(path), onnx_content(graph, description, metadata), check)
    return found[0]


def onnx_content(
    graph: Graph, description: str = "", metadata: Mapping[str, bytes] | None = None
) -> bytes:
    """The bytes of the file, not checked."""
    writer = OnnxWriter(graph, _opset(graph))
    for node in graph.nodes:
        if is_one_row(graph, node) and source_of_row(graph, node) != node.inputs[0]:
            writer.left_out.add(node.inputs[0])
    for node in graph.nodes:
        emit = EMITTERS.get(type(node.op))
        if emit is None:
            raise UnsupportedError(
                f"node {node.name!r}: {type(node.op).__name__} has no operator in .onnx files"
            )
        emit(writer, node)
    model = writer.model(description)
    entries = dict(metadata or {})
    if any(node.op != node.op.rounding_once() for node in graph.nodes):
        entries[ROUNDING] = ROUNDS_TWICE.encode()
    if not is_turned(model.graph) and _is_channels_first(graph):
        entries[AXES] = CHANNELS_FIRST.encode()
    for name, content in entries.items():
        model.metadata_props.add(key=name, value=content.decode())
    return bytes(model.SerializeToString(deterministic=True))


def _is_channels_first(graph: Graph) -> bool:
    """Return whether the file has the input's channels, which are last in the graph, first."""
    there = input_axes(graph, graph.inputs[0])
    return len(there) > 2 and there == axis_order(len(there))


def _opset(graph: Graph) -> int:
    """The oldest opset that has all operators."""
    lookups = [node.op for node in graph.nodes if isinstance(node.op, Lookup)]
    return GELU_OPSET if any(op.function in GELUS.values() for op in lookups) else OPSET

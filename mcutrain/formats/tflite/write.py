"""A graph as an int8 .tflite file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats import load_tflite
from mcutrain.formats.layers import rows
from mcutrain.formats.replacing import replace_checked
from mcutrain.formats.tflite.operators import EMITTERS, VERSIONS
from mcutrain.formats.tflite.writer import Description, TfliteWriter
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.quant.rounding import rounding_once

NOTHING = Description()


def write_tflite(
    graph: Graph,
    path: str | Path,
    *,
    description: str = "",
    metadata: Mapping[str, bytes] | None = None,
) -> None:
    """Write any int8 graph whose scales are single-precision numbers; int8 in, int8 out.

    Tensors keep their names. description, metadata: what the file says besides, metadata as content
    by name. The file is read back before it takes its place, and must compute the same bits.
    Raises UnsupportedError for what a .tflite file cannot hold.
    """
    content = tflite_content(graph, Description(description, metadata))

    def check(part: Path) -> None:
        try:
            back = load_tflite(part)
        except ModelError as error:
            raise UnsupportedError(
                f"{graph.name!r} cannot be written as .tflite: mcutrain could not read the file: "
                f"{error}"
            ) from error
        why = difference(graph, back)
        if why and not difference(graph, rounding_once(back)):
            why = f"{why}: TFLite rounds twice what .onnx rounds once, write .onnx"
        if why:
            raise UnsupportedError(
                f"{graph.name!r} cannot be written as .tflite bit for bit: read back, {why}"
            )

    replace_checked(Path(path), content, check)


def tflite_content(graph: Graph, description: Description = NOTHING) -> bytes:
    """The bytes of the file, not checked."""
    writer = TfliteWriter(graph, rows(graph), VERSIONS)
    for node in graph.nodes:
        emit = EMITTERS.get(type(node.op))
        if emit is None:
            raise UnsupportedError(
                f"node {node.name!r}: {type(node.op).__name__} has no operator in .tflite files; "
                "write .onnx"
            )
        emit(writer, node)
    return writer.file(description)

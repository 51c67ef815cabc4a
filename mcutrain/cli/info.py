"""mcutrain info: the layers of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show, show_json, show_prose, show_table
from mcutrain.cli.shared_flags import Json, Model, option

if TYPE_CHECKING:
    from mcutrain.formats.contents import FileEdge
    from mcutrain.functions.describing import LayerInfo, ModelInfo

COLUMNS = ("layer", "name", "operator", "weight", "input → output", "weights", "MACs", "bytes")


def info(
    model: Model,
    dump: Annotated[
        bool,
        typer.Option("--dump", help="Print the graph as text, a node a line, and nothing else."),
    ] = False,
    scheme: Annotated[
        str | None,
        option("With --dump: the training graph of this scheme."),
    ] = None,
    json: Json = False,
) -> None:
    """List the layers of a model, numbered as update schemes count them.

    Of a float model: what `quantize` will make of it, and all that is in its way (exit code 2).

    Example: `mcutrain info model.tflite`
    """
    from mcutrain.errors import ModelError
    from mcutrain.functions.describing import info as described

    if scheme is not None and not dump:
        raise typer.BadParameter("a scheme changes only what --dump prints", param_hint="--scheme")
    result = described(model, listener=OnScreen(json))
    if dump:
        show(result.text(scheme))
        return
    if json:
        show_json({"file": str(model), **result.to_dict()})
    else:
        _print(result)
    if result.refusal:
        raise ModelError(result.refusal)


def _print(model: ModelInfo) -> None:
    if model.refusal:
        show_table(("operator", "nodes"), model.operators, left=1)
    else:
        rows = [_row(layer, model.head) for layer in model.layers]
        show_table(COLUMNS, rows, left=5, names=(1, 2), extra=("weight", "bytes"))
    for edge in model.inputs:
        show_prose(_edge("input", edge))
    for edge in model.outputs:
        show_prose(_edge("output", edge))
    if model.refusal:
        nodes = sum(count for _, count in model.operators)
        show_prose(f"total   {nodes} nodes, {model.parameters:,} parameters; float, not read")
        return
    in_int8 = " in int8" if model.is_float else ""
    show_prose(f"head    {model.head or 'none: ' + model.no_head_because}")
    show_prose(
        f"total   {model.trainable_layers} layers before the head, {model.total('macs'):,} MACs, "
        f"{model.total('weights'):,} weights ({model.total('bytes'):,} bytes with biases{in_int8}),"
        f" largest activation {model.largest_activation_bytes:,} bytes{in_int8}"
    )
    if model.is_float:
        show_prose(
            "float   nothing is in the way of `mcutrain quantize`, which writes it as "
            f"{model.quantized_as}"
        )


def _row(layer: LayerInfo, head: str | None) -> list[object]:
    number = "head" if layer.name == head and layer.weights else layer.index
    return [
        "" if number is None else number,
        layer.name,
        layer.operator,
        _times(layer.weight_shape),
        f"{_times(layer.input[1:])} → {_times(layer.output[1:])}",
        layer.weights or None,
        layer.macs or None,
        layer.bytes or None,
    ]


def _edge(what: str, edge: FileEdge) -> str:
    from mcutrain.functions.describing import EdgeInfo

    of_int8 = ""
    if edge.dtype == "int16":
        of_int8 = ", token ids"
    elif isinstance(edge, EdgeInfo):
        of_int8 = f", real = {edge.scale:.6g} · (q {-edge.zero_point:+d})"
    return f"{what:7} {_times(edge.shape)} {edge.dtype}{of_int8}   {edge.name}"


def _times(shape: Sequence[int | None] | None) -> str:
    """A shape such as 3×3×8; ? is a length that is not fixed."""
    return "×".join("?" if n is None else str(n) for n in shape or [])

"""mcutrain info: the layers of a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli.layer_table import show_layers, times
from mcutrain.cli.models import load_model
from mcutrain.cli.options import Json, Model
from mcutrain.cli.output import show, show_json

if TYPE_CHECKING:
    from mcutrain.ir.graph import Graph, Node, TensorType


def info(
    model: Model,
    dump: Annotated[
        bool,
        typer.Option("--dump", help="Print the graph as text, a node a line, and nothing else."),
    ] = False,
    scheme: Annotated[
        str | None,
        typer.Option(help="With --dump: the training graph of this scheme.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """List the layers of a model, numbered as update schemes count them.

    Of a float model: what `quantize` will make of it, and all that is in its way (exit code 2).

    Example: `mcutrain info model.tflite`
    """
    from mcutrain.cli.info_float import show_float
    from mcutrain.errors import ModelError
    from mcutrain.formats.contents import contents_of
    from mcutrain.functions.preparing import prepare
    from mcutrain.ir.text import dump as text

    if scheme is not None and not dump:
        raise typer.BadParameter("a scheme changes only what --dump prints", param_hint="--scheme")
    try:
        graph = load_model(model)
    except ModelError:
        if dump or not _is_float(model):
            raise
        show_float(model, contents_of(model), json)
        return
    if dump and scheme is not None:
        step = prepare(graph, scheme, loss="auto", stream="auto")
        show(text(step.plan.training.graph).rstrip())
    elif dump:
        show(text(graph).rstrip())
    elif json:
        show_json({"file": str(model), **_facts(graph)})
    else:
        _print(_facts(graph))


def _is_float(path: Path) -> bool:
    """Return whether it is a float model; nothing is known of a file that is none."""
    from mcutrain.errors import ModelError
    from mcutrain.formats.contents import contents_of

    try:
        return contents_of(path).is_float
    except ModelError:
        return False


@dataclass(frozen=True)
class _Numbering:
    """index: node name → its place among the layers. head: the classifier's node, if any."""

    index: dict[str, int]
    head: str | None
    reason: str

    @staticmethod
    def of(graph: Graph) -> _Numbering:
        from mcutrain.errors import UnsupportedError
        from mcutrain.sparse import all_layers_of, find_head

        try:
            head = find_head(graph)
        except UnsupportedError as error:
            return _Numbering({}, None, str(error))
        return _Numbering({la.name: la.index for la in all_layers_of(graph, head)}, head.name, "")


def _facts(graph: Graph) -> dict[str, Any]:
    numbering = _Numbering.of(graph)
    layers = [_layer(graph, node, numbering) for node in graph.nodes]
    activations = [t.type.size_bytes for t in graph.tensors.values() if not t.is_constant]
    return {
        "name": graph.name,
        "inputs": [_edge(name, graph.tensors[name].type) for name in graph.inputs],
        "outputs": [_edge(name, graph.tensors[name].type) for name in graph.outputs],
        "head": numbering.head,
        "no_head_because": numbering.reason or None,
        "layers": layers,
        "trainable_layers": len(numbering.index),
        "macs": sum(layer["macs"] for layer in layers),
        "weights": sum(layer["weights"] for layer in layers),
        "bytes": sum(layer["bytes"] for layer in layers),
        "largest_activation_bytes": max(activations, default=0),
    }


def _edge(name: str, kind: TensorType) -> dict[str, Any]:
    return {
        "name": name,
        "shape": list(kind.shape),
        "dtype": kind.dtype,
        "scale": kind.scale,
        "zero_point": kind.zero_point,
    }


def _layer(graph: Graph, node: Node, numbering: _Numbering) -> dict[str, Any]:
    types, results = graph.types(node.inputs), graph.types(node.outputs)
    constants = [graph.tensors[n].type for n in node.inputs if graph.tensors[n].is_constant]
    return {
        "index": numbering.index.get(node.name),
        "name": node.name,
        "operator": type(node.op).__name__,
        "weight_shape": list(constants[0].shape) if constants else None,
        "input": list(types[0].shape),
        "output": list(results[0].shape),
        "macs": node.op.macs(types, results),
        "weights": sum(t.elements for t in constants[:1]),
        "bytes": sum(t.size_bytes for t in constants),
    }


def _print(facts: dict[str, Any]) -> None:
    show_layers(facts)
    for what in ("inputs", "outputs"):
        for edge in facts[what]:
            show(
                f"{what[:-1]:7} {times(edge['shape'])} {edge['dtype']}, "
                f"real = {edge['scale']:.6g} · (q {-edge['zero_point']:+d})   {edge['name']}"
            )
    show(f"head    {facts['head'] or 'none: ' + facts['no_head_because']}")
    show(
        f"total   {facts['trainable_layers']} layers before the head, {facts['macs']:,} MACs, "
        f"{facts['weights']:,} weights ({facts['bytes']:,} bytes with biases), "
        f"largest activation {facts['largest_activation_bytes']:,} bytes"
    )

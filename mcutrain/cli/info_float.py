"""mcutrain info of a float model: what there is before it is quantized, and what is in the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcutrain.cli.layer_table import show_layers, times
from mcutrain.cli.output import show, show_json, show_table

if TYPE_CHECKING:
    from mcutrain.errors import ModelError
    from mcutrain.formats.contents import Contents, FileEdge
    from mcutrain.quant.float_graph import FloatGraph, FloatNode
    from mcutrain.quant.float_op import FloatOp

BIAS_BYTES = 4
LIKELY = "likely "


def show_float(path: Path, contents: Contents, json: bool) -> None:
    """Print it. Raises ModelError, with all obstacles, if the network cannot be quantized."""
    from mcutrain.errors import ModelError
    from mcutrain.formats import format_of_quantized, read_float

    facts: dict[str, Any] = {"file": str(path), "is_float": True, **_of_file(contents)}
    refusal: ModelError | None = None
    try:
        network = read_float(path).network
        facts |= {**_of_network(network), "quantized_as": format_of_quantized(network, None)}
        facts |= {"obstacles": [], "likely": []}
    except ModelError as error:
        refusal = error
        items = _obstacles(error)
        facts["obstacles"] = [item for item in items if not item.startswith(LIKELY)]
        facts["likely"] = [item for item in items if item.startswith(LIKELY)]
    if json:
        show_json(facts)
    else:
        _print(facts)
    if refusal is not None:
        raise refusal


def _of_file(contents: Contents) -> dict[str, Any]:
    """Return what the file itself says."""

    def edge(one: FileEdge) -> dict[str, Any]:
        return {"name": one.name, "shape": list(one.shape), "dtype": one.dtype}

    return {
        "inputs": [edge(one) for one in contents.inputs],
        "outputs": [edge(one) for one in contents.outputs],
        "operators": dict(sorted(contents.operators.items())),
        "parameters": contents.parameters,
    }


def _obstacles(error: ModelError) -> list[str]:
    """The items of a refusal, or its one sentence."""
    from mcutrain.errors import ITEM

    first, *items = str(error).split(ITEM)
    return items or [first]


def _of_network(network: FloatGraph) -> dict[str, Any]:
    """Layers after folding, with int8 sizes: what `quantize` will make."""
    from mcutrain.quant.float_sums import Sums

    head = _head(network)
    layers = [_layer(network, node) for node in network.nodes]
    weighted = [n.output for n in network.nodes if isinstance(n.op, Sums) and n is not head]
    for node, layer in zip(network.nodes, layers, strict=True):
        layer["index"] = weighted.index(node.output) if node.output in weighted else None
    largest = max(_size(shape) for shape in network.shapes.values())
    return {
        "name": network.name,
        "head": None if head is None else head.name,
        "layers": layers,
        "trainable_layers": 0 if head is None else len(weighted),
        "macs": sum(layer["macs"] for layer in layers),
        "weights": sum(layer["weights"] for layer in layers),
        "bytes": sum(layer["bytes"] for layer in layers),
        "largest_activation_bytes": largest,
    }


def _head(network: FloatGraph) -> FloatNode | None:
    """The layer of the logits; None if no layer gives them, or outputs come from several."""
    from mcutrain.quant.float_sums import Sums

    node = _source_of(network, network.outputs[0])
    if any(_source_of(network, name) is not node for name in network.outputs[1:]):
        return None
    return node if node is not None and isinstance(node.op, Sums) else None


def _source_of(network: FloatGraph, output: str) -> FloatNode | None:
    """The node that gives an output, before views, a softmax, and a mean over positions."""
    from mcutrain.quant.float_shapes import FloatMean

    node = network.producers.get(output)
    while node is not None and (node.op.is_view or node.op.is_probability):
        node = network.producers.get(node.inputs[0])
    if node is not None and isinstance(node.op, FloatMean):
        node = network.producers.get(node.inputs[0])
    return node


def _layer(network: FloatGraph, node: FloatNode) -> dict[str, Any]:
    from mcutrain.quant.float_matmul import FloatBatchMatMul
    from mcutrain.quant.float_sums import Sums

    op, y = node.op, network.shapes[node.output]
    w = op.w if isinstance(op, Sums) else None
    multiplies = isinstance(op, (Sums, FloatBatchMatMul))
    return {
        "name": node.name,
        "operator": _called(op),
        "weight_shape": None if w is None else list(w.shape),
        "input": list(network.shapes[node.inputs[0]]),
        "output": list(y),
        "macs": op.macs(y) if multiplies else 0,
        "weights": 0 if w is None else w.size,
        "bytes": 0 if w is None else w.size + BIAS_BYTES * y[-1],
    }


def _called(op: FloatOp) -> str:
    """An operator's name for a reader."""
    from mcutrain.quant.float_elementwise import Function
    from mcutrain.quant.float_shapes import FloatPool

    if isinstance(op, Function):
        return op.name
    if isinstance(op, FloatPool):
        return "MaxPool" if op.largest else "AveragePool"
    return type(op).__name__.removeprefix("Float")


def _size(shape: tuple[int, ...]) -> int:
    found = 1
    for length in shape:
        found *= length
    return found


def _print(facts: dict[str, Any]) -> None:
    if "layers" in facts:
        show_layers(facts)
    else:
        show_table(("operator", "nodes"), list(facts["operators"].items()), left=1)
    for what in ("inputs", "outputs"):
        for edge in facts[what]:
            show(f"{what[:-1]:7} {times(edge['shape'])} {edge['dtype']}   {edge['name']}")
    if "layers" not in facts:
        nodes = sum(facts["operators"].values())
        show(f"total   {nodes} nodes, {facts['parameters']:,} parameters; float, not read")
        return
    show(f"head    {facts['head'] or _why_none(len(facts['outputs']))}")
    show(
        f"total   {facts['trainable_layers']} layers before the head, {facts['macs']:,} MACs, "
        f"{facts['weights']:,} weights ({facts['bytes']:,} bytes with biases in int8), largest "
        f"activation {facts['largest_activation_bytes']:,} bytes in int8"
    )
    show(
        f"float   nothing is in the way of `mcutrain quantize`, which writes it as "
        f"{facts['quantized_as']}"
    )


def _why_none(outputs: int) -> str:
    if outputs > 1:
        return "none: the outputs come from several layers; --model-output NAME names one"
    return "none: no layer gives the output, so that none is trained"

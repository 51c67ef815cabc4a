"""Make of ranges the scale and zero point of every tensor, under TFLite's constraints.

Pools, Pad, Reshape, Concat and Transpose keep the integers, so their inputs and outputs share one
quantization: that of the union of their ranges. Softmax, logistic and tanh have a fixed one. Where
both meet, the int8 graph gets a requantization.
"""

from __future__ import annotations

from collections.abc import Mapping

from mcutrain.quant.float_graph import FloatGraph
from mcutrain.quant.float_op import IDS, Quantization
from mcutrain.quant.float_sums import Sums

Range = tuple[float, float]
LARGEST_FACTOR = 256.0
"""Largest s_x * s_w / s_y: a larger one means an output range of a few steps of the sums."""


def groups(graph: FloatGraph, fixed: Mapping[str, Quantization]) -> dict[str, str]:
    """Tensor → the tensor that stands for all that share its quantization.

    fixed: tensors whose quantization is given; only views of them share it.
    """
    leader = {name: name for name in graph.shapes}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for node in graph.nodes:
        if not node.op.shares_quantization:
            continue
        mixes = node.op.is_join
        for name in node.inputs:
            a, b = find(name), find(node.output)
            if a == b or (mixes and (a in fixed or not _may_widen(graph, name))):
                continue
            leader[b if a in fixed else a] = a if a in fixed else b
    return {name: find(name) for name in graph.shapes}


def _may_widen(graph: FloatGraph, name: str) -> bool:
    """Return whether a wider range of codes leaves the tensor's activation one that TFLite has."""
    node = graph.producers.get(name)
    return node is None or node.op.limits in (
        (-float("inf"), float("inf")),
        (0.0, float("inf")),
        (0.0, 6.0),
    )


def fixed_quantizations(
    graph: FloatGraph, input_quantization: Quantization | None
) -> dict[str, Quantization]:
    """Return what is not chosen by ranges: outputs of some operators, and perhaps the input."""
    fixed: dict[str, Quantization] = {
        node.output: node.op.output_quantization
        for node in graph.nodes
        if node.op.output_quantization is not None
    }
    if graph.ids:
        return fixed | dict.fromkeys(graph.ids, IDS)
    if input_quantization is not None:
        fixed[graph.input] = input_quantization
    return fixed


def quantizations(
    graph: FloatGraph,
    ranges: Mapping[str, Range],
    input_quantization: Quantization | None = None,
) -> dict[str, Quantization]:
    """The quantization of every tensor."""
    fixed = fixed_quantizations(graph, input_quantization)
    leader = groups(graph, fixed)
    unions: dict[str, Range] = {}
    for name, (low, high) in ranges.items():
        least, most = unions.get(leader[name], (low, high))
        unions[leader[name]] = (min(least, low), max(most, high))
    chosen = {name: Quantization.of_range(*unions[name]) for name in unions}
    chosen.update(fixed)
    for node in graph.nodes:
        y = leader[node.output]
        if isinstance(node.op, Sums) and y not in fixed:
            x = chosen[leader[node.inputs[0]]]
            least = float(node.op.scales(x.scale).max()) * x.scale / LARGEST_FACTOR
            if chosen[y].scale < least:
                widen = least / chosen[y].scale
                low, high = chosen[y].range
                chosen[y] = Quantization.of_range(low * widen, high * widen)
    return {name: chosen[leader[name]] for name in graph.shapes}

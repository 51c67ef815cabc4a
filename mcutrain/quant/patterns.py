"""What a rule on the float graph gives, and functions that exporters write as several operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mcutrain.quant.float_affine import Affine
from mcutrain.quant.float_elementwise import Clamp, FloatMul, Function
from mcutrain.quant.float_graph import FloatGraph, FloatNode

GATE_TOLERANCE = 1e-3  # relative; exporters round 1/6 differently


@dataclass(frozen=True)
class Edit:
    """By output of a node: the nodes that take its place."""

    nodes: Mapping[str, tuple[FloatNode, ...]]


Rule = Callable[[FloatGraph, FloatNode], Edit | None]


def hard_swish(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """x * relu6(x + 3) / 6, however it is written, is hard_swish times a factor."""
    if not isinstance(node.op, FloatMul):
        return None
    for x, gate in (node.inputs, node.inputs[::-1]):
        factor = _gate_factor(graph, x, gate)
        if factor is None:
            continue
        channels = graph.shapes[x][-1]
        function = FloatNode(node.name, Function("hard_swish"), (x,), f"{node.output}/hard_swish")
        rest = Affine(np.full(channels, factor), np.zeros(channels))
        scaled = FloatNode(f"{node.name}/scale", rest, (function.output,), node.output)
        return Edit({node.output: (function, scaled)})
    return None


def _gate_factor(graph: FloatGraph, x: str, gate: str) -> float | None:
    """k if the gate is k * relu6(x + 3) / 6; else None."""
    outer, clamp, inner = 1.0, graph.producers.get(gate), None
    if clamp is not None and isinstance(clamp.op, Affine):
        if np.ptp(clamp.op.factor) or clamp.op.shift.any():
            return None
        outer, clamp = float(clamp.op.factor[0]), graph.producers.get(clamp.inputs[0])
    if clamp is not None and isinstance(clamp.op, Clamp):
        inner = graph.producers.get(clamp.inputs[0])
    if clamp is None or inner is None or not isinstance(inner.op, Affine) or inner.inputs != (x,):
        return None
    if np.ptp(inner.op.factor) or np.ptp(inner.op.shift):
        return None
    low, high = clamp.op.limits
    found = (inner.op.factor[0] * outer, inner.op.shift[0] * outer, low * outer, high * outer)
    k = found[3]
    same = np.allclose(found, (k / 6, k / 2, 0, k), rtol=GATE_TOLERANCE, atol=0)
    return float(k) if same and k > 0 else None

"""What both writers ask of a graph: which layers are matrices, their scales, activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import UnsupportedError
from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.add import Add
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.softmax import INTEGER_BITS, Softmax
from mcutrain.ops.spatial import Window
from mcutrain.quant.multipliers import ACTIVATION_RANGE, activation_limits, single

POINT = Window((1, 1))
NEIGHBOURS = 4  # float32 numbers on each side of an estimate that are tried
Made = TypeVar("Made", bound=Op)
Rule = Callable[[float, Sequence[float], float, int], Requantize]


@dataclass(frozen=True)
class Row:
    """A layer that becomes a FULLY_CONNECTED: what it reads and writes, without Reshapes."""

    x: str
    y: str
    keeps_dims: bool


def rows(graph: Graph) -> dict[str, Row]:
    """Return the layers that round once, by node; only FULLY_CONNECTED does.

    The frontend puts such a layer between Reshapes to and from an image of one row. They are left
    out again if nothing else reads them, and the operator's shapes are what the Reshapes make.
    """
    producers = {name: node for node in graph.nodes for name in node.outputs}
    found = {}
    for node in graph.nodes:
        op = node.op
        if isinstance(op, Conv2D) and op.requantize is not None and op.requantize.rounds_once:
            if op.window != POINT:
                raise UnsupportedError(
                    f"node {node.name!r} rounds once, as FULLY_CONNECTED does, but has the window "
                    f"{op.window}"
                )
            found[node.name] = _row(graph, node, producers.get(node.inputs[0]))
    return found


def _row(graph: Graph, node: Node, before: Node | None) -> Row:
    x, y = node.inputs[0], node.outputs[0]
    types = graph.tensors
    xs, ys = [x], [y]
    if before is not None and isinstance(before.op, Reshape) and sole_reader(graph, x):
        xs.insert(0, before.inputs[0])
    after = following_reshape(graph, y)
    if after is not None:
        ys.insert(0, after.outputs[0])
    features, units = types[x].type.shape[-1], types[y].type.shape[-1]
    for one, other in ((a, b) for a in xs for b in ys):
        given, made = types[one].type.shape, types[other].type.shape
        if made == (types[x].type.elements // features, units):
            return Row(one, other, False)
        if given[-1:] == (features,) and made == (*given[:-1], units):
            return Row(one, other, True)
    raise AssertionError(f"{node.name}: an image of rows keeps its dimensions")


def sole_reader(graph: Graph, name: str) -> Node | None:
    """The node that reads the tensor, if nothing else does and it is no output."""
    readers = graph.consumers(name)
    if len(readers) != 1 or readers[0].inputs.count(name) != 1 or name in graph.outputs:
        return None
    return readers[0]


def following_reshape(graph: Graph, y: str) -> Node | None:
    """The Reshape that alone reads the tensor."""
    reader = sole_reader(graph, y)
    return reader if reader is not None and isinstance(reader.op, Reshape) else None


def activation_of(kind: TensorType, low: int, high: int) -> str | None:
    """The activation with these limits, `none` if there are none, None if it has no name."""
    for name in ACTIVATION_RANGE:
        if activation_limits(name, kind.scale, kind.zero_point) == (low, high):
            return name
    return None


def minuend_first(op: Add, operands: Sequence[str]) -> tuple[bool, tuple[str, ...]]:
    """Return whether an Add is a subtraction, and its operands in the order of one.

    The operand with the negative factor is subtracted; it may be either of them.
    """
    a, b = operands
    if op.a.mult_q31 < 0:
        return True, (b, a)
    return op.b.mult_q31 < 0, (a, b)


def output_stage(node: Node, stage: Requantize | None) -> Requantize:
    """A layer's requantization. Raises UnsupportedError if it gives int32 sums."""
    if stage is None:
        raise UnsupportedError(f"node {node.name!r} gives int32 sums; files hold int8 outputs")
    return stage


def weight_scales(graph: Graph, node: Node, stage: Requantize, rule: Rule) -> tuple[float, ...]:
    """The weight's scales, such that the rule makes the node's multipliers of them.

    A factor on the products (alpha of ONNX' Gemm) is in the bias' scales, not in the weight's.
    """
    x, w, b = graph.types(node.inputs)
    (y,) = graph.types(node.outputs)
    derived = tuple(single(s / x.scale) for s in b.scales)
    for scales in (w.scales, derived):
        made = rule(x.scale, scales, y.scale, y.zero_point)
        if (made.mult_q31, made.shift) == (stage.mult_q31, stage.shift):
            return scales
    raise UnsupportedError(
        f"the multipliers of node {node.name!r} do not follow from its scales in single precision, "
        "so no file can hold it bit for bit"
    )


def nearby(first: float, wanted: Made, make: Callable[[float], Made], estimate: float) -> float:
    """A single-precision attribute that makes the wanted operator; `first` if it does.

    An attribute that is not found is left to the check of the whole file, which names the node.
    """
    candidates = [np.float32(first)]
    for direction in (math.inf, -math.inf):
        value = np.float32(estimate)
        for _ in range(NEIGHBOURS):
            candidates.append(value)
            value = np.nextafter(value, np.float32(direction))
    found = next((c for c in candidates if make(float(c)) == wanted), candidates[0])
    return float(found)


def beta_of(op: Softmax, scale: float) -> float:
    """The factor, in single precision, of an input of that scale that the operator has."""
    estimate = op.mult_q31 * 2.0 ** (op.left_shift - 31) / (scale * 2.0 ** (31 - INTEGER_BITS))
    return nearby(1.0, op, lambda beta: Softmax.from_scale(scale, beta), estimate)

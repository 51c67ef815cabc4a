"""ONNX' Max and Min of several tensors, and ReduceMin: pools of what is put side by side.

The least number is the negative of the largest negative one, which in int8 is -1 - q, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mcutrain_host.dataclass import dataclass

from mcutrain.formats.onnx.activations import float_clip, int8_clip, times
from mcutrain.formats.onnx.arithmetic import broadcast_shape, common_order
from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.pooling import reduce_max
from mcutrain.formats.onnx.values import FULL, Builder, Source, Value
from mcutrain.ops.concatenation import MOST_INPUTS, Concatenation
from mcutrain.ops.lookup import negative
from mcutrain.ops.pooling import MaxPool2D
from mcutrain.ops.spatial import Window
from mcutrain.quant.float_op import Quantization, Shape
from mcutrain.quant.float_shapes import FloatConcat, FloatPool


def _has_number(node: FloatOnnx | Int8Node) -> bool:
    """Return whether one of two operands is known: a limit of the other one."""
    known = [i for i in range(len(node.inputs)) if node.is_constant(i)]
    if known and len(node.inputs) != 2:
        raise node.unsupported("a number beside several tensors is not; tensors alone are")
    return bool(known)


def _row(stored: Shape) -> Shape:
    """The shape under which tensors are put side by side: their channels are kept."""
    return (1, 1, math.prod(stored[:-1]), stored[-1])


# -------------------------------------------------------------------------------------------- float


def float_extreme(node: FloatOnnx) -> FloatValue:
    """Max and Min of a tensor and a number, or of tensors, broadcast."""
    if _has_number(node):
        return float_clip(node)
    values = [node.x(i) for i in range(len(node.inputs))]
    if len(values) == 1:
        return values[0]
    if node.op_type == "Min":
        values = [times(node, x, -1.0) for x in values]
    shape = broadcast_shape(node, *(x.shape for x in values))
    order, read = common_order(shape, *values), node.reading(*values)
    stored = Layout.of_order(shape, order)
    rows = [
        node.view(read.expanded(i, shape, order), _row(stored.stored), f"row{i}")
        for i in range(len(values))
    ]
    joined = node.nodes.add(FloatConcat(1), rows, node.output)
    found = node.computed(FloatPool(Window((len(rows), 1)), largest=True), (joined,), stored)
    return times(node, found, -1.0) if node.op_type == "Min" else found


def reduce_min(node: FloatOnnx) -> FloatValue:
    """The negative of what ReduceMax gives for negatives."""
    x = times(node, node.x(), -1.0)
    return times(node, reduce_max(node.reading(x, *node.inputs[1:])), -1.0)


# --------------------------------------------------------------------------------------------- int8


@dataclass(frozen=True, eq=False)
class Extreme(Source):
    """The largest or least of values; each is brought to the scale asked for, which keeps order."""

    name: str
    parts: tuple[Value, ...]
    order: tuple[int, ...]
    is_least: bool

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """Rescales as far as they are needed, a Concatenation, a MaxPool2D, then a clamp."""
        own = wanted.negative if self.is_least else wanted
        rows = [self._row(builder, i, f"{name}.part{i}", wanted) for i in range(len(self.parts))]
        joined = builder.node(self.name, Concatenation(1), tuple(rows), f"{name}.joined", own)
        pool = MaxPool2D(Window((len(rows), 1)))
        value = builder.node(self.name, pool, (joined,), f"{name}.extreme", own)
        if self.is_least:
            value = builder.node(self.name, negative(), (value,), f"{name}.least", wanted)
        stored = Layout.of_order(self.parts[0].shape, self.order).of_rank(4).stored
        value = builder.reshape(value, stored, f"{name}.stored")
        if limits == FULL:
            return value
        return builder.rescale(f"{self.name}.clamp", value, wanted, limits, name)

    def _row(self, builder: Builder, place: int, name: str, wanted: Quantization) -> str:
        part = self.parts[place]
        x = builder.emit(part, name, wanted)
        x = builder.arrange(x, part.layout, part.shape, self.order, f"{name}.stored")
        x = builder.reshape(x, _row(builder.tensors[x].type.shape), f"{name}.row")
        if not self.is_least:
            return x
        return builder.node(self.name, negative(), (x,), f"{name}.negative", wanted.negative)


def int8_extreme(node: Int8Node) -> Value:
    """Likewise, of equal shapes."""
    if _has_number(node):
        return int8_clip(node)
    values = tuple(node.real(i) for i in range(len(node.inputs)))
    if len(values) == 1:
        return values[0]
    if len({x.shape for x in values}) > 1 or len(values) > MOST_INPUTS:
        raise node.unsupported(
            f"{len(values)} tensors of {_shapes(values)} are not; up to {MOST_INPUTS} of one shape "
            "are"
        )
    order = tuple(values[0].layout.order)
    source = Extreme(node.name, values, order, node.op_type == "Min")
    return Value(source, Layout.of_order(values[0].shape, order).of_rank(4))


def _shapes(values: Sequence[Value]) -> str:
    return " and ".join(sorted({str(x.shape) for x in values}))

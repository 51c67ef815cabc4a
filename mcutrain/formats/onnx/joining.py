"""ONNX operators that put tensors or numbers beside each other: Concat and Pad."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mcutrain.formats.onnx.float_layout import Placed
from mcutrain.formats.onnx.float_node import FloatOnnx
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.values import FULL, Builder, Fixed, Source, Value, as_image
from mcutrain.formats.onnx.window import padded
from mcutrain.formats.onnx.writer import OnnxWriter, axis_order
from mcutrain.ir.graph import Node
from mcutrain.ops.concatenation import MOST_INPUTS, Concatenation
from mcutrain.ops.pad import Pad
from mcutrain.quant.float_op import Quantization
from mcutrain.quant.float_shapes import FloatConcat, FloatPad

# --------------------------------------------------------------------------------------------- int8


@dataclass(frozen=True, eq=False)
class Joined(Source):
    """Values side by side along an axis of [1, h, w, c]; each is brought to the scale asked for."""

    name: str
    parts: tuple[Value, ...]
    axis: int

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """Rescales as far as they are needed, then a Concatenation, then a clamp."""
        names = []
        for i, part in enumerate(self.parts):
            x = builder.emit(part, f"{name}.part{i}", wanted)
            image = as_image(f"input {i} of node {self.name!r}", part.shape)
            names.append(builder.reshape(x, (1, *image), f"{name}.image{i}"))
        own = name if limits == FULL else f"{name}.unclamped"
        while len(names) > 1:
            last = len(names) <= MOST_INPUTS
            joined = builder.node(
                self.name,
                Concatenation(self.axis),
                tuple(names[:MOST_INPUTS]),
                own if last else f"{name}.first",
                wanted,
            )
            names = [joined, *names[MOST_INPUTS:]]
        if limits == FULL:
            return names[0]
        return builder.rescale(f"{self.name}.clamp", names[0], wanted, limits, name)


AXIS_OF_IMAGE = {2: {1: 3}, 3: {1: 3, 2: 2}, 4: {1: 3, 2: 1, 3: 2}}
"""By the number of ONNX axes: an axis as it is among [1, h, w, c]."""


def int8_concat(node: Int8Node) -> Value:
    """Concat of activations."""
    if any(node.is_constant(i) for i in range(len(node.inputs))):
        raise node.unsupported("a constant beside activations is not; activations are")
    values = [node.real(i) for i in range(max(1, len(node.inputs)))]
    shape = list(values[0].shape)
    (axis,) = node.axes([node.attributes.integer("axis", 0)], len(shape))
    ours = AXIS_OF_IMAGE.get(len(shape), {}).get(axis)
    if ours is None:
        raise node.unsupported(f"axis {axis} of {tuple(shape)} is not; channels and rows are")
    for index, value in enumerate(values):
        node.check_order(value, as_image(f"input {index} of node {node.name!r}", value.shape))
        if len(value.shape) != len(shape) or any(
            a != b for i, (a, b) in enumerate(zip(value.shape, shape, strict=True)) if i != axis
        ):
            raise node.wrong(f"{value.shape} and {tuple(shape)} do not fit along axis {axis}")
    shape[axis] = sum(value.shape[axis] for value in values)
    image = as_image(f"node {node.name!r}", tuple(shape))
    return Value(Joined(node.name, tuple(values), ours), image, tuple(shape))


def int8_pad(node: Int8Node) -> Value:
    """Pad of height and width with a constant."""
    shape = node.real().shape
    border, value = padded(node, shape)
    x, quantization = node.image()
    op = Pad(border, quantization.stored(value))
    _, rows, columns, channels = op.infer(node.builder.tensors[x].type)[0].shape
    source = Fixed(node.name, op, (x,), quantization)
    size = (rows, columns)[4 - len(shape) :]
    return Value(source, (rows, columns, channels), (1, channels, *size))


# -------------------------------------------------------------------------------------------- float


def float_concat(node: FloatOnnx) -> Placed:
    """Along any axis but the batch."""
    values = [node.x(i) for i in range(len(node.inputs))]
    rank = len(values[0].shape)
    (axis,) = node.axes([node.attributes.integer("axis", 0)], rank)
    if any(len(v.shape) != rank for v in values):
        raise node.wrong("its inputs have different ranks")
    widest = max(values, key=lambda v: math.prod(v.shape))
    order = node.nodes.direct(widest, node.output).stored_order
    assert order is not None
    tensors = [node.nodes.arrange(v, v.shape, order, node.output) for v in values]
    tensor = node.add(FloatConcat(order.index(axis)), *tensors)
    shape = tuple(
        sum(v.shape[i] for v in values) if i == axis else d for i, d in enumerate(widest.shape)
    )
    return node.nodes.placed(tensor, [order.index(i) for i in range(rank)], shape)


def float_pad(node: FloatOnnx) -> Placed:
    """A constant around height and width."""
    shape = node.x().shape
    border, value = padded(node, shape)
    return node.of_image(node.add(FloatPad(border, value), node.image()), len(shape))


# ------------------------------------------------------------------------------------------ writing


def write_concat(w: OnnxWriter, node: Node) -> None:
    """Concat."""
    op = node.op
    assert isinstance(op, Concatenation)
    axis = axis_order(len(w.type(node.outputs[0]).shape)).index(op.axis)
    real = w.layer(node, "Concat", [w.real(n) for n in node.inputs], axis=axis)
    w.finish(real, node.outputs[0])


def write_pad(w: OnnxWriter, node: Node) -> None:
    """Pad with the real number that the stored one means."""
    op = node.op
    assert isinstance(op, Pad)
    x, y = node.inputs[0], node.outputs[0]
    top, bottom, left, right = op.padding
    kind = w.type(x)
    real_value = np.float32((op.value - kind.zero_point) * kind.scale)
    widths = w.constant(f"{y}/pads", np.array([0, 0, top, left, 0, 0, bottom, right], np.int64))
    value = w.constant(f"{y}/value", np.asarray(real_value))
    w.finish(w.layer(node, "Pad", [w.real(x), widths, value], mode="constant"), y)

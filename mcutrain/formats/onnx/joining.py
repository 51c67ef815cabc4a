"""ONNX operators that put tensors or numbers beside each other: Concat and Pad."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.layout import CHANNELS_LAST, Layout
from mcutrain.formats.onnx.node import Array, Constant, GraphNode, V
from mcutrain.formats.onnx.values import FULL, Builder, Source, Value
from mcutrain.formats.onnx.window import padded
from mcutrain.formats.onnx.writer import OnnxWriter, axis_order
from mcutrain.ir.graph import Node
from mcutrain.ops.concatenation import MOST_INPUTS, Concatenation
from mcutrain.ops.pad import Pad
from mcutrain.quant.float_op import Quantization, Shape
from mcutrain.quant.float_shapes import FloatConcat, FloatPad


def pad(node: GraphNode[V]) -> V:
    """Pad of channels, height and width with a constant."""
    return node.of_image(FloatPad(*padded(node, node.real().shape)), node.image())


# --------------------------------------------------------------------------------------------- int8


@dataclass(frozen=True, eq=False)
class Joined(Source):
    """Values side by side along an axis of [1, h, w, c]; each is brought to the scale asked for.

    images: their shapes as [1, c, h, w].
    """

    name: str
    parts: tuple[Value | Constant, ...]
    images: tuple[Shape, ...]
    axis: int

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """Rescales as far as they are needed, then a Concatenation, then a clamp."""
        names = []
        for i, part in enumerate(self.parts):
            stem = f"{name}.image{i}"
            if isinstance(part, Constant):
                names.append(self._known(builder, part, self.images[i], wanted))
                continue
            x = builder.emit(part, f"{name}.part{i}", wanted)
            names.append(builder.arrange(x, part.layout, self.images[i], CHANNELS_LAST, stem))
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

    @staticmethod
    def _known(builder: Builder, part: Constant, image: Shape, wanted: Quantization) -> str:
        """Its numbers in the wanted quantization."""
        real = part.real().astype(np.float32).reshape(image).transpose(CHANNELS_LAST)
        stored = wanted.codes(real)
        return builder.constant(part.name, stored, (wanted.scale,), 0, wanted.zero_point)


AXIS_OF_IMAGE = {2: {1: 3}, 3: {1: 3, 2: 2}, 4: {1: 3, 2: 1, 3: 2}}
"""An axis among [1, h, w, c], by the number of ONNX axes."""


def int8_concat(node: Int8Node) -> Value:
    """Concat of activations, and of constants beside them."""
    every = range(max(1, len(node.inputs)))
    values = [node.constant(i) if node.is_constant(i) else node.real(i) for i in every]
    shape = list(values[0].shape)
    (axis,) = node.axes([node.attributes.integer("axis", 0)], len(shape))
    ours = AXIS_OF_IMAGE.get(len(shape), {}).get(axis)
    if ours is None:
        raise node.unsupported(f"axis {axis} of {tuple(shape)} is not; channels and rows are")
    images = []
    for value in values:
        height, width, channels = node.image_of(value.shape)
        images.append((1, channels, height, width))
        if len(value.shape) != len(shape) or any(
            a != b for i, (a, b) in enumerate(zip(value.shape, shape, strict=True)) if i != axis
        ):
            raise node.wrong(f"{value.shape} and {tuple(shape)} do not fit along axis {axis}")
    shape[axis] = sum(value.shape[axis] for value in values)
    height, width, channels = node.image_of(tuple(shape))
    source = Joined(node.name, tuple(values), tuple(images), ours)
    return Value(source, Layout.of_image((1, height, width, channels), len(shape)))


# -------------------------------------------------------------------------------------------- float


def float_concat(node: FloatOnnx) -> FloatValue:
    """Along any axis but the batch."""
    every = range(len(node.inputs))
    computed = [i for i in every if not node.is_constant(i)]
    values = {i: node.x(i) for i in computed}
    known = {i: node.numbers(i) for i in every if i not in values}
    shapes = [values[i].shape if i in values else known[i].shape for i in every]
    rank = len(shapes[0])
    (axis,) = node.axes([node.attributes.integer("axis", 0)], rank)
    if any(len(s) != rank for s in shapes):
        raise node.wrong("its inputs have different ranks")
    widest = max(values.values(), key=lambda v: math.prod(v.shape))
    order = widest.layout.order
    tensors = [node.arranged(i, v.shape, order, "") for i, v in values.items()]
    constants = tuple((i, _stored(c, order)) for i, c in known.items())
    shape = tuple(sum(s[i] for s in shapes) if i == axis else d for i, d in enumerate(widest.shape))
    layout = Layout.of_order(shape, order)
    op = FloatConcat(layout.perm[axis - len(order)], constants)
    return node.computed(op, tuple(tensors), layout)


def _stored(numbers: Array, order: Sequence[int]) -> Array:
    """A constant as tensors are that store their ONNX axes in the order; float32."""
    layout = Layout.of_order(numbers.shape, order)
    return layout.store(numbers).reshape(layout.stored).astype(np.float32)


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
    first, last = op.channels
    kind = w.type(x)
    real_value = np.float32((op.value - kind.zero_point) * kind.scale)
    widths = w.constant(f"{y}/pads", np.array([0, first, top, left, 0, last, bottom, right]))
    value = w.constant(f"{y}/value", np.asarray(real_value))
    w.finish(w.layer(node, "Pad", [w.real(x), widths, value], mode="constant"), y)

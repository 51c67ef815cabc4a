"""ONNX operators that leave the numbers alone: Identity, Cast, Dropout, reshapes, Transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import TensorProto

from mcutrain.formats.onnx.file import type_name
from mcutrain.formats.onnx.float_layout import Placed
from mcutrain.formats.onnx.float_node import FloatOnnx
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.node import OnnxNode, V
from mcutrain.formats.onnx.values import Builder, Image, Source, Value, as_image, is_linear
from mcutrain.formats.onnx.views import new_shape, transposed_order
from mcutrain.formats.onnx.writer import OnnxWriter, axis_order, channels_first
from mcutrain.ir.graph import Node
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.transpose import MOST_AXES, Transpose
from mcutrain.quant.float_op import Quantization

REALS = (TensorProto.FLOAT, TensorProto.DOUBLE)
IMAGE_RANKS = (3, 4)  # [1, c, l] and [1, c, h, w]


def identity(node: OnnxNode[V]) -> V:
    """Identity, Cast of reals, and Dropout when nothing is trained."""
    attributes = node.attributes
    if node.op_type == "Dropout":
        attributes.integer("seed", 0)
        if node.has(2) and node.number(2, 0.0):
            raise node.unsupported("training_mode is not; an exported inference model is")
    if node.op_type == "Cast":
        attributes.integer("saturate", 1)
        to = attributes.integer("to", TensorProto.FLOAT)
        if to not in REALS:
            kind = type_name(to)
            raise node.unsupported(f"a cast of an activation to {kind} is not; to float is")
    return node.x()


# --------------------------------------------------------------------------------------------- int8


def int8_cast(node: Int8Node) -> Value:
    """Of real numbers."""
    node.real()
    return identity(node)


def int8_reshape(node: Int8Node) -> Value:
    """Reshape, Flatten, Squeeze, Unsqueeze: only the ONNX shape changes."""
    value = node.x()
    return replace(value, shape=new_shape(node, value.shape))


@dataclass(frozen=True, eq=False)
class Moved(Source):
    """Another source's integers in another order. lengths: of the axes as they are stored."""

    name: str
    source: Source
    lengths: tuple[int, ...]
    perm: tuple[int, ...]

    @property
    def quantization(self) -> Quantization | None:  # type: ignore[override]
        """As it was."""
        return self.source.quantization

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """The source, then a Transpose."""
        x = builder.emit_source(self.source, f"{name}.unmoved", wanted, limits)
        x = builder.reshape(x, self.lengths, f"{name}.axes")
        return builder.node(self.name, Transpose(self.perm), (x,), name, wanted)


def int8_transpose(node: Int8Node) -> Value:
    """Transpose: if the integers can stay, only the ONNX shape changes."""
    value = node.x(0)
    shape = value.shape
    perm = transposed_order(node, len(shape))
    turned = tuple(shape[axis] for axis in perm)
    stored = _stored_axes(value)
    moved = [perm.index(axis) for axis in stored or ()]  # the stored axes by their new numbers
    image = None if stored is None else _image_of(moved, turned)
    if image is not None:
        return replace(value, image=image, shape=turned)
    if stored is None:
        longer = [axis for axis in perm if shape[axis] > 1]
        if longer == sorted(longer):
            return replace(value, shape=turned)
        raise node.unsupported(
            f"moving the axes of {shape} is not, as one of them joins channels to rows or columns; "
            "axes that keep the channels apart are"
        )
    if len(stored) > MOST_AXES:
        raise node.unsupported(
            f"moving {len(stored)} axes longer than 1 is not; up to {MOST_AXES} are"
        )
    ordered, image = _as_wished(turned)
    lengths = tuple(shape[axis] for axis in stored)
    source = Moved(node.name, value.source, lengths, tuple(moved.index(axis) for axis in ordered))
    return replace(value, source=source, image=image, shape=turned)


def _as_wished(shape: tuple[int, ...]) -> tuple[list[int], Image]:
    """The axes longer than 1 in the order in which moved data is best stored, and the image.

    Channels last if the shape is that of an image; row by row if it has another batch or rank.
    """
    axes = [axis for axis, length in enumerate(shape) if length > 1]
    if len(shape) in IMAGE_RANKS and shape[0] == 1 and shape[1] > 1:
        return [*axes[1:], axes[0]], as_image("", shape)
    return axes, (1, 1, math.prod(shape))


def _stored_axes(value: Value) -> list[int] | None:
    """The ONNX axes longer than 1 in the order in which the integers are stored.

    None if they are stored channels last, and no axis begins where the channels end.
    """
    axes = [i for i, length in enumerate(value.shape) if length > 1]
    if is_linear(value.image):
        return axes
    count = 0
    while math.prod(value.shape[axis] for axis in axes[:count]) < value.image[2]:
        count += 1
    if math.prod(value.shape[axis] for axis in axes[:count]) != value.image[2]:
        return None
    return [*axes[count:], *axes[:count]]


def _image_of(stored: Sequence[int], shape: tuple[int, ...]) -> Image | None:
    """How integers in that order of ONNX axes are an image; None if they are none."""
    ordered = sorted(stored)
    if list(stored) == ordered:
        return 1, 1, math.prod(shape)
    first = stored.index(ordered[0])
    if [*stored[first:], *stored[:first]] != ordered:
        return None
    channels = math.prod(shape[axis] for axis in stored[first:])
    if len(shape) not in IMAGE_RANKS or shape[0] != 1 or channels != shape[1]:
        return None
    return as_image("", shape)


# -------------------------------------------------------------------------------------------- float


def float_reshape(node: FloatOnnx) -> Placed:
    """Reshape, Flatten, Squeeze, Unsqueeze: another view."""
    x = node.x()
    shape = new_shape(node, x.shape)
    if shape[:1] != (1,):
        raise node.unsupported(f"{x.shape} as {shape} is not; the batch of 1 stays in front")
    return Placed(x.tensor, x.stored, x.perm, shape)


def float_transpose(node: FloatOnnx) -> Placed:
    """Another view."""
    x = node.nodes.direct(node.x(), node.output)
    rank = len(x.shape)
    order = transposed_order(node, rank)
    shape = tuple(x.shape[i] for i in order)
    if shape[0] != 1:
        raise node.unsupported(
            f"the order {order} of the axes of {x.shape} is not; one with an axis of 1 in front is"
        )
    perm = [x.perm[i] for i in order]
    batch = perm.index(0)  # stored first; all axes of length 1 are alike
    perm[0], perm[batch] = perm[batch], perm[0]
    return Placed(x.tensor, x.stored, tuple(perm), shape)


# ------------------------------------------------------------------------------------------ writing


def write_reshape(w: OnnxWriter, node: Node) -> None:
    """Reshape, between Transposes where the channels are not last in both orders."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Reshape)
    if y in w.left_out:
        return
    shape = w.type(node.inputs[0]).shape
    real = w.real(node.inputs[0])
    if keeps_order(shape, op.shape):
        w.finish(reshaped(w, real, channels_first(op.shape), f"{y}/real"), y)
        return
    real = channels_last(w, real, len(shape), f"{y}/channels_last")
    real = reshaped(w, real, op.shape, f"{y}/reshaped")
    w.finish(_transposed(w, real, axis_order(len(op.shape)), f"{y}/real"), y)


def keeps_order(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether a Reshape between two shapes [1, …, c] is one between [1, c, …], too."""

    def is_linear(shape: Sequence[int]) -> bool:
        return len(shape) < 3 or shape[-1] == 1 or math.prod(shape[:-1]) == 1

    are_images = len(a) > 2 and len(b) > 2
    same_ends = (a[0], a[-1]) == (b[0], b[-1])
    return (is_linear(a) and is_linear(b)) or (are_images and same_ends)


def channels_last(w: OnnxWriter, real: str, rank: int, name: str) -> str:
    """[1, c, …] as [1, …, c]."""
    order = tuple(int(i) for i in np.argsort(axis_order(rank)))
    return _transposed(w, real, order, name)


def _transposed(w: OnnxWriter, real: str, order: Sequence[int], name: str) -> str:
    if list(order) == sorted(order):
        return real
    return w.op("Transpose", [real], name, perm=list(order))


def reshaped(w: OnnxWriter, real: str, shape: Sequence[int], name: str) -> str:
    """Real numbers under another shape."""
    return w.op("Reshape", [real, w.constant(f"{name}/shape", np.array(shape, np.int64))], name)


def write_transpose(w: OnnxWriter, node: Node) -> None:
    """Transpose, of the axes in ONNX' order."""
    op = node.op
    assert isinstance(op, Transpose)
    order = axis_order(len(op.perm))
    places = [order.index(op.perm[axis]) for axis in order]
    w.finish(w.layer(node, "Transpose", [w.real(node.inputs[0])], perm=places), node.outputs[0])

"""ONNX operators that pool, pad, join or view."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from mcutrain.formats.onnx.float_layout import Placed
from mcutrain.formats.onnx.float_node import MAX_WINDOW, FloatOnnx, window_of
from mcutrain.formats.onnx.node import normalized_axes
from mcutrain.formats.onnx.old import softmax_axis
from mcutrain.formats.onnx.operators import new_shape
from mcutrain.ops.spatial import Window
from mcutrain.quant.float_shapes import FloatConcat, FloatMean, FloatPad, FloatPool, FloatSoftmax

Array = npt.NDArray[Any]
Rule = Callable[[FloatOnnx], Placed]


def pool(largest: bool) -> Rule:
    """MaxPool or AveragePool in one or two dimensions."""

    def apply(node: FloatOnnx) -> Placed:
        attributes = node.front.attributes
        rank = len(node.x().shape)
        kernel = attributes.integers("kernel_shape")
        if rank not in (3, 4) or kernel is None or len(kernel) != rank - 2:
            raise node.front.unsupported(f"a window {kernel} over {node.x().shape} is not")
        attributes.integer("storage_order", 0)
        counts_padding = attributes.integer("count_include_pad", 0)
        image = node.image()
        _, height, width, _ = node.nodes.shapes[image]
        window = window_of(node, kernel, (height, width))
        if counts_padding and not largest and any(window.padding):
            image = node.add(FloatPad(window.padding), image)
            window = Window(window.kernel, window.stride, window.dilation)
        whole = not largest and window.kernel == (height, width) and not any(window.padding)
        op = FloatMean() if whole else FloatPool(window, largest)
        return node.of_image(node.add(op, image), rank)

    return apply


def global_pool(largest: bool) -> Rule:
    """Over the whole image."""

    def apply(node: FloatOnnx) -> Placed:
        image = node.image()
        _, height, width, _ = node.nodes.shapes[image]
        op = FloatPool(Window((height, width)), largest=True) if largest else FloatMean()
        return node.of_image(node.add(op, image), len(node.x().shape))

    return apply


def reduce_mean(node: FloatOnnx) -> Placed:
    """The mean over all axes but the channels."""
    x, front = node.x(), node.front
    axes = front.attributes.integers("axes")
    if front.has(1):
        axes = front.integers(1)
    does_nothing = bool(front.attributes.integer("noop_with_empty_axes", 0))
    if does_nothing and not axes:
        return x
    rank = len(x.shape)
    over = normalized_axes(front, axes or range(rank), rank)
    kept = [i for i, d in enumerate(x.shape) if d > 1 and i not in over]
    reduced = [i for i in over if x.shape[i] > 1]
    if len(kept) > 1 or len(reduced) > 2:
        raise front.unsupported(
            f"the mean of {x.shape} over axes {over} is not; over all but the channels it is"
        )
    found = node.nodes.direct(x, node.name)
    stored_order = found.stored_order
    assert stored_order is not None
    order = [i for i in stored_order if i not in kept] + kept
    tensor = node.nodes.arrange(found, x.shape, order, node.name)
    lengths = ([1, 1] + [x.shape[i] for i in order if i in reduced])[-2:]
    channels = x.shape[kept[0]] if kept else 1
    image = node.nodes.reshape(tensor, (1, *lengths, channels), node.name)
    keep = front.attributes.integer("keepdims", 1)
    shape = tuple(1 if i in over else d for i, d in enumerate(x.shape) if keep or i not in over)
    return node.nodes.placed(node.add(FloatMean(), image), (0, 1, 2, 3), shape)


def pad(node: FloatOnnx) -> Placed:
    """A constant around height and width."""
    front, x = node.front, node.x()
    rank = len(x.shape)
    if front.attributes.text("mode", "constant") != "constant" or rank not in (3, 4):
        raise front.unsupported("only mode 'constant' of [1, c, h, w] and [1, c, l] is")
    axes = normalized_axes(front, front.integers(3), rank) if front.has(3) else list(range(rank))
    amounts = front.integers(1)
    if len(amounts) != 2 * len(axes) or not all(0 <= a <= MAX_WINDOW for a in amounts):
        raise front.wrong(f"pads {amounts} do not fit the axes {axes}")
    begin, end = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        begin[axis], end[axis] = amounts[i], amounts[i + len(axes)]
    value = front.number(2, 0.0)
    if any((*begin[:2], *end[:2])) or not math.isfinite(value):
        raise front.unsupported(f"pads {amounts} with {value} are not; height and width may grow")
    top, bottom = (begin[2], end[2]) if rank == 4 else (0, 0)
    op = FloatPad((top, bottom, begin[-1], end[-1]), value)
    return node.of_image(node.add(op, node.image()), rank)


def concat(node: FloatOnnx) -> Placed:
    """Along any axis but the batch."""
    values = [node.x(i) for i in range(len(node.values))]
    rank = len(values[0].shape)
    (axis,) = normalized_axes(node.front, [node.front.attributes.integer("axis", 0)], rank)
    if any(len(v.shape) != rank for v in values):
        raise node.front.wrong("its inputs have different ranks")
    widest = max(values, key=lambda v: math.prod(v.shape))
    order = node.nodes.direct(widest, node.name).stored_order
    assert order is not None
    tensors = [node.nodes.arrange(v, v.shape, order, node.name) for v in values]
    tensor = node.add(FloatConcat(order.index(axis)), *tensors)
    shape = tuple(
        sum(v.shape[i] for v in values) if i == axis else d for i, d in enumerate(widest.shape)
    )
    return node.nodes.placed(tensor, [order.index(i) for i in range(rank)], shape)


def softmax(node: FloatOnnx) -> Placed:
    """Over one axis, which must be stored last."""
    x = node.x()
    axis = softmax_axis(node.front, x.shape)
    return node.elementwise(FloatSoftmax(), node.nodes.with_last(x, axis, node.name))


def transpose(node: FloatOnnx) -> Placed:
    """Another view."""
    x = node.nodes.direct(node.x(), node.name)
    rank = len(x.shape)
    order = node.front.attributes.integers("perm", tuple(reversed(range(rank)))) or ()
    if sorted(order) != list(range(rank)):
        raise node.front.wrong(f"perm {order} does not fit {x.shape}")
    shape = tuple(x.shape[i] for i in order)
    if shape[0] != 1:
        raise node.front.unsupported(
            f"the order {order} of the axes of {x.shape} is not; one with an axis of 1 in front is"
        )
    perm = [x.perm[i] for i in order]
    batch = perm.index(0)  # stored first; all axes of length 1 are alike
    perm[0], perm[batch] = perm[batch], perm[0]
    return Placed(x.tensor, x.stored, tuple(perm), shape)


def reshape(node: FloatOnnx) -> Placed:
    """Reshape, Flatten, Squeeze, Unsqueeze: another view."""
    x = node.x()
    shape = new_shape(node.front, x.shape)
    if math.prod(shape) != math.prod(x.shape) or shape[:1] != (1,):
        raise node.front.unsupported(f"{x.shape} as {shape} is not; the batch of 1 stays in front")
    return Placed(x.tensor, x.stored, x.perm, shape)

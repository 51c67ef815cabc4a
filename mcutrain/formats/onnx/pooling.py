"""ONNX operators that pool: MaxPool, AveragePool, of the whole image; ReduceMean, ReduceSum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import UnsupportedError
from mcutrain.formats.onnx.arithmetic import affine, along
from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.layout import IMAGE_RANKS, Layout
from mcutrain.formats.onnx.node import GraphNode, OnnxNode, V
from mcutrain.formats.onnx.values import Value
from mcutrain.formats.onnx.views import reduced
from mcutrain.formats.onnx.window import Padding, pool_window
from mcutrain.formats.onnx.write_sums import strides_of
from mcutrain.formats.onnx.writer import OnnxWriter
from mcutrain.ir.graph import Node, TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.pooling import AveragePool2D, ImageSum, MaxPool2D, Mean, ScaledAveragePool2D
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers
from mcutrain.quant.float_affine import Affine
from mcutrain.quant.float_op import FloatOp, Quantization, Shape
from mcutrain.quant.float_shapes import FloatMean, FloatPad, FloatPool, FloatSum

AXES_OPSETS = {"ReduceMean": 18, "ReduceSum": 13}  # from which on axes are an input


def _pool_of(node: OnnxNode[Any], size: tuple[int, ...]) -> tuple[Padding, Window]:
    """The border that is counted, and the window, over height and width."""
    rank = len(node.x().shape)
    if rank not in (3, 4):
        raise node.unsupported("only pools of [1, c, h, w] and [1, c, l] are")
    if node.op_type == "MaxPool":
        node.attributes.integer("storage_order", 0)
    return pool_window(node, (size[0], size[1]), rank - 2)


@dataclass(frozen=True, eq=False)
class RequantizingPool(FloatPool):
    """A mean of each window that rounds once, whatever its scale: as onnxruntime computes it."""

    @property
    def requantizes(self) -> bool:
        """Means only; the largest numbers are rescaled."""
        return not self.largest

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """ScaledAveragePool2D where the scale changes."""
        (image,) = x
        if self.largest or Quantization.of(image) == y:
            return super().int8(x, y)
        area = math.prod(self.window.kernel)
        mult, shift = multipliers.average_multiplier(image.scale, y.scale, area)
        return ScaledAveragePool2D(self.window, image.zero_point, y.zero_point, mult, shift)


def int8_pool(node: Int8Node) -> Value:
    """MaxPool and AveragePool of images and sequences."""
    return _pool(node, RequantizingPool)


def float_pool(node: FloatOnnx) -> FloatValue:
    """Read a pool of a float model."""
    return _pool(node, FloatPool)


def _pool(node: GraphNode[V], kind: type[FloatPool]) -> V:
    image = node.image()
    border, window = _pool_of(node, node.stored_shape(image)[1:3])
    if any(border):
        image = node.inner(FloatPad(border), image, "padded")
    return node.of_image(kind(window, node.op_type == "MaxPool"), image)


@dataclass(frozen=True, eq=False)
class GlobalMean(FloatMean):
    """A mean that is an AveragePool2D where the scale stays, as TFLite has it."""

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """AveragePool2D or Mean."""
        (image,) = x
        _, height, width, _ = image.shape
        if Quantization.of(image) == y:
            return AveragePool2D(Window((height, width)))
        return super().int8(x, y)


def int8_global_pool(node: Int8Node) -> Value:
    """GlobalMaxPool and GlobalAveragePool."""
    return _global_pool(node, GlobalMean())


def float_global_pool(node: FloatOnnx) -> FloatValue:
    """Read a global pool of a float model."""
    return _global_pool(node, FloatMean())


def _global_pool(node: GraphNode[V], mean: FloatMean) -> V:
    image = node.image()
    _, height, width, _ = node.stored_shape(image)
    if node.op_type == "GlobalMaxPool":
        return node.of_image(FloatPool(Window((height, width)), largest=True), image)
    return node.of_image(mean, image)


def reduce_mean(node: GraphNode[V]) -> V:
    """The mean over any axes but the batch; the others are channels to the operator."""
    return _reduced(node, lambda image: FloatMean())


def int8_sum(node: Int8Node) -> Value:
    """The sum likewise."""
    return _reduced(node, lambda image: FloatSum())


def float_sum(node: FloatOnnx) -> FloatValue:
    """The mean times the number of what is added, which goes where a factor can."""
    x = node.x()
    mean = _reduced(node, lambda image: FloatMean())
    if mean is x:
        return x
    axis, factor = along(node, mean, np.full(1, math.prod(x.shape) / math.prod(mean.shape)))
    return affine(node, mean, Affine(factor, np.zeros_like(factor)), axis)


def reduce_max(node: GraphNode[V]) -> V:
    """The largest likewise: a pool of one window."""
    return _reduced(node, lambda image: FloatPool(Window((image[1], image[2])), largest=True))


def _reduced(node: GraphNode[V], op_of: Callable[[Shape], FloatOp]) -> V:
    """op_of: gives the operator for a stored image."""
    x = node.real()
    result = reduced(node, x.shape)
    if result is None:
        return x
    over, shape = result
    kept = [i for i in x.layout.order if i not in over and x.shape[i] > 1]
    gone = [i for i in x.layout.order if i in over and x.shape[i] > 1]
    if kept in ([], [1]) and set(gone) <= {2, 3} and len(x.shape) in IMAGE_RANKS:
        image = node.image()
    else:
        rest = [i for i in range(len(x.shape)) if x.shape[i] == 1]
        rows = node.arranged(0, x.shape, (*rest, *gone, *kept), "rows")
        lengths = [math.prod(x.shape[i] for i in axes) for axes in (gone, kept)]
        image = node.view(rows, (1, 1, *lengths), "image0")
    stored = (1, *(x.shape[i] for i in kept))
    places = tuple(1 + kept.index(i) for i in sorted(kept))
    op = op_of(node.stored_shape(image))
    return node.computed(op, (image,), Layout(stored, (0, *places), shape))


# ------------------------------------------------------------------------------------------ writing


def write_pool(w: OnnxWriter, node: Node) -> None:
    """MaxPool, or AveragePool that does not count its padding."""
    op = node.op
    assert isinstance(op, (AveragePool2D, MaxPool2D, ScaledAveragePool2D))
    name = "MaxPool" if isinstance(op, MaxPool2D) else "AveragePool"
    attributes = {"kernel_shape": op.window.kernel, **strides_of(op.window)}
    if op.window.dilation == (1, 1):
        del attributes["dilations"]
    elif name == "AveragePool":
        raise UnsupportedError(f"node {node.name!r} averages with a dilation; .onnx has none")
    real = w.layer(node, name, [w.real(node.inputs[0])], **attributes)
    w.finish(real, node.outputs[0], (op.low, op.high))


def write_mean(w: OnnxWriter, node: Node) -> None:
    """ReduceMean or ReduceSum over height and width."""
    op = node.op
    assert isinstance(op, Mean)
    x, y = node.inputs[0], node.outputs[0]
    name = "ReduceSum" if isinstance(op, ImageSum) else "ReduceMean"
    if w.opset < AXES_OPSETS[name]:
        real = w.layer(node, name, [w.real(x)], axes=[2, 3], keepdims=1)
    else:
        axes = w.constant(f"{y}/axes", np.array([2, 3], np.int64))
        real = w.layer(node, name, [w.real(x), axes], keepdims=1)
    w.finish(real, y, (op.low, op.high))

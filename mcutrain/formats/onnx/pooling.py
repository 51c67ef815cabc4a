"""ONNX operators that pool: MaxPool, AveragePool, of the whole image, and ReduceMean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mcutrain.errors import UnsupportedError
from mcutrain.formats.onnx.float_layout import Placed
from mcutrain.formats.onnx.float_node import FloatOnnx
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.node import OnnxNode
from mcutrain.formats.onnx.values import Fixed, Image, Scaling, Value, check_factor
from mcutrain.formats.onnx.views import reduced
from mcutrain.formats.onnx.window import Padding, pool_window
from mcutrain.formats.onnx.write_sums import strides_of
from mcutrain.formats.onnx.writer import OnnxWriter
from mcutrain.ir.graph import Node
from mcutrain.ir.op import Op
from mcutrain.ops.pad import Pad
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D, Mean
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import Quantization
from mcutrain.quant.float_shapes import FloatMean, FloatPad, FloatPool

AXES_OPSET = 18  # from which on ReduceMean reads its axes as an input


def _pool_of(node: OnnxNode[Any], size: tuple[int, int]) -> tuple[Padding, Window]:
    """The border that is counted, and the window."""
    rank = len(node.x().shape)
    if rank not in (3, 4):
        raise node.unsupported("only pools of [1, c, h, w] and [1, c, l] are")
    if node.op_type == "MaxPool":
        node.attributes.integer("storage_order", 0)
    return pool_window(node, size, rank - 2)


# --------------------------------------------------------------------------------------------- int8


def int8_pool(node: Int8Node) -> Value:
    """MaxPool and AveragePool of images and sequences."""
    rank = len(node.real().shape)
    x, quantization = node.image()
    _, height, width, channels = node.builder.tensors[x].type.shape
    border, window = _pool_of(node, (height, width))
    if any(border):
        pad = Pad(border, quantization.zero_point)
        x = node.builder.node(f"{node.name}.pad", pad, (x,), f"{node.output}.padded", quantization)
        _, height, width, _ = node.builder.tensors[x].type.shape
    rows, columns = window.output_size(height, width)
    op = MaxPool2D(window) if node.op_type == "MaxPool" else AveragePool2D(window)
    shape = (1, channels, *(rows, columns)[4 - rank :])
    return Value(Fixed(node.name, op, (x,), quantization), (rows, columns, channels), shape)


def int8_global_pool(node: Int8Node) -> Value:
    """MaxPool2D over the image; AveragePool2D if the scale stays, as TFLite has it, else Mean."""
    x, quantization = node.image()
    height, width, channels = node.builder.tensors[x].type.shape[1:]
    whole = Window((height, width))
    shape = (1, channels, *(1 for _ in node.real().shape[2:]))
    if node.op_type == "GlobalMaxPool":
        largest = Fixed(node.name, MaxPool2D(whole), (x,), quantization)
        return Value(largest, (1, 1, channels), shape)
    mean = _mean(node, quantization, (height, width, channels))

    def make(wanted: Quantization) -> Op:
        return AveragePool2D(whole) if wanted == quantization else mean(wanted)

    return Value(Scaling(node.name, make, (x,)), (1, 1, channels), shape)


def int8_reduce_mean(node: Int8Node) -> Value:
    """ReduceMean over height and width, as TFLite's MEAN."""
    shape = node.real().shape
    found = reduced(node, shape)
    if found is None:
        return node.real()
    over, left = found
    if any(d > 1 for i, d in enumerate(shape) if (i in over) != (i >= 2)):
        raise node.unsupported(
            f"the mean of {shape} over axes {over} is not; over height and width it is"
        )
    x, quantization = node.image()
    height, width, channels = node.builder.tensors[x].type.shape[1:]
    make = _mean(node, quantization, (height, width, channels))
    return Value(Scaling(node.name, make, (x,)), (1, 1, channels), left)


def _mean(node: Int8Node, x: Quantization, image: Image) -> Callable[[Quantization], Op]:
    def make(wanted: Quantization) -> Op:
        check_factor(node.name, x.scale / wanted.scale)
        count = image[0] * image[1]
        mult_q31, shift = multipliers.mean_multiplier(x.scale, wanted.scale, count)
        if count * 255 << max(shift, 0) >= 2**31:
            raise node.wrong("its sums overflow int32; its scales are wrong")
        return Mean(x.zero_point, wanted.zero_point, mult_q31, shift)

    return make


# -------------------------------------------------------------------------------------------- float


def float_pool(node: FloatOnnx) -> Placed:
    """MaxPool or AveragePool in one or two dimensions."""
    rank = len(node.x().shape)
    image = node.image()
    _, height, width, _ = node.nodes.shapes[image]
    border, window = _pool_of(node, (height, width))
    if any(border):
        image = node.add(FloatPad(border), image)
        _, height, width, _ = node.nodes.shapes[image]
    largest = node.op_type == "MaxPool"
    whole = not largest and window.kernel == (height, width) and not any(window.padding)
    op = FloatMean() if whole else FloatPool(window, largest)
    return node.of_image(node.add(op, image), rank)


def float_global_pool(node: FloatOnnx) -> Placed:
    """Over the whole image."""
    image = node.image()
    _, height, width, _ = node.nodes.shapes[image]
    largest = node.op_type == "GlobalMaxPool"
    op = FloatPool(Window((height, width)), largest=True) if largest else FloatMean()
    return node.of_image(node.add(op, image), len(node.x().shape))


def float_reduce_mean(node: FloatOnnx) -> Placed:
    """The mean over all axes but the channels."""
    x = node.x()
    result = reduced(node, x.shape)
    if result is None:
        return x
    over, shape = result
    kept = [i for i, d in enumerate(x.shape) if d > 1 and i not in over]
    gone = [i for i in over if x.shape[i] > 1]
    if len(kept) > 1 or len(gone) > 2:
        raise node.unsupported(
            f"the mean of {x.shape} over axes {over} is not; over all but the channels it is"
        )
    found = node.nodes.direct(x, node.output)
    stored_order = found.stored_order
    assert stored_order is not None
    order = [i for i in stored_order if i not in kept] + kept
    tensor = node.nodes.arrange(found, x.shape, order, node.output)
    lengths = ([1, 1] + [x.shape[i] for i in order if i in gone])[-2:]
    channels = x.shape[kept[0]] if kept else 1
    image = node.nodes.reshape(tensor, (1, *lengths, channels), node.output)
    return node.nodes.placed(node.add(FloatMean(), image), (0, 1, 2, 3), shape)


# ------------------------------------------------------------------------------------------ writing


def write_pool(w: OnnxWriter, node: Node) -> None:
    """MaxPool, or AveragePool that does not count its padding."""
    op = node.op
    assert isinstance(op, (AveragePool2D, MaxPool2D))
    name = "MaxPool" if isinstance(op, MaxPool2D) else "AveragePool"
    attributes = {"kernel_shape": op.window.kernel, **strides_of(op.window)}
    if op.window.dilation == (1, 1):
        del attributes["dilations"]
    elif name == "AveragePool":
        raise UnsupportedError(f"node {node.name!r} averages with a dilation; .onnx has none")
    real = w.layer(node, name, [w.real(node.inputs[0])], **attributes)
    w.finish(real, node.outputs[0], (op.low, op.high))


def write_mean(w: OnnxWriter, node: Node) -> None:
    """ReduceMean over height and width."""
    op = node.op
    assert isinstance(op, Mean)
    x, y = node.inputs[0], node.outputs[0]
    if w.opset < AXES_OPSET:
        real = w.layer(node, "ReduceMean", [w.real(x)], axes=[2, 3], keepdims=1)
    else:
        axes = w.constant(f"{y}/axes", np.array([2, 3], np.int64))
        real = w.layer(node, "ReduceMean", [w.real(x), axes], keepdims=1)
    w.finish(real, y, (op.low, op.high))

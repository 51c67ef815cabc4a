"""ONNX operators that sum products: Conv, Gemm, MatMul; and BatchNormalization."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.formats.onnx.arithmetic import affine
from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.int8_sums import Int8Sums, bias_of, weight_of
from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import GraphNode, OnnxNode
from mcutrain.formats.onnx.products import of_two
from mcutrain.formats.onnx.values import Value
from mcutrain.formats.onnx.window import window_of
from mcutrain.ops.spatial import Window
from mcutrain.quant.float_affine import Affine
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_sums import Conv, DepthwiseConv, GroupedConv, Sums

Array = npt.NDArray[Any]

TRAINING_MODE_SINCE = 14  # before that opset, BatchNormalization's further outputs say the same


@dataclass(frozen=True)
class ConvolutionWeight:
    """What a weight [out, in / group, (h,) w] says. kernel: one number for a sequence."""

    out: int
    kernel: tuple[int, ...]
    groups: int
    is_depthwise: bool


def _convolution(node: OnnxNode[Any]) -> ConvolutionWeight:
    shape, weight = node.x().shape, node.constant(1).shape
    if len(shape) not in (3, 4) or len(weight) != len(shape):
        raise node.unsupported(f"a weight {weight} over {shape} is not; 1-D and 2-D are")
    _check_weight(node)
    channels, group = shape[1], node.attributes.integer("group", 1)
    out, per_group = weight[:2]
    depthwise = group == channels and per_group == 1 and group > 1
    if group < 1:
        raise node.wrong(f"its group is {group}; a convolution has 1 or more")
    if per_group * group != channels or out % group:
        groups = f" in {group} groups" if group > 1 else ""
        raise node.wrong(f"weight {weight} does not fit input {shape}{groups}")
    kernel = tuple(int(k) for k in weight[2:])
    if node.attributes.integers("kernel_shape", kernel) != kernel:
        raise node.wrong(f"kernel_shape differs from the weight's {kernel}")
    return ConvolutionWeight(out, kernel, group, depthwise)


def _check_weight(node: OnnxNode[Any]) -> None:
    """Raise ModelError for one that is empty."""
    weight = node.constant(1)
    if 0 in weight.shape:
        raise node.wrong(f"weight {weight.name!r} has the impossible shape {weight.shape}")


def _factors(node: OnnxNode[Any]) -> tuple[bool, float, float]:
    """Read a Gemm: whether its matrix is [out, in], alpha of the products, beta of the bias."""
    attributes = node.attributes
    if attributes.integer("transA", 0):
        raise node.unsupported("transA is not; only the weight may be transposed")
    transposed = attributes.integer("transB", 0) != 0
    return transposed, attributes.real("alpha", 1.0), attributes.real("beta", 1.0)


def _rows_of(node: GraphNode[Any], matrix: Array) -> tuple[str, Array]:
    """The input as rows [1, 1, rows, in], and the matrix [out, in] by which they are multiplied.

    One row may be stored in any order, as an image that was flattened channels first: the matrix'
    columns are reordered instead.
    """
    _check_weight(node)
    x, count = node.real(), matrix.shape[1]
    rows = math.prod(x.shape[:-1])
    if x.shape[-1] != count:
        raise node.unsupported(
            f"input {x.shape} with {count} weight rows is not; rows of {count} are"
        )
    if rows != 1:
        return node.arranged(0, (1, 1, rows, count), range(4), "row"), matrix
    node.budget.spend(matrix.nbytes)
    ordered = np.empty_like(matrix)
    ordered[:, x.layout.flat_places] = matrix
    return node.view(node.as_stored(0), (1, 1, 1, count), "row"), ordered


def _of_rows(shape: Shape, out: int) -> Layout:
    """Return the layout [1, 1, rows, out] for rows of a shape."""
    stored = (1, 1, math.prod(shape[:-1]), out)
    return Layout(stored, (0, 1, 2, 3), (*shape[:-1], out))


# --------------------------------------------------------------------------------------------- int8


def int8_conv(node: Int8Node) -> Value:
    """Conv: weight [out, in / group, h, w] becomes [out, h, w, in], depthwise [1, h, w, out]."""
    rank, w, convolution = len(node.real().shape), node.constant(1), _convolution(node)
    if rank == 3:
        w = replace(w, data=w.data[:, :, None])
    x = node.image()
    _, height, width, _ = node.stored_shape(x)
    window = window_of(node, convolution.kernel, (height, width))
    order = (1, 2, 3, 0) if convolution.is_depthwise else (0, 2, 3, 1)
    weight = weight_of(node, w, order, 0, 3 if convolution.is_depthwise else 0)
    source = Int8Sums(node.name, window, x, node.quantization(x), weight, False)
    if node.has(2):
        source = replace(source, bias=bias_of(node, node.constant(2), convolution.out))
    stored = (1, *window.output_size(height, width), convolution.out)
    return Value(source, Layout.of_image(stored, rank))


def int8_gemm(node: Int8Node) -> Value:
    """Gemm of a [1, n] activation and a constant matrix: alpha * x * w + beta * c."""
    transposed, alpha, beta = _factors(node)
    if alpha <= 0:
        raise node.unsupported(f"alpha = {alpha} is not; alpha must be positive")
    source = replace(_matrix(node, transposed), gain=alpha, bias_gain=beta)
    if node.has(2):
        bias = bias_of(node, node.constant(2), source.weight.channels)
        source = replace(source, bias=bias)
    return _rows(node, source)


def int8_matmul(node: Int8Node) -> Value:
    """MatMul of rows and a constant matrix, or of two computed tensors."""
    if not node.is_constant(1):
        return of_two(node)
    return _rows(node, _matrix(node, transposed=False))


def _matrix(node: Int8Node, transposed: bool) -> Int8Sums:
    """The products of rows with a matrix [in, out], or [out, in] if transposed."""
    w = node.constant(1)
    if w.data.ndim != 2:
        raise node.unsupported(f"a weight of {w.data.ndim} dimensions is not; 2 are")
    x, matrix = _rows_of(node, w.data if transposed else w.data.T)
    as_kernel = replace(w, data=matrix[:, None, None, :])
    weight = weight_of(node, as_kernel, (0, 1, 2, 3), 0 if transposed else 1, 0)
    return Int8Sums(node.name, Window((1, 1)), x, node.quantization(x), weight, True)


def _rows(node: Int8Node, source: Int8Sums) -> Value:
    layout = _of_rows(node.real().shape, source.weight.channels)
    return Value(source, layout)


# -------------------------------------------------------------------------------------------- float


def float_conv(node: FloatOnnx) -> FloatValue:
    """Conv in one or two dimensions."""
    found, w = _convolution(node), node.numbers(1)
    image = node.image()
    _, height, width, _ = node.stored_shape(image)
    window = window_of(node, found.kernel, (height, width))
    b = float_bias(node, 2, found.out)
    as_2d = w.reshape(*w.shape[:2], *window.kernel).astype(np.float32)
    kind = Conv if found.groups == 1 else GroupedConv
    op: Sums = kind(window, np.ascontiguousarray(as_2d.transpose(0, 2, 3, 1)), b)
    if found.is_depthwise:
        op = DepthwiseConv(window, np.ascontiguousarray(as_2d.transpose(1, 2, 3, 0)), b)
    return node.of_image(op, image)


def float_bias(node: FloatOnnx, index: int, count: int) -> Array:
    """An input that is a number per channel, or one for all; zeros if it is not there."""
    if not node.has(index):
        return np.zeros(count)
    b = node.numbers(index)
    if b.size not in (1, count) or (b.ndim and b.shape[-1] != b.size):
        raise node.wrong(f"its bias has the shape {b.shape} for {count} channels")
    return np.broadcast_to(b.ravel(), (count,)).astype(np.float64)


def float_gemm(node: FloatOnnx) -> FloatValue:
    """alpha * x * w + beta * c of one row."""
    transposed, alpha, beta = _factors(node)
    w = node.numbers(1)
    if w.ndim != 2 or len(node.x().shape) != 2:
        raise node.unsupported(f"a weight {w.shape} is not; 2 dimensions are")
    w = w if transposed else w.T
    return _dense(node, w * alpha, float_bias(node, 2, len(w)) * beta)


def float_matmul(node: FloatOnnx) -> FloatValue:
    """Rows times a constant matrix [in, out], or a product of two computed tensors."""
    if not node.is_constant(1):
        return of_two(node)
    w = node.numbers(1)
    if w.ndim != 2:
        raise node.unsupported(f"a weight {w.shape} is not; 2 dimensions are")
    return _dense(node, w.T, np.zeros(w.shape[1]))


def _dense(node: FloatOnnx, w: Array, b: Array) -> FloatValue:
    """w: [out, in]."""
    x, ordered = _rows_of(node, w)
    kernel = ordered[:, None, None, :].astype(np.float32)
    op = Conv(Window((1, 1)), kernel, b)
    return node.computed(op, (x,), _of_rows(node.x().shape, len(w)))


def float_batch_norm(node: FloatOnnx) -> FloatValue:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, per channel."""
    attributes = node.attributes
    if attributes.integer("training_mode", 0):
        raise node.unsupported("training_mode is not; an exported inference model is")
    if node.opset < TRAINING_MODE_SINCE and any(node.outputs[1:]):
        raise node.unsupported(
            "one in training mode, with more than one output, is not; an exported inference model "
            "is"
        )
    if attributes.integer("spatial", 1) != 1:
        raise node.unsupported("spatial 0 is not; one mean and variance per channel are")
    attributes.real("momentum", 0.9)
    epsilon = attributes.real("epsilon", 1e-5)
    scale, bias, mean, variance = (node.numbers(i).ravel() for i in range(1, 5))
    if not len(scale) == len(bias) == len(mean) == len(variance):
        raise node.wrong("its parameters have different lengths")
    if (variance + epsilon <= 0).any():
        raise node.wrong("its variance is negative")
    factor = scale / np.sqrt(variance + epsilon)
    return affine(node, node.x(), Affine(factor, bias - mean * factor), 1)

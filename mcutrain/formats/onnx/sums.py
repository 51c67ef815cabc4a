"""Operators that sum products: Conv, Gemm and MatMul, with constant int8 weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import ModelError
from mcutrain.formats.onnx.node import OnnxNode
from mcutrain.formats.onnx.values import (
    MAX_CHANNELS,
    Builder,
    Constant,
    Quantization,
    Source,
    Value,
    check_factor,
    is_linear,
)
from mcutrain.formats.onnx.window import window_of
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers

Array = npt.NDArray[Any]

BIAS_SCALE_TOLERANCE = 1e-3  # relative; a bias of another scale than s_x * s_w is converted


@dataclass(frozen=True)
class Weight:
    """Integers in our layout with one scale, or one per output channel (`axis`)."""

    name: str
    data: Array
    scales: tuple[float, ...]
    axis: int

    @property
    def channels(self) -> int:
        """How many output channels there are."""
        return int(self.data.shape[self.axis])


@dataclass(frozen=True, eq=False)
class Sums(Source):
    """x times weight plus bias. gain: Gemm's alpha, a factor on the products."""

    name: str
    window: Window
    x: str
    x_quantization: Quantization
    weight: Weight
    fully_connected: bool
    gain: float = 1.0
    bias: Constant | None = None
    bias_gain: float = 1.0

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """A Conv2D or DepthwiseConv2D with its weight and bias."""
        weight, axis = self.weight, self.weight.axis
        w = builder.constant(weight.name, weight.data, weight.scales, axis)
        bias_name = self.bias.name if self.bias else f"{self.name}.bias"
        scales = tuple(s * self.gain * self.x_quantization.scale for s in weight.scales)
        stage = self._requantize(wanted)
        bias = multipliers.bias_without_overflow(
            self.weight.data, self.weight.axis, self._bias(np.array(scales)), stage
        )
        if bias is None:
            raise ModelError(f"the sums of node {self.name!r} overflow int32; its scales are wrong")
        b = builder.constant(bias_name, bias, scales, 0)
        op_type = DepthwiseConv2D if axis == 3 else Conv2D
        op = op_type(self.window, self.x_quantization.zero_point, stage)
        op_clamped = op.with_channel_limits(*limits)
        return builder.node(self.name, op_clamped, (self.x, w, b), name, wanted)

    def _requantize(self, wanted: Quantization) -> Requantize:
        scales = tuple(s * self.gain for s in self.weight.scales)
        x_scale = self.x_quantization.scale
        check_factor(self.name, *(x_scale * s / wanted.scale for s in scales))
        rule = (
            multipliers.fully_connected_requantize
            if self.fully_connected
            else multipliers.conv_requantize
        )
        return rule(x_scale, scales, *wanted)

    def _bias(self, scales: Array) -> Array:
        """int32 of scale s_x * s_w: the file's own integers, or its real numbers rounded."""
        count = self.weight.channels
        if self.bias is None:
            return np.zeros(count, np.int32)
        stored = self.bias.spread(count)
        wanted = np.broadcast_to(scales, (count,))
        if stored is not None and self.bias.data.dtype == np.int32:
            off = np.abs(stored * self.bias_gain - wanted) > BIAS_SCALE_TOLERANCE * wanted
            if not off.any():
                return np.broadcast_to(self.bias.data.ravel(), (count,)).astype(np.int32)
        real = np.broadcast_to(self.bias.real().ravel() * self.bias_gain, (count,))
        with np.errstate(all="ignore"):
            integers = np.rint(real / wanted)
        if not (np.abs(integers) <= 2**31 - 1).all():
            raise ModelError(f"the bias of node {self.name!r} does not fit int32 of scale s_x*s_w")
        return np.asarray(integers, np.int32)


def conv(builder: Builder, node: OnnxNode) -> Value:
    """Conv: weight [out, in / group, h, w] becomes [out, h, w, in], depthwise [1, h, w, out]."""
    value, w = node.real(0), node.constant(1)
    dimensions = len(value.shape) - 2
    if dimensions not in (1, 2) or w.data.ndim != 2 + dimensions:
        raise node.unsupported("only convolutions of [1, c, h, w] and [1, c, l] are")
    if dimensions == 1:
        w = replace(w, data=w.data[:, :, None])
    channels, group = value.shape[1], node.attributes.integer("group", 1)
    out, per_group = w.data.shape[:2]
    depthwise = group == channels and per_group == 1 and group > 1
    if not depthwise and group != 1:
        raise node.unsupported(
            f"group {group} of {channels} channels is not; 1 and {channels} (depthwise) are"
        )
    if per_group * group != channels or out % group:
        raise node.wrong(f"weight {w.data.shape} does not fit input {value.shape}")
    kernel = (int(w.data.shape[2]), int(w.data.shape[3]))
    written = kernel[2 - dimensions :]
    if node.attributes.integers("kernel_shape", written) != written:
        raise node.wrong(f"kernel_shape differs from the weight's {written}")
    x, quantization = node.image(builder, 0)
    window = window_of(node, kernel, builder.tensors[x].type.shape[1:3], dimensions)
    order = (1, 2, 3, 0) if depthwise else (0, 2, 3, 1)
    weight = _weight(node, w, order, 0, 3 if depthwise else 0)
    source = Sums(node.name, window, x, quantization, weight, False)
    if node.has(2):
        source = replace(source, bias=_bias_of(node, node.constant(2), out))
    rows, columns = _output_size(node, window, builder.tensors[x].type.shape)
    return Value(source, (rows, columns, out), (1, out, *(rows, columns)[2 - dimensions :]))


def gemm(builder: Builder, node: OnnxNode) -> Value:
    """Gemm of a [1, n] activation and a constant matrix: alpha * x * w + beta * c."""
    attributes = node.attributes
    if attributes.integer("transA", 0):
        raise node.unsupported("transA is not; only the weight may be transposed")
    transposed = attributes.integer("transB", 0) != 0
    alpha, beta = attributes.real("alpha", 1.0), attributes.real("beta", 1.0)
    if alpha <= 0:
        raise node.unsupported(f"alpha = {alpha} is not; alpha must be positive")
    source = replace(_matrix(builder, node, transposed), gain=alpha, bias_gain=beta)
    if node.has(2):
        out = source.weight.channels
        source = replace(source, bias=_bias_of(node, node.constant(2), out))
    return _row(node, source)


def matmul(builder: Builder, node: OnnxNode) -> Value:
    """MatMul of one row and a constant matrix."""
    return _row(node, _matrix(builder, node, transposed=False))


def with_bias(node: OnnxNode, value: Value, addend: Constant) -> Value | None:
    """The value with the constant as its bias, if it is a bare sum of products; else None."""
    source = value.source
    if (
        not isinstance(source, Sums)
        or source.bias
        or (value.low, value.high)
        != (
            -math.inf,
            math.inf,
        )
    ):
        return None
    after_channels = 2 if len(value.shape) == 4 else 0
    shape = (1,) * (len(value.shape) - addend.data.ndim) + addend.data.shape
    expected = [1] * len(value.shape)
    expected[len(expected) - 1 - after_channels] = source.weight.channels
    if list(shape) != expected or value.shape[len(expected) - 1 - after_channels] != (
        source.weight.channels
    ):
        return None
    bias = _bias_of(node, addend, source.weight.channels)
    return replace(value, source=replace(source, bias=bias, bias_gain=1.0))


def _matrix(builder: Builder, node: OnnxNode, transposed: bool) -> Sums:
    """The products of a row with a matrix [in, out], or [out, in] if transposed.

    If the row is an image that was flattened channels first, the matrix' columns are permuted.
    """
    value, w = node.real(0), node.constant(1)
    if w.data.ndim != 2:
        raise node.unsupported(f"a weight of {w.data.ndim} dimensions is not; 2 are")
    matrix = w.data if transposed else w.data.T
    count = matrix.shape[1]
    rows = math.prod(value.shape) // max(count, 1)
    several = rows > 1 and is_linear(value.image)
    if value.shape[-1] != count or rows * count != math.prod(value.shape) or rows > 1 > several:
        raise node.unsupported(
            f"input {value.shape} with {count} weight rows is not; one row of [1, {count}] is"
        )
    x, quantization = _stored_rows(builder, node, (1, 1, rows, count))
    if not is_linear(value.image):
        height, width, channels = value.image
        builder.spend(matrix.nbytes)
        matrix = matrix.reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
        matrix = matrix.reshape(-1, count)
    as_kernel = replace(w, data=matrix.reshape(-1, 1, 1, count))
    weight = _weight(node, as_kernel, (0, 1, 2, 3), 0 if transposed else 1, 0)
    return Sums(node.name, Window((1, 1)), x, quantization, weight, True)


def _stored_rows(
    builder: Builder, node: OnnxNode, shape: tuple[int, ...]
) -> tuple[str, Quantization]:
    """The input as rows [1, 1, rows, n], in the order in which it is stored."""
    tensor, quantization = node.tensor(builder, 0)
    return builder.reshape(tensor, shape, f"{node.name}.row"), quantization


def _row(node: OnnxNode, source: Sums) -> Value:
    out = source.weight.channels
    shape = (*node.real(0).shape[:-1], out)
    return Value(source, (1, 1, math.prod(shape)), shape)


def _weight(
    node: OnnxNode, w: Constant, order: tuple[int, ...], scale_axis: int, axis: int
) -> Weight:
    """Symmetric int8 weights, transposed. scale_axis: where per-channel scales must lie."""
    if w.scales is None:
        raise node.unsupported(f"the float weight {w.name!r} is not; int8 with scales is")
    if w.data.dtype != np.int8:
        raise node.unsupported(
            f"the weight {w.name!r} of {w.data.dtype} or with a zero point is not; int8 with "
            "zero point 0 is"
        )
    data = w.data.transpose(order)
    out = data.shape[axis]
    if not 0 < out <= MAX_CHANNELS or data.size == 0:
        raise node.wrong(f"the weight {w.name!r} has the shape {w.data.shape}")
    if w.scales.size > 1 and (w.axis != scale_axis or w.scales.size != out):
        raise node.unsupported(
            f"scales along axis {w.axis} of the weight {w.name!r} are not; one scale, or one per "
            "output channel is"
        )
    return Weight(w.name, data, tuple(float(s) for s in w.scales.ravel()), axis)


def _bias_of(node: OnnxNode, bias: Constant, channels: int) -> Constant:
    count = bias.data.size
    if count not in (1, channels) or (
        count == channels and max(bias.data.shape, default=1) < count
    ):
        raise node.wrong(f"the bias {bias.name!r} has {count} numbers for {channels} channels")
    if bias.scales is not None and bias.scales.size not in (1, channels):
        raise node.wrong(f"the bias {bias.name!r} has {bias.scales.size} scales")
    if bias.scales is None and bias.data.dtype.kind != "f":
        raise node.wrong(f"the bias {bias.name!r} holds integers without a scale")
    return bias


def _output_size(node: OnnxNode, window: Window, shape: tuple[int, ...]) -> tuple[int, int]:
    try:
        return window.output_size(*shape[1:3])
    except ValueError as error:
        raise node.wrong(str(error)) from error

"""Sums of products with int8 weights, until a QuantizeLinear says how they are stored."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ModelError
from mcutrain.formats.fitting import fitted
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.node import Constant
from mcutrain.formats.onnx.scales import MAX_CHANNELS
from mcutrain.formats.onnx.values import Builder, Source, Value, check_factor
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.grouped_conv_2d import GroupedConv2D
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import Quantization

Array = npt.NDArray[Any]

LARGEST = 255  # of integers of 8 bits minus their zero point
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
class Int8Sums(Source):
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
        """A convolution with its weight and bias."""
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
        op = self._type(builder)(self.window, self.x_quantization.zero_point, stage)
        op_clamped = op.with_channel_limits(*limits)
        return builder.node(self.name, op_clamped, (self.x, w, b), name, wanted)

    def _type(self, builder: Builder) -> type[Conv2D] | type[DepthwiseConv2D] | type[GroupedConv2D]:
        if self.weight.axis == 3:
            return DepthwiseConv2D
        channels = builder.tensors[self.x].type.shape[3]
        return Conv2D if self.weight.data.shape[3] == channels else GroupedConv2D

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


def with_bias(node: Int8Node, value: Value, addend: Constant) -> Value | None:
    """The value with the constant as its bias, if it is a bare sum of products; else None."""
    source = value.source
    is_bare = (value.low, value.high) == (-math.inf, math.inf)
    if not isinstance(source, Int8Sums) or source.bias or not is_bare:
        return None
    after_channels = 2 if len(value.shape) == 4 else 0
    shape = (1,) * (len(value.shape) - addend.data.ndim) + addend.data.shape
    expected = [1] * len(value.shape)
    expected[len(expected) - 1 - after_channels] = source.weight.channels
    if list(shape) != expected or value.shape[len(expected) - 1 - after_channels] != (
        source.weight.channels
    ):
        return None
    bias = bias_of(node, addend, source.weight.channels)
    return replace(value, source=replace(source, bias=bias, bias_gain=1.0))


def weight_of(
    node: Int8Node, w: Constant, order: tuple[int, ...], scale_axis: int, axis: int
) -> Weight:
    """Symmetric int8 weights, transposed. scale_axis: where per-channel scales must lie.

    Weights with a zero point are fitted, see `mcutrain.formats.fitting`.
    """
    if w.scales is None:
        raise node.unsupported(f"the float weight {w.name!r} is not; int8 with scales is")
    data = w.data.transpose(order)
    if data.dtype != np.int8 and not _was_of_8_bits(data):
        raise node.unsupported(
            f"the weight {w.name!r} of {w.data.dtype} is not; int8 and uint8 with scales are"
        )
    out = data.shape[axis]
    if not 0 < out <= MAX_CHANNELS or data.size == 0:
        raise node.wrong(f"the weight {w.name!r} has the shape {w.data.shape}")
    if w.scales.size > 1 and (w.axis != scale_axis or w.scales.size != out):
        raise node.unsupported(
            f"scales along axis {w.axis} of the weight {w.name!r} are not; one scale, or one per "
            "output channel is"
        )
    if data.dtype == np.int8:
        return Weight(w.name, data, tuple(float(s) for s in w.scales.ravel()), axis)
    node.budget.spend(4 * data.nbytes)
    data, scales, fitting = fitted(data, w.scales, axis)
    node.builder.fitting += fitting
    kept = scales if fitting.rounded else w.scales.ravel()
    return Weight(w.name, data, tuple(float(s) for s in kept), axis)


def _was_of_8_bits(data: Array) -> bool:
    """Return whether these may be integers of 8 bits minus a zero point."""
    is_wide = data.dtype == np.int32 and np.abs(data.astype(np.int64)).max(initial=0) > LARGEST
    return data.dtype == np.int32 and not is_wide


def bias_of(node: Int8Node, bias: Constant, channels: int) -> Constant:
    """Checked: one number, or one per channel."""
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

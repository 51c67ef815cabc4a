"""Float operators with weights: convolutions, fully connected layers, and factors per channel."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.grouped_conv_2d import GroupedConv2D, check_groups, groups_of
from mcutrain.ops.spatial import Window
from mcutrain.quant.float_op import ClampingFloatOp, FloatOp, Shape, bordered

if TYPE_CHECKING:
    from mcutrain.quant.emit import Emitter
    from mcutrain.quant.float_graph import FloatNode

Array = npt.NDArray[Any]

FEW_CHANNELS = 8  # below it, patches are copied so that one product sums over all taps
LARGEST_WEIGHT = 127
BIAS_BITS = 29  # a bias stays within ±2**29, so that sums fit int32 and training has room


@dataclass(frozen=True, eq=False)
class Sums(ClampingFloatOp):
    """y = clamp(sum of x * w + b). The channels of y lie on the axis `channel_axis` of w.

    A fully connected layer is a 1x1 convolution here and stays one in the int8 graph. All versions
    of TFLite's kernels know one weight scale per channel for convolutions, but not for
    FULLY_CONNECTED.
    """

    window: Window
    w: Array
    b: Array
    channel_axis = 0
    int8_type: ClassVar[type[Conv2D] | type[DepthwiseConv2D] | type[GroupedConv2D]] = Conv2D

    @abstractmethod
    def sums(self, x: Array) -> Array:
        """x * w without bias and activation."""

    def run(self, *x: Array) -> Array:
        """Sum, add the bias, clamp."""
        y = self.sums(x[0])
        y += self.b.astype(np.float32)
        if (self.low, self.high) != (-math.inf, math.inf):
            np.clip(y, np.float32(self.low), np.float32(self.high), out=y)
        return y

    @property
    def weight_scales(self) -> Array:
        """float32, one per output channel: the largest weight is 127 steps."""
        others = tuple(i for i in range(4) if i != self.channel_axis)
        return np.asarray(np.abs(self.w).max(axis=others) / LARGEST_WEIGHT, np.float32)

    def scales(self, x_scale: float) -> Array:
        """Do as weight_scales, but large enough that the bias is an int32 of scale s_x * s_w."""
        least = np.abs(self.b) / (x_scale * 2.0**BIAS_BITS)
        floor = max(float(self.weight_scales.max()) * 2.0**-20, 2.0**-100 / x_scale, 2.0**-100)
        return np.maximum(self.weight_scales, np.maximum(least, floor)).astype(np.float32)

    def column(self, values: Array) -> Array:
        """One number per output channel, to be multiplied with w."""
        shape = [1] * 4
        shape[self.channel_axis] = -1
        return values.reshape(shape)

    def integers(self, x_scale: float) -> tuple[Array, Array, Array]:
        """(int8 weights, int32 bias, weight scales), rounded to nearest."""
        scales = self.scales(x_scale)
        wide = scales.astype(np.float64)
        w = np.clip(np.rint(self.w / self.column(wide)), -LARGEST_WEIGHT, LARGEST_WEIGHT)
        b = np.rint(self.b / (x_scale * wide))
        return w.astype(np.int8), b.astype(np.int32), scales

    def quantized(self, x_scale: float) -> FloatOp:
        """Return the operator with the real numbers that its integers stand for."""
        w, b, scales = self.integers(x_scale)
        real = (w * self.column(scales)).astype(np.float32)
        return replace(self, w=real, b=b * (x_scale * scales.astype(np.float64)))

    def then(self, factor: Array, shift: Array) -> Sums:
        """This, then y * factor + shift per channel. Only where there is no activation yet."""
        w = self.w * self.column(factor)
        return replace(self, w=np.asarray(w, np.float32), b=self.b * factor + shift)

    @abstractmethod
    def after(self, factor: Array, shift: Array) -> Sums:
        """This, of x * factor + shift per channel of x. Exact where nothing pads x."""

    @abstractmethod
    def evened(self, spread: Array) -> Array:
        """Return what to divide each channel of x by, so that neither x nor weights lose precision.

        spread: largest magnitude of each channel of x, float64; NaN where there is none.
        """

    def macs(self, y: Shape) -> int:
        """One per output element and weight of its channel."""
        return math.prod(y) * int(self.w.size) // int(self.w.shape[self.channel_axis])

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """An int8_type."""
        emitter.sums(node, self)


@dataclass(frozen=True, eq=False)
class Conv(Sums):
    """x: [n, h, w, in]  w: [out, kernel_h, kernel_w, in]  y: [n, rows, columns, out]."""

    def shape(self, *x: Shape) -> Shape:
        """One channel per weight row."""
        (image,) = x
        if len(image) != 4 or self.w.shape[3] != image[3] or len(self.b) != len(self.w):
            raise ValueError(f"input {image} and weight {self.w.shape} do not fit each other")
        return (1, *self.window.output_size(*image[1:3]), len(self.w))

    def scratch(self, *x: Shape) -> int:
        """The padded image, and the patches where they are copied."""
        (image,) = x
        taps = math.prod(self.window.kernel)
        copies = taps if image[3] < FEW_CHANNELS and taps > 1 else 0
        rows, columns = self.window.output_size(*image[1:3])
        return bordered(self.window, image) + rows * columns * copies * image[3]

    def sums(self, x: Array) -> Array:
        """Tap by tap, or over copied patches where channels are few."""
        taps = _taps(x, self.window)
        out = len(self.w)
        if x.shape[3] < FEW_CHANNELS and len(taps) > 1:
            patches = np.concatenate(taps, axis=3)
            return _product(patches, self.w.reshape(out, -1).T.astype(np.float32))
        kernels = self.w.reshape(out, len(taps), -1).astype(np.float32)
        total = _product(taps[0], kernels[:, 0].T)
        for i, tap in enumerate(taps[1:], 1):
            total += _product(tap, kernels[:, i].T)
        return total

    def after(self, factor: Array, shift: Array) -> Sums:
        """Columns are multiplied; the shift goes into the bias."""
        b = self.b + (self.w.astype(np.float64).sum(axis=(1, 2)) * shift).sum(axis=1)
        return replace(self, w=np.asarray(self.w * factor, np.float32), b=b)

    def evened(self, spread: Array) -> Array:
        """One scale per output channel: the weights of all inputs share it."""
        weights = np.abs(self.w).max(axis=(0, 1, 2)).astype(np.float64)
        factor: Array = np.sqrt(spread / np.where(weights > 0, weights, np.nan))
        return factor


@dataclass(frozen=True, eq=False)
class GroupedConv(Sums):
    """x: [n, h, w, in]  w: [out, kernel_h, kernel_w, in / groups]  y: [n, rows, columns, out]."""

    int8_type = GroupedConv2D

    def shape(self, *x: Shape) -> Shape:
        """One channel per weight row."""
        (image,) = x
        if len(image) != 4 or len(self.b) != len(self.w):
            raise ValueError(f"input {image} and weight {self.w.shape} do not fit each other")
        check_groups(image[3], self.w.shape)
        return (1, *self.window.output_size(*image[1:3]), len(self.w))

    def scratch(self, *x: Shape) -> int:
        """The padded image, and the sums of all groups beside each other's."""
        (image,) = x
        rows, columns = self.window.output_size(*image[1:3])
        return bordered(self.window, image) + rows * columns * len(self.w)

    def sums(self, x: Array) -> Array:
        """Tap by tap, all groups at a time."""
        groups, out = groups_of(x.shape, self.w.shape), len(self.w)
        taps = _taps(x, self.window)
        kernels = self.w.reshape(groups, out // groups, len(taps), -1).astype(np.float32)
        total: Array = np.zeros((*taps[0].shape[:3], groups, 1, out // groups), np.float32)
        for i, tap in enumerate(taps):
            by_group = tap.reshape(*tap.shape[:3], groups, 1, -1)
            total += by_group @ kernels[:, :, i].transpose(0, 2, 1)
        return total.reshape(*total.shape[:3], out)

    def after(self, factor: Array, shift: Array) -> Sums:
        """Columns are multiplied, group by group; the shift goes into the bias."""
        each = self.w.shape[3]
        if len(factor) == 1:
            factor, shift = np.repeat(factor, each), np.repeat(shift, each)
        rows = len(self.w) // (len(factor) // each)
        times, more = (np.repeat(v.reshape(-1, each), rows, axis=0) for v in (factor, shift))
        b = self.b + (self.w.astype(np.float64).sum(axis=(1, 2)) * more).sum(axis=1)
        w = np.asarray(self.w * times[:, None, None], np.float32)
        return replace(self, w=w, b=b)

    def evened(self, spread: Array) -> Array:
        """As of Conv, from the rows of each channel's group."""
        groups = len(spread) // self.w.shape[3]
        rows = np.abs(self.w).reshape(groups, -1, self.w.shape[3])
        weights = rows.max(axis=1).ravel().astype(np.float64)
        factor: Array = np.sqrt(spread / np.where(weights > 0, weights, np.nan))
        return factor


@dataclass(frozen=True, eq=False)
class DepthwiseConv(Sums):
    """x: [n, h, w, in]  w: [1, kernel_h, kernel_w, out], out a multiple of in."""

    channel_axis = 3
    int8_type = DepthwiseConv2D

    def shape(self, *x: Shape) -> Shape:
        """One channel per weight column."""
        (image,) = x
        if len(image) != 4 or self.w.shape[3] % image[3] or len(self.b) != self.w.shape[3]:
            raise ValueError(f"input {image} and depthwise weight {self.w.shape} do not fit")
        return (1, *self.window.output_size(*image[1:3]), self.w.shape[3])

    def scratch(self, *x: Shape) -> int:
        """The image with its channels repeated, and the same padded."""
        _, height, width, channels = x[0]
        out = self.w.shape[3]
        repeated = height * width * out if out > channels else 0
        return repeated + bordered(self.window, (1, height, width, out))

    def sums(self, x: Array) -> Array:
        """Tap by tap."""
        multiplier = self.w.shape[3] // x.shape[3]
        if multiplier > 1:
            x = np.repeat(x, multiplier, axis=3)
        taps = _taps(x, self.window)
        kernels = self.w.reshape(len(taps), -1).astype(np.float32)
        total: Array = taps[0] * kernels[0]
        for tap, kernel in zip(taps[1:], kernels[1:], strict=True):
            total += tap * kernel
        return total

    def after(self, factor: Array, shift: Array) -> Sums:
        """Every channel by itself."""
        multiplier = self.w.shape[3] // len(factor)
        factor, shift = np.repeat(factor, multiplier), np.repeat(shift, multiplier)
        b = self.b + self.w.astype(np.float64).sum(axis=(0, 1, 2)) * shift
        return replace(self, w=np.asarray(self.w * factor, np.float32), b=b)

    def evened(self, spread: Array) -> Array:
        """Every channel's weights have a scale of their own."""
        return spread


def _product(x: Array, w: Array) -> Array:
    """x @ w. x: [n, rows, columns, in]  w: [in, out]

    Where x lies in one piece it is one product: one for each row takes four times as long.
    """
    if not x.flags.c_contiguous:
        return np.asarray(x @ w)
    return np.asarray(x.reshape(-1, x.shape[-1]) @ w).reshape(*x.shape[:-1], -1)


def _taps(x: Array, window: Window) -> list[Array]:
    """What each place of the window sees: views [n, rows, columns, c] of x with its border."""
    top, bottom, left, right = window.padding
    rows, columns = window.output_size(*x.shape[1:3])
    if any(window.padding):
        x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    taps = []
    for ky in range(window.kernel[0]):
        for kx in range(window.kernel[1]):
            y0, x0 = ky * window.dilation[0], kx * window.dilation[1]
            y1 = y0 + (rows - 1) * window.stride[0] + 1
            x1 = x0 + (columns - 1) * window.stride[1] + 1
            taps.append(x[:, y0 : y1 : window.stride[0], x0 : x1 : window.stride[1]])
    return taps

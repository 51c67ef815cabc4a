"""Average and maximum over windows, and the mean over the whole image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    Bound,
    ChannelwiseOp,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Param,
    Rows,
    inputs,
    outputs,
)
from mcutrain.ops.bounds import DIFFERENCE, gradient_sums, requantized
from mcutrain.ops.clamp import ClampingOp, clamped, clamped_types
from mcutrain.ops.conv_2d import Requantize
from mcutrain.ops.gradient_sum import rescale
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage
from mcutrain.ops.spatial import Window, shape_params

Array = npt.NDArray[Any]
FULL_RANGE = (-128, 127)


def _through_clamp(emit: Emit, dy: Gradient, y: Tensor, low: int, high: int) -> Gradient:
    """A pool clamps only where an activation is fused into it."""
    if (low, high) == FULL_RANGE:
        return dy
    return rescale(emit, dy, y.type.shape, (1.0,), emit.mask(y))


def _pool_type(window: Window, x: TensorType) -> TensorType:
    """The output of a pool; channels stay."""
    if len(x.shape) != 4:
        raise ValueError(f"a pool needs an image [1, h, w, c], got {x.shape}")
    spans = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]
    if max(window.padding[:2]) >= spans[0] or max(window.padding[2:]) >= spans[1]:
        raise ValueError(f"padding {window.padding} leaves windows of {spans} outside the image")
    rows, columns = window.output_size(*x.shape[1:3])
    return TensorType((1, rows, columns, x.shape[3]))


def _pool_params(window: Window, x: tuple[int, ...], y: tuple[int, ...]) -> tuple[Param, ...]:
    return (*shape_params("x", x), *shape_params("y", y), *window.params())


def _mean_type(x: TensorType) -> TensorType:
    if len(x.shape) != 4:
        raise ValueError(f"the mean needs an image [1, h, w, c], got {x.shape}")
    return TensorType((1, 1, 1, x.shape[3]))


def _spread(emit: Emit, dy: Gradient, x: Tensor) -> Gradient | None:
    """dy at every pixel of x, the sum of which it is the derivative by."""
    if not emit.wants(x):
        return None
    stage = OutputStage((dy.scale,), False, emit.gradient_dtype, emit.salt())
    height, width = x.type.shape[1:3]
    op = AveragePool2DGradInput(stage, x.type.shape, Window((height, width)), height * width)
    return emit.gradient(op, dy)


def _sum_bound(x: TensorType) -> Bound:
    """Bound of the sum of a channel's differences."""
    positions = x.elements // x.shape[3]
    return Bound(f"sums of {positions:,} positions", DIFFERENCE * positions, "use a smaller input")


@dataclass(frozen=True)
class AveragePool2D(ClampingOp):
    """y = round(mean over the part of the window inside the image), halves away from zero.

    TFLite's AVERAGE_POOL_2D in int8: x and y have the same scale and zero point.
    """

    window: Window
    low: int = -128
    high: int = 127
    saves_mask: bool = False

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Channels stay."""
        return clamped_types(_pool_type(self.window, inputs[0]), self.saves_mask)

    def counts(self, shape: tuple[int, ...]) -> Array:
        """Return how many elements of x each window holds: [rows, columns]."""
        ones = np.ones((1, *shape[1:3], 1), np.int64)
        counts: Array = self.window.patches(ones, 0).sum(axis=(2, 3, 4))
        return counts

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Sum, divide, round."""
        x = inputs[0]
        total = self.window.patches(x.astype(np.int64), 0).sum(axis=(2, 3))
        count = self.counts(x.shape)[..., None]
        half = np.where(total > 0, count // 2, -(count // 2))
        quotient = np.sign(total + half) * (np.abs(total + half) // count)
        return clamped(quotient[None], self.low, self.high, self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Every element of a window gets its share of dy."""
        x = inputs[0]
        if not emit.wants(x):
            return (None,)
        dz = _through_clamp(emit, dy, y, self.low, self.high)
        counts = np.unique(self.counts(x.type.shape))
        common = math.lcm(*counts.tolist())
        stage = OutputStage((dz.scale / common,), False, emit.gradient_dtype, emit.salt())
        op = AveragePool2DGradInput(stage, x.type.shape, self.window, common)
        return (emit.gradient(op, dz),)

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """A window's elements, and half of their number to round."""
        area = math.prod(self.window.kernel)
        largest = -FULL_RANGE[0] * area + area // 2
        return (Bound(f"sums of a window of {area:,} places", largest, "make the window smaller"),)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """A window's rows of x."""
        return self.window.rows()

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_average_pool_2d_s8."""
        params = _pool_params(self.window, types[0].shape, results[0].shape)
        return self.clamping_call("pooling", "mct_average_pool_2d_s8", params, *inputs(0))


def _requantize_params(op: ScaledAveragePool2D | Mean) -> tuple[Param, ...]:
    """Return the parameters that make y of sums of x - x_zero_point."""
    return (
        Param("x_zero_point", op.x_zero_point),
        Param("y_zero_point", op.y_zero_point),
        Param("mult_q31", op.mult_q31),
        Param("shift", op.shift),
    )


@dataclass(frozen=True)
class ScaledAveragePool2D(ClampingOp):
    """y = requantize(mean of x - x_zero_point over the part of the window inside the image).

    An average under another scale than its input's, rounded once: the multiplier is divided by the
    number of elements, rounding down, before the sum is multiplied. It never shifts to the right.
    ONNX has it, TFLite has not.
    """

    window: Window
    x_zero_point: int
    y_zero_point: int
    mult_q31: int
    shift: int
    low: int = -128
    high: int = 127
    saves_mask: bool = False

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Channels stay."""
        return clamped_types(_pool_type(self.window, inputs[0]), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Sum exactly, requantize once."""
        x = inputs[0].astype(np.int64) - self.x_zero_point
        total = self.window.patches(x, 0).sum(axis=(2, 3))
        mult = self.mult_q31 // AveragePool2D(self.window).counts(x.shape)[..., None]
        y = fixedpoint.multiply_by_quantized_multiplier(total, mult, self.shift)
        return clamped(y[None] + self.y_zero_point, self.low, self.high, self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Every element of a window gets its share of dy, times the factor."""
        factor = fixedpoint.multiplier_value(self.mult_q31, self.shift)
        scaled = replace(dy, scale=dy.scale * factor)
        return AveragePool2D(self.window, self.low, self.high).gradient(emit, scaled, inputs, y)

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """A window's differences."""
        area = math.prod(self.window.kernel)
        what, advice = f"sums of a window of {area:,} places", "make the window smaller"
        # a mean, times the factor, which the division by the count leaves
        mean = requantized(f"means of {area:,} places", DIFFERENCE, self.mult_q31, self.shift)
        return Bound(what, DIFFERENCE * area << self.shift, advice), mean

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """A window's rows of x."""
        return self.window.rows()

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_scaled_average_pool_2d_s8."""
        params = (
            *_pool_params(self.window, types[0].shape, results[0].shape),
            *_requantize_params(self),
        )
        return self.clamping_call("pooling", "mct_scaled_average_pool_2d_s8", params, *inputs(0))


@dataclass(frozen=True)
class AveragePool2DGradInput(GradientOp):
    """dx = sum over windows of dy * common / count; the stage divides by `common`.

    common: a common multiple of the counts of elements per window, so that all is integer.
    """

    window: Window
    common: int

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Every window that reads an element may lie over it with every tap."""
        counts = np.unique(AveragePool2D(self.window).counts(self.shape))
        area, largest = math.prod(self.window.kernel), self.common // int(counts.min())
        what = f"shares of windows of {area:,} places that hold {len(counts)} different counts"
        advice = "train only layers behind it, or pad before it"
        windows = min(area, inputs[1].type.elements // inputs[1].type.shape[3])
        sums = gradient_sums(inputs[1], windows, largest, what, advice)
        return (Bound(what, self.common, advice), *sums)

    def sums(self, dy: Array, *rest: Array) -> Array:
        """dy spread over its windows."""
        counts = AveragePool2D(self.window).counts(self.shape)
        spread = dy[0].astype(np.int64) * (self.common // counts)[..., None]
        patches = np.broadcast_to(
            spread[:, :, None, None, :], (*spread.shape[:2], *self.window.kernel, spread.shape[2])
        )
        return self.window.scatter(patches, *self.shape[1:3])

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_average_pool_2d_grad_input_<dy>: scratch holds one pixel's sums."""
        dy = types[1]
        params = (
            *shape_params("dx", self.shape),
            *shape_params("dy", dy.shape),
            *self.window.params(),
            Param("common", self.common),
        )
        scratch = self.shape[3] * ACC_BYTES[dy.dtype]
        name = f"mct_average_pool_2d_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("pooling", name, params, (), scratch)


@dataclass(frozen=True)
class MaxPool2D(ClampingOp):
    """y = the largest element of the window inside the image: TFLite's MAX_POOL_2D in int8."""

    window: Window
    low: int = -128
    high: int = 127
    saves_mask: bool = False

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Channels stay."""
        return clamped_types(_pool_type(self.window, inputs[0]), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Padding is smaller than everything."""
        largest = self.window.patches(inputs[0].astype(np.int64), -129).max(axis=(2, 3))
        return clamped(largest[None], self.low, self.high, self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """dy goes to the first largest element of each window, so x is saved."""
        x = inputs[0]
        if not emit.wants(x):
            return (None,)
        dz = _through_clamp(emit, dy, y, self.low, self.high)
        stage = OutputStage((dz.scale,), False, emit.gradient_dtype, emit.salt())
        return (emit.gradient(MaxPool2DGradInput(stage, x.type.shape, self.window), dz, x.name),)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """A window's rows of x."""
        return self.window.rows()

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_max_pool_2d_s8."""
        params = _pool_params(self.window, types[0].shape, results[0].shape)
        return self.clamping_call("pooling", "mct_max_pool_2d_s8", params, *inputs(0))


@dataclass(frozen=True)
class MaxPool2DGradInput(GradientOp):
    """dx = sum of dy over the windows whose first largest element (row by row) this is.

    dy: [1, rows, columns, c]  x: [1, h, w, c]
    """

    window: Window

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Every window that reads an element may have it as its largest."""
        area = math.prod(self.window.kernel)
        what = f"sums of the gradients of {area:,} windows"
        return gradient_sums(inputs[1], area, 1, what, "train only layers behind it")

    def sums(self, dy: Array, *rest: Array) -> Array:
        """dy at the first largest tap."""
        (x,) = rest
        patches = self.window.patches(x.astype(np.int64), -129)
        rows, columns, kh, kw, c = patches.shape
        first = patches.reshape(rows, columns, kh * kw, c).argmax(axis=2)
        chosen = np.arange(kh * kw)[None, None, :, None] == first[:, :, None, :]
        spread = chosen * dy[0].astype(np.int64)[:, :, None, :]
        return self.window.scatter(spread.reshape(rows, columns, kh, kw, c), *self.shape[1:3])

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_max_pool_2d_grad_input_<dy>: scratch holds one pixel's sums."""
        dy = types[1]
        params = (
            *shape_params("dx", self.shape),
            *shape_params("dy", dy.shape),
            *self.window.params(),
        )
        scratch = self.shape[3] * ACC_BYTES[dy.dtype]
        name = f"mct_max_pool_2d_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("pooling", name, params, (), scratch)


@dataclass(frozen=True)
class Mean(ClampingOp):
    """y[c] = requantize(sum over the image of (x - x_zero_point)); TFLite's MEAN over h and w.

    The division by the count is part of the multiplier. x: [1, h, w, c]  y: [1, 1, 1, c]
    """

    x_zero_point: int
    y_zero_point: int
    mult_q31: int
    shift: int
    low: int = -128
    high: int = 127
    saves_mask: bool = False

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """One pixel."""
        return clamped_types(_mean_type(inputs[0]), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Sum exactly, requantize once."""
        x = inputs[0].astype(np.int64) - self.x_zero_point
        total = x.sum(axis=(1, 2), keepdims=True)
        y = fixedpoint.multiply_by_quantized_multiplier(total, self.mult_q31, self.shift)
        return clamped(y + self.y_zero_point, self.low, self.high, self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Every pixel gets dy, times the factor."""
        if not emit.wants(inputs[0]):
            return (None,)
        dz = rescale(emit, dy, y.type.shape, self.requantize.factors, emit.mask(y))
        return (_spread(emit, dz, inputs[0]),)

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """All differences of a channel."""
        sums = _sum_bound(inputs[0].type)
        stage = self.mult_q31, self.shift, sums.advice
        return sums, requantized(sums.what, sums.largest, *stage)

    is_mean: ClassVar[bool] = True  # over height and width

    @property
    def requantize(self) -> Requantize:
        """How sums become y."""
        return Requantize((self.mult_q31,), (self.shift,), self.y_zero_point, self.low, self.high)

    def rounding_once(self) -> Mean:
        """Without a shift to the right."""
        mult, shift = fixedpoint.without_right_shift(self.mult_q31, self.shift)
        return replace(self, mult_q31=mult, shift=shift)

    def with_output_exponent(self, exponent: int) -> Mean:
        """Return the operator for an output whose scale is times 2**exponent."""
        return replace(self, shift=self.requantize.scaled(exponent).shift[0])

    def as_sums(self) -> Op:
        """Without the division."""
        return MeanSums(self.x_zero_point)

    def sum_scales(self, types: Sequence[TensorType]) -> tuple[float, ...]:
        """The division is in the scale."""
        return (types[0].scale / math.prod(types[0].shape[1:3]),)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_mean_s8."""
        params = (
            *shape_params("x", types[0].shape),
            *_requantize_params(self),
        )
        return self.clamping_call("pooling", "mct_mean_s8", params, *inputs(0))


@dataclass(frozen=True)
class ImageSum(Mean):
    """A mean with another multiplier: TFLite's SUM over h and w, saturated."""

    is_mean: ClassVar[bool] = False  # it adds

    def as_sums(self) -> Op:
        """No last layer."""
        return Op.as_sums(self)

    def sum_scales(self, types: Sequence[TensorType]) -> tuple[float, ...]:
        """None."""
        return Op.sum_scales(self, types)


@dataclass(frozen=True)
class MeanSums(ChannelwiseOp):
    """y[c] = sum over the image of (x - x_zero_point), int32: the mean for a loss to read.

    x: [1, h, w, c]  y: [1, 1, 1, c]
    """

    x_zero_point: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """One pixel."""
        return (replace(_mean_type(inputs[0]), dtype="int32"),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Sum exactly."""
        x = inputs[0].astype(np.int64) - self.x_zero_point
        return (x.sum(axis=(1, 2), keepdims=True).astype(np.int32),)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Every pixel gets dy."""
        return (_spread(emit, dy, inputs[0]),)

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """All differences of a channel."""
        return (_sum_bound(inputs[0].type),)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_mean_s32."""
        params = (*shape_params("x", types[0].shape), Param("x_zero_point", self.x_zero_point))
        return KernelCall("pooling", "mct_mean_s32", params, (*inputs(0), *outputs(0)))

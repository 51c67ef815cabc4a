"""Convolution with int8 weights [out][kernel_h][kernel_w][in], and its gradients.

A fully connected layer is the 1x1 convolution of a 1x1 image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    INT32_MAX,
    NULL,
    SCRATCH,
    Axis,
    Border,
    Bound,
    ChannelTie,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Operand,
    Param,
    Rows,
    channel_axis,
    exact_matmul,
    inputs,
    outputs,
    table_of,
)
from mcutrain.ops.bounds import (
    DIFFERENCE,
    SATURATED,
    WEIGHT,
    gradient_sums,
    weighted_sums,
)
from mcutrain.ops.clamp import clamped, clamped_types, mask_operand
from mcutrain.ops.gradient_sum import rescale
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage
from mcutrain.ops.merge_columns import check_resampled, check_trained, merged
from mcutrain.ops.select_channels import select_channels
from mcutrain.ops.spatial import Window, shape_params
from mcutrain.ops.training import ParameterGradientOp, train_bias

Array = npt.NDArray[Any]

LEAST_SHIFT = -31
TILE_ROWS = (24, 16, 8)
"""Rows of a partly trained weight that a kernel may put together at a time: as many output channels
as its DSP body computes at once, or fewer, if they are long; multiples of 8."""
TILE_BYTES = 8192
COLUMNS_AT_ONCE = 4
"""Columns of such a weight that the DSP body of the gradient puts together at a time."""


@dataclass(frozen=True)
class Requantize:
    """int32 sums to int8: TFLite's per-channel multiplier and shift, zero point, clamp.

    mult_q31, shift: per output channel, or one for all. rounds_once: as the reference kernel of
    FULLY_CONNECTED does since LiteRT 1.4; convolutions round twice.
    """

    mult_q31: tuple[int, ...]
    shift: tuple[int, ...]
    zero_point: int
    low: int = -128
    high: int = 127
    rounds_once: bool = False

    def __call__(self, acc: Array) -> Array:
        """acc: [..., c] int64 → int8."""
        return self.results(acc, saves_mask=False)[0]

    def results(self, acc: Array, saves_mask: bool) -> tuple[Array, ...]:
        """The int8 values, and if wanted the mask of where they did not clamp."""
        mult, shift = np.array(self.mult_q31), np.array(self.shift)
        multiply = (
            fixedpoint.multiply_rounding_once
            if self.rounds_once
            else fixedpoint.multiply_by_quantized_multiplier
        )
        scaled = multiply(acc, mult, shift)
        return clamped(scaled + self.zero_point, self.low, self.high, saves_mask)

    def saturated(self, acc: Array) -> Array:
        """Sums of int64 as far as they can be requantized in int32."""
        limit = SATURATED >> np.maximum(np.array(self.shift), 0)
        return fixedpoint.clip(acc, -limit, limit)

    @cached_property
    def factors(self) -> tuple[float, ...]:
        """The real factor per channel."""
        pairs = zip(self.mult_q31, self.shift, strict=True)
        return tuple(fixedpoint.multiplier_value(m, s) for m, s in pairs)

    def with_channel_order(self, order: Array) -> Requantize:
        """Return the requantization for another order of the channels."""
        if len(self.mult_q31) == 1:
            return self
        mult, shift = (tuple(v[i] for i in order) for v in (self.mult_q31, self.shift))
        return replace(self, mult_q31=mult, shift=shift)

    def scaled(self, exponent: int) -> Requantize:
        """Return the requantization for an output whose scale is times 2**exponent."""
        shift = tuple(
            max(s - exponent, LEAST_SHIFT) if m else s
            for m, s in zip(self.mult_q31, self.shift, strict=True)
        )
        return replace(self, shift=shift)

    def params(self) -> tuple[Param, ...]:
        """The fields of `mct_requantize` in firmware/runtime/mct_types.h."""
        return (
            Param("requantize.mult_q31", self.mult_q31, "const int32_t *"),
            Param("requantize.shift", self.shift, "const int8_t *"),
            Param("requantize.per_channel", int(len(self.mult_q31) > 1)),
            Param("requantize.rounds_once", int(self.rounds_once)),
            Param("requantize.zero_point", self.zero_point),
            Param("requantize.low", self.low),
            Param("requantize.high", self.high),
        )


def pre_activation_gradient(
    emit: Emit, dy: Gradient, y: Tensor, requantize: Requantize
) -> Gradient:
    """The derivative by the int32 sums: through the clamp and the per-channel factor."""
    return rescale(emit, dy, y.type.shape, requantize.factors, emit.mask(y))


@dataclass(frozen=True)
class Convolution(Op):
    """What convolutions over all channels, by groups of them, and of each by itself share.

    x_zero_point: also what the window's padding holds. saves_mask: of where y did not clamp, as a
    second output. wide: the sums are int64 and saturate.
    """

    window: Window
    x_zero_point: int
    requantize: Requantize | None
    saves_mask: bool = False
    wide: bool = field(default=False, repr=False)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """A window's rows of x."""
        return self.window.rows()

    def with_mask(self) -> Op:
        """Return the operator that also saves where y did not clamp."""
        return replace(self, saves_mask=True)

    def with_wide_sums(self) -> Op:
        """Always."""
        return replace(self, wide=True)

    def with_channel_limits(self, low: int, high: int) -> Op:
        """A fused activation narrows the clamp."""
        if self.requantize is None:
            raise ValueError("sums have no activation")
        q = self.requantize
        return replace(self, requantize=replace(q, low=max(low, q.low), high=min(high, q.high)))

    def with_output_exponent(self, exponent: int) -> Op:
        """Return the operator for an output whose scale is times 2**exponent."""
        assert self.requantize is not None
        return replace(self, requantize=self.requantize.scaled(exponent))

    def with_border(self, border: Border) -> Op | None:
        """A border of zero points becomes part of the window's padding."""
        window = self.window.with_border(border, self.x_zero_point)
        return None if window is None else replace(self, window=window)


@dataclass(frozen=True)
class Conv2D(Convolution):
    """acc = sum (x - x_zero_point) * w + b; y = requantize(acc), as TFLite's CONV_2D in int8.

    x: [1, h, w, in] w: [out, kernel_h, kernel_w, in] b: [out] int32 y: [1, rows, columns, out]
    Without requantize, y is the int32 sums (the logits that a loss takes). trained: input channels
    whose weights come from a fourth input, [out, kernel_h, kernel_w, trained]. resampled: how many
    such channels there are where a fifth input, int16, says which.
    """

    trained: tuple[int, ...] = field(default=(), repr=False)
    resampled: int = field(default=0, repr=False)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The output has one channel per weight row."""
        x, w, b, *parts = inputs
        if self.resampled:
            check_resampled(w, parts, self.resampled)
        else:
            for part in parts:
                check_trained(w, part, self.trained)
        if len(x.shape) != 4 or len(w.shape) != 4 or w.shape[3] != x.shape[3]:
            raise ValueError(f"input {x.shape} and weight {w.shape} do not fit each other")
        if w.shape[1:3] != self.window.kernel or b.shape != w.shape[:1]:
            raise ValueError(f"weight {w.shape}, bias {b.shape}: window is {self.window.kernel}")
        if self.requantize and len(self.requantize.mult_q31) not in (1, w.shape[0]):
            raise ValueError(f"{len(self.requantize.mult_q31)} multipliers, {w.shape[0]} channels")
        rows, columns = self.window.output_size(*x.shape[1:3])
        dtype = "int8" if self.requantize else "int32"
        return clamped_types(TensorType((1, rows, columns, w.shape[0]), dtype), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Patches times weights, exactly."""
        x, w, b, *parts = inputs
        w = _in_one_piece(w, self.trained, *parts)
        patches = self.window.patches(x, self.x_zero_point).astype(np.int64) - self.x_zero_point
        rows, columns = patches.shape[:2]
        acc = exact_matmul(patches.reshape(rows * columns, -1), w.reshape(len(w), -1).T) + b
        acc = acc.reshape(1, rows, columns, len(w))
        if self.requantize is None:
            return (np.clip(acc, -INT32_MAX - 1, INT32_MAX).astype(np.int32),)
        return self.requantize.results(self.requantize.saturated(acc), self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """dx with the old weight first, then the weight and the bias are updated."""
        x, w, b, *parts = inputs
        dz = pre_activation_gradient(emit, dy, y, self.requantize) if self.requantize else dy
        dx = None
        if emit.wants(x):
            stage = OutputStage((dz.scale,), False, emit.gradient_dtype, emit.salt())
            op = Conv2DGradInput(stage, x.type.shape, self.window, self.trained, self.resampled)
            dx = emit.gradient(op, dz, emit.value(w), *(part.name for part in parts))
        update = emit.update(w)
        if update:
            columns = parts[1] if self.resampled else None
            saved, count = select_channels(emit, x, update.channels, columns)
            trained = (*w.type.shape[:3], count)
            weight_op = Conv2DGradWeight(None, trained, self.window, self.x_zero_point)
            emit.train(weight_op, update, dz, saved, parameter=w)
        train_bias(emit, dz, b)
        return dx, *(None for _ in inputs[1:])

    def with_trained_columns(self, channels: tuple[int, ...]) -> Op | None:
        """Only the last layer needs its weight in one piece."""
        return replace(self, trained=channels) if self.requantize else None

    def with_resampled_columns(self, count: int) -> Op | None:
        """Return the operator that reads resampled input channels; None without a
        requantization.
        """
        return replace(self, resampled=count) if self.requantize else None

    @property
    def is_split(self) -> bool:
        """Whether some of the weights are those of another input."""
        return bool(self.trained or self.resampled)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_conv_2d_s8, or mct_conv_2d_s32 for the bare sums."""
        params = (
            *shape_params("x", types[0].shape),
            *shape_params("y", results[0].shape),
            *self.window.params(),
            Param("x_zero_point", self.x_zero_point),
        )
        name = f"mct_conv_2d_{'wide_' if self.wide else ''}{'s8' if self.requantize else 's32'}"
        operands = (*inputs(0, 1, 2), *outputs(0))
        if self.requantize is None:
            return KernelCall("conv_2d", name, params, operands)
        outs, row = types[1].shape[0], types[1].elements // types[1].shape[0]
        tile = next((n for n in TILE_ROWS if n * row <= TILE_BYTES), TILE_ROWS[-1])
        rows = tile if self.is_split else 0
        trained = trained_params(self.trained, rows)
        if self.resampled:
            trained = resampled_params(self.resampled, inputs(4)[0], rows)
        params = (*params, *self.requantize.params(), *trained)
        parts = (*inputs(3), SCRATCH) if self.is_split else (NULL, NULL)
        operands = (*operands, *mask_operand(self.saves_mask), *parts)
        return KernelCall("conv_2d", name, params, operands, min(rows, outs) * row)

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """The channels that are summed over, while no others are trained; the rows of weights."""
        x, w, b, *trained = inputs(*range(len(types)))
        rows = (Axis(part, 0) for part in (w, b, *trained[:1]))
        made = (*rows, channel_axis(outputs(0)[0], results[0]))
        if self.is_split:
            return (made,)
        return (channel_axis(x, types[0]), channel_axis(w, types[1])), made

    def with_channel_order(self, *orders: Array) -> Op:
        """Multipliers and shifts belong to rows of weights."""
        if self.requantize is None:
            return self
        return replace(self, requantize=self.requantize.with_channel_order(orders[-1]))

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """The sums of a window, and their requantization."""
        _, w, b, *_ = inputs
        q = self.requantize
        stage = (q.mult_q31, q.shift) if q else None
        w = replace(w, data=None) if self.is_split else w
        return weighted_sums(w, b, 0, stage, "use a smaller window or fewer input channels")

    def as_sums(self) -> Op:
        """Without the requantization."""
        return replace(self, requantize=None)

    def sum_scales(self, types: Sequence[TensorType]) -> tuple[float, ...]:
        """Scales of the sums: those of the bias."""
        return types[2].scales

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per output element and weight of its channel."""
        return results[0].elements * types[1].elements // types[1].shape[0]


def trained_params(trained: tuple[int, ...], rows: int = 0) -> tuple[Param, ...]:
    """The fields of `mct_trained_columns` in firmware/runtime/mct_types.h."""
    return (
        Param("trained.columns", len(trained)),
        Param("trained.rows", rows),
        table_of("trained.channels", trained),
    )


def resampled_params(count: int, columns: Operand, rows: int = 0) -> tuple[Param, ...]:
    """Parameters of trained columns where an input says which these are."""
    count_of, rows_of, table = trained_params((), rows)
    return replace(count_of, value=count), rows_of, replace(table, value=columns)


def _in_one_piece(w: Array, trained: Sequence[int], *parts: Array) -> Array:
    """The weight. parts: its trained columns and their numbers, where these are other inputs."""
    if not parts:
        return w
    return merged(w, parts[0], trained if len(parts) == 1 else parts[1])


def weight_gradient_sums(dy: Tensor) -> tuple[Bound, ...]:
    """Bounds of a weight's gradient: dy times a difference of two int8 at every output position."""
    positions = dy.type.elements // dy.type.shape[-1]
    what = f"sums of {positions:,} products of gradients and inputs"
    return gradient_sums(dy, positions, DIFFERENCE, what, "use a smaller input")


@dataclass(frozen=True)
class Conv2DGradInput(GradientOp):
    """dx[i] = sum over windows and output channels of dy * w, plus the addend if there is one.

    dy: [1, rows, columns, out]  w: [out, kernel_h, kernel_w, in]  dx: [1, h, w, in]
    trained, resampled: see Conv2D; then these weights, and the columns, are inputs behind w.
    """

    window: Window
    trained: tuple[int, ...] = field(default=(), repr=False)
    resampled: int = field(default=0, repr=False)

    @property
    def may_add(self) -> bool:
        """Residual connections end in convolutions."""
        return True

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """The addend is read element by element, just before dx is written."""
        parts = 2 if self.resampled else 1 if self.trained else 0
        return {0: (4 + parts,)} if self.stage.addend_scale else {}

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Every window that reads an element may lie over it with every tap."""
        dy, w = inputs[1], inputs[3]
        terms = w.type.elements // w.type.shape[3]
        what = f"sums of {terms:,} products of gradients and weights"
        advice = "train only this layer and what follows it, or make its outputs fewer"
        return gradient_sums(dy, terms, WEIGHT, what, advice)

    def sums(self, dy: Array, *rest: Array) -> Array:
        """dy times weights, scattered to where each window lay."""
        w, *parts = rest
        w = _in_one_piece(w, self.trained, *parts)
        rows, columns = dy.shape[1:3]
        patches = exact_matmul(dy.reshape(rows * columns, -1), w.reshape(len(w), -1))
        patches = patches.reshape(rows, columns, *w.shape[1:])
        return self.window.scatter(patches, *self.shape[1:3])

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_conv_2d_grad_input_<dy>: scratch holds one pixel's sums."""
        dy = types[1]
        params = (
            *shape_params("dx", self.shape),
            *shape_params("dy", dy.shape),
            *self.window.params(),
            *(
                resampled_params(self.resampled, inputs(5)[0])
                if self.resampled
                else trained_params(self.trained)
            ),
        )
        scratch = self.shape[3] * ACC_BYTES[dy.dtype]
        name = f"mct_conv_2d_grad_input_{SUFFIX[dy.dtype]}"
        if self.trained or self.resampled:
            w = types[3]
            scratch = max(scratch, COLUMNS_AT_ONCE * w.elements // w.shape[3])
        return KernelCall("conv_2d", name, params, (), scratch)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """The trained columns come last, NULL if there are none; which they are is a parameter."""
        call = super().kernel(types, results)
        if not (self.trained or self.resampled):
            return replace(call, operands=(*call.operands, NULL))
        trained, columns = inputs(4, 5)
        apart = (trained, columns) if self.resampled else (trained,)
        rest = tuple(operand for operand in call.operands if operand not in apart)
        return replace(call, operands=(*rest, trained))

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per dy element and weight of its channel."""
        return types[1].elements * types[3].elements // types[3].shape[0]


@dataclass(frozen=True)
class Conv2DGradWeight(ParameterGradientOp):
    """dw[o][ky][kx][i] = sum over positions of dy[o] * (x[i] - x_zero_point).

    dy: [1, rows, columns, out]  x: [1, h, w, trained channels]  w: [out, kernel_h, kernel_w, in]
    """

    window: Window = Window((1, 1))
    x_zero_point: int = 0

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """A product at every output position."""
        return weight_gradient_sums(inputs[1])

    def with_wide_sums(self) -> Op:
        """Always."""
        return replace(self, wide=True)

    def sums(self, dy: Array, *own: Array) -> Array:
        """dy transposed times patches."""
        (x,) = own
        patches = self.window.patches(x, self.x_zero_point).astype(np.int64) - self.x_zero_point
        positions = patches.shape[0] * patches.shape[1]
        return exact_matmul(dy.reshape(positions, -1).T, patches.reshape(positions, -1))

    def call(self, types: Sequence[TensorType], action: str) -> KernelCall:
        """mct_conv_2d_update_weight_<dy>: scratch holds one row's sums; or _grad_weight_."""
        dy, x = types[1], types[3 if self.rule else 2]
        params = (
            *shape_params("x", x.shape),
            *shape_params("dy", dy.shape),
            *self.window.params(),
            Param("x_zero_point", self.x_zero_point),
        )
        row = int(np.prod(self.trained[1:])) * ACC_BYTES[dy.dtype]
        name = f"mct_conv_2d_{action}_weight_{SUFFIX[dy.dtype]}"
        return KernelCall("conv_2d", name, params, (), row)

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per position and trained weight."""
        dy = types[1]
        return dy.elements // dy.shape[3] * int(np.prod(self.trained))

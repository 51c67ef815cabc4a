"""Depthwise convolution with int8 weights [1][kernel_h][kernel_w][channels], and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    SCRATCH,
    Axis,
    Bound,
    ChannelTie,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Param,
    ParameterUpdate,
    channel_axis,
    expanded_order,
    inputs,
    outputs,
    table_of,
)
from mcutrain.ops.bounds import WEIGHT, gradient_sums, weighted_sums
from mcutrain.ops.clamp import clamped_types, mask_operand
from mcutrain.ops.conv_2d import (
    Convolution,
    Requantize,
    pre_activation_gradient,
    weight_gradient_sums,
)
from mcutrain.ops.gradient_sum import rescale
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage, products
from mcutrain.ops.select_channels import select_channels
from mcutrain.ops.spatial import Window, shape_params
from mcutrain.ops.training import ParameterGradientOp, train_bias

Array = npt.NDArray[Any]


PLANES = 4
"""Channels of an image that a DSP body sets aside at a time before it overwrites them."""


def planes_bytes(x: TensorType) -> int:
    """One channel of an image."""
    return x.size_bytes // x.shape[-1]


@dataclass(frozen=True)
class DepthwiseConv2D(Convolution):
    """acc[c] = sum (x[c / multiplier] - x_zero_point) * w[c] + b[c]; y = requantize(acc).

    TFLite's DEPTHWISE_CONV_2D in int8. x: [1, h, w, in]  w: [1, kernel_h, kernel_w, out]
    b: [out] int32  y: [1, rows, columns, out]; out is a multiple of in.
    """

    requantize: Requantize

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The output has one channel per weight column."""
        x, w, b = inputs
        if len(x.shape) != 4 or len(w.shape) != 4 or w.shape[0] != 1 or w.shape[3] % x.shape[3]:
            raise ValueError(f"input {x.shape} and depthwise weight {w.shape} do not fit")
        if w.shape[1:3] != self.window.kernel or b.shape != w.shape[3:]:
            raise ValueError(f"weight {w.shape}, bias {b.shape}: window is {self.window.kernel}")
        if len(self.requantize.mult_q31) not in (1, w.shape[3]):
            raise ValueError(f"{len(self.requantize.mult_q31)} multipliers, {w.shape[3]} channels")
        rows, columns = self.window.output_size(*x.shape[1:3])
        return clamped_types(TensorType((1, rows, columns, w.shape[3])), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Each channel by itself."""
        x, w, b = inputs
        patches = self.window.patches(x, self.x_zero_point).astype(np.int64) - self.x_zero_point
        patches = np.repeat(patches, w.shape[3] // x.shape[3], axis=-1)
        acc = (patches * w[0].astype(np.int64)).sum(axis=(2, 3)) + b
        return self.requantize.results(self.requantize.saturated(acc[None]), self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """dx with the old weight first, then the weight and the bias are updated.

        Channels do not mix, so each one's factor waits until dx is scaled anyway: dz keeps the
        activation's scale, in which channels are of similar size, and int8 loses less.
        """
        x, w, b = inputs
        factors = self.requantize.factors
        if w.type.shape[3] != x.type.shape[3]:  # several outputs per input do mix
            dz, factors = pre_activation_gradient(emit, dy, y, self.requantize), (1.0,)
        else:
            dz = rescale(emit, dy, y.type.shape, (1.0,), emit.mask(y))
        dx = None
        if emit.wants(x):
            scale = products((dz.scale,), factors)
            stage = OutputStage(scale, False, emit.gradient_dtype, emit.salt())
            op = DepthwiseConv2DGradInput(stage, x.type.shape, self.window)
            dx = emit.gradient(op, dz, emit.value(w))
        update = emit.update(w)
        if update:
            update = replace(update, rate=products(update.rate, factors))
            self._train_weight(emit, update, dz, x, w)
        train_bias(emit, dz, b, factors)
        return dx, None, None

    def _train_weight(
        self, emit: Emit, update: ParameterUpdate, dz: Gradient, x: Tensor, w: Tensor
    ) -> None:
        """A partly trained layer saves only the input channels that it needs."""
        channels = update.channels
        multiplier = w.type.shape[3] // x.type.shape[3]
        kept = None
        if channels is not None:
            kept = tuple(sorted({c // multiplier for c in channels}))
        saved, _ = select_channels(emit, x, kept)
        position = {c: i for i, c in enumerate(kept)} if kept is not None else None
        count = len(channels) if channels is not None else w.type.shape[3]
        columns = channels if channels is not None else range(count)
        x_columns = tuple(
            position[c // multiplier] if position else c // multiplier for c in columns
        )
        op = DepthwiseConv2DGradWeight(
            None, (*w.type.shape[:3], count), self.window, self.x_zero_point, x_columns, channels
        )
        emit.train(op, update, dz, saved, parameter=w)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_depthwise_conv_2d_s8."""
        params = (
            *shape_params("x", types[0].shape),
            *shape_params("y", results[0].shape),
            *self.window.params(),
            Param("x_zero_point", self.x_zero_point),
            *self.requantize.params(),
        )
        operands = (*inputs(0, 1, 2), *outputs(0), *mask_operand(self.saves_mask))
        if self.wide:
            name = "mct_depthwise_conv_2d_wide_s8"
            return KernelCall("depthwise_conv_2d", name, params, operands)
        name = "mct_depthwise_conv_2d_s8"
        call = KernelCall("depthwise_conv_2d", name, params, (*operands, SCRATCH))
        return replace(call, overwriting_bytes=PLANES * planes_bytes(types[0]))

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Channels do not mix: the kernel sets aside what it still needs of a few."""
        return {0: (0,)} if self.window.keeps_size and not self.wide else {}

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """The outputs of an input channel stay together; those of a single one are free."""
        (x, w, b), (y,) = inputs(0, 1, 2), outputs(0)
        ins, outs = types[0].shape[-1], results[0].shape[-1]
        if ins == 1:
            return ((channel_axis(w, types[1]), Axis(b, 0), channel_axis(y, results[0])),)
        m = outs // ins
        made = (
            channel_axis(w, types[1], 1, m),
            Axis(b, 0, 1, m),
            channel_axis(y, results[0], 1, m),
        )
        return ((channel_axis(x, types[0]), *made),)

    def with_channel_order(self, *orders: Array) -> Op:
        """Multipliers and shifts belong to output channels."""
        multiplier = len(self.requantize.mult_q31) // len(orders[0])
        order = expanded_order(orders[0], 1, max(multiplier, 1))
        return replace(self, requantize=self.requantize.with_channel_order(order))

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """The sums of a window, and their requantization."""
        _, w, b = inputs
        stage = (self.requantize.mult_q31, self.requantize.shift)
        return weighted_sums(w, b, 3, stage, "use a smaller window")

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per output element and tap."""
        return results[0].elements * self.window.kernel[0] * self.window.kernel[1]


@dataclass(frozen=True)
class DepthwiseConv2DGradInput(GradientOp):
    """dx[c] = sum over windows (and the channel's multiplier outputs) of dy * w.

    dy: [1, rows, columns, out]  w: [1, kernel_h, kernel_w, out]  dx: [1, h, w, in]
    """

    window: Window

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Every window that reads an element may lie over it with every tap."""
        dy, w = inputs[1], inputs[3]
        terms = w.type.elements // self.shape[3]
        what = f"sums of {terms:,} products of gradients and weights"
        advice = "train only this layer and what follows it, or make its window smaller"
        return gradient_sums(dy, terms, WEIGHT, what, advice)

    def sums(self, dy: Array, *rest: Array) -> Array:
        """dy times each tap, scattered to where each window lay."""
        (w,) = rest
        patches = dy[0][:, :, None, None, :].astype(np.int64) * w[0]
        channels = self.shape[3]
        patches = patches.reshape(*patches.shape[:4], channels, -1).sum(axis=-1)
        return self.window.scatter(patches, *self.shape[1:3])

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_depthwise_conv_2d_grad_input_<dy>: scratch holds one pixel's sums."""
        dy = types[1]
        params = (
            *shape_params("dx", self.shape),
            *shape_params("dy", dy.shape),
            *self.window.params(),
        )
        scratch = self.shape[3] * ACC_BYTES[dy.dtype]
        name = f"mct_depthwise_conv_2d_grad_input_{SUFFIX[dy.dtype]}"
        aside = PLANES * planes_bytes(dy)
        return KernelCall("depthwise_conv_2d", name, params, (), scratch, aside)

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """As forward."""
        return {0: (1,)} if self.window.keeps_size else {}

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per dy element and tap."""
        return types[1].elements * self.window.kernel[0] * self.window.kernel[1]


@dataclass(frozen=True)
class DepthwiseConv2DGradWeight(ParameterGradientOp):
    """dw[ky][kx][j] = sum over positions of dy[channels[j]] * (x[x_columns[j]] - x_zero_point).

    dy: [1, rows, columns, out]  x: [1, h, w, saved channels]  w: [1, kernel_h, kernel_w, trained]
    channels: the trained output channels, ascending; None is all.
    """

    window: Window = Window((1, 1))
    x_zero_point: int = 0
    x_columns: tuple[int, ...] = ()
    channels: tuple[int, ...] | None = None
    rate_axis = -1

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """A product at every output position."""
        return weight_gradient_sums(inputs[1])

    def with_wide_sums(self) -> Op:
        """Always."""
        return replace(self, wide=True)

    def sums(self, dy: Array, *own: Array) -> Array:
        """Correlation of dy and x, channel by channel."""
        (x,) = own
        patches = self.window.patches(x, self.x_zero_point).astype(np.int64) - self.x_zero_point
        patches = patches[..., list(self.x_columns)]
        picked = dy[0] if self.channels is None else dy[0][..., list(self.channels)]
        terms: Array = patches * picked[:, :, None, None, :].astype(np.int64)
        sums: Array = terms.sum(axis=(0, 1))
        return sums

    def call(self, types: Sequence[TensorType], action: str) -> KernelCall:
        """mct_depthwise_conv_2d_update_weight_<dy>: scratch holds one tap's sums.

        With a rule, as adapt_weight, one channel's.
        """
        dy, x = types[1], types[3 if self.rule else 2]
        params = (
            *shape_params("x", x.shape),
            *shape_params("dy", dy.shape),
            *self.window.params(),
            Param("x_zero_point", self.x_zero_point),
            Param("trained_channels", self.trained[-1]),
            table_of("x_columns", self.x_columns),
            table_of("channels", self.channels),
        )
        at_once = self.trained[1:-1] if action == "adapt" else self.trained[-1:]
        row = int(np.prod(at_once)) * ACC_BYTES[dy.dtype]
        name = f"mct_depthwise_conv_2d_{action}_weight_{SUFFIX[dy.dtype]}"
        return KernelCall("depthwise_conv_2d", name, params, (), row)

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per position and trained weight."""
        return types[1].elements // types[1].shape[3] * int(np.prod(self.trained))

"""Convolution in groups, int8 weights [out][kernel_h][kernel_w][in / groups], and its gradients.

Group g of the outputs reads group g of the inputs alone. How many groups there are follows from the
shapes. One group is a Conv2D; one for each input channel is better a DepthwiseConv2D.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    Bound,
    Emit,
    Gradient,
    KernelCall,
    Param,
    exact_matmul,
    inputs,
    outputs,
)
from mcutrain.ops.bounds import WEIGHT, gradient_sums, weighted_sums
from mcutrain.ops.clamp import clamped_types, mask_operand
from mcutrain.ops.conv_2d import (
    Conv2DGradWeight,
    Convolution,
    Requantize,
    pre_activation_gradient,
)
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage
from mcutrain.ops.select_channels import select_channels
from mcutrain.ops.spatial import Window, shape_params
from mcutrain.ops.training import train_bias

Array = npt.NDArray[Any]

KERNEL = "grouped_conv_2d"


@dataclass(frozen=True)
class GroupedConv2D(Convolution):
    """acc[o] = sum (x[i] - x_zero_point) * w[o][i] + b[o] over the i of o's group; y as in Conv2D.

    TFLite's CONV_2D in int8 with a filter of fewer channels than the image. x: [1, h, w, in]
    w: [out, kernel_h, kernel_w, in / groups]  b: [out] int32  y: [1, rows, columns, out]
    """

    requantize: Requantize

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The output has one channel per weight row."""
        x, w, b = inputs
        if len(x.shape) != 4 or len(w.shape) != 4:
            raise ValueError(f"input {x.shape} and weight {w.shape} do not fit each other")
        check_groups(x.shape[3], w.shape)
        if w.shape[1:3] != self.window.kernel or b.shape != w.shape[:1]:
            raise ValueError(f"weight {w.shape}, bias {b.shape}: window is {self.window.kernel}")
        if len(self.requantize.mult_q31) not in (1, w.shape[0]):
            raise ValueError(f"{len(self.requantize.mult_q31)} multipliers, {w.shape[0]} channels")
        rows, columns = self.window.output_size(*x.shape[1:3])
        return clamped_types(TensorType((1, rows, columns, w.shape[0])), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Patches times weights, group by group."""
        x, w, b = inputs
        patches = self.window.patches(x, self.x_zero_point).astype(np.int64) - self.x_zero_point
        rows, columns = patches.shape[:2]
        parts = [
            exact_matmul(of_x.reshape(rows * columns, -1), of_w.reshape(len(of_w), -1).T)
            for of_x, of_w in _by_group(patches, w)
        ]
        acc = np.concatenate(parts, axis=1).reshape(1, rows, columns, len(w)) + b
        return self.requantize.results(self.requantize.saturated(acc), self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """dx with the old weight first, then the weight and the bias are updated.

        A column of the weight is the same channel of each group.
        """
        x, w, b = inputs
        dz = pre_activation_gradient(emit, dy, y, self.requantize)
        dx = None
        if emit.wants(x):
            stage = OutputStage((dz.scale,), False, emit.gradient_dtype, emit.salt())
            op = GroupedConv2DGradInput(stage, x.type.shape, self.window)
            dx = emit.gradient(op, dz, emit.value(w))
        update = emit.update(w)
        if update:
            kept, columns = None, w.type.shape[3]
            if update.channels is not None:
                firsts = range(0, x.type.shape[3], columns)
                kept = tuple(first + c for first in firsts for c in update.channels)
                columns = len(update.channels)
            saved, _ = select_channels(emit, x, kept)
            trained = (*w.type.shape[:3], columns)
            weight_op = GroupedConv2DGradWeight(None, trained, self.window, self.x_zero_point)
            emit.train(weight_op, update, dz, saved, parameter=w)
        train_bias(emit, dz, b)
        return dx, None, None

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_grouped_conv_2d_s8."""
        params = (
            *shape_params("x", types[0].shape),
            *shape_params("y", results[0].shape),
            *self.window.params(),
            Param("groups", groups_of(types[0].shape, types[1].shape)),
            Param("x_zero_point", self.x_zero_point),
            *self.requantize.params(),
        )
        name = f"mct_grouped_conv_2d_{'wide_' if self.wide else ''}s8"
        operands = (*inputs(0, 1, 2), *outputs(0), *mask_operand(self.saves_mask))
        return KernelCall(KERNEL, name, params, operands)

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """The sums of a window, and their requantization."""
        _, w, b = inputs
        stage = (self.requantize.mult_q31, self.requantize.shift)
        return weighted_sums(w, b, 0, stage, "use a smaller window or more groups")

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per output element and weight of its channel."""
        return results[0].elements * types[1].elements // types[1].shape[0]


def check_groups(channels: int, weight: tuple[int, ...]) -> None:
    """Raise ValueError unless a weight [out, …, in / groups] divides the channels into groups."""
    each = weight[-1]
    if each < 1 or channels % each or weight[0] % (channels // each):
        raise ValueError(
            f"{channels} input channels and a weight {weight} make no groups: each group needs as "
            "many of them, and of the outputs"
        )


def groups_of(x: tuple[int, ...], weight: tuple[int, ...]) -> int:
    """Return how many there are."""
    return x[-1] // weight[-1]


def _by_group(patches: Array, w: Array) -> list[tuple[Array, Array]]:
    """Return what each group reads, [..., in / groups], and its rows of the weight."""
    groups = patches.shape[-1] // w.shape[-1]
    return list(zip(np.split(patches, groups, axis=-1), np.split(w, groups), strict=True))


@dataclass(frozen=True)
class GroupedConv2DGradInput(GradientOp):
    """dx[i] = sum over windows and the output channels of i's group of dy * w.

    dy: [1, rows, columns, out]  w: [out, kernel_h, kernel_w, in / groups]  dx: [1, h, w, in]
    """

    window: Window

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Every window that reads an element may lie over it with every tap."""
        dy, w = inputs[1], inputs[3]
        terms = w.type.elements // self.shape[3]
        what = f"sums of {terms:,} products of gradients and weights"
        advice = "train only this layer and what follows it, or make its outputs fewer"
        return gradient_sums(dy, terms, WEIGHT, what, advice)

    def sums(self, dy: Array, *rest: Array) -> Array:
        """dy times weights, scattered to where each window lay."""
        (w,) = rest
        rows, columns = dy.shape[1:3]
        groups = groups_of(self.shape, w.shape)
        parts = [
            exact_matmul(of_dy.reshape(rows * columns, -1), of_w.reshape(len(of_w), -1)).reshape(
                rows, columns, *w.shape[1:]
            )
            for of_dy, of_w in zip(np.split(dy, groups, axis=-1), np.split(w, groups), strict=True)
        ]
        return self.window.scatter(np.concatenate(parts, axis=-1), *self.shape[1:3])

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_grouped_conv_2d_grad_input_<dy>: scratch holds one pixel's sums."""
        dy, w = types[1], types[3]
        params = (
            *shape_params("dx", self.shape),
            *shape_params("dy", dy.shape),
            *self.window.params(),
            Param("groups", groups_of(self.shape, w.shape)),
        )
        scratch = self.shape[3] * ACC_BYTES[dy.dtype]
        name = f"mct_grouped_conv_2d_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall(KERNEL, name, params, (), scratch)

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per dy element and weight of its channel."""
        return types[1].elements * types[3].elements // types[3].shape[0]


@dataclass(frozen=True)
class GroupedConv2DGradWeight(Conv2DGradWeight):
    """dw[o][ky][kx][i] = sum over positions of dy[o] * (x[i of o's group] - x_zero_point).

    dy: [1, rows, columns, out]  x: [1, h, w, groups * trained columns]
    w: [out, kernel_h, kernel_w, trained columns]
    """

    def sums(self, dy: Array, *own: Array) -> Array:
        """dy transposed times patches, group by group."""
        (x,) = own
        patches = self.window.patches(x, self.x_zero_point).astype(np.int64) - self.x_zero_point
        positions = patches.shape[0] * patches.shape[1]
        groups = groups_of(x.shape, self.trained)
        parts = [
            exact_matmul(of_dy.reshape(positions, -1).T, of_x.reshape(positions, -1))
            for of_dy, of_x in zip(
                np.split(dy, groups, axis=-1), np.split(patches, groups, axis=-1), strict=True
            )
        ]
        return np.concatenate(parts)

    def call(self, types: Sequence[TensorType], action: str) -> KernelCall:
        """mct_grouped_conv_2d_update_weight_<dy>, as of Conv2D, or _grad_weight_."""
        call, x = super().call(types, action), types[3 if self.rule else 2]
        return replace(
            call,
            kernel=KERNEL,
            function=call.function.replace("conv_2d", KERNEL),
            params=(*call.params, Param("groups", groups_of(x.shape, self.trained))),
        )

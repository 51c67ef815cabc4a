"""Weights by which each step of a sequence is multiplied: their gradients, and that of the steps.

These are those of 1x1 convolutions over an image one pixel wide, and computed by their kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import NULL, Bound, Emit, Gradient, KernelCall, Op, Param, exact_matmul
from mcutrain.ops.bounds import WEIGHT, gradient_sums
from mcutrain.ops.conv_2d import trained_params, weight_gradient_sums
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, products
from mcutrain.ops.select_channels import select_channels
from mcutrain.ops.spatial import Window, shape_params
from mcutrain.ops.training import ParameterGradientOp

Array = npt.NDArray[Any]

ADVICE = "give the layer fewer inputs or units"


def len_of_steps(x: TensorType) -> int:
    """Return how many rows a sequence has."""
    return x.elements // x.shape[-1]


def before_each(rows: Array) -> Array:
    """Each row's predecessor; zeros come before the first."""
    return np.concatenate([np.zeros_like(rows[:1]), rows[:-1]])


@dataclass(frozen=True)
class StepsGradInput(GradientOp):
    """dx = dz * w for each step: a 1x1 convolution's. dz: [..., rows], w: [rows, inputs]."""

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """A product for each row of w."""
        rows = inputs[3].type.shape[0]
        what = f"sums of {rows:,} products of gradients and weights"
        return gradient_sums(inputs[1], rows, WEIGHT, what, ADVICE)

    def sums(self, dy: Array, *rest: Array) -> Array:
        """All steps at once."""
        (w,) = rest
        found = exact_matmul(dy.reshape(-1, dy.shape[-1]), w)
        return found.reshape(self.shape)

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_conv_2d_grad_input_<dy>."""
        dy, count = types[1], self.shape[-1]
        params = (*_as_images(dy, count, "dx"), *Window((1, 1)).params(), *trained_params(()))
        name = f"mct_conv_2d_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("conv_2d", name, params, (), count * ACC_BYTES[dy.dtype])

    @property
    def may_add(self) -> bool:
        """As of convolutions."""
        return True

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """As of convolutions: the addend is read just before dx is written."""
        return {0: (4,)} if self.stage.addend_scale else {}

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """No column of w is trained apart."""
        call = super().kernel(types, results)
        return replace(call, operands=(*call.operands, NULL))

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per number of dz and input."""
        return types[1].elements * self.shape[-1]


@dataclass(frozen=True)
class StepsGradWeight(ParameterGradientOp):
    """dw = sum over steps of dz * (x - x_zero_point): a 1x1 convolution's.

    dz: [..., rows], x: [..., columns], w: [rows, columns]. delay: x is that of so many steps
    before, 1, 0 or -1; beyond the ends it is its zero point.
    """

    x_zero_point: int = 0
    delay: int = 0

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """A product for each step."""
        return weight_gradient_sums(inputs[1])

    def with_wide_sums(self) -> Op:
        """Always."""
        return replace(self, wide=True)

    def sums(self, dy: Array, *own: Array) -> Array:
        """All steps at once."""
        rows = own[0].reshape(-1, self.trained[-1]).astype(np.int64) - self.x_zero_point
        if self.delay:
            order = slice(None, None, self.delay)
            rows = before_each(rows[order])[order]
        return exact_matmul(dy.reshape(len(rows), -1).T, rows)

    def call(self, types: Sequence[TensorType], action: str) -> KernelCall:
        """mct_conv_2d_update_weight_<dy>, or _grad_weight_; a delay is padding."""
        dy, columns = types[1], self.trained[-1]
        window = Window((1, 1), padding=(self.delay, -self.delay, 0, 0))
        params = (
            *_as_images(dy, columns, "x"),
            *window.params(),
            Param("x_zero_point", self.x_zero_point),
        )
        name = f"mct_conv_2d_{action}_weight_{SUFFIX[dy.dtype]}"
        return KernelCall("conv_2d", name, params, (), columns * ACC_BYTES[dy.dtype])

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per step and trained weight."""
        return len_of_steps(types[1]) * int(np.prod(self.trained))


def _as_images(dy: TensorType, columns: int, name: str) -> tuple[Param, ...]:
    """Steps as rows of images that are one pixel wide."""
    steps = len_of_steps(dy)
    return (
        *shape_params(name, (1, steps, 1, columns)),
        *shape_params("dy", (1, steps, 1, dy.shape[-1])),
    )


def train_steps(
    emit: Emit,
    dz: Gradient,
    w: Tensor,
    x: Tensor,
    x_zero_point: int,
    delay: int = 0,
    factors: tuple[float, ...] = (1.0,),
) -> None:
    """Train the weight w of a layer whose sums have the gradient dz * factors, if it is trained."""
    update = emit.update(w)
    if update is None:
        return
    saved, count = select_channels(emit, x, update.channels)
    update = replace(update, rate=products(update.rate, factors))
    op = StepsGradWeight(None, (w.type.shape[0], count), x_zero_point, delay)
    emit.train(op, update, dz, saved, parameter=w)

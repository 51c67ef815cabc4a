"""Elementwise product of two int8 tensors, one of which may have a number per channel only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    Bound,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Param,
    Rows,
    inputs,
    rows_apart,
)
from mcutrain.ops.bounds import DIFFERENCE, gradient_sums, requantized
from mcutrain.ops.clamp import ClampingOp, clamped, clamped_types
from mcutrain.ops.gradient_sum import rescale
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage

Array = npt.NDArray[Any]


def is_per_channel(x: TensorType, wide: TensorType) -> bool:
    """Return whether x, such as [1, 1, 1, c], has one number for each channel of `wide`.

    A tensor of the very same shape is no such case.
    """
    return x.shape != wide.shape and x.elements == x.shape[-1] == wide.shape[-1]


def check_broadcast(a: TensorType, b: TensorType) -> None:
    """Raise ValueError unless b has a's shape, or a number per channel of it."""
    if not a.shape or not b.shape or not (a.shape == b.shape or is_per_channel(b, a)):
        raise ValueError(
            f"shapes {a.shape} and {b.shape}: the second must equal the first, or be [1, 1, 1, c]"
        )


@dataclass(frozen=True)
class Mul(ClampingOp):
    """y = clamp((a - a_zero_point) * (b - b_zero_point) * factor + y_zero_point): TFLite's MUL.

    factor: mult_q31 * 2**(shift - 31). a, y: [..., c]  b: the same, or [1, 1, 1, c], or [c].
    """

    a_zero_point: int
    b_zero_point: int
    y_zero_point: int
    mult_q31: int
    shift: int
    low: int = -128
    high: int = 127
    saves_mask: bool = False

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The first operand's shape."""
        check_broadcast(*inputs)
        return clamped_types(TensorType(inputs[0].shape), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Multiply exactly, requantize once."""
        a, b = (v.astype(np.int64) for v in inputs)
        product = (a - self.a_zero_point) * (b - self.b_zero_point)
        y = fixedpoint.multiply_by_quantized_multiplier(product, self.mult_q31, self.shift)
        return clamped(y + self.y_zero_point, self.low, self.high, self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Each operand gets dy times the other one; both are saved as far as they are needed."""
        a, b = inputs
        if not (emit.wants(a) or emit.wants(b)):
            return None, None
        factor = fixedpoint.multiplier_value(self.mult_q31, self.shift)
        dz = rescale(emit, dy, y.type.shape, (1.0,), emit.mask(y))
        dz = replace(dz, scale=dz.scale * factor)
        return (
            self._operand(emit, dz, a, b, self.b_zero_point),
            self._operand(emit, dz, b, a, self.a_zero_point),
        )

    def _operand(
        self, emit: Emit, dz: Gradient, x: Tensor, other: Tensor, zero_point: int
    ) -> Gradient | None:
        """The gradient of x, which was multiplied by `other`."""
        if not emit.wants(x):
            return None
        stage = OutputStage((dz.scale,), False, emit.gradient_dtype, emit.salt())
        return emit.gradient(MulGradInput(stage, x.type.shape, zero_point), dz, other.name)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Elementwise."""
        return rows_apart(types, results, "positions")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_mul_s8."""
        a, b = types
        channels = a.shape[-1]
        params = (
            Param("positions", a.elements // channels),
            Param("channels", channels),
            Param("b_per_channel", int(is_per_channel(b, a))),
            Param("a_zero_point", self.a_zero_point),
            Param("b_zero_point", self.b_zero_point),
            Param("y_zero_point", self.y_zero_point),
            Param("mult_q31", self.mult_q31),
            Param("shift", self.shift),
        )
        return self.clamping_call("mul", "mct_mul_s8", params, *inputs(0, 1))

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """One product."""
        return (requantized("products", DIFFERENCE**2, self.mult_q31, self.shift),)

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Elementwise: y may lie where a was; b may be smaller."""
        return {0: (0,)}


@dataclass(frozen=True)
class MulGradInput(GradientOp):
    """dx = dy * (other - zero_point), summed over the positions if dx has a number per channel.

    dy: [..., c]  other: dy's shape, or a number per channel; not both it and dx.
    """

    zero_point: int

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """dx may lie where dy was; as large as dy it is a product per element."""
        return {0: (1,)}

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Products, or their sums over the positions."""
        dy = inputs[1]
        terms = max(dy.type.elements // math.prod(self.shape), 1)
        what = f"sums of {terms:,} products of gradients and inputs"
        return gradient_sums(dy, terms, DIFFERENCE, what, "use a smaller input")

    def with_wide_sums(self) -> Op | None:
        """Return the operator with int64 sums, if it sums; a single product always fits."""
        return replace(self, wide=True) if self.shape[-1] == math.prod(self.shape) else None

    def sums(self, dy: Array, *rest: Array) -> Array:
        """Products, and their sums over all axes but the last."""
        products = dy.astype(np.int64) * (rest[0].astype(np.int64) - self.zero_point)
        count = int(np.prod(self.shape))
        sums: Array = products if products.size == count else products.reshape(-1, count).sum(0)
        return sums.reshape(self.shape)

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_mul_grad_input_<dy>, or mct_mul_grad_channels_<dy> where it sums."""
        dy, other = types[1], types[3]
        channels = dy.shape[-1]
        params = [Param("positions", dy.elements // channels), Param("channels", channels)]
        summed = is_per_channel(TensorType(self.shape), dy)
        if not summed:
            params.append(Param("other_per_channel", int(is_per_channel(other, dy))))
        params.append(Param("zero_point", self.zero_point))
        scratch = channels * ACC_BYTES[dy.dtype]
        name = f"mct_mul_grad_{'channels' if summed else 'input'}_{SUFFIX[dy.dtype]}"
        return KernelCall("mul", name, tuple(params), (), scratch)

"""Elementwise addition of two int8 tensors of different scales, as in residual connections."""

from __future__ import annotations

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
    Param,
    Rows,
    inputs,
    rows_apart,
)
from mcutrain.ops.bounds import DIFFERENCE, largest_scaled, requantized
from mcutrain.ops.clamp import ClampingOp, clamped, clamped_types
from mcutrain.ops.gradient_sum import rescale

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Scaled:
    """One operand: (value - zero_point) * 2**left_shift * mult_q31 * 2**(shift - 31)."""

    zero_point: int
    mult_q31: int
    shift: int

    @property
    def factor(self) -> float:
        """The real factor."""
        return fixedpoint.multiplier_value(self.mult_q31, self.shift)

    def params(self, name: str) -> tuple[Param, ...]:
        """The fields of `mct_scaled`."""
        fields = ("zero_point", "mult_q31", "shift")
        return tuple(Param(f"{name}.{f}", getattr(self, f)) for f in fields)


@dataclass(frozen=True)
class ScaledOperands(ClampingOp):
    """An elementwise operator of two int8 tensors of one shape, each with a scale of its own."""

    a: Scaled
    b: Scaled
    y: Scaled

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The operands' shape."""
        a, b = inputs
        if a.shape != b.shape:
            raise ValueError(
                f"shapes {a.shape} and {b.shape} differ; broadcasting is not supported"
            )
        return clamped_types(TensorType(a.shape), self.saves_mask)

    def operands(self, values: Sequence[Array], left_shift: int) -> tuple[Array, ...]:
        """Both operands, int64 with left_shift fraction bits before their multipliers."""
        return tuple(
            fixedpoint.multiply_by_quantized_multiplier(
                (value.astype(np.int64) - scaled.zero_point) << left_shift,
                scaled.mult_q31,
                scaled.shift,
            )
            for value, scaled in zip(values, (self.a, self.b), strict=True)
        )

    def result(self, value: Array) -> tuple[Array, ...]:
        """y of a value that is computed from both: requantized and clamped."""
        y = fixedpoint.multiply_by_quantized_multiplier(value, self.y.mult_q31, self.y.shift)
        return clamped(y + self.y.zero_point, self.low, self.high, self.saves_mask)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Elementwise."""
        return rows_apart(types, results, "elements")

    def call(self, name: str, y: TensorType, *more: Param) -> KernelCall:
        """mct_<name>_s8. more: its parameters behind the scales."""
        params = (
            Param("elements", y.elements),
            *self.a.params("a"),
            *self.b.params("b"),
            *self.y.params("y"),
            *more,
        )
        return self.clamping_call(name, f"mct_{name}_s8", params, *inputs(0, 1))

    def operand_bounds(self, left_shift: int) -> tuple[int, tuple[Bound, ...]]:
        """The largest sum of both operands, and the bound of each."""
        shifted = DIFFERENCE << left_shift
        factors = [(s.mult_q31, s.shift) for s in (self.a, self.b)]
        total = sum(largest_scaled(shifted, *factor) for factor in factors)
        return total, tuple(requantized("operands", shifted, *factor) for factor in factors)

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Elementwise: y may lie where a or b was."""
        return {0: (0, 1)}


@dataclass(frozen=True)
class Add(ScaledOperands):
    """y = saturate(a·ka + b·kb + zero_point): each operand is requantized, then their sum.

    TFLite's ADD in int8. a, b, y: the same shape.
    """

    left_shift: int = 20
    low: int = -128
    high: int = 127
    saves_mask: bool = False

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Scale up, requantize, add, requantize, clamp."""
        a, b = self.operands(inputs, self.left_shift)
        return self.result(a + b)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Both operands get the masked gradient: the same integers under two scales."""
        dz = rescale(emit, dy, y.type.shape, (1.0,), emit.mask(y))
        common = self.y.factor * 2.0**self.left_shift
        return tuple(
            replace(dz, scale=dz.scale * common * s.factor) if emit.wants(x) else None
            for x, s in zip(inputs, (self.a, self.b), strict=True)
        )

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_add_s8."""
        return self.call("add", results[0], Param("left_shift", self.left_shift))

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Each operand, and their sum."""
        total, operands = self.operand_bounds(self.left_shift)
        return *operands, requantized("sums of operands", total, self.y.mult_q31, self.y.shift)

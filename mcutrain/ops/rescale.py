"""An int8 tensor under another scale, clamped: QUANTIZE int8 to int8, RELU, RELU6."""

from __future__ import annotations

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
    Emit,
    Gradient,
    KernelCall,
    Param,
    Rows,
    inputs,
    rows_apart,
)
from mcutrain.ops.bounds import DIFFERENCE, requantized
from mcutrain.ops.clamp import ClampingOp, clamped, clamped_types
from mcutrain.ops.gradient_sum import rescale

Array = npt.NDArray[Any]

ONE = (1 << 30, 1)
"""mult_q31 and shift of the factor 1."""


@dataclass(frozen=True)
class Rescale(ClampingOp):
    """y = clamp((x - x_zero_point) * mult_q31 * 2**(shift - 31) + y_zero_point, low, high)."""

    x_zero_point: int
    y_zero_point: int
    mult_q31: int
    shift: int
    low: int = -128
    high: int = 127
    saves_mask: bool = False

    is_rescale: ClassVar = True

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's shape."""
        return clamped_types(TensorType(inputs[0].shape), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Requantize elementwise."""
        x = inputs[0].astype(np.int64) - self.x_zero_point
        y = fixedpoint.multiply_by_quantized_multiplier(x, self.mult_q31, self.shift)
        return clamped(y + self.y_zero_point, self.low, self.high, self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Through the clamp, times the factor."""
        if not emit.wants(inputs[0]):
            return (None,)
        factor = fixedpoint.multiplier_value(self.mult_q31, self.shift)
        return (rescale(emit, dy, y.type.shape, (factor,), emit.mask(y)),)

    def rounding_once(self) -> Rescale:
        """Without a shift to the right."""
        mult, shift = fixedpoint.without_right_shift(self.mult_q31, self.shift)
        return replace(self, mult_q31=mult, shift=shift)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Elementwise."""
        return rows_apart(types, results, "elements")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_rescale_s8."""
        params = (
            Param("elements", results[0].elements),
            Param("x_zero_point", self.x_zero_point),
            Param("y_zero_point", self.y_zero_point),
            Param("mult_q31", self.mult_q31),
            Param("shift", self.shift),
        )
        return self.clamping_call("rescale", "mct_rescale_s8", params, *inputs(0))

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """One difference."""
        return (requantized("differences", DIFFERENCE, self.mult_q31, self.shift),)

    @property
    def activation(self) -> tuple[int, int] | None:
        """Limits of a rescaling by 1 to the same zero point; None for any other."""
        same = self.x_zero_point == self.y_zero_point and (self.mult_q31, self.shift) == ONE
        return (self.low, self.high) if same else None

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Elementwise: y may lie where x was."""
        return {0: (0,)}

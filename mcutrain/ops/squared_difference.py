"""Squared difference of two int8 tensors, of which TFLite's normalizations make their variance."""

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
from mcutrain.ir.op import Bound, Emit, Gradient, KernelCall
from mcutrain.ops.add import Add, Scaled, ScaledOperands
from mcutrain.ops.bounds import requantized
from mcutrain.ops.gradient_sum import rescale
from mcutrain.ops.gradients import OutputStage
from mcutrain.ops.mul import MulGradInput

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SquaredDifference(ScaledOperands):
    """y = clamp((a' - b')**2 * factor + zero_point), a' and b' requantized: TFLite's
    SQUARED_DIFFERENCE in int8. a, b, y: the same shape.

    a' = (a - a.zero_point) * 2**LEFT_SHIFT times a's factor, at most 1/2; so b'.
    """

    LEFT_SHIFT: ClassVar[int] = 7
    SUM_SHIFT: ClassVar[int] = 20
    """Fraction bits of the difference that the backward pass computes again, in 8 bits."""

    low: int = -128
    high: int = 127
    saves_mask: bool = False

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Scale up, requantize, subtract, square, requantize, clamp."""
        a, b = self.operands(inputs, self.LEFT_SHIFT)
        return self.result(np.square(a - b))

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """2 dy (a - b), and its negative: the same integers under two scales."""
        a, b = inputs
        if not (emit.wants(a) or emit.wants(b)):
            return None, None
        minus_b = replace(self.b, mult_q31=-self.b.mult_q31)
        unit = 4.0**self.LEFT_SHIFT * self.y.factor  # of a square, as of differences in `largest`
        largest = math.sqrt(max(self.high - self.y.zero_point, 1) / unit)
        step = min(max(largest / 127, 2.0**-10), 1.0)  # beyond the largest one y clamps
        to_int8 = Scaled(0, *fixedpoint.quantize_multiplier(2.0**-self.SUM_SHIFT / step))
        difference = Add(self.a, minus_b, to_int8, self.SUM_SHIFT)
        dz = rescale(emit, dy, y.type.shape, (1.0,), emit.mask(y))
        common = dz.scale * 2 * unit * step
        stage = OutputStage((common,), False, emit.gradient_dtype, emit.salt())
        dz = replace(dz, scale=common)
        op = MulGradInput(stage, y.type.shape, 0)
        found = emit.gradient(op, dz, emit.node(difference, a.name, b.name))
        return tuple(
            replace(found, scale=found.scale * scaled.factor) if emit.wants(x) else None
            for x, scaled in ((a, self.a), (b, minus_b))
        )

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_squared_difference_s8."""
        return self.call("squared_difference", results[0])

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Each operand, and the square of their difference."""
        largest, operands = self.operand_bounds(self.LEFT_SHIFT)
        return (
            *operands,
            Bound("squared differences", largest**2, "use scales that are closer together"),
            requantized("squares", largest**2, self.y.mult_q31, self.y.shift),
        )

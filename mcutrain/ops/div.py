"""Elementwise quotient of two int8 tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import Emit, Gradient, KernelCall, Param, Rows, inputs, rows_apart
from mcutrain.ops.clamp import ClampingOp, clamped, clamped_types
from mcutrain.ops.gradient_sum import rescale
from mcutrain.ops.gradients import OutputStage
from mcutrain.ops.lookup import SLOPE_LIMIT, LookupGradInput
from mcutrain.ops.mul import MulGradInput

Array = npt.NDArray[Any]

FACTOR_BITS = 22
"""Bits behind the point of a factor; one of 512, which int32 ends at, saturates any int8."""
SLOPE_BITS = 15
"""Of the reciprocals of whole numbers in the gradient, 1 at most."""


@dataclass(frozen=True)
class Div(ClampingOp):
    """y = clamp((a - a_zero_point) / (b - b_zero_point) * factor + y_zero_point). a, b, y: alike.

    A times a factor of b, of a table, rounded once, half up; TFLite's DIV is not it. Where b stands
    for 0 the result is as far as it goes to a's side, and 0 where a is 0, too.
    """

    a_zero_point: int
    b_zero_point: int
    y_zero_point: int
    factor: float
    low: int = -128
    high: int = 127
    saves_mask: bool = False

    @property
    def _table(self) -> Array:
        """What each b multiplies by, FACTOR_BITS behind the point, int64."""
        divisors = np.arange(-128, 128) - float(self.b_zero_point)
        with np.errstate(divide="ignore"):
            exact = np.ldexp(self.factor / np.abs(divisors), FACTOR_BITS)
        rounded = np.rint(np.minimum(exact, 2.0**31 - 1)).astype(np.int64)
        table: Array = np.where(divisors < 0, -rounded, rounded)
        return table

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The operands' shape."""
        a, b = inputs
        if a.shape != b.shape or not a.shape:
            raise ValueError(f"{a.shape} is divided by {b.shape}; equal shapes are supported")
        return clamped_types(TensorType(a.shape), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Multiply by the table's number, round, clamp."""
        a, b = (v.astype(np.int64) for v in inputs)
        product = (a - self.a_zero_point) * self._table[b + 128]
        y = (product + (1 << (FACTOR_BITS - 1))) >> FACTOR_BITS
        return clamped(y + self.y_zero_point, self.low, self.high, self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """dy / b, and -dy * y / b; none where b stands for 0."""
        a, b = inputs
        if not (emit.wants(a) or emit.wants(b)):
            return None, None
        dz = rescale(emit, dy, y.type.shape, (1.0,), emit.mask(y))
        da = db = None
        if emit.wants(a):
            da = self._divided(emit, dz, b)
            da = replace(da, scale=da.scale * self.factor)
        if emit.wants(b):
            stage = OutputStage((dz.scale,), False, emit.gradient_dtype, emit.salt())
            by_y = MulGradInput(stage, y.type.shape, self.y_zero_point)
            db = self._divided(emit, emit.gradient(by_y, dz, y.name), b)
            db = replace(db, scale=-db.scale)
        return da, db

    def _divided(self, emit: Emit, dy: Gradient, b: Tensor) -> Gradient:
        """Dy over b in stored steps."""
        divisors = np.arange(-128, 128) - self.b_zero_point
        exact = np.ldexp(1.0 / np.where(divisors == 0, np.inf, divisors), SLOPE_BITS)
        slopes = np.clip(np.rint(exact), -SLOPE_LIMIT, SLOPE_LIMIT).astype(np.int64)
        stage = OutputStage((dy.scale * 2.0**-SLOPE_BITS,), False, emit.gradient_dtype, emit.salt())
        op = LookupGradInput(stage, b.type.shape, tuple(slopes.tolist()))
        return emit.gradient(op, dy, b.name)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Elementwise."""
        return rows_apart(types, results, "elements")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_div_s8."""
        params = (
            Param("elements", results[0].elements),
            Param("a_zero_point", self.a_zero_point),
            Param("y_zero_point", self.y_zero_point),
            Param("factors", tuple(self._table.tolist()), "const int32_t *"),
        )
        return self.clamping_call("div", "mct_div_s8", params, *inputs(0, 1))

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Elementwise: y may lie where a or b was."""
        return {0: (0, 1)}

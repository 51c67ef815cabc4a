"""Products of two computed matrices, such as the two of an attention; and their gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    Axis,
    Bound,
    ChannelTie,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Param,
    Rows,
    exact_matmul,
    inputs,
    outputs,
    rows_apart,
)
from mcutrain.ops.bounds import DIFFERENCE, gradient_sums, requantized
from mcutrain.ops.clamp import ClampingOp, clamped, clamped_types
from mcutrain.ops.gradient_sum import rescale
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage

Array = npt.NDArray[Any]

ADVICE = "multiply smaller matrices"


def stored_axes(axes: str, transposed: bool) -> str:
    """The names of a matrix' rows and columns as they are stored."""
    return axes[::-1] if transposed else axes


def product_shape(
    a: tuple[int, ...], b: tuple[int, ...], transposed_a: bool, transposed_b: bool
) -> tuple[int, ...]:
    """Return the shape of a product. Raises ValueError with a sentence if the operands do not
    fit.
    """
    if len(a) < 3 or a[0] != 1 or a[:-2] != b[:-2]:
        raise ValueError(
            f"matrices {a} and {b} are multiplied; supported are [1, …, m, k] and [1, …, k, n] "
            "with equal axes before the last two"
        )
    m, k = a[:-3:-1] if transposed_a else a[-2:]
    other_k, n = b[:-3:-1] if transposed_b else b[-2:]
    if k != other_k:
        raise ValueError(f"rows of {k} and columns of {other_k} numbers are multiplied")
    return (*a[:-2], m, n)


def _steps(axes: str, shape: tuple[int, ...]) -> Mapping[str, int]:
    """Return the step from one number to the next along each named axis of the stored matrices."""
    return {axes[0]: shape[-1], axes[1]: 1}


def _as_meant(x: Array, transposed: bool) -> Array:
    return x.swapaxes(-1, -2) if transposed else x


@dataclass(frozen=True)
class BatchMatMul(ClampingOp):
    """y = clamp(sum over k of (a - a_zero_point) * (b - b_zero_point) * factor + y_zero_point).

    factor: mult_q31 * 2**(shift - 31): TFLite's BATCH_MATMUL in int8. a: [1, …, m, k]  b: [1, …, k,
    n]  y: [1, …, m, n], with as many matrices each. transposed_a, transposed_b: that one is stored
    as [1, …, k, m] or [1, …, n, k].
    """

    a_zero_point: int
    b_zero_point: int
    y_zero_point: int
    mult_q31: int
    shift: int
    transposed_a: bool = False
    transposed_b: bool = False
    low: int = -128
    high: int = 127
    saves_mask: bool = False

    @property
    def axes(self) -> tuple[str, str, str]:
        """The stored rows and columns of a, b and y, named m, k and n."""
        return stored_axes("mk", self.transposed_a), stored_axes("kn", self.transposed_b), "mn"

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The rows of a, the columns of b."""
        a, b = (x.shape for x in inputs)
        y = product_shape(a, b, self.transposed_a, self.transposed_b)
        return clamped_types(TensorType(y), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Multiply exactly, requantize once."""
        a, b = (v.astype(np.int64) for v in inputs)
        sums = exact_matmul(
            _as_meant(a - self.a_zero_point, self.transposed_a),
            _as_meant(b - self.b_zero_point, self.transposed_b),
        )
        y = fixedpoint.multiply_by_quantized_multiplier(sums, self.mult_q31, self.shift)
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
        in_a, in_b, _ = self.axes
        return (
            self._operand(emit, dz, a, b, in_a, in_b, self.b_zero_point),
            self._operand(emit, dz, b, a, in_b, in_a, self.a_zero_point),
        )

    @staticmethod
    def _operand(
        emit: Emit, dz: Gradient, x: Tensor, other: Tensor, axes: str, others: str, zero_point: int
    ) -> Gradient | None:
        """The gradient of x, which was multiplied by `other`."""
        if not emit.wants(x):
            return None
        stage = OutputStage((dz.scale,), False, emit.gradient_dtype, emit.salt())
        op = BatchMatMulGradInput(stage, x.type.shape, axes, others, zero_point)
        return emit.gradient(op, dz, other.name)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Each matrix of [1, matrices, m, k] by itself."""
        return rows_apart(types, results, "matrices")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_batch_matmul_s8."""
        shape = results[0].shape
        a, b = (_steps(axes, t.shape) for axes, t in zip(self.axes, types, strict=False))
        params = (
            Param("matrices", math.prod(shape[:-2])),
            Param("rows", shape[-2]),
            Param("columns", shape[-1]),
            Param("depth", self._depth(types[0])),
            Param("a_row", a["m"]),
            Param("a_depth", a["k"]),
            Param("b_column", b["n"]),
            Param("b_depth", b["k"]),
            Param("a_zero_point", self.a_zero_point),
            Param("b_zero_point", self.b_zero_point),
            Param("y_zero_point", self.y_zero_point),
            Param("mult_q31", self.mult_q31),
            Param("shift", self.shift),
        )
        return self.clamping_call("batch_matmul", "mct_batch_matmul_s8", params, *inputs(0, 1))

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """The sums, and their requantization."""
        depth = self._depth(inputs[0].type)
        what, largest = f"sums of {depth:,} products", DIFFERENCE**2 * depth
        return (
            Bound(what, largest, ADVICE),
            requantized(what, largest, self.mult_q31, self.shift, ADVICE),
        )

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """Rows of a and of y, columns of b and of y, and what is summed over."""
        operands, first = (*inputs(0, 1), *outputs(0)), len(results[0].shape) - 2
        return tuple(
            tuple(
                Axis(operand, first + axes.index(axis))
                for operand, axes in zip(operands, self.axes, strict=True)
                if axis in axes
            )
            for axis in "mkn"
        )

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per number of y and place along k."""
        return results[0].elements * self._depth(types[0])

    def _depth(self, a: TensorType) -> int:
        """Return how many products each number of y is the sum of."""
        return a.shape[-2 if self.transposed_a else -1]


@dataclass(frozen=True)
class BatchMatMulGradInput(GradientOp):
    """dx = dy times the other operand less its zero point, summed over the axis that dx lacks.

    dy: [1, …, m, n]. axes, others: dx's and the other operand's stored rows and columns, named as
    BatchMatMul.axes has them.
    """

    axes: str
    others: str
    zero_point: int

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Sums along rows or columns of dy."""
        dy, terms = inputs[1], self._depth(inputs[1].type)
        what = f"sums of {terms:,} products of gradients and inputs"
        return gradient_sums(dy, terms, DIFFERENCE, what, ADVICE)

    def with_wide_sums(self) -> Op:
        """Always."""
        return replace(self, wide=True)

    def sums(self, dy: Array, *rest: Array) -> Array:
        """Sums of the gradient. For a: dy times b transposed. For b: a transposed times dy."""
        other = rest[0].astype(np.int64) - self.zero_point
        if "m" in self.axes:
            sums = exact_matmul(dy, _as_meant(other, self.others == "kn"))
            return _as_meant(sums, self.axes == "km")
        sums = exact_matmul(_as_meant(other, self.others == "mk"), dy)
        return _as_meant(sums, self.axes == "nk")

    def _depth(self, dy: TensorType) -> int:
        """Return how many products each number of dx is the sum of."""
        return dy.shape[-1 if "m" in self.axes else -2]

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_batch_matmul_grad_input_<dy>: scratch holds the sums of one row."""
        dy, other = types[1], types[3]
        params = [
            Param("matrices", math.prod(self.shape[:-2])),
            Param("rows", self.shape[-2]),
            Param("columns", self.shape[-1]),
            Param("depth", self._depth(dy)),
        ]
        (depth,) = set("mkn") - set(self.axes)
        for name, axes, shape in (("dy", "mn", dy.shape), ("other", self.others, other.shape)):
            steps = _steps(axes, shape)
            for part, axis in (("row", self.axes[0]), ("column", self.axes[1]), ("depth", depth)):
                params.append(Param(f"{name}_{part}", steps.get(axis, 0)))
            params.append(Param(f"{name}_matrix", math.prod(shape[-2:])))
        params.append(Param("zero_point", self.zero_point))
        scratch = self.shape[-1] * ACC_BYTES[dy.dtype]
        name = f"mct_batch_matmul_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("batch_matmul", name, tuple(params), (), scratch)

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """One per number of dx and place along the axis that is summed over."""
        return results[0].elements * self._depth(types[1])

"""Leaky ReLU: one factor for positive values, a smaller one for negative ones; and its gradient."""

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
from mcutrain.ops.bounds import DIFFERENCE, SCALES, requantized
from mcutrain.ops.clamp import ClampingOp, clamped, clamped_types
from mcutrain.ops.gradient_sum import rescale
from mcutrain.ops.gradients import ACC_BYTES, GRADIENT_BITS, SUFFIX, GradientOp, OutputStage

Array = npt.NDArray[Any]

SLOPE_BITS = 15  # behind the point of the negative slope in the gradient


@dataclass(frozen=True)
class LeakyRelu(ClampingOp):
    """y = clamp((x - x_zero_point) * factor + y_zero_point), with a factor for either sign.

    TFLite's LEAKY_RELU in int8. positive, negative: (mult_q31, shift) of x - x_zero_point >= 0 and
    of the rest. x, y: the same shape.
    """

    x_zero_point: int
    y_zero_point: int
    positive: tuple[int, int]
    negative: tuple[int, int]
    low: int = -128
    high: int = 127
    saves_mask: bool = False

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's shape."""
        return clamped_types(TensorType(inputs[0].shape), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Requantize each element by its sign's factor."""
        x = inputs[0].astype(np.int64) - self.x_zero_point
        either = [
            fixedpoint.multiply_by_quantized_multiplier(x, *factor)
            for factor in (self.positive, self.negative)
        ]
        y = np.where(x >= 0, *either) + self.y_zero_point
        return clamped(y, self.low, self.high, self.saves_mask)

    def rounding_once(self) -> LeakyRelu:
        """Without shifts to the right."""
        once = fixedpoint.without_right_shift
        return replace(self, positive=once(*self.positive), negative=once(*self.negative))

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Through the clamp, times the factor of x's sign; x is saved for it."""
        x = inputs[0]
        if not emit.wants(x):
            return (None,)
        dz = rescale(emit, dy, y.type.shape, (1.0,), emit.mask(y))
        positive, negative = (
            fixedpoint.multiplier_value(*f) for f in (self.positive, self.negative)
        )
        stage = OutputStage(
            (dz.scale * positive * 2.0**-SLOPE_BITS,), False, emit.gradient_dtype, emit.salt()
        )
        slope = round(negative / positive * 2**SLOPE_BITS)
        op = LeakyReluGradInput(stage, x.type.shape, self.x_zero_point, slope)
        return (emit.gradient(op, dz, x.name),)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Elementwise."""
        return rows_apart(types, results, "elements")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_leaky_relu_s8."""
        params = (
            Param("elements", results[0].elements),
            Param("x_zero_point", self.x_zero_point),
            Param("y_zero_point", self.y_zero_point),
            Param("positive_mult_q31", self.positive[0]),
            Param("positive_shift", self.positive[1]),
            Param("negative_mult_q31", self.negative[0]),
            Param("negative_shift", self.negative[1]),
        )
        return self.clamping_call("leaky_relu", "mct_leaky_relu_s8", params, *inputs(0))

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """One difference, by either factor."""
        factors = (self.positive, self.negative)
        return tuple(requantized("differences", DIFFERENCE, *factor) for factor in factors)

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Elementwise: y may lie where x was."""
        return {0: (0,)}


@dataclass(frozen=True)
class LeakyReluGradInput(GradientOp):
    """dx = dy * 2**SLOPE_BITS where x >= x_zero_point, dy * slope elsewhere; the stage scales back.

    dy, x, dx: [1, h, w, c]. slope: of the negative side, relative to the positive one.
    """

    x_zero_point: int
    slope: int

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Elementwise: dx may lie where dy was."""
        return {0: (1,)}

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """One product, whose factor is a number of its own."""
        largest = 2 ** GRADIENT_BITS[inputs[1].type.dtype] * max(abs(self.slope), 1 << SLOPE_BITS)
        return (Bound("products of gradients and slopes", largest, SCALES),)

    def sums(self, dy: Array, *rest: Array) -> Array:
        """One product per element."""
        (x,) = rest
        factor = np.where(x >= self.x_zero_point, 1 << SLOPE_BITS, self.slope)
        products: Array = dy.astype(np.int64) * factor
        return products

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_leaky_relu_grad_input_<dy>: scratch holds one position's products."""
        dy = types[1]
        params = (
            Param("positions", dy.elements // dy.shape[-1]),
            Param("channels", dy.shape[-1]),
            Param("x_zero_point", self.x_zero_point),
            Param("slope", self.slope),
        )
        scratch = dy.shape[-1] * ACC_BYTES[dy.dtype]
        name = f"mct_leaky_relu_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("leaky_relu", name, params, (), scratch)

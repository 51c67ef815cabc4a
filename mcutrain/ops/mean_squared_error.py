"""Mean squared error between the last layer's sums and int8 numbers, in fixed point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall, Param, inputs, outputs
from mcutrain.ops.gradients import EXPONENT, GRADIENT_BITS, SUFFIX
from mcutrain.ops.loss import LossOp

Array = npt.NDArray[Any]

ERROR_LIMIT = 2**30
"""Limit of an error in Q16: 16,384 steps of the input, 64 times its whole range."""
MAX_ELEMENTS = 2**18
"""Squares below 2**44 each add up in 64 bits."""


@dataclass(frozen=True)
class MeanSquaredError(LossOp):
    """loss = mean((y - x)**2), for a network whose output y is to be x: its input, or a target.

    y = sums * scale and x = (stored - x_zero_point) * x_scale are real numbers; y is neither
    rounded nor clamped to the output's int8. Inputs: step, sums int32 [1, …, channels], x int8 of
    as many elements in the same order, exponent. Outputs: gradient (dtype), exponent, the loss in
    squared steps of x as Q16 [1], at most 32767, and 0 [1] where another loss has its prediction.
    The loss times x_scale**2 is that of real numbers.

    scale: of the sums, one per channel or one for all. exact: the exponent is the best for this
    sample; otherwise it is what was needed lately (fixedpoint.begin_exponent), so that samples can
    be added up. target: the shape of x where each sample comes with its own; empty: x is the
    network's input.
    """

    scale: tuple[float, ...]
    x_scale: float
    x_zero_point: int
    dtype: str
    exact: bool
    salt: int
    elements: int
    target: tuple[int, ...] = ()

    @staticmethod
    def of(x: TensorType) -> Callable[[tuple[float, ...], str, bool, int], MeanSquaredError]:
        """Return what makes the loss of a network with the input x, as autodiff asks for it."""
        return partial(_made, x, ())

    @staticmethod
    def to(x: TensorType) -> Callable[[tuple[float, ...], str, bool, int], MeanSquaredError]:
        """Return a maker of losses whose targets have this type, another target for each sample."""
        return partial(_made, x, x.shape)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A gradient per sum."""
        sums, x = inputs[1:3]
        if not sums.elements == x.elements == self.elements:
            raise ValueError(f"{sums.elements} outputs cannot be compared to {x.elements} inputs")
        if sums.elements > MAX_ELEMENTS:
            raise ValueError(f"{sums.elements} outputs are more than {MAX_ELEMENTS}")
        if len(self.scale) not in (1, sums.shape[-1]):
            raise ValueError(f"sums {sums.shape} with {len(self.scale)} scales")
        scalar = TensorType((1,), "int32")
        return TensorType(sums.shape, self.dtype), EXPONENT, scalar, scalar

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Errors in steps of the input as Q16; their squares and their gradient."""
        step, sums, x, exponent = inputs
        error = self._errors(sums, x)
        slope = self._slopes(error)
        loss = min(int(self._losses(error, slope).sum()) // error.size, 2**31 - 1)
        gradient, exponent = self._quantize(slope, step, exponent)
        return gradient, exponent, np.array([loss], np.int32), np.zeros(1, np.int32)

    @property
    def gradient_scale(self) -> float:
        """dloss/dsum = 2/n * error * scale; the relative scales are in the gradient."""
        return 2 / self.elements * self.x_scale * max(self.scale)

    @property
    def target_is_input(self) -> bool:
        """Unless each sample comes with one."""
        return not self.target

    @property
    def label_type(self) -> TensorType:
        """The target, if each sample comes with one."""
        return TensorType(self.target, "int8") if self.target else super().label_type

    @property
    def kernel_name(self) -> str:
        """Which of the functions in mct_mean_squared_error.h it is."""
        return "mean_squared_error"

    def _errors(self, sums: Array, x: Array) -> Array:
        mult, shift = _multipliers(tuple(s / self.x_scale for s in self.scale))
        y = fixedpoint.scale_to_fraction(sums, mult, shift)
        wanted = (x.reshape(sums.shape).astype(np.int64) - self.x_zero_point) * self.x_step_q16
        error: Array = np.clip(y - wanted, -ERROR_LIMIT, ERROR_LIMIT)
        return error

    @property
    def x_step_q16(self) -> int:
        """How far apart two neighbours of x are, in steps, as Q16."""
        return 65536

    @property
    def error_limit_q16(self) -> int:
        """Beyond which a larger error has no larger gradient, in steps, as Q16."""
        return ERROR_LIMIT

    @property
    def is_absolute(self) -> bool:
        """Whether the gradient is error_limit_q16 at every error, and the loss is its size."""
        return False

    def _slopes(self, error: Array) -> Array:
        """Return what the gradient is proportional to, int64."""
        limit = self.error_limit_q16
        slope = np.sign(error) * limit if self.is_absolute else np.clip(error, -limit, limit)
        return np.asarray(slope, np.int64)

    def _losses(self, error: Array, slope: Array) -> Array:
        """The loss of each element: squares up to the limit, a line beyond."""
        size, steepness = np.abs(error), np.abs(slope)
        return size if self.is_absolute else (steepness * (2 * size - steepness)) >> 16

    def _quantize(self, error: Array, step: Array, exponent: Array) -> tuple[Array, Array]:
        """Q16 errors times their relative scale, stochastically rounded; the exponent."""
        mult, shift = self._error_multipliers()
        bits = GRADIENT_BITS[self.dtype]
        if self.exact:
            now = int(np.abs(error).max()).bit_length() - 16 - bits
            exponent = np.array([now, now, now], np.int8)
        else:
            exponent = fixedpoint.begin_exponent(exponent, int(step[1]), int(step[2]))
        now = int(exponent[0])
        fraction = fixedpoint.scale_to_fraction(error, mult, shift - 16 - now)
        if not self.exact:
            needed = fixedpoint.magnitude_bits(fraction)
            if needed > -fixedpoint.FRACTION_BITS:
                exponent = fixedpoint.observe_exponent(exponent, now + needed - bits)
        key = fixedpoint.node_key(int(step[0]) & 0xFFFFFFFF, self.salt)
        index = np.arange(error.size).reshape(error.shape)
        rounded = fixedpoint.round_stochastic(fraction, key, index)
        limit = 2**bits - 1
        return np.clip(rounded, -limit, limit).astype(self.dtype), exponent

    def _error_multipliers(self) -> tuple[Array, Array]:
        """Scales relative to the largest."""
        return _multipliers(tuple(s / max(self.scale) for s in self.scale))

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_<kernel_name>_<gradient>, without scratch."""
        y_mult, y_shift = _multipliers(tuple(s / self.x_scale for s in self.scale))
        error_mult, error_shift = self._error_multipliers()
        params = (
            Param("positions", self.elements // types[1].shape[-1]),
            Param("channels", types[1].shape[-1]),
            Param("x_zero_point", self.x_zero_point),
            Param("x_step_q16", self.x_step_q16),
            Param("error_limit_q16", self.error_limit_q16),
            Param("is_absolute", int(self.is_absolute)),
            Param("y_mult_q31", tuple(y_mult.tolist()), "const int32_t *"),
            Param("y_shift", tuple(y_shift.tolist()), "const int8_t *"),
            Param("error_mult_q31", tuple(error_mult.tolist()), "const int32_t *"),
            Param("error_shift", tuple(error_shift.tolist()), "const int8_t *"),
            Param("per_channel", int(len(self.scale) > 1)),
            Param("exact", int(self.exact)),
            Param("salt", self.salt),
        )
        operands = (*inputs(0, 1, 2, 3), *outputs(0, 2, 3))
        name = f"mct_{self.kernel_name}_{SUFFIX[self.dtype]}"
        return KernelCall("mean_squared_error", name, params, operands)


def _made(
    x: TensorType,
    target: tuple[int, ...],
    scale: tuple[float, ...],
    dtype: str,
    exact: bool,
    salt: int,
) -> MeanSquaredError:
    return MeanSquaredError(scale, x.scale, x.zero_point, dtype, exact, salt, x.elements, target)


def _multipliers(factors: tuple[float, ...]) -> tuple[Array, Array]:
    """mult_q31 and shift of each."""
    pairs = [fixedpoint.normalized_multiplier(f) for f in factors]
    return np.array([m for m, _ in pairs]), np.array([s for _, s in pairs])

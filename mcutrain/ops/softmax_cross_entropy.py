"""Loss of a classifier from its int32 sums, in fixed point: no floating point on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import NULL, SCRATCH, KernelCall, Param, inputs, outputs
from mcutrain.ops.gradients import EXPONENT, GRADIENT_BITS, SUFFIX
from mcutrain.ops.loss import LossOp, OutputRange

Array = npt.NDArray[Any]

# 2**-x on [0, 1], Q30, from x**0: a least-squares fit at Chebyshev nodes, error below 2**-24.
EXP2_Q30 = (1073741765, -744256846, 257890763, -59377501, 9890102, -1017428)
LN2_Q16 = 45426
CUTOFF_Q16 = 30 << 16  # 2**-30 and less counts as 0
NEAR_Q16 = 16 << 16  # a class with less than 2**-16 of the largest's probability may clip
OUTPUT_WINDOW = 1024  # updates after which the older half of what outputs needed is dropped


def exp2_negative_q30(x_q16: Array) -> Array:
    """2**-x in Q30 for x >= 0 in Q16; 0 from CUTOFF_Q16 on."""
    fraction = x_q16 & 0xFFFF
    result = np.full_like(x_q16, EXP2_Q30[-1])
    for coefficient in reversed(EXP2_Q30[:-1]):
        result = coefficient + ((result * fraction) >> 16)
    return np.where(x_q16 < CUTOFF_Q16, result >> np.minimum(x_q16 >> 16, 62), 0)


def log2_q16(x: int) -> int:
    """log2(x) in Q16 for an integer x >= 1, rounded down: square, and count what overflows."""
    whole = x.bit_length() - 1
    mantissa = x << (31 - whole) if whole <= 31 else x >> (whole - 31)  # Q31, 1 <= mantissa < 2
    result = whole
    for _ in range(16):
        mantissa = (mantissa * mantissa) >> 31
        result = (result << 1) | (mantissa >> 32)
        mantissa >>= mantissa >> 32
    return result


@dataclass(frozen=True)
class SoftmaxCrossEntropy(LossOp):
    """loss = -ln softmax(logits)[label]; its gradient by the sums is (softmax - onehot) * scale.

    Inputs: step, sums int32 [..., classes], label int32 [1], exponent. Outputs: gradient (dtype),
    exponent, loss in nats as Q16 [1], index of the largest logit [1].
    scale: of the sums, one per class or one for all; the gradient's constant scale is the largest.
    exact: the exponent is the best for this sample; otherwise it is that of the largest possible
    gradient, so that samples can be added up.
    outputs: if the int8 outputs follow the logits, how far they reach. Then there is a last input
    and output, their exponent: the largest that a sample needed in the last OUTPUT_WINDOW to
    2 * OUTPUT_WINDOW updates, this one included. A sample needs its largest logit not to clip, nor
    any other that is within NEAR_Q16 of it.
    """

    scale: tuple[float, ...]
    dtype: str
    exact: bool
    salt: int
    outputs: OutputRange | None = None

    def followed_by(self, outputs: OutputRange) -> SoftmaxCrossEntropy:
        """Return the loss that also chooses the outputs' exponent."""
        return replace(self, outputs=outputs)

    @property
    def output_range(self) -> OutputRange | None:
        """As it was told."""
        return self.outputs

    @property
    def is_followed(self) -> bool:
        """Whether it was told how far they reach."""
        return self.outputs is not None

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A gradient per sum."""
        sums = inputs[1]
        if sums.shape[-1] != sums.elements:
            raise ValueError(
                f"cross-entropy takes one number per class, but this layer has {sums.shape[-1]} at "
                f"each of {sums.elements // sums.shape[-1]:,} positions; put the mean over the "
                "positions before it, or learn a class at each by PositionCrossEntropy"
            )
        if len(self.scale) not in (1, sums.elements):
            raise ValueError(f"logits {sums.shape} with {len(self.scale)} scales")
        scalar = TensorType((1,), "int32")
        followed = (EXPONENT,) if self.is_followed else ()
        return TensorType(sums.shape, self.dtype), EXPONENT, scalar, scalar, *followed

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Softmax in Q30, then the gradient in the chosen format."""
        step, sums, label, _, *followed = inputs
        logits = self._logits(sums.ravel())
        error, loss = self._error(logits, int(label[0]))
        gradient, exponent = self._quantize(error, step)
        return (
            gradient.reshape(sums.shape),
            exponent,
            np.array([loss], np.int32),
            np.array([logits.argmax()], np.int32),
            *(self._followed(state, logits[np.newaxis], step) for state in followed),
        )

    def _logits(self, sums: Array) -> Array:
        """Sums [..., classes] as logits * log2(e), Q16."""
        mult, shift = self._logit_multipliers()
        logits = fixedpoint.scale_to_fraction(sums, mult, shift)
        found: Array = np.clip(logits, -(2**31), 2**31 - 1)
        return found

    def _error(self, logits: Array, label: int) -> tuple[Array, int]:
        """softmax - onehot of one position in Q30, and its loss in nats as Q16."""
        below = logits.max() - logits
        exponentials = exp2_negative_q30(below)
        total = int(exponentials.sum())
        error: Array = (exponentials << 30) // total
        error[label] -= 1 << 30
        nats = log2_q16(total) - (30 << 16) + int(below[label])
        return error, min(max((nats * LN2_Q16) >> 16, 0), 2**31 - 1)  # rounding may go below 0

    def _followed(self, exponent: Array, logits: Array, step: Array) -> Array:
        """The outputs' exponent [now, recent, older] after positions' logits [n, classes]."""
        assert self.outputs is not None
        tops = logits.max(axis=1)
        top = int(tops.max())
        bottom = int(np.maximum(logits.min(axis=1), tops - NEAR_Q16).min())
        needed = self.outputs.exponent_for(top, -bottom)
        _, recent, older = (int(v) for v in exponent)
        if step[2] == 0 and step[1] % OUTPUT_WINDOW == 0:
            recent, older = 0, recent
        recent = max(recent, needed)
        return np.array([max(recent, older), recent, older], np.int8)

    def _quantize(self, error: Array, step: Array) -> tuple[Array, Array]:
        """Q30 errors [..., classes] times their relative scale, stochastically rounded."""
        mult, shift = self._error_multipliers()
        bits = GRADIENT_BITS[self.dtype]
        largest = np.abs(error).max() if self.exact else 1 << 30
        now = int(largest).bit_length() - 30 - bits
        fraction = fixedpoint.scale_to_fraction(error, mult, shift - 30 - now)
        key = fixedpoint.node_key(int(step[0]) & 0xFFFFFFFF, self.salt)
        index = np.arange(error.size).reshape(error.shape)
        rounded = fixedpoint.round_stochastic(fraction, key, index)
        limit = 2**bits - 1
        gradient = np.clip(rounded, -limit, limit).astype(self.dtype)
        return gradient, np.array([now, now, now], np.int8)

    def _logit_multipliers(self) -> tuple[Array, Array]:
        """Sums to logits * log2(e), with FRACTION_BITS behind the point."""
        pairs = [fixedpoint.normalized_multiplier(s * float(np.log2(np.e))) for s in self.scale]
        return np.array([m for m, _ in pairs]), np.array([s for _, s in pairs])

    def _error_multipliers(self) -> tuple[Array, Array]:
        """Scales relative to the largest."""
        largest = max(self.scale)
        pairs = [fixedpoint.normalized_multiplier(s / largest) for s in self.scale]
        return np.array([m for m, _ in pairs]), np.array([s for _, s in pairs])

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_softmax_cross_entropy_<gradient>: scratch holds the logits and the exponentials."""
        return self._call("mct_softmax_cross_entropy", types, self._params(types))

    def _params(self, types: Sequence[TensorType]) -> tuple[Param, ...]:
        """Parameters of mct_softmax_cross_entropy_<gradient>."""
        logit_mult, logit_shift = self._logit_multipliers()
        error_mult, error_shift = self._error_multipliers()
        return (
            Param("classes", types[1].shape[-1]),
            Param("logit_mult_q31", tuple(logit_mult.tolist()), "const int32_t *"),
            Param("logit_shift", tuple(logit_shift.tolist()), "const int8_t *"),
            Param("error_mult_q31", tuple(error_mult.tolist()), "const int32_t *"),
            Param("error_shift", tuple(error_shift.tolist()), "const int8_t *"),
            Param("per_class", int(len(self.scale) > 1)),
            Param("exact", int(self.exact)),
            Param("salt", self.salt),
            *(self.outputs or OutputRange(0, 0, 0)).params(),
        )

    def _call(
        self, function: str, types: Sequence[TensorType], params: tuple[Param, ...]
    ) -> KernelCall:
        followed = inputs(4) if self.is_followed else (NULL,)
        operands = (*inputs(0, 1, 2, 3), *outputs(0, 2, 3), *followed, SCRATCH)
        name = f"{function}_{SUFFIX[self.dtype]}"
        scratch_bytes = 4 * types[1].shape[-1]
        return KernelCall("softmax_cross_entropy", name, params, operands, scratch_bytes)

    @property
    def gradient_scale(self) -> float:
        """The largest scale: the relative ones are in the gradient."""
        return max(self.scale)

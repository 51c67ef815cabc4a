"""Learning rates and their schedules in integers, as firmware/runtime/mct_schedule.c has them."""

from __future__ import annotations

import math

from mcutrain_host.dataclass import dataclass

from mcutrain.errors import McutrainError
from mcutrain.fixedpoint import normalized_multiplier

# cos(pi/2 t) from t², Q30, highest power first: least squares at Chebyshev nodes, error < 2**-27.
COS_Q30 = (-25607, 985466, -22401204, 272375386, -1324675866, 1073741824)


@dataclass(frozen=True)
class LearningRate:
    """rate = mult_q31 * 2**(shift - 31); mult_q31 is 0 or in 2**30 … 2**31 - 1."""

    mult_q31: int
    shift: int

    @staticmethod
    def of(rate: float) -> LearningRate:
        """The nearest representable rate. Raises McutrainError unless 0 <= rate < 2**31."""
        if not (math.isfinite(rate) and 0 <= rate < 2**31):
            raise McutrainError(f"the learning rate {rate} is not a number from 0 to 2**31")
        return LearningRate(*normalized_multiplier(rate))

    @property
    def value(self) -> float:
        """As a real number."""
        return math.ldexp(self.mult_q31, self.shift - 31)

    def times(self, fraction_q31: int) -> LearningRate:
        """Times fraction / 2**31, normalized."""
        mult, shift = (self.mult_q31 * fraction_q31 + (1 << 30)) >> 31, self.shift
        while mult != 0 and mult < 1 << 30:
            mult, shift = mult * 2, shift - 1
        return LearningRate(mult, shift)


@dataclass(frozen=True)
class Schedule:
    """constant, or cosine with warm-up: linear up over `warmup` steps, half a cosine down to 0."""

    base: LearningRate
    kind: str
    warmup: int
    total: int

    def at(self, step: int) -> LearningRate:
        """The rate of a step, counted from 0. Past `total` a cosine stays at 0."""
        if self.kind == "constant":
            return self.base
        if step < self.warmup:
            return self.base.times(min(((step + 1) << 31) // self.warmup, 2**31 - 1))
        span = max(self.total - self.warmup, 1)
        t_q30 = min(((step - self.warmup) << 30) // span, 1 << 30)
        cosine = cos_quarter_q30(t_q30)
        return self.base.times(min((cosine * cosine) >> 29, 2**31 - 1))


def cos_quarter_q30(t_q30: int) -> int:
    """cos(pi/2 * t) in Q30 for 0 <= t <= 1 in Q30."""
    square = (t_q30 * t_q30) >> 30
    result = COS_Q30[0]
    for coefficient in COS_Q30[1:]:
        result = coefficient + ((result * square) >> 30)
    return min(max(result, 0), 1 << 30)

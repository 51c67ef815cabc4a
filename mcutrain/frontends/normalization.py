"""Normalization of data, (x - mean) / deviation of each channel, in integers.

A model's quantized input holds a real number as scale * (q - zero_point). Where all channels have
one mean and one deviation, and the mean is a whole number that the zero point can be, that is a
normalization already. `folded` says so, and the numbers of the sensor are the input as they are.
Else `ChannelNormalization` makes the input of them: (x * mult + bias) >> shift in 32 bits, for each
channel. What it rounds is within 1/32 of the exact number (tests/frontends).
firmware/frontends/mct_normalize.c computes the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

MULT_BITS, MOST_SHIFT, MOST_FACTOR_BITS = 14, 22, 8
LOWEST, HIGHEST = -(1 << 15), (1 << 15) - 1


@dataclass(frozen=True)
class InputQuantization:
    """scale * (q - zero_point) is the real number of q."""

    scale: float
    zero_point: int


def folded(
    means: Sequence[float], deviations: Sequence[float], offset: int = 0
) -> InputQuantization | None:
    """The input's quantization that normalizes exactly, or None where there is none.

    means, deviations: of each channel, in the units of the sensor's numbers. offset: what is
    subtracted of them so that they are int8: 128 of pixels, 0 of int8.
    """
    mean, deviation = means[0], deviations[0]
    if any(m != mean for m in means) or any(d != deviation for d in deviations):
        return None
    zero_point = mean - offset
    if zero_point != round(zero_point) or not -128 <= zero_point <= 127:
        return None
    return InputQuantization(1 / deviation, round(zero_point))


@dataclass(frozen=True)
class ChannelNormalization:
    """What C computes of each channel: (x * mult + bias) >> shift, within int8.

    |x| is at most 2^15, mult below 2^14, |bias| below 2^30 + 2^22: the sum is below 2^31.
    """

    mults: tuple[int, ...]
    biases: tuple[int, ...]
    shifts: tuple[int, ...]

    @classmethod
    def of(
        cls, means: Sequence[float], deviations: Sequence[float], quantization: InputQuantization
    ) -> ChannelNormalization:
        """Raises ValueError for means outside of int16 and for deviations that are too small."""
        rows = [_channel(*pair, quantization) for pair in zip(means, deviations, strict=True)]
        mults, biases, shifts = zip(*rows, strict=True)
        return cls(mults, biases, shifts)

    def normalized(self, x: npt.NDArray[np.int16] | npt.NDArray[np.uint8]) -> npt.NDArray[np.int8]:
        """Numbers (..., channels) as the model takes them."""
        if x.dtype not in (np.int16, np.uint8) or x.shape[-1] != len(self.mults):
            raise ValueError(
                f"numbers are int16 or uint8 (..., {len(self.mults)}), not {x.dtype} {x.shape}"
            )
        mults, biases, shifts = (
            np.array(values) for values in (self.mults, self.biases, self.shifts)
        )
        found: npt.NDArray[np.int64] = x * mults + biases >> shifts
        return np.clip(found, -128, 127).astype(np.int8)


def _channel(
    mean: float, deviation: float, quantization: InputQuantization
) -> tuple[int, int, int]:
    unit = deviation * quantization.scale
    if not LOWEST <= mean <= HIGHEST:
        raise ValueError(f"a mean of {mean} is none of 16-bit numbers")
    if not (math.isfinite(unit) and unit > 2.0**-MOST_FACTOR_BITS):
        raise ValueError(
            f"a deviation of {deviation} with an input's scale of {quantization.scale}: the input "
            f"would be more than {1 << MOST_FACTOR_BITS} times the number; take a larger deviation"
        )
    factor = 1 / unit
    shift = min(MOST_SHIFT, MULT_BITS - math.frexp(factor)[1])
    mult = min(round(math.ldexp(factor, shift)), (1 << MULT_BITS) - 1)
    half = 1 << shift - 1
    return mult, round((quantization.zero_point << shift) + half - mean * mult), shift

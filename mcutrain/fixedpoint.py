"""The integer arithmetic of firmware/runtime/mct_fixedpoint.h, in numpy, bit for bit.

Forward requantization is TFLite's: a 31-bit multiplier and a shift, rounded twice (gemmlowp's
SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT). Everything that belongs to training
keeps 16 fractional bits after the multiplication and rounds them stochastically.

Arrays are int64 unless a docstring says otherwise, so that no intermediate overflows silently.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FRACTION_BITS = 16  # kept behind the binary point for stochastic rounding
MIN_SHIFT_RIGHT = FRACTION_BITS
MAX_SHIFT_RIGHT = 62  # |int32 * q31| < 2**62: a longer shift could not change the result
REACHING_LIMIT, REACHING_BITS = 2**45, 16  # of products by factors beyond MIN_SHIFT_RIGHT
ROOT_GUESS = (1145023540, 654299166)
"""1/sqrt(a) is about the first less a times the second, at most 9 % wrong for 1/4 <= a < 1."""
ROOT_STEPS = 3
"""Steps of Newton's method: after them it is 2**-23.9 wrong at most."""
EXPONENT_WINDOW = 16  # updates after which the older half of an exponent's history is dropped
NO_EXPONENT = -128  # nothing observed yet
INITIAL_EXPONENT = -40  # too small saturates, which is safe; it adapts within a step per layer


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Split `real` >= 0 into (mult_q31, shift) with real = mult_q31 * 2**(shift - 31).

    The rounding is that of TFLite's QuantizeMultiplier; factors under 2**-31 become zero.
    """
    if not (real >= 0 and math.isfinite(real)):
        raise ValueError(f"a multiplier must be finite and not negative, got {real}")
    if real == 0:
        return 0, 0
    mantissa, shift = math.frexp(real)
    mult = math.floor(mantissa * 2**31 + 0.5)
    if mult == 2**31:
        mult, shift = mult // 2, shift + 1
    if shift < -31:
        return 0, 0
    return mult, shift


def without_right_shift(mult_q31: int, shift: int) -> tuple[int, int]:
    """Return the factor without a shift to the right, which would round a second time.

    The multiplier is off by at most a half of 2**-31 then, products of int8 by a 2**-24th.
    """
    right = max(-shift, 0)
    return (mult_q31 + (1 << right >> 1)) >> right, max(shift, 0)


def multiplier_value(mult_q31: int, shift: int) -> float:
    """The real number that (mult_q31, shift) stands for, exactly."""
    return math.ldexp(float(mult_q31), shift - 31)


def normalized_multiplier(real: float) -> tuple[int, int]:
    """Do as quantize_multiplier, but keep the precision of tiny factors (shift may be below -31).

    Training's factors (learning rate, scales to the power -2) span more than 2**31; their shift is
    combined with a gradient's exponent before it is used. The shift fits int8.
    """
    if not (real >= 0 and math.isfinite(real)):
        raise ValueError(f"a multiplier must be finite and not negative, got {real}")
    if real == 0:
        return 0, 0
    mantissa, shift = math.frexp(real)
    mult = min(math.floor(mantissa * 2**31 + 0.5), 2**31 - 1)
    if not -128 <= shift <= 127:
        raise ValueError(f"the factor {real} is outside 2**-128 to 2**127")
    return mult, shift


def signed_multiplier(real: float) -> tuple[int, int]:
    """Do as normalized_multiplier; mult_q31 is negative for a negative factor, as after a SUB."""
    mult, shift = normalized_multiplier(abs(real))
    return (mult if real >= 0 else -mult), shift


@lru_cache(maxsize=4096)
def signed_multipliers(reals: tuple[float, ...]) -> tuple[Array, Array]:
    """mult_q31 and shift of each, as signed_multiplier. Kept: operators ask at every step."""
    pairs = [signed_multiplier(real) for real in reals]
    mult, shift = np.array([m for m, _ in pairs]), np.array([s for _, s in pairs])
    mult.flags.writeable = shift.flags.writeable = False
    return mult, shift


def clip(x: Array, low: Array | int, high: Array | int) -> Array:
    """Clip integers. np.clip looks up their limits first: half of its time for a layer."""
    held: Array = np.minimum(np.maximum(x, low), high)
    return held


def multiply_by_quantized_multiplier(x: Array, mult_q31: Array | int, shift: Array | int) -> Array:
    """x * mult_q31 * 2**(shift - 31), rounded as TFLite's reference kernels do. x holds int32."""
    x, shift = np.asarray(x, np.int64), np.asarray(shift, np.int64)
    left = np.maximum(shift, 0)
    right = np.maximum(-shift, 0)
    shifted = x << left if left.any() else x
    high = (shifted * np.asarray(mult_q31, np.int64) + (1 << 30)) >> 31
    half = (np.int64(1) << right) >> 1
    away_from_zero = (high < 0) & (right > 0)
    rounded: Array = (high + half - away_from_zero) >> right
    return rounded


def multiply_rounding_once(x: Array, mult_q31: Array | int, shift: Array | int) -> Array:
    """x * mult_q31 * 2**(shift - 31), rounded once, halves away from zero. x holds int32.

    shift: -31 to 30. It is what TFLite's reference FULLY_CONNECTED computes in double precision.
    """
    product = np.asarray(x, np.int64) * np.asarray(mult_q31, np.int64)
    right = 31 - np.asarray(shift, np.int64)
    half = np.int64(1) << (right - 1)
    rounded: Array = (product + half - (product < 0)) >> right
    return rounded


def hash32(x: Array) -> Array:
    """A bijective mix of 32-bit words (two multiply and xor-shift rounds). uint32 in and out."""
    x = np.asarray(x, np.uint32)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x735A2D97)
    mixed: Array = x ^ (x >> np.uint32(15))
    return mixed


def random16(key: int, index: Array) -> Array:
    """16 uniform bits per index: a counter-based generator, so no order of evaluation matters."""
    with np.errstate(over="ignore"):
        counter = np.asarray(index).astype(np.uint32) * np.uint32(0x9E3779B9) + np.uint32(key)
        return (hash32(counter) >> np.uint32(16)).astype(np.int64)


def node_key(step_key: int, node: int) -> int:
    """The key of one node's random numbers in one step."""
    with np.errstate(over="ignore"):
        mixed = np.uint32(step_key) + np.uint32(node) * np.uint32(0x85EBCA6B)
        return int(hash32(np.asarray([mixed], np.uint32))[0])


def xorshift32(state: int) -> int:
    """Marsaglia's xorshift32 (13, 17, 5): the state never becomes zero if it is not."""
    state ^= (state << 13) & 0xFFFFFFFF
    state ^= state >> 17
    return state ^ ((state << 5) & 0xFFFFFFFF)


def high_mul(a: Array | int, b: Array | int) -> Array:
    """a * b / 2**31, rounded half up."""
    product: Array = (np.asarray(a, np.int64) * b + (1 << 30)) >> 31
    return product


def reciprocal_root(a: Array) -> Array:
    """1 / sqrt(a) in Q2.29 for a in Q0.31, 1/4 <= a < 1, by Newton's method."""
    y = ROOT_GUESS[0] - high_mul(ROOT_GUESS[1], a)
    for _ in range(ROOT_STEPS):
        y = y + high_mul(y, (1 << 30) - ((high_mul(y, a) * y) >> 28))
    return y


def scale_to_fraction(acc: Array, mult_q31: Array, shift: Array, finer: Array | int = 0) -> Array:
    """acc * mult_q31 * 2**(shift - 31) with FRACTION_BITS behind the point, rounded down.

    The shift to the right is held between MIN_SHIFT_RIGHT and MAX_SHIFT_RIGHT + finer: a factor too
    large for the format makes the result smaller than it should be, never an overflow. finer: the
    unit of acc is 2**-finer of what it would be otherwise, up to 16.
    """
    longest = MAX_SHIFT_RIGHT + np.asarray(finer, np.int64)
    right = clip(31 - np.asarray(shift, np.int64), MIN_SHIFT_RIGHT, longest)
    product = np.asarray(acc, np.int64) * np.asarray(mult_q31, np.int64)
    fraction: Array = product >> (right - FRACTION_BITS)
    return fraction


def scale_reaching(acc: Array, mult_q31: Array, shift: Array, finer: Array | int = 0) -> Array:
    """Do as scale_to_fraction, for int16 gradients: the result is below 2**62.

    A factor too large for the format makes it larger than any int16, not smaller: a gradient whose
    exponent is too small would otherwise seem to fit, and keep it.
    """
    left = MIN_SHIFT_RIGHT - 31 + np.asarray(shift, np.int64)
    product = np.asarray(acc, np.int64) * np.asarray(mult_q31, np.int64)
    held = clip(product, -REACHING_LIMIT, REACHING_LIMIT)
    reaching: Array = held << clip(left, 0, REACHING_BITS)
    return np.where(left > 0, reaching, scale_to_fraction(acc, mult_q31, shift, finer))


def round_stochastic(fraction: Array, key: int, index: Array) -> Array:
    """Round values with FRACTION_BITS behind the point up or down, at odds of their fraction."""
    return (fraction + random16(key, index)) >> FRACTION_BITS


def magnitude_bits(fraction: Array) -> int:
    """Bits in front of the point that the largest value needs, its sign not counted.

    For values with FRACTION_BITS behind the point; negative when all are below one half.
    """
    if fraction.size == 0:
        return -FRACTION_BITS
    both = np.bitwise_or.reduce((fraction ^ (fraction >> 63)).ravel())
    return int(both).bit_length() - FRACTION_BITS


def begin_exponent(exponent: Array, update: int, sample: int) -> Array:
    """Choose the exponent for the next step from the history. exponent: int8 [now, recent, older].

    It is the largest that was needed in the last 16 to 31 updates (delayed scaling, as FP8 training
    does it). Within a group of accumulated samples it stays, so that their sums are compatible.
    """
    now, recent, older = (int(v) for v in exponent)
    if sample == 0:
        largest = max(recent, older)
        now = largest if largest != NO_EXPONENT else now
        if update % EXPONENT_WINDOW == 0:
            recent, older = NO_EXPONENT, recent
    return np.array([now, recent, older], np.int8)


def observe_exponent(exponent: Array, needed: int) -> Array:
    """Note that a gradient needed the exponent `needed` to fit its format."""
    now, recent, older = (int(v) for v in exponent)
    needed = min(max(needed, NO_EXPONENT + 1), 127)
    return np.array([now, max(recent, needed), older], np.int8)

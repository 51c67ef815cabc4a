"""What recurrent operators share: sigmoid and tanh of int16, products, and their gates' sums.

gemmlowp's fixed-point functions with 16 bits, as TFLite's integer LSTM calls them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.fixedpoint import clip

Array = npt.NDArray[Any]

INT16 = (-(2**15), 2**15 - 1)
GATE_INTEGER_BITS = 3
"""Of a gate's sum, which is Q3.12."""
# exp(-2**k) for k = -2 … 4 in Q0.15
EXP_OF_POWERS = (25520, 19875, 12055, 4435, 600, 11, 0)
EXP_EIGHTH, THIRD = 28918, 10923
"""exp(-1/8) and 1/3, Q0.15."""
GUESS = (23130, 15420)
"""48/17 and 32/17, Q2.13: Newton's first guess."""


def saturated(x: Array) -> Array:
    """x within int16."""
    return clip(x, *INT16)


def high_mul16(a: Array, b: Array | int) -> Array:
    """a * b / 2**15, rounded half up."""
    product: Array = (np.multiply(a, b, dtype=np.int64) + (1 << 14)) >> 15
    return product


def rounding_shift(x: Array, bits: int) -> Array:
    """x / 2**bits, halves away from zero. bits >= 1."""
    shifted: Array = (x + (1 << (bits - 1)) - (x < 0)) >> bits
    return shifted


def _exp_near_zero(a: Array) -> Array:
    """exp(a) for -1/4 <= a < 0, both Q0.15: a polynomial around -1/8."""
    x = a + (1 << 12)
    x2 = high_mul16(x, x)
    x3 = high_mul16(x2, x)
    x4 = high_mul16(x2, x2)
    tail = rounding_shift(high_mul16(rounding_shift(x4, 2) + x3, THIRD) + x2, 1)
    return saturated(EXP_EIGHTH + high_mul16(x + tail, EXP_EIGHTH))


def exp_negative16(a: Array, integer_bits: int) -> Array:
    """exp(a) in Q0.15 for a <= 0 with so many integer bits, 0 to 7."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    reduced = (a & (quarter - 1)) - quarter
    result = _exp_near_zero(reduced << integer_bits)
    remainder = reduced - a
    for k, factor in enumerate(EXP_OF_POWERS, -2):
        if k < integer_bits:
            is_set = (remainder >> (fraction + k)) & 1
            result = np.where(is_set == 1, high_mul16(result, factor), result)
    if integer_bits > 5:
        result = np.where(a < -(32 << fraction), 0, result)
    return np.where(a == 0, INT16[1], result)


def _reciprocal(a: Array) -> Array:
    """2 / (1 + a) in Q2.13 for a in Q0.15, 0 <= a < 1: three steps of Newton's method."""
    half = (a + INT16[1] + 1) >> 1
    x = GUESS[0] + high_mul16(half, -GUESS[1])
    for _ in range(3):
        x = x + saturated(high_mul16(x, (1 << 13) - high_mul16(half, x)) << 2)
    return x


def sigmoid16(a: Array) -> Array:
    """1 / (1 + exp(-a)) in Q0.15 for a in Q3.12."""
    a = np.asarray(a, np.int64)
    positive = saturated(_reciprocal(exp_negative16(-np.abs(a), GATE_INTEGER_BITS)) << 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, INT16[1] - positive))


def tanh16(a: Array, integer_bits: int) -> Array:
    """tanh(a) in Q0.15 for int16 with so many integer bits, 0 to 6."""
    a = np.asarray(a, np.int64)
    e = exp_negative16(-np.abs(a), integer_bits + 1)
    t = saturated((_reciprocal(e) - (1 << 13)) << 2)
    return np.where(a == 0, 0, np.where(a < 0, -t, t))

"""Elementwise activations: the real functions, their derivatives, and TFLite's integers for them.

TFLite's reference interpreter computes most int8 activations from a table that it fills in single
precision (lut.h, activations.cc), and HARD_SWISH in 16-bit fixed point (hard_swish.h). An input of
int8 has 256 values, so both are a table here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint

Array = npt.NDArray[Any]
Real = Callable[[float], float]

STORED = np.arange(-128, 128)
"""The integers that a table has an entry for, in its order."""
HIGHER_BITS = 7  # by which HARD_SWISH shifts its input up, to fill 16 bits
Q15 = 1 << 15
ROOT_SHIFT = 20  # by which RSQRT shifts a root up
THREE_HALVES, HALF_ROOT_OF_2 = (1 << 28) + (1 << 27), 1518500250
ROOT_2_BY_PI = math.sqrt(2.0 / math.pi)
CUBIC = 0.044715
"""Both of the GELU with a tanh (Hendrycks and Gimpel, arXiv 1606.08415, section 2)."""


SELU_ALPHA, SELU_GAMMA = 1.6732632423543772, 1.0507009873554805
"""Klambauer et al., arXiv 1706.02515, section 2."""
LEAST_DIVISOR = 1e-6
"""What is nearer to 0 has the reciprocal of this."""
LEAST_POWER = 1e-37
"""What is less has the logarithm of this."""
MOST_EXPONENT = 80.0
"""Exponents above are read as this one, so that single precision holds the power."""


@dataclass(frozen=True)
class ActivationFunction:
    """A real function and its derivative; either one is asked for any finite number.

    single: of single-precision numbers, where the order of its roundings decides bits.
    """

    value: Real
    derivative: Real
    single: Callable[[Array], Array] | None = None


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0


def _single_logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), rounded to single precision after each operation."""
    one = np.float32(1.0)
    with np.errstate(all="ignore"):
        exponentials = np.exp(-x.astype(np.float64)).astype(np.float32)
        quotient: Array = one / (one + exponentials)
    return quotient


def _hard_sigmoid(x: float) -> float:
    return min(max(x / 6.0 + 0.5, 0.0), 1.0)


def _hard_swish_derivative(x: float) -> float:
    if abs(x) >= 3:
        return float(x > 0)
    return (2.0 * x + 3.0) / 6.0


def _normal(x: float) -> float:
    """Probability that a normal variate is less than x."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _gelu_tanh(x: float) -> float:
    return 0.5 * x * (1.0 + math.tanh(ROOT_2_BY_PI * (x + CUBIC * x**3)))


def _gelu_tanh_derivative(x: float) -> float:
    share = math.tanh(ROOT_2_BY_PI * (x + CUBIC * x**3))
    inner = ROOT_2_BY_PI * (1.0 + 3.0 * CUBIC * x * x)
    return 0.5 * (1.0 + share) + 0.5 * x * (1.0 - share * share) * inner


def _single_gelu_tanh(x: Array) -> Array:
    """Compute it in the order of TFLite's GeluTransformApproximate."""
    with np.errstate(all="ignore"):
        inner = np.float32(ROOT_2_BY_PI) * (x + np.float32(CUBIC) * x * x * x)
        share = np.tanh(inner.astype(np.float64)).astype(np.float32)
        value: Array = np.float32(0.5) * x * (np.float32(1.0) + share)
    return value


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _mish_derivative(x: float) -> float:
    share = math.tanh(_softplus(x))
    return share + x * (1.0 - share * share) * _logistic(x)


def _softsign_derivative(x: float) -> float:
    return 1.0 / (1.0 + abs(x)) ** 2


def _reciprocal(x: float) -> float:
    return 1.0 / x if abs(x) > LEAST_DIVISOR else 1.0 / LEAST_DIVISOR


ACTIVATIONS: Mapping[str, ActivationFunction] = {
    "abs": ActivationFunction(abs, lambda x: float((x > 0) - (x < 0))),
    "elu": ActivationFunction(
        lambda x: x if x >= 0 else math.expm1(x), lambda x: 1.0 if x >= 0 else math.exp(x)
    ),
    "erf": ActivationFunction(math.erf, lambda x: 2.0 / math.sqrt(math.pi) * math.exp(-x * x)),
    "exp": ActivationFunction(
        lambda x: math.exp(min(x, MOST_EXPONENT)),
        lambda x: math.exp(x) if x < MOST_EXPONENT else 0.0,
    ),
    "gelu": ActivationFunction(
        lambda x: x * _normal(x),
        lambda x: _normal(x) + x * math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi),
    ),
    "gelu_tanh": ActivationFunction(_gelu_tanh, _gelu_tanh_derivative, single=_single_gelu_tanh),
    "hard_sigmoid": ActivationFunction(_hard_sigmoid, lambda x: 1.0 / 6.0 if abs(x) < 3 else 0.0),
    "hard_swish": ActivationFunction(lambda x: x * _hard_sigmoid(x), _hard_swish_derivative),
    "logistic": ActivationFunction(
        _logistic, lambda x: _logistic(x) * _logistic(-x), single=_single_logistic
    ),
    "log": ActivationFunction(
        lambda x: math.log(max(x, LEAST_POWER)), lambda x: 1.0 / x if x > LEAST_DIVISOR else 0.0
    ),
    "mish": ActivationFunction(lambda x: x * math.tanh(_softplus(x)), _mish_derivative),
    "reciprocal": ActivationFunction(
        _reciprocal, lambda x: -1.0 / (x * x) if abs(x) > LEAST_DIVISOR else 0.0
    ),
    "rsqrt": ActivationFunction(
        lambda x: 1.0 / math.sqrt(max(x, LEAST_DIVISOR)),
        lambda x: -0.5 * x**-1.5 if x > LEAST_DIVISOR else 0.0,
    ),
    "selu": ActivationFunction(
        lambda x: SELU_GAMMA * (x if x >= 0 else SELU_ALPHA * math.expm1(x)),
        lambda x: SELU_GAMMA * (1.0 if x >= 0 else SELU_ALPHA * math.exp(x)),
    ),
    "softplus": ActivationFunction(_softplus, _logistic),
    "softsign": ActivationFunction(lambda x: x / (1.0 + abs(x)), _softsign_derivative),
    "sqrt": ActivationFunction(
        lambda x: math.sqrt(max(x, 0.0)), lambda x: 0.5 / math.sqrt(x) if x > LEAST_DIVISOR else 0.0
    ),
    "swish": ActivationFunction(
        lambda x: x * _logistic(x),
        lambda x: _logistic(x) * (1.0 + x * _logistic(-x)),
    ),
    "tanh": ActivationFunction(math.tanh, lambda x: 1.0 - math.tanh(x) ** 2),
}
"""Functions by name. gelu is exact."""


def real_values(x: tuple[float, int]) -> Array:
    """The real numbers that the stored integers mean. x: scale and zero point."""
    return (STORED - x[1]) * x[0]


def table_in_single_precision(
    function: ActivationFunction, x: tuple[float, int], y: tuple[float, int]
) -> Array:
    """int8 [256]: what lut.h fills in. x, y: (scale, zero point) of input and output.

    Functions of the C library are evaluated in double precision and rounded to single, as its
    float functions are accurate to the last bit in almost all cases.
    """
    with np.errstate(all="ignore"):
        inverse = np.float32(1.0) / np.float32(y[0])
        arguments = np.float32(x[0]) * (STORED - x[1]).astype(np.float32)
        scaled = (single_values(function, arguments) * inverse).astype(np.float64)
    if np.isnan(scaled).any():
        raise ValueError(f"the scales {x[0]:g} and {y[0]:g} make no table of int8")
    rounded = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    table: Array = np.clip(rounded + y[1], -128, 127).astype(np.int8)
    return table


def single_values(function: ActivationFunction, x: Array) -> Array:
    """The function in single precision. x: float32, any shape."""
    if function.single:
        return function.single(x)
    values = np.array([function.value(v) for v in x.ravel().tolist()], np.float64)
    with np.errstate(over="ignore"):
        return values.astype(np.float32).reshape(x.shape)


def hard_swish_table(x: tuple[float, int], y: tuple[float, int]) -> Array:
    """int8 [256]: x * relu6(x + 3) / 6 as hard_swish.h computes it in 16-bit fixed point.

    Raises ValueError if the input's scale is more than 128 times the output's, as TFLite refuses.
    """
    high_scale = np.float32(x[0]) * np.float32(1 / 128)
    y_mult, y_shift = fixedpoint.quantize_multiplier(float(high_scale / np.float32(y[0])))
    clamp_mult, clamp_shift = fixedpoint.quantize_multiplier(
        float(high_scale / np.float32(3 / Q15))
    )
    if y_shift > 0:
        raise ValueError(f"hard swish from scale {x[0]:.3g} to {y[0]:.3g}; 128 times is the limit")
    high = (STORED - x[1]).astype(np.int64) << HIGHER_BITS
    share = high
    if clamp_shift > 0:
        share = _saturated16(share << (clamp_shift - 1))
    share = _high_mul16(share, _as_int16(clamp_mult))
    if clamp_shift > 0:
        share = _saturated16(share << 1)
    share = _rounding_shift(share, max(-clamp_shift, 0))
    share = (share + Q15) >> 1  # from -1 … 1 to 0 … 1
    product = share * _high_mul16(high, _as_int16(y_mult))
    scaled = np.sign(product) * (np.abs(product) // Q15)
    table: Array = np.clip(_rounding_shift(scaled, -y_shift) + y[1], -128, 127).astype(np.int8)
    return table


def log_table(x: tuple[float, int], y: tuple[float, int]) -> Array:
    """int8 [256]: the logarithm as elementwise.cc fills it in; the least number where there is
    none.
    """
    table = table_in_single_precision(ACTIVATIONS["log"], x, y)
    return np.where(x[1] < STORED, table, np.int8(-128))


def rsqrt_table(x: tuple[float, int], y: tuple[float, int]) -> Array:
    """int8 [256]: 1 / sqrt(x) as elementwise.cc and common.h compute it in 32-bit fixed point.

    The largest number at 0, and below it, which TFLite refuses while it runs.
    """
    y_mult, y_shift = fixedpoint.quantize_multiplier(1.0 / (math.sqrt(x[0]) * y[0]))
    table = np.full(len(STORED), 127, np.int8)
    for place, value in enumerate((STORED - x[1]).tolist()):
        if value > 0:
            mult, shift = _inverse_root(value)
            root = _requantized(1, mult, shift + ROOT_SHIFT)
            found = _requantized(root, y_mult, y_shift - ROOT_SHIFT) + y[1]
            table[place] = min(max(found, -128), 127)
    return table


def _requantized(x: int, mult: int, shift: int) -> int:
    return int(fixedpoint.multiply_by_quantized_multiplier(np.array([x]), mult, shift)[0])


def _inverse_root(value: int) -> tuple[int, int]:
    """1 / sqrt(value) as a multiplier and a shift, by five steps of Newton from 1."""
    if value == 1:
        return 2**31 - 1, 0
    pairs = (32 - value.bit_length() - 1) // 2 - 1
    shift = 11 - pairs
    x = (value << (2 * pairs)) >> 1
    half_x, root = _rounded_half(x), 1 << 28  # 3 bits before the point
    for _ in range(5):
        cube = _saturated(_high_mul(_high_mul(root, root), root) << 6)
        root = _saturated((_high_mul(THREE_HALVES, root) - _high_mul(half_x, cube)) << 3)
    root = _high_mul(root, HALF_ROOT_OF_2)
    if shift < 0:
        root, shift = root << -shift, 0
    return root, -shift


def _high_mul(a: int, b: int) -> int:
    """a * b / 2**31, rounded, as gemmlowp's SaturatingRoundingDoublingHighMul."""
    product = a * b
    nudged = product + (1 << 30 if product >= 0 else 1 - (1 << 30))
    return int(math.copysign(abs(nudged) >> 31, nudged)) if nudged else 0


def _rounded_half(x: int) -> int:
    """x / 2 for x >= 0, halves up."""
    return (x + 1) >> 1


def _saturated(x: int) -> int:
    return min(max(x, -(2**31)), 2**31 - 1)


def _as_int16(mult_q31: int) -> int:
    return min((mult_q31 + Q15) >> 16, Q15 - 1)


def _saturated16(x: Array) -> Array:
    return np.clip(x, -Q15, Q15 - 1)


def _high_mul16(a: Array, b: int) -> Array:
    """a * b / 2**15, rounded, halves away from zero on the positive and toward it below."""
    product = a * b
    nudged = product + np.where(product >= 0, Q15 // 2, 1 - Q15 // 2)
    rounded: Array = np.sign(nudged) * (np.abs(nudged) // Q15)
    return _saturated16(rounded)


def _rounding_shift(x: Array, bits: int) -> Array:
    """x / 2**bits, rounded, halves away from zero."""
    half = (1 << bits) >> 1
    shifted: Array = np.sign(x) * ((np.abs(x) + half) >> bits)
    return shifted

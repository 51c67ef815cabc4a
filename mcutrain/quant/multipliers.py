"""Make of real scales the integers that the operators compute with, by TFLite's rules.

Sources: tensorflow/lite/kernels kernel_util.cc (convolutions, products of matrices, activation
limits), add.cc, reference/reduce.h (mean), activations.cc and quantize.cc (rescaling). Scales are
float32 values held in Python floats. Where the kernels multiply or divide in float32, so does this
file: the last bit of a multiplier decides the last bit of an output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain import fixedpoint
from mcutrain.ops.add import Scaled
from mcutrain.ops.batch_matmul import BatchMatMul
from mcutrain.ops.conv_2d import Requantize
from mcutrain.ops.leaky_relu import LeakyRelu
from mcutrain.ops.mul import Mul
from mcutrain.ops.recurrent import GATE_INTEGER_BITS, Multipliers
from mcutrain.ops.rescale import Rescale
from mcutrain.ops.squared_difference import SquaredDifference

Array = npt.NDArray[Any]

LARGEST_SHIFT = 30  # to the left, of 32 bits
LARGEST_RESCALING_SHIFT = 22  # of the difference of two int8
LARGEST_PRODUCT_SHIFT = 15  # of products of two int8, less their zero points

INT8 = (-128, 127)
ADD_LEFT_SHIFT = 20

GateStages = tuple[int, Multipliers, Multipliers]
"""Of a recurrent layer: x's zero point, and what makes its gates' sums of x and of h Q3.12."""
MOST_CELL_BITS = 4
"""Before the point of a cell state, unless a file says otherwise: ±16."""

TOO_FAR_APART = "its scales are too far apart; are they damaged?"

# The real numbers between which an activation holds its output.
ACTIVATION_RANGE = {
    "none": (-math.inf, math.inf),
    "relu": (0.0, math.inf),
    "relu6": (0.0, 6.0),
    "relu_n1_to_1": (-1.0, 1.0),
}


def single(value: float) -> float:
    """Round to single precision, as files hold scales."""
    return float(np.float32(value))


def conv_multipliers(
    x_scale: float, w_scales: Sequence[float], y_scale: float
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(mult_q31, shift) per weight scale: s_x * s_w / s_y in double precision."""
    return _pairs([x_scale * w / y_scale for w in w_scales])


def gates(scale: float, w_scales: Sequence[float]) -> Multipliers:
    """(mult_q31, shift) per gate of a recurrent layer to Q3.12, computed in single precision."""
    unit = np.float32(math.ldexp(1.0, GATE_INTEGER_BITS - 15))
    with np.errstate(over="ignore"):  # what is infinite is refused as a multiplier
        return _pairs([float(np.float32(s) * np.float32(scale) / unit) for s in w_scales])


def of_state(fraction_bits: int, y_scale: float) -> tuple[int, int]:
    """(mult_q31, shift) from a state with so many bits behind the point to y."""
    with np.errstate(over="ignore"):
        stage = np.float32(math.ldexp(1.0, -fraction_bits) / y_scale)
    return fixedpoint.quantize_multiplier(float(stage))


def cell_integer_bits(steps: int) -> int:
    """Bits before the point of a cell state, which grows by less than 1 in a step."""
    return min((steps - 1).bit_length(), MOST_CELL_BITS)


def conv_requantize(
    x_scale: float, w_scales: Sequence[float], y_scale: float, y_zero_point: int
) -> Requantize:
    """The output stage of a convolution without activation."""
    mult, shift = conv_multipliers(x_scale, w_scales, y_scale)
    return Requantize(mult, shift, y_zero_point)


def fully_connected_requantize(
    x_scale: float, w_scales: Sequence[float], y_scale: float, y_zero_point: int
) -> Requantize:
    """The output stage of a FULLY_CONNECTED without activation, as its kernel since LiteRT 1.4.

    That kernel rounds the double sum * (s_x * s_w / s_y) once. A 31-bit factor gives the same
    integer unless that real number is within 2**-24 of a half.
    """
    mult, shift = conv_multipliers(x_scale, w_scales, y_scale)
    return Requantize(mult, shift, y_zero_point, rounds_once=True)


def fully_connected_requantize_rounding_twice(
    x_scale: float, w_scales: Sequence[float], y_scale: float, y_zero_point: int
) -> Requantize:
    """Requantize as before LiteRT 1.4 (tflite-runtime), TFLite Micro and optimized kernels do.

    With one weight scale, the product s_x * s_w is a float32 there.
    """
    if len(w_scales) > 1:
        return conv_requantize(x_scale, w_scales, y_scale, y_zero_point)
    with np.errstate(all="ignore"):
        product = float(np.float32(x_scale) * np.float32(w_scales[0]))
    mult, shift = _pairs([product / y_scale])
    return Requantize(mult, shift, y_zero_point)


def add_scales(
    a: tuple[float, int], b: tuple[float, int], y: tuple[float, int]
) -> tuple[Scaled, Scaled, Scaled]:
    """The operands and the result of an Add, each from its (scale, zero point).

    Both operands are brought to twice the larger scale, with ADD_LEFT_SHIFT fraction bits.
    Raises ValueError if they overflow.
    """
    twice_max = 2.0 * max(a[0], b[0])
    y_factor = twice_max / (2.0**ADD_LEFT_SHIFT * y[0])
    result = Scaled(y[1], *fixedpoint.quantize_multiplier(y_factor))
    if result.shift > 0:
        raise ValueError(TOO_FAR_APART)
    return (
        Scaled(a[1], *fixedpoint.quantize_multiplier(a[0] / twice_max)),
        Scaled(b[1], *fixedpoint.quantize_multiplier(b[0] / twice_max)),
        result,
    )


def sub_scales(
    a: tuple[float, int], b: tuple[float, int], y: tuple[float, int]
) -> tuple[Scaled, Scaled, Scaled]:
    """Return the scales for a - b: SUB negates the second multiplier."""
    first, second, result = add_scales(a, b, y)
    return first, replace(second, mult_q31=-second.mult_q31), result


def multiply(a: tuple[float, int], b: tuple[float, int], y: tuple[float, int]) -> Mul:
    """MUL: s_a * s_b / s_y in float32 (mul.cc). Raises ValueError if products overflow."""
    with np.errstate(all="ignore"):
        factor = float(np.float32(a[0]) * np.float32(b[0]) / np.float32(y[0]))
    mult, shift = fixedpoint.quantize_multiplier(factor)
    if shift > LARGEST_PRODUCT_SHIFT:
        raise ValueError(TOO_FAR_APART)
    return Mul(a[1], b[1], y[1], mult, shift)


def squared_difference(
    a: tuple[float, int], b: tuple[float, int], y: tuple[float, int]
) -> SquaredDifference:
    """SQUARED_DIFFERENCE: operands to twice the larger scale, as of ADD (squared_difference.cc)."""
    twice_max = 2.0 * max(a[0], b[0])
    factor = twice_max * twice_max / (2.0 ** (2 * SquaredDifference.LEFT_SHIFT) * y[0])
    return SquaredDifference(
        Scaled(a[1], *fixedpoint.quantize_multiplier(a[0] / twice_max)),
        Scaled(b[1], *fixedpoint.quantize_multiplier(b[0] / twice_max)),
        Scaled(y[1], *fixedpoint.quantize_multiplier(factor)),
    )


def batch_matmul(
    a: tuple[float, int],
    b: tuple[float, int],
    y: tuple[float, int],
    transposed: tuple[bool, bool],
) -> BatchMatMul:
    """BATCH_MATMUL: s_a * s_b in float32, divided by s_y in double (kernel_util.cc).

    transposed: whether a and b are stored so. Raises ValueError if a product overflows.
    """
    with np.errstate(all="ignore"):
        factor = float(np.float32(a[0]) * np.float32(b[0])) / y[0]
    mult, shift = fixedpoint.quantize_multiplier(factor)
    if shift > LARGEST_PRODUCT_SHIFT:
        raise ValueError(TOO_FAR_APART)
    return BatchMatMul(a[1], b[1], y[1], mult, shift, *transposed)


def requantize(x: tuple[float, int], y: tuple[float, int]) -> Rescale:
    """QUANTIZE from int8 to int8: (scale, zero point) of both sides, s_x / s_y in double."""
    return Rescale(x[1], y[1], *_rescaling(x[0] / y[0]))


def activation_rescale(kind: str, x: tuple[float, int], y: tuple[float, int]) -> Rescale:
    """A free-standing activation: s_x / s_y in float32, then the limits of `kind`."""
    with np.errstate(all="ignore"):
        factor = float(np.float32(x[0]) / np.float32(y[0]))
    low, high = activation_limits(kind, *y)
    return Rescale(x[1], y[1], *_rescaling(factor), low, high)


def leaky_relu(alpha: float, x: tuple[float, int], y: tuple[float, int]) -> LeakyRelu:
    """LEAKY_RELU: s_x / s_y above the zero point, s_x * alpha / s_y below, both in float32."""
    with np.errstate(all="ignore"):
        scale = np.float32(x[0])
        positive = float(scale / np.float32(y[0]))
        negative = float(scale * np.float32(alpha) / np.float32(y[0]))
    return LeakyRelu(x[1], y[1], _rescaling(positive), _rescaling(negative))


def bias_without_overflow(w: Array, axis: int, bias: Array, stage: Requantize) -> Array | None:
    """The bias, moved where some input could overflow the int32 sum; None if that changes outputs.

    Converters saturate the bias of a channel whose weights are almost zero, so it sits at the end
    of int32. Its output is at a clamp limit for every input, and stays there. axis: of w, along
    which the channels lie.
    """
    others = tuple(i for i in range(w.ndim) if i != axis)
    reach = 255 * np.abs(w.astype(np.int16)).sum(axis=others, dtype=np.int64)
    room = 2**31 - 1 - reach
    moved = np.clip(bias.astype(np.int64), -room, room)
    left = np.maximum(0, stage.shift)
    overflows = (reach + np.abs(moved)) << np.minimum(left, LARGEST_SHIFT) >= 2**31
    if (room < 0).any() or left.max() > LARGEST_SHIFT or overflows.any():
        return None
    if (moved == bias).all():
        return moved.astype(np.int32)
    outputs = stage(np.stack([bias - reach, bias + reach, moved - reach, moved + reach]))
    changed = (moved != bias) & (outputs != outputs[0]).any(axis=0)
    return None if changed.any() else moved.astype(np.int32)


def activation_limits(kind: str, scale: float, zero_point: int) -> tuple[int, int]:
    """The int8 limits of an activation in ACTIVATION_RANGE (float32 division, halves away)."""
    low, high = (_stored(v, scale, zero_point) for v in ACTIVATION_RANGE[kind])
    return max(INT8[0], low), min(INT8[1], high)


def mean_multiplier(x_scale: float, y_scale: float, count: int) -> tuple[int, int]:
    """(mult_q31, shift) of s_x / s_y / count: the 31-bit multiplier is divided, rounding down.

    The multiplier is first shifted up by the bits of the count, so that nothing is lost, as far as
    the shift stays in its range. Raises ValueError if the sums overflow.
    """
    mult, shift = fixedpoint.quantize_multiplier(x_scale / y_scale)
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    if count * 255 << max(shift - bits, 0) >= 2**31:
        raise ValueError(f"its sums of {count} numbers overflow 32 bits; are the scales damaged?")
    return (mult << bits) // count, shift - bits


def average_multiplier(x_scale: float, y_scale: float, area: int) -> tuple[int, int]:
    """(mult_q31, shift) of s_x / s_y without a shift to the right, for ScaledAveragePool2D.

    area: of the window. Raises ValueError if the sums overflow.
    """
    mult, shift = fixedpoint.without_right_shift(*fixedpoint.quantize_multiplier(x_scale / y_scale))
    if area * 255 << shift >= 2**31:
        raise ValueError(f"its sums of {area} numbers overflow 32 bits; are the scales damaged?")
    return mult, shift


MOST_TRIED = 2**10  # positions of a sum whose multiplier is looked for among neighbours
NEIGHBOURS = 16


def sum_multiplier(x: tuple[float, int], y_scale: float, count: int) -> tuple[int, int]:
    """(mult_q31, shift) of s_x / s_y, such that sums round as the float32 of reduce.h does.

    x: its scale and zero point. Float32 rounds once: so does a multiplier without a shift to the
    right. Of its neighbours the one is taken with which most sums of `count` numbers are equal, all
    of them as a rule. Raises ValueError if the sums overflow.
    """
    x_scale, x_zero_point = x
    factor = np.float32(x_scale) / np.float32(y_scale)
    if factor < 1:
        mult, shift = min(round(float(factor) * 2**31), 2**31 - 1), 0
    else:
        mult, shift = fixedpoint.quantize_multiplier(float(factor))
    if count * 255 << shift >= 2**31:
        raise ValueError(f"its sums of {count} numbers overflow 32 bits; are the scales damaged?")
    if count > MOST_TRIED:
        return mult, shift
    stored = np.arange(INT8[0] * count, INT8[1] * count + 1)
    shifted = np.float32(np.float32(-x_zero_point) * factor) * np.float32(count)
    real = (stored.astype(np.float32) * factor + shifted).astype(np.float64)
    wanted = np.sign(real) * np.floor(np.abs(real) + 0.5)
    seen = np.abs(wanted) <= INT8[1] - INT8[0]
    sums, wanted = stored[seen] - count * x_zero_point, wanted[seen]

    def differing(tried: int) -> int:
        found = fixedpoint.multiply_by_quantized_multiplier(sums, tried, shift)
        return int(np.count_nonzero(found != wanted))

    best, fewest = mult, differing(mult)
    for tried in (mult + sign * by for by in range(1, NEIGHBOURS + 1) for sign in (1, -1)):
        if fewest and 0 <= tried < 2**31 and (number := differing(tried)) < fewest:
            best, fewest = tried, number
    return best, shift


def _stored(value: float, scale: float, zero_point: int) -> int:
    """The integer for a real value, not saturated to int8; infinities are beyond it."""
    if math.isinf(value):
        return INT8[0] if value < 0 else INT8[1]
    with np.errstate(all="ignore"):
        quotient = float(np.float32(value) / np.float32(scale))
    if math.isinf(quotient):
        return INT8[0] if value < 0 else INT8[1]
    return zero_point + int(math.copysign(math.floor(abs(quotient) + 0.5), quotient))


def _rescaling(factor: float) -> tuple[int, int]:
    """(mult_q31, shift), such that the difference of two int8 fits 32 bits when it is shifted."""
    mult, shift = fixedpoint.quantize_multiplier(factor)
    if shift > LARGEST_RESCALING_SHIFT:
        raise ValueError(TOO_FAR_APART)
    return mult, shift


_multiplier = lru_cache(maxsize=16384)(fixedpoint.quantize_multiplier)
"""Kept: layers have one for each channel, and a model is read again and again."""


def _pairs(factors: Sequence[float]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    pairs = [_multiplier(f) for f in factors]
    return tuple(m for m, _ in pairs), tuple(s for _, s in pairs)

"""A class gets its weights from a few samples, without training; firmware/runtime/mct_imprint.h.

The numpy meaning of what a device does, bit for bit. The header says the formula and its bounds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.fixedpoint import clip
from mcutrain.ops.bounds import BIAS_LIMIT
from mcutrain.quant.prototypes import LARGEST_WEIGHT, MEAN_BITS, rounded_division

Array = npt.NDArray[Any]

MOST_SAMPLES = 65535


@dataclass(frozen=True)
class Imprinted:
    """A class's row of a classifier: int8 w [features], and its bias."""

    w: Array
    b: int


def imprinted(sums: Array, count: int, centre: Array, others: tuple[Array, Array]) -> Imprinted:
    """The row of a class of which `count` samples are known.

    sums: int64 [features], of these samples' features without zero point. centre: the same of the
    centre. others: weights int8 [k, features] and biases int32 [k] of the classes that are known.
    """
    w, b = others
    mean = rounded_division(sums << MEAN_BITS, count)
    d = mean - (centre.astype(np.int64) << MEAN_BITS)
    weights = w.astype(np.int64)
    squares = int((weights**2).sum()) // len(w)
    root, shift = row_scale(squares, int((d**2).sum()))
    scaled = (d * root + (1 << shift - 1)) >> shift
    row = clip(scaled, -LARGEST_WEIGHT, LARGEST_WEIGHT)
    at_centre = b.astype(np.int64).sum() + (weights * centre).sum()
    bias = int(rounded_division(at_centre, len(w))) - int((row * centre).sum())
    return Imprinted(row.astype(np.int8), min(max(bias, -BIAS_LIMIT), BIAS_LIMIT))


def row_scale(squares: int, distance: int) -> tuple[int, int]:
    """sqrt(squares / distance) as root, shift: root / 2**shift. squares: below 2**30."""
    if squares == 0 or distance == 0:
        return 0, 1
    left = (64 - squares.bit_length()) // 2
    right = max(distance.bit_length() - 31, 0) // 2
    ratio = (squares << 2 * left) // (distance >> 2 * right)
    return math.isqrt(ratio), left + right


def centre_of(means: Array, zero_point: int) -> Array:
    """The codes of the centre of class means, int8. means: with MEAN_BITS, without zero point."""
    middle = rounded_division(means.sum(axis=0), len(means) << MEAN_BITS)
    codes: Array = np.clip(middle + zero_point, -128, 127).astype(np.int8)
    return codes

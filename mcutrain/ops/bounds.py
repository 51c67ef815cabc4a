"""How large the values of operators can become: what each operator's `bounds` is made of.

The limits are those of all bodies, portable ones and faster ones alike. Weights count as -128 … 127
and differences of two int8 as ±255, whatever the zero point is, because some bodies take another
one meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import Tensor
from mcutrain.ir.op import INT32_MAX, Bound

Array = npt.NDArray[Any]

DIFFERENCE = 255
"""The largest |x - zero_point|."""
WEIGHT = 128
GRADIENT = {"int8": 127}
"""Largest gradient where sums are int32; sums of int16 gradients are int64."""
BIAS_LIMIT = 2**30
"""A trained bias stays within, see mct_update.h."""
DIFFERENCE_LIMIT = 2**15 - 1
"""Where the difference of a trained bias saturates, if it is kept in 16 bits."""
PRODUCTS_LIMIT = 2**30 - 1
"""Limit of the products of a forward sum without its bias: bodies for DSP instructions double
them.
"""
RESULT_ROOM = 255
"""A requantized sum and a zero point are added."""
SATURATED = INT32_MAX - RESULT_ROOM
"""Where sums in int64 saturate if they are requantized, see mct_fixedpoint.h."""


SCALES = "its scales are too far apart: quantize the model again"
"""What to do if a single value is too large."""


def weighted_sums(
    w: Tensor, b: Tensor, axis: int, stage: tuple[Sequence[int], Sequence[int]] | None, advice: str
) -> tuple[Bound, ...]:
    """Bounds of forward sums of products with a weight, per channel of `axis`, plus a bias.

    stage: mult_q31 and shift of their requantization, if there is one.
    """
    channels = w.type.shape[axis]
    terms = w.type.elements // channels
    products: Array = np.array(DIFFERENCE * WEIGHT * terms)
    bias: Array = np.array(BIAS_LIMIT)
    if w.data is not None:
        others = tuple(i for i in range(w.data.ndim) if i != axis)
        products = DIFFERENCE * np.abs(w.data.astype(np.int16)).sum(axis=others, dtype=np.int64)
    if b.data is not None:
        bias = np.abs(b.data.astype(np.int64))
    total = products + bias
    what = f"sums of {terms:,} products"
    found = (
        # some bodies decide by this one what is short, whatever the weights are
        Bound(what, DIFFERENCE * WEIGHT * terms, advice),
        Bound(what, int(products.max()), advice, PRODUCTS_LIMIT),
        Bound(f"{what} and a bias", int(total.max()), advice),
    )
    if stage is None:
        return found
    mult, shift = (np.array(values, np.float64) for values in stage)
    moved = total * 2.0 ** np.maximum(shift, 0)  # exact: below 2**53, times a power of two
    after = moved * mult * 2.0 ** (-31 - np.maximum(-shift, 0)) + RESULT_ROOM + 2
    largest = int(np.ceil(np.maximum(moved, after).max()))
    return (*found, Bound(f"requantized {what} and a bias", largest, advice))


def largest_scaled(largest: int, mult_q31: int, shift: int) -> int:
    """The largest |value * mult_q31 * 2**(shift - 31)|, however it is rounded."""
    return ((largest << max(shift, 0)) * abs(mult_q31) >> 31 >> max(-shift, 0)) + 2


def requantized(what: str, largest: int, mult_q31: int, shift: int, advice: str = SCALES) -> Bound:
    """Bound of a value before and after it is multiplied by mult_q31 * 2**(shift - 31)."""
    after = largest_scaled(largest, mult_q31, shift) + RESULT_ROOM
    return Bound(f"requantized {what}", max(largest << max(shift, 0), after), advice)


def gradient_sums(dy: Tensor, terms: int, factor: int, what: str, advice: str) -> tuple[Bound, ...]:
    """Bound of so many products of dy with numbers of ±factor; none if they are int64."""
    if dy.type.dtype not in GRADIENT:
        return ()
    return (Bound(what, GRADIENT[dy.type.dtype] * factor * terms, advice),)

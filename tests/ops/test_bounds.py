"""What bounds are made of says no less than the largest value, and hardly more."""

from __future__ import annotations

import numpy as np
import pytest

from mcutrain.fixedpoint import multiply_by_quantized_multiplier, multiply_rounding_once
from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ops.bounds import RESULT_ROOM, requantized, weighted_sums

MOST_TERMS = 4_210_752
"""255 times so much, and no more, can be doubled in int32, as bodies for DSP instructions do."""
STAGES = [
    (mult, shift)
    for mult in (2**30, 2**31 - 1, 1_518_500_250)
    for shift in (-31, -22, -8, -1, 0, 1, 3, 7)
]


def tensors(w: np.ndarray, b: np.ndarray) -> tuple[Tensor, Tensor]:
    return Tensor("w", TensorType(w.shape), w), Tensor("b", TensorType(b.shape, "int32"), b)


def test_frozen_weights_and_biases_count_by_their_size_whatever_their_sign() -> None:
    w = np.array([[3, -4, 5], [-128, 2, -1]], np.int8).reshape(2, 1, 1, 3)
    b = np.array([10, -70_000], np.int32)
    by_size, products, total = weighted_sums(*tensors(w, b), 0, None, "")
    assert by_size.largest == 255 * 128 * 3
    assert products.largest == 255 * 131
    assert total.largest == 255 * 131 + 70_000


def test_trained_weights_and_biases_count_as_training_may_leave_them() -> None:
    w, b = Tensor("w", TensorType((2, 1, 1, 3))), Tensor("b", TensorType((2,), "int32"))
    found = [bound.largest for bound in weighted_sums(w, b, 0, None, "")]
    assert found == [255 * 128 * 3, 255 * 128 * 3, 255 * 128 * 3 + 2**30]


@pytest.mark.parametrize("sign", [1, -1])
def test_products_fit_as_long_as_they_can_be_doubled(sign: int) -> None:
    ends = np.zeros(40_000, np.int8)
    ends[: MOST_TERMS // 127] = sign * 127
    ends[-1] = sign * (MOST_TERMS % 127)
    no_bias = np.zeros(1, np.int32)
    for more, holds in ((0, True), (sign, False)):
        ends[-2] = more
        w, b = tensors(ends.reshape(1, 1, 1, -1), no_bias)
        products = weighted_sums(w, b, 0, None, "")[1]
        assert products.holds == holds
        assert (2 * products.largest < 2**31) == holds


@pytest.mark.parametrize(("mult_q31", "shift"), STAGES)
def test_what_is_requantized_is_bounded_with_the_zero_point_on_both_sides(
    mult_q31: int, shift: int
) -> None:
    for largest in (255, 65_025, 2**20 + 1):
        values = np.array([largest, -largest], np.int64)
        ways = multiply_by_quantized_multiplier, multiply_rounding_once
        made = [int(np.abs(way(values, mult_q31, shift)).max()) for way in ways]
        truth = max(largest << max(shift, 0), max(made) + RESULT_ROOM)
        assert truth <= requantized("x", largest, mult_q31, shift).largest <= truth + 3
        w, b = np.full((1, 1, 1, 1), -1, np.int8), np.array([largest])
        stage = (mult_q31,), (shift,)
        most = weighted_sums(*tensors(w * 0, b), 0, stage, "")[-1].largest
        assert truth <= most <= truth + 4
        assert most == weighted_sums(*tensors(w, b - 255), 0, stage, "")[-1].largest


def test_a_zero_point_of_the_other_end_is_added() -> None:
    assert RESULT_ROOM == 127 - -128

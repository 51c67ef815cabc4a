"""Positions of resized images: what they weigh, and sums of gradients that fit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ops.gradients import OutputStage
from mcutrain.ops.resize import MOST_WEIGHT, ONE, Resize, ResizeGradInput, summable, unit, weights

SIZES = st.integers(1, 40)


def spread(size: int, new: int, shift: int) -> tuple[int, ...]:
    """Some positions from end to end, with all bits."""
    return tuple(min(i * (size - 1) * ONE // new + shift, (size - 1) * ONE) for i in range(new))


@given(size=SIZES, new=st.integers(1, 400), shift=st.integers(0, 1023))
@example(size=6, new=319, shift=0)  # with steps of half the size, rounding itself is too much
def test_rounded_positions_give_sums_that_fit_and_stay_near(size, new, shift):
    at = spread(size, new, shift)
    found = summable(at, size)
    assert list(found) == sorted(found)
    assert max(found) <= (size - 1) * ONE
    given_out = weights(found, size).sum(axis=0).max()
    assert given_out <= MOST_WEIGHT * unit(found)
    off = np.abs(np.array(found) - at).max()
    growth = weights(at, size).sum(axis=0).max() / ONE
    # Half of the smallest power of two from growth / 4 on, where rounding moves at most one
    # position more to a pixel.
    assert off <= (growth + 1) / 4
    if growth < 4:
        assert found == at


def test_the_largest_sums_of_gradients_are_bounded_and_used():
    at = spread(3, 4095 * 2, 1)
    rounded = summable(at, 3)
    op = ResizeGradInput(OutputStage((1.0,), False, "int8", 1), (1, 3, 3, 1), rounded, rounded)
    dy = Tensor("dy", TensorType((1, len(at), len(at), 1)))
    (bound,) = op.bounds([dy, dy])
    assert bound.holds
    assert bound.largest > 2**28


@pytest.mark.parametrize(
    ("rows", "says"),
    [((), "lie outside"), ((-1,), "outside"), ((2049,), "outside"), ((1024, 0), "do not ascend")],
)
def test_positions_outside_the_image_are_refused(rows, says):
    with pytest.raises(ValueError, match=says):
        Resize(rows, (0,)).infer(TensorType((1, 3, 2, 4)))
    with pytest.raises(ValueError, match=says):
        Resize((0,), rows).infer(TensorType((1, 2, 3, 4)))


@given(size=SIZES, new=SIZES, shift=st.integers(0, 1023))
def test_weights_of_a_position_are_those_of_its_two_neighbours(size, new, shift):
    at = spread(size, new, shift)
    found = weights(at, size)
    assert (found.sum(axis=1) == ONE).all()
    assert (found @ np.arange(size) == np.array(at)).all()

"""The gradient of a softmax inside the network against its derivative in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.ops.gradients import OutputStage
from mcutrain.ops.softmax import GRADIENT_BITS, Softmax, SoftmaxGradInput

ROWS = 6
POSITIONS = st.sampled_from((1, 2, 17, 65, 197, 1_000))


def made(positions: int, scale: float) -> tuple[SoftmaxGradInput, np.ndarray]:
    """The operator, and scores whose spread is one or so in real numbers."""
    softmax = Softmax.from_scale(scale)
    op = SoftmaxGradInput(OutputStage((1.0,), False, "int16", 1), (1, ROWS, positions), softmax)
    spread = np.random.default_rng(positions).normal(0, 1 / scale, op.shape)
    return op, np.clip(np.rint(spread), -128, 127).astype(np.int8)


@given(positions=POSITIONS, number=st.integers(-127, 127), scale=st.sampled_from((0.02, 0.1, 0.5)))
def test_what_is_added_to_a_whole_row_changes_nothing(positions, number, scale):
    op, x = made(positions, scale)
    assert not op.sums(np.full(op.shape, number), x).any()
    dy = np.random.default_rng(1).integers(-127, 128, op.shape)
    np.testing.assert_array_equal(op.sums(dy + number, x), op.sums(dy, x))


@pytest.mark.parametrize("positions", [2, 17, 197])
def test_the_sums_are_the_derivative(positions):
    op, x = made(positions, 0.03)
    dy = np.random.default_rng(2).integers(-32_767, 32_768, op.shape)
    powers = np.exp(0.03 * x.astype(np.float64))
    p = powers / powers.sum(-1, keepdims=True)
    wanted = 2**GRADIENT_BITS * p * (dy - (p * dy).sum(-1, keepdims=True))
    found = op.sums(dy, x)
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert error < 0.002, error


def test_probabilities_of_more_bits_are_those_of_the_output_but_for_rounding():
    op, x = made(197, 0.05)
    few, many = (op.softmax.probabilities(x, bits) for bits in (8, GRADIENT_BITS))
    assert np.abs(few - many / 2 ** (GRADIENT_BITS - 8)).max() <= 0.51
    assert len(np.unique(many)) > 4 * len(np.unique(few))

"""Scales that no sound model has give no multipliers."""

import numpy as np
import pytest

from mcutrain.fixedpoint import multiplier_value
from mcutrain.quant import multipliers

WIDE, NARROW = (1e3, 0), (1e-5, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: multipliers.add_scales(WIDE, WIDE, NARROW),
        lambda: multipliers.sub_scales(NARROW, WIDE, NARROW),
        lambda: multipliers.multiply(WIDE, WIDE, NARROW),
        lambda: multipliers.batch_matmul(WIDE, WIDE, NARROW, (False, False)),
        lambda: multipliers.requantize(WIDE, NARROW),
        lambda: multipliers.activation_rescale("relu", WIDE, NARROW),
        lambda: multipliers.leaky_relu(0.5, WIDE, NARROW),
    ],
)
def test_scales_too_far_apart_are_refused(make):
    with pytest.raises(ValueError, match="too far apart"):
        make()


def test_scales_of_two_matrices_are_multiplied_in_single_precision():
    """As LiteRT does it, for the same multiplier."""
    a, b = (float(np.float32(s)) for s in (0.0123, 0.0457))
    op = multipliers.batch_matmul((a, 3), (b, -4), (1 / 1024, 5), (False, True))
    assert multiplier_value(op.mult_q31, op.shift) == float(np.float32(a) * np.float32(b)) * 1024
    assert multiplier_value(op.mult_q31, op.shift) != a * b * 1024


def test_a_mean_whose_sums_overflow_is_refused():
    with pytest.raises(ValueError, match="sums of 65536 numbers overflow 32 bits"):
        multipliers.mean_multiplier(1e9, 1e-5, 2**16)

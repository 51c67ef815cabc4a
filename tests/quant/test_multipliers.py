"""Scales that no sound model has give no multipliers."""

import pytest

from mcutrain.quant import multipliers

WIDE, NARROW = (1e3, 0), (1e-5, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: multipliers.add_scales(WIDE, WIDE, NARROW),
        lambda: multipliers.sub_scales(NARROW, WIDE, NARROW),
        lambda: multipliers.multiply(WIDE, WIDE, NARROW),
        lambda: multipliers.requantize(WIDE, NARROW),
        lambda: multipliers.activation_rescale("relu", WIDE, NARROW),
        lambda: multipliers.leaky_relu(0.5, WIDE, NARROW),
    ],
)
def test_scales_too_far_apart_are_refused(make):
    with pytest.raises(ValueError, match="too far apart"):
        make()


def test_a_mean_whose_sums_overflow_is_refused():
    with pytest.raises(ValueError, match="sums of 65536 numbers overflow 32 bits"):
        multipliers.mean_multiplier(1e9, 1e-5, 2**16)

"""Scales that no sound model has give no multipliers."""

import numpy as np
import pytest

from mcutrain.fixedpoint import multiplier_value, multiply_by_quantized_multiplier
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


def rounded_in_single(stored, x, y_scale, count):
    """SUM of reduce.h, without its zero point: factor, offset and sums in float32."""
    factor = np.float32(x[0]) / np.float32(y_scale)
    offset = np.float32(np.float32(-x[1]) * factor) * np.float32(count)
    real = (stored.astype(np.float32) * factor + offset).astype(np.float64)
    return np.sign(real) * np.floor(np.abs(real) + 0.5)


@pytest.mark.parametrize("count", [7, 16, 49, 64, 196])
def test_sums_round_as_in_single_precision(count):
    """All of nearly all; of the rest one in a thousand is off by a step."""
    rng, unequal = np.random.default_rng(count), 0
    stored = np.arange(-128 * count, 127 * count + 1)
    for zero_point in (-128, -128, -128, *rng.integers(-128, 128, 17).tolist()):
        x_scale = float(np.float32(rng.uniform(0.005, 0.1)))
        y_scale = float(np.float32(x_scale * count * rng.uniform(0.1, 1.0)))
        x = (x_scale, zero_point)
        mult, shift = multipliers.sum_multiplier(x, y_scale, count)
        sums = stored - count * zero_point
        found = multiply_by_quantized_multiplier(sums, mult, shift)
        wanted = rounded_in_single(stored, x, y_scale, count)
        apart = np.abs(found - wanted)[np.abs(wanted) <= 255]
        assert apart.max() <= 1
        assert (apart > 0).mean() <= 0.001
        unequal += bool(apart.any())
    assert unequal <= 2


def test_halves_of_sums_are_rounded_away_from_zero():
    """1/16: ties are many, and exact in single precision."""
    mult, shift = multipliers.sum_multiplier((0.25, -3), 4.0, 16)
    found = multiply_by_quantized_multiplier(np.array([-24, -8, 8, 24, 9, -9, 7]), mult, shift)
    assert found.tolist() == [-2, -1, 1, 2, 1, -1, 0]


def test_a_sum_of_a_larger_scale_than_its_output():
    mult, shift = multipliers.sum_multiplier((0.3, 5), 0.1, 4)
    assert multiplier_value(mult, shift) == pytest.approx(3, rel=1e-6)
    with pytest.raises(ValueError, match="sums of 65536 numbers overflow 32 bits"):
        multipliers.sum_multiplier((1e9, 0), 1e-5, 2**16)

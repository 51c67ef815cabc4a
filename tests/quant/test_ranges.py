"""Ranges of activations from extremes and histograms."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.quant.calibrate import BINS, Histogram, calibrate
from mcutrain.quant.float_graph import FloatGraph
from mcutrain.quant.float_op import Quantization


def statistics(x):
    counts, _ = np.histogram(x, BINS, (x.min(), x.max()))
    return Histogram(float(x.min()), float(x.max()), counts, np.abs(x).max(keepdims=True))


def squared_error(x, low, high):
    return float(np.square(Quantization.of_range(low, high).fake(x) - x).sum())


def test_least_error_clips_outliers_and_beats_the_extremes():
    x = np.concatenate([np.random.default_rng(0).normal(0, 1, 100_000), [12.0]])
    seen = statistics(x)
    low, high = seen.least_error()
    assert high < 12
    assert squared_error(x, low, high) < squared_error(x, *seen.minmax())


def test_a_percentile_keeps_an_end_where_many_numbers_lie():
    x = np.maximum(np.random.default_rng(0).normal(0, 1, 100_000), 0)
    low, high = statistics(x).percentile(99.9)
    assert low == 0
    assert np.quantile(x, 0.999) < high < x.max()


def test_what_a_percentile_leaves_out_is_shared_by_both_ends():
    x = np.linspace(-1, 3, 100_001)
    low, high = statistics(x).percentile(90)
    assert abs(low - -0.8) < 2 * 4 / BINS
    assert abs(high - 2.8) < 2 * 4 / BINS


def test_statistics_are_of_all_samples_however_many_are_computed_at_once(monkeypatch):
    """Magnitudes of channels are largest in the first sample, the smallest number in the last."""
    graph = FloatGraph("nothing", "x", (1, 2, 2, 3), (), ("x",))
    x = np.random.default_rng(0).normal(0, 1, (5, 2, 2, 3)).astype(np.float32)
    x[0, 0, 0], x[4, 1, 1, 0] = (4, -5, 6), -9
    monkeypatch.setattr(FloatGraph, "at_once", lambda self, elements: 2)
    seen = calibrate(graph, x)["x"]
    assert seen.minmax() == (-9, 6)
    assert seen.channel_largest.tolist() == [9, 5, 6]
    assert seen.counts.sum() == x.size


def test_all_of_it_is_the_extremes():
    x = np.random.default_rng(0).normal(0, 1, 1000)
    seen = statistics(x)
    assert np.allclose(seen.percentile(100), seen.minmax())


def test_a_constant_tensor_has_a_range():
    seen = Histogram(0.0, 0.0, np.zeros(BINS, np.int64), np.zeros(1))
    for low, high in (seen.minmax(), seen.percentile(99.9), seen.least_error()):
        assert Quantization.of_range(low, high).scale > 0


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_a_quantization_has_a_code_for_0_and_covers_its_range(low, width):
    q = Quantization.of_range(low, low + width)
    assert -128 <= q.zero_point <= 127
    assert q.fake(np.zeros(1))[0] == 0
    least, most = q.range
    assert least <= low + q.scale
    assert most >= low + width - q.scale


def test_conventions_of_pixels_give_pixel_minus_128():
    for low, high, zero_points in ((0, 1, {-128}), (-1, 1, {-1, 0}), (0, 255, {-128})):
        q = Quantization.of_range(low, high)
        assert q.zero_point in zero_points
        assert abs(q.scale * 255 / (high - low) - 1) < 1e-6

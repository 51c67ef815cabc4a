"""Transposed convolutions as convolutions, against their definition."""

import itertools

import numpy as np
import pytest

from mcutrain.quant.float_sums import Conv
from mcutrain.quant.transposed import Transposed

LENGTHS, TAPS, STRIDES, OUT, IN = (1, 3, 4), range(1, 6), range(1, 5), 3, 2
FAR = 20  # pixels that are made beyond all that is asked for


def by_definition(x, w, stride, before, size):
    """y[i * stride - before + k] += x[i] * w[k]."""
    high, wide = x.shape[1:3]
    taps = w.shape[1:3]
    y = np.zeros((1, high * stride + FAR, wide * stride + FAR, len(w)))
    for row, column in itertools.product(range(high), range(wide)):
        top, left = row * stride, column * stride
        part = np.einsum("c,oklc->klo", x[0, row, column], w)
        y[0, top : top + taps[0], left : left + taps[1]] += part
    return y[:, before : before + size[0], before : before + size[1]]


@pytest.mark.parametrize(("taps", "stride"), list(itertools.product(TAPS, STRIDES)))
def test_the_pixels_are_those_of_the_definition(taps, stride):
    if stride > taps:
        with pytest.raises(ValueError, match=f"a stride of {stride} with {taps} taps"):
            Transposed.of((4, 4), (taps, taps), (stride, stride), (0, 0), (8, 8))
        return
    rng = np.random.default_rng(0)
    for length, before, more in itertools.product(LENGTHS, range(min(taps, 4)), range(-1, 3)):
        size = (length - 1) * stride + taps - before + more
        if size < 1:
            continue
        x = rng.integers(-9, 9, (1, length, length + 1, IN)).astype(np.float32)
        w = rng.integers(-9, 9, (OUT, taps, taps, IN)).astype(np.float32)
        pairs = [(n, n) for n in (taps, stride, before)]
        shape = Transposed.of((length, length + 1), *pairs, (size, size + 1))
        y = Conv(shape.window, shape.weight(w), np.zeros(OUT * shape.copies)).run(x)
        for move in shape.moves(OUT):
            y = move.run(y)
        assert np.array_equal(y, by_definition(x, w, stride, before, (size, size + 1)))


@pytest.mark.parametrize(
    ("taps", "before", "wanted"), [(2, 0, 1), (3, 0, 2), (3, 1, 2), (4, 1, 2), (4, 0, 2)]
)
def test_upsampling_by_two_needs_no_more_taps_than_half_the_window(taps, before, wanted):
    shape = Transposed.of((4, 4), (taps, taps), (2, 2), (before, before), (8, 8))
    assert shape.window.kernel == (wanted, wanted)


@pytest.mark.parametrize(("before", "size"), [(3, 8), (-1, 8), (0, 0)])
def test_only_fewer_pixels_than_taps_may_be_left_out_and_one_is_made(before, size):
    with pytest.raises(ValueError, match="fewer than the taps may be left out"):
        Transposed.of((4, 4), (3, 3), (2, 2), (0, before), (8, size))

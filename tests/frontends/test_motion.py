"""Windows of motion and their features: what they mean, and the same in C, from any pieces."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.frontends import motion
from mcutrain.frontends.motion import Motion, SensorAxis
from tests.frontends.in_c import Guarded, libraries

SOURCES = ("mct_motion.c", "mct_fourier.c")
Rows = npt.NDArray[np.int16]
PLAIN = tuple(SensorAxis() for _ in range(3))


class Params(ctypes.Structure):
    """mct_motion_params."""

    _fields_ = (
        ("mults", ctypes.c_void_p),
        ("shifts", ctypes.c_void_p),
        ("band_ends", ctypes.c_void_p),
        *((name, ctypes.c_uint16) for name in ("window", "step", "points")),
        *((name, ctypes.c_uint8) for name in ("axes", "magnitude_axes", "gravity_shift")),
        *((name, ctypes.c_uint8) for name in ("features", "bands")),
    )


class State(ctypes.Structure):
    """mct_motion."""

    _fields_ = (
        ("gravity", ctypes.c_int32 * motion.MOST_AXES),
        *((name, ctypes.c_uint16) for name in ("next", "due")),
        ("is_warm", ctypes.c_uint8),
    )


def flags(how: Motion) -> int:
    return how.has_mean * 1 + how.has_rms * 2 + how.has_crossings * 4


def by_c(library: ctypes.CDLL, how: Motion, rows: Rows) -> tuple[list[Rows], list[Rows]]:
    """Windows and their features."""
    arrays = (
        np.array([axis.mult for axis in how.axes], np.int16),
        np.array([axis.shift for axis in how.axes], np.uint8),
        np.array(how.band_ends, np.uint16),
    )
    places = [array.ctypes.data for array in arrays]
    lengths = (how.window, how.step, how.points)
    counts = (len(how.axes), how.magnitude_axes, how.gravity_shift, flags(how))
    params = Params(*places, *lengths, *counts, len(how.band_ends))
    ring, state = Guarded(2 * how.window * how.channels), State()
    library.mct_motion_row.restype = ctypes.c_void_p
    known = ctypes.byref(state), ctypes.byref(params), ring.pointer
    library.mct_motion_reset(*known[:2])
    windows, features = [], []
    for row in np.ascontiguousarray(rows):
        if library.mct_motion_push(*known, ctypes.c_void_p(row.ctypes.data)):
            places = [library.mct_motion_row(*known, i) for i in range(how.window)]
            found = [ctypes.string_at(place, 2 * how.channels) for place in places]
            windows.append(np.frombuffer(b"".join(found), np.int16).reshape(how.window, -1))
            work, out = Guarded(4 * how.points), Guarded(2 * how.features)
            library.mct_motion_features(*known, work.pointer, out.pointer)
            work.array(np.int32)
            features.append(out.array(np.int16))
    ring.array(np.int16)
    return windows, features


@pytest.fixture(scope="module")
def in_c(
    sanitizing: Mapping[str, tuple[str, ...]],
    c_compilers: list[tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[ctypes.CDLL]:
    return libraries(SOURCES, c_compilers, sanitizing, tmp_path_factory.mktemp("motion"))


@st.composite
def motions(draw: st.DrawFn) -> Motion:
    """All that can be asked for."""
    axis = st.builds(SensorAxis, st.integers(-(1 << 14), 1 << 14), st.integers(0, 16))
    axes = tuple(
        draw(st.lists(axis | st.just(SensorAxis()), min_size=1, max_size=motion.MOST_AXES))
    )
    window = draw(st.integers(1, 60) | st.sampled_from([128, 200, 512]))
    points = next(n for n in (32, 128, 512) if n >= window)
    ends = draw(st.sets(st.integers(2, points // 2), max_size=5))
    sizes = [n for n in (0, 2, 3) if n <= len(axes)]
    return Motion(
        axes,
        window,
        step=draw(st.integers(1, 2 * window)),
        gravity_shift=draw(st.integers(0, motion.MOST_GRAVITY_SHIFT)),
        magnitude_axes=draw(st.sampled_from(sizes)),
        has_mean=draw(st.booleans()),
        has_rms=draw(st.booleans()),
        has_crossings=draw(st.booleans()),
        band_ends=tuple(sorted(ends)),
    )


def moved(seed: int, rows: int, axes: int) -> Rows:
    """Noise, waves, rest and extremes, of every size."""
    random, time = np.random.default_rng(seed), np.arange(rows)[:, np.newaxis]
    size = 2.0 ** random.uniform(0, 16, axes)
    kinds = (
        random.normal(random.uniform(-1, 1, axes) * size, size, (rows, axes)),
        size * np.sin(random.uniform(0, 3, axes) * time),
        np.broadcast_to(random.choice([-32768, 32767, 0, 1], axes), (rows, axes)),
        np.where(np.sin(random.uniform(0, 3, axes) * time) > 0, 32767, -32768),
    )
    kind = random.integers(0, len(kinds), axes)
    values = np.choose(kind, kinds)
    return np.clip(np.rint(values), -32768, 32767).astype(np.int16)


@settings(deadline=None)
@given(how=motions(), seed=st.integers(0, 2**32), share=st.floats(0, 1))
def test_c_computes_the_same_bits(
    in_c: list[ctypes.CDLL], how: Motion, seed: int, share: float
) -> None:
    rows = moved(seed, how.window + int(share * min(3 * how.step, 200)), len(how.axes))
    windows = motion.MotionWindows(how).push(rows)
    expected = motion.features(how, windows)
    for library in in_c:
        found = by_c(library, how, rows)
        assert np.array_equal(np.array(found[0]), windows)
        assert np.array_equal(np.array(found[1]), expected)


@settings(deadline=None, max_examples=40)
@given(how=motions(), seed=st.integers(0, 2**32), cuts=st.data())
def test_pieces_give_what_all_rows_give(how: Motion, seed: int, cuts: st.DataObject) -> None:
    rows = moved(seed, 3 * how.window, len(how.axes))
    lengths = cuts.draw(st.lists(st.integers(0, how.window), max_size=6))
    front = motion.MotionWindows(how)
    whole = front.push(rows)
    front.reset()
    pieces = [front.push(piece) for piece in np.split(rows, np.cumsum(lengths))]
    assert np.array_equal(np.concatenate(pieces), whole)
    assert len(whole) == (2 * how.window) // how.step + 1
    none = motion.features(how, whole[:0])  # of a piece in which no window ends
    assert none.shape == (0, how.features)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sums_fit(in_c: list[ctypes.CDLL], sign: int) -> None:
    """Full size on all axes: constant, and with the sign of a bin's wave around a far mean."""
    how = Motion(PLAIN, 512, 512, 0, 3, True, True, True, (2, 4, 100, 256))
    time = np.arange(512)
    for number in (0, 1, 2, 3, 77, 256):
        wave = sign * np.cos(2 * np.pi * number * time / 512 + 0.1) >= 0
        column = np.where(wave, 32767, -32768).astype(np.int16)
        rows = np.stack([column, -1 - column, np.full(512, -32768, np.int16)], axis=1)
        windows = motion.MotionWindows(how).push(rows)
        expected = motion.features(how, windows)
        for library in in_c:
            assert np.array_equal(np.array(by_c(library, how, rows)[1]), expected)


def test_features_are_what_they_are_called() -> None:
    how = Motion(PLAIN, 100, 50, 0, 3, True, True, True, (10, 64))
    random = np.random.default_rng(0)
    rows = np.rint(random.normal([500, -300, 0], [1000, 20, 3], (400, 3))).astype(np.int16)
    windows = motion.MotionWindows(how).push(rows)
    assert windows.shape == (7, 100, 4)
    found = motion.features(how, windows).reshape(7, 4, 5)
    x = windows.astype(np.float64)
    mean = x.mean(axis=1)
    above = x >= mean[:, np.newaxis]
    assert np.abs(found[..., 0] - mean).max() <= 0.5
    assert np.abs(found[..., 1] - np.sqrt((x * x).mean(axis=1))).max() < 1
    assert np.array_equal(found[..., 2], (above[:, 1:] != above[:, :-1]).sum(axis=1))
    assert np.abs(x[..., 3] - np.linalg.norm(x[..., :3], axis=2)).max() <= 0.5
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(100) / 100)
    spectrum = np.fft.rfft(32 * (x - mean[:, np.newaxis]) * hann[:, np.newaxis], 128, axis=1)
    power = np.abs(spectrum) ** 2
    for band, (first, end) in enumerate(((1, 10), (10, 64))):
        exact = 256 * np.log2(power[:, first:end].sum(axis=1) + 1)
        errors = np.abs(found[..., 3 + band] - exact)
        assert errors[:, [0, 1, 3]].max() < 8  # 1/32 of a factor of two
        assert errors[:, 2].max() < 64  # an axis of a few units


def test_a_number_that_is_the_mean_counts_as_above(in_c: list[ctypes.CDLL]) -> None:
    how = Motion(PLAIN[:1], 8, 8, has_crossings=True)
    rows = np.array([3, 2, 1, 2, 3, 2, 1, 2], np.int16)[:, np.newaxis]
    assert motion.features(how, motion.MotionWindows(how).push(rows)).tolist() == [[4]]
    for library in in_c:
        assert [x.tolist() for x in by_c(library, how, rows)[1]] == [[4]]


def test_gravity_is_removed_whatever_the_first_row_is() -> None:
    how = Motion(PLAIN, 2, 1, gravity_shift=4)
    rows = np.tile(np.array([8192, -123, 32767], np.int16), (50, 1))
    assert not motion.MotionWindows(how).push(rows).any()
    rows[10:, 0] -= 1000
    left = motion.MotionWindows(how).push(rows)[:, -1, 0]
    exact = -1000 * (15 / 16) ** np.arange(1, 40)
    assert np.abs(left[9:48] - exact).max() < 2
    assert not left[:9].any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axes": ()}, "0 axes"),
        ({"axes": PLAIN * 4}, "12 axes"),
        ({"window": 0}, "0 rows"),
        ({"window": 513}, "513 rows"),
        ({"step": 0}, "every 0 rows"),
        ({"gravity_shift": 16}, "2\\^16 rows"),
        ({"magnitude_axes": 1}, "magnitude of 1"),
        ({"axes": PLAIN[:2], "magnitude_axes": 3}, "magnitude of 3 of 2"),
        ({"band_ends": (1,)}, "rising bins"),
        ({"band_ends": (5, 5)}, "rising bins"),
        ({"band_ends": (17,)}, "2 to 16"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], message: str) -> None:
    values: dict[str, object] = {"axes": PLAIN, "window": 32, "step": 16}
    with pytest.raises(ValueError, match=message):
        Motion(**(values | change))  # type: ignore[arg-type]


@pytest.mark.parametrize(("mult", "shift"), [(16385, 0), (1, 31), (1, -1)])
def test_a_factor_out_of_range_is_refused(mult: int, shift: int) -> None:
    with pytest.raises(ValueError, match="an axis times"):
        SensorAxis(mult, shift)


@pytest.mark.parametrize("wrong", [np.zeros((5, 3)), np.zeros((5, 2), np.int16)])
def test_rows_of_another_kind_are_named(wrong: npt.NDArray[np.generic]) -> None:
    with pytest.raises(ValueError, match=str(wrong.dtype)):
        motion.MotionWindows(Motion(PLAIN, 32, 16)).push(wrong)

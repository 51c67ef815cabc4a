"""Normalization: near the exact numbers, the same in C, and nothing where the input does it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.frontends.normalization import ChannelNormalization, InputQuantization, folded
from tests.frontends.in_c import Guarded, libraries

SOURCES = ("mct_normalize.c",)


class Params(ctypes.Structure):
    """mct_normalize_params."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("mults", "biases", "shifts")),
        ("channels", ctypes.c_uint16),
    )


def by_c(
    library: ctypes.CDLL, how: ChannelNormalization, x: npt.NDArray[np.generic]
) -> npt.NDArray[np.generic]:
    arrays = (
        np.array(how.mults, np.int16),
        np.array(how.biases, np.int32),
        np.array(how.shifts, np.uint8),
    )
    params, y = Params(*(a.ctypes.data for a in arrays), x.shape[-1]), Guarded(x.size)
    function = library.mct_normalize_s16 if x.dtype == np.int16 else library.mct_normalize_u8
    place = ctypes.c_void_p(x.ctypes.data)
    function(ctypes.byref(params), place, y.pointer, ctypes.c_uint32(len(x)))
    return y.array(np.int8).reshape(x.shape)


@pytest.fixture(scope="module")
def in_c(
    sanitizing: Mapping[str, tuple[str, ...]],
    c_compilers: list[tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[ctypes.CDLL]:
    return libraries(SOURCES, c_compilers, sanitizing, tmp_path_factory.mktemp("normalize"))


channels = st.tuples(st.floats(-32768, 32767), st.floats(0, 1)).map(
    lambda c: (c[0], 2.0 ** (24 * c[1]))
)


@settings(deadline=None)
@given(
    pairs=st.lists(channels, min_size=1, max_size=6),
    units=st.floats(2**-7.9, 4),
    zero_point=st.integers(-128, 127),
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from([np.int16, np.uint8]),
)
def test_c_and_numpy_are_within_a_32th_of_the_exact_number(
    in_c: list[ctypes.CDLL],
    pairs: list[tuple[float, float]],
    units: float,
    zero_point: int,
    seed: int,
    dtype: type[np.int16 | np.uint8],
) -> None:
    means, deviations = zip(*pairs, strict=True)
    quantization = InputQuantization(units, zero_point)
    how = ChannelNormalization.of(means, deviations, quantization)
    limits, random = np.iinfo(dtype), np.random.default_rng(seed)
    near = np.array(means) + np.array(deviations) * random.normal(0, 50 * units, (40, len(pairs)))
    far = random.integers(limits.min, limits.max + 1, (40, len(pairs)))
    ends = np.repeat([[limits.min], [limits.max]], len(pairs), axis=1)
    x = np.clip(np.concatenate((near, far, ends)), limits.min, limits.max).astype(dtype)
    found = how.normalized(x)
    exact = (x - np.array(means)) / np.array(deviations) / units + zero_point
    assert np.abs(np.clip(exact, -128, 127) - found).max() <= 0.5 + 1 / 32
    for library in in_c:
        assert np.array_equal(by_c(library, how, x), found)


@pytest.mark.parametrize("mean", [-32768, 32767])
@pytest.mark.parametrize("zero_point", [-128, 127])
@pytest.mark.parametrize("unit", [2**-7.999, 2.0**8, 2.0**9, 1e6])
def test_the_largest_sums_fit(
    in_c: list[ctypes.CDLL], mean: int, zero_point: int, unit: float
) -> None:
    how = ChannelNormalization.of([mean], [unit], InputQuantization(1, zero_point))
    x = np.array([[-32768], [32767], [0]], np.int16)
    for library in in_c:
        assert np.array_equal(by_c(library, how, x), how.normalized(x))


@given(mean=st.integers(0, 255), deviation=st.floats(0.01, 1000), channels=st.integers(1, 4))
def test_a_folded_normalization_is_exact(mean: int, deviation: float, channels: int) -> None:
    found = folded([mean] * channels, [deviation] * channels, offset=128)
    assert found is not None
    pixels = np.arange(256)
    real = found.scale * ((pixels - 128) - found.zero_point)
    assert np.allclose(real, (pixels - mean) / deviation, rtol=1e-15, atol=0)


@pytest.mark.parametrize(
    ("means", "deviations", "offset"),
    [
        ([127.5], [127.5], 128),
        ([128, 128], [64, 63], 128),
        ([128, 127], [64, 64], 128),
        ([-1], [64], 128),
        ([128], [64], 0),
    ],
)
def test_what_no_zero_point_says_is_not_folded(
    means: list[float], deviations: list[float], offset: int
) -> None:
    assert folded(means, deviations, offset) is None


def test_pixels_less_128_are_folded() -> None:
    assert folded([128] * 3, [128] * 3, 128) == InputQuantization(1 / 128, 0)
    assert folded([0], [255], 128) == InputQuantization(1 / 255, -128)
    assert folded([5], [2.0]) == InputQuantization(0.5, 5)


@pytest.mark.parametrize(
    ("mean", "deviation", "message"),
    [
        (32768, 1, "16-bit"),
        (0, 0, "larger deviation"),
        (0, 2**-8, "larger deviation"),
        (0, float("nan"), "larger deviation"),
        (0, float("inf"), "larger deviation"),
        (float("nan"), 1, "16-bit"),
    ],
)
def test_what_does_not_fit_is_named(mean: float, deviation: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ChannelNormalization.of([mean], [deviation], InputQuantization(1, 0))


@pytest.mark.parametrize("wrong", [np.zeros((4, 2)), np.zeros((4, 3), np.int16)])
def test_numbers_of_another_kind_are_named(wrong: npt.NDArray[np.generic]) -> None:
    how = ChannelNormalization.of([0, 0], [1, 1], InputQuantization(1, 0))
    with pytest.raises(ValueError, match=str(wrong.dtype)):
        how.normalized(wrong)  # type: ignore[arg-type]

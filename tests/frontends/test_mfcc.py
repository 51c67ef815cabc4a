"""Integer MFCCs: near their definition in real numbers, the same in C, from any pieces."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.data import mfcc as real
from mcutrain.frontends import fourier, mfcc, mfcc_tables
from tests.frontends.in_c import FOLDER, Guarded, libraries
from tests.frontends.sounds import Sound, sound

SOURCES = ("mct_mfcc.c", "mct_fourier.c")
KEYWORDS = mfcc.MfccQuantization.of(0.5847029089927673, 83)
"""The input of kws_ref_model."""
EXTREME = (-32768, 32767)


class InC:
    """The C, as a library of this machine."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        library.mct_mfcc_push.restype = ctypes.c_uint32
        library.mct_root.restype = ctypes.c_uint32
        library.mct_fourier_magnitude.restype = ctypes.c_uint32
        self._mfcc = Guarded(964)

    def features(
        self, x: Sound, pieces: Sequence[int]
    ) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
        self.library.mct_mfcc_reset(self._mfcc.pointer)
        frames, peaks = [], []
        work, row, peak, is_frame = Guarded(2048), Guarded(20), Guarded(2), ctypes.c_int32()
        for piece in np.split(x, np.cumsum(pieces)):
            taken, piece = 0, np.ascontiguousarray(piece)
            while taken < len(piece):
                place = ctypes.c_void_p(piece.ctypes.data + 2 * taken)
                outputs = (work.pointer, row.pointer, peak.pointer, ctypes.byref(is_frame))
                count = ctypes.c_uint32(len(piece) - taken)
                taken += self.library.mct_mfcc_push(self._mfcc.pointer, place, count, *outputs)
                if is_frame.value:
                    frames.append(row.array(np.int16))
                    peaks.append(peak.array(np.int16))
        work.array(np.int32), self._mfcc.array(np.uint8)  # nothing behind them was written
        return np.array(frames, np.int16).reshape(-1, 10), np.array(peaks, np.int16).reshape(-1)

    def quantized(
        self, frames: npt.NDArray[np.int16], peak: int, how: mfcc.MfccQuantization
    ) -> npt.NDArray[np.generic]:
        packed = np.array([(how.mult, how.shift, how.zero_point)], "<i2, u1, i1")
        level, found = self.library.mct_mfcc_level(ctypes.c_int16(peak)), []
        assert level == mfcc.level(peak)
        for frame in np.ascontiguousarray(frames):
            x = Guarded(10)
            places = (ctypes.c_void_p(packed.ctypes.data), ctypes.c_void_p(frame.ctypes.data))
            self.library.mct_mfcc_quantize(*places, level, x.pointer)
            found.append(x.array(np.int8))
        return np.array(found)

    def of_window(
        self, frames: npt.NDArray[np.int16], peaks: npt.NDArray[np.int16]
    ) -> npt.NDArray[np.generic]:
        """Frames with their peaks, less the level of the largest peak."""
        kept, found = np.column_stack((frames, peaks)), []
        level = self.library.mct_mfcc_look(
            ctypes.c_void_p(kept.ctypes.data), len(kept), 0, len(kept)
        )
        for frame in kept:
            out = Guarded(20)
            self.library.mct_mfcc_finish(ctypes.c_void_p(frame.ctypes.data), level, out.pointer)
            found.append(out.array(np.int16))
        return np.array(found)


@pytest.fixture(scope="module")
def in_c(
    sanitizing: Mapping[str, tuple[str, ...]],
    c_compilers: list[tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[InC]:
    folder = tmp_path_factory.mktemp("mfcc")
    return [InC(library) for library in libraries(SOURCES, c_compilers, sanitizing, folder)]


def spoken(seed: int) -> Sound:
    """A second that is at least as hard as speech: harmonics 60 dB apart, and noise."""
    random, time = np.random.default_rng(seed), np.arange(16_000) / 16_000
    pitch = random.uniform(80, 300)
    harmonics = range(1, int(7000 / pitch))
    tones = sum(
        10 ** (-3 * n * pitch / 7000) * np.sin(2 * np.pi * n * pitch * time) for n in harmonics
    )
    hill = np.exp(-(((time - random.uniform(0.3, 0.7)) / 0.15) ** 2))
    values = tones * hill * random.uniform(300, 8000) + random.normal(
        0, random.uniform(0.5, 30), 16_000
    )
    return np.clip(np.rint(values), *EXTREME).astype(np.int16)


def test_inputs_are_those_of_the_definition_but_for_four_in_a_thousand() -> None:
    """Which are off by one step of the model's input."""
    differences = []
    for seed in range(20):
        x = spoken(seed)
        exact = real.mfcc(x / 32768).astype(np.float64) / 0.5847029089927673
        expected = np.clip(np.rint(exact) + 83, -128, 127)
        differences.append(mfcc.quantized(mfcc.features(x)[0], int(x.max()), KEYWORDS) - expected)
    sizes = np.abs(np.array(differences))
    assert sizes.max() <= 1
    assert np.mean(sizes > 0) < 0.004


def test_silence_is_that_of_the_definition_whatever_was_loud_before() -> None:
    x = spoken(0)
    x[5000:9000] = 0
    frames, expected = mfcc.features(x)[0], real.mfcc(x / 32768)
    silent = np.flatnonzero(frames[:, 0] == mfcc.silence())
    assert len(silent) == 11
    exact = np.rint(expected[silent].astype(np.float64) / 0.5847029089927673) + 83
    found = mfcc.quantized(frames, int(x.max()), KEYWORDS)[silent]
    assert np.array_equal(found, np.clip(exact, -128, 127))


def test_the_bands_are_those_of_the_definition() -> None:
    ends, weights = mfcc_tables.bands()
    expected, found = real.mel_bands(), np.zeros((257, 42))
    for number, weight in enumerate(weights / 2**15, 1):
        band = np.searchsorted(ends, number, side="right")
        found[number, band : band + 2] = weight, 1 - weight
    assert np.abs(found[:, 1:41] - expected).max() < 2**-15


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), cuts=st.data())
def test_pieces_give_what_the_whole_sound_gives(seed: int, cuts: st.DataObject) -> None:
    x = sound(seed, 1600)
    stream = mfcc.MfccFrontend(1).stream()
    lengths = cuts.draw(st.lists(st.integers(0, 700), max_size=8))
    frames = [stream.push(piece) for piece in np.split(x, np.cumsum(lengths))]
    assert np.array_equal(np.concatenate(frames), np.column_stack(mfcc.features(x)))


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32), scale=st.floats(2**-19, 500), cuts=st.data())
def test_c_computes_the_same_bits(
    in_c: list[InC], seed: int, scale: float, cuts: st.DataObject
) -> None:
    x = sound(seed, 2000)
    lengths = cuts.draw(st.lists(st.integers(0, 700), max_size=8))
    frames, peaks = mfcc.features(x)
    how = mfcc.MfccQuantization.of(scale, cuts.draw(st.integers(-128, 127)))
    peak = cuts.draw(st.sampled_from([*peaks.tolist(), -32768, 0, 1, 32767]))
    for library in in_c:
        found = library.features(x, lengths)
        assert np.array_equal(found[0], frames)
        assert np.array_equal(found[1], peaks)
        expected = mfcc.quantized(frames, peak, how)
        assert np.array_equal(library.quantized(frames, peak, how), expected)


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 9), is_quiet=st.booleans())
def test_a_windows_level_is_that_of_its_largest_sample_within_16_bits(
    in_c: list[InC], seed: int, count: int, is_quiet: bool
) -> None:
    random = np.random.default_rng(seed)
    frames = random.integers(*EXTREME, (count, 10), endpoint=True).astype(np.int16)
    frames[random.random(count) < 0.2, 0] = mfcc.silence()
    peaks = random.integers(*((-5, 3) if is_quiet else EXTREME), count).astype(np.int16)
    expected = frames.astype(np.int64)
    expected[frames[:, 0] != mfcc.silence(), 0] -= mfcc.level(int(peaks.max()))
    expected = np.clip(expected, *EXTREME)
    assert np.array_equal(mfcc.shifted(frames, int(peaks.max())), expected)
    for library in in_c:
        assert np.array_equal(library.of_window(frames, peaks), expected)


@pytest.mark.draws(1)
@pytest.mark.parametrize("value", EXTREME)
def test_the_largest_sums_fit(in_c: list[InC], value: int) -> None:
    """Signals whose samples all have the sign of a bin's own wave, at full size."""
    time = np.arange(480)
    for number, phase in [(n, p) for n in range(0, 257, 32) for p in (0, 0.4)]:
        wave = np.cos(2 * np.pi * number * time / 512 + phase) >= 0
        x = np.where(wave, value, -1 - value).astype(np.int16)
        expected = mfcc.features(x)[0]
        for library in in_c:
            assert np.array_equal(library.features(x, [])[0], expected)


@settings(deadline=None)
@given(count=st.sampled_from(fourier.LENGTHS), seed=st.integers(0, 2**32), full=st.booleans())
def test_a_transform_is_numpys_and_near_the_exact_one(
    in_c: list[InC], count: int, seed: int, full: bool
) -> None:
    random = np.random.default_rng(seed)
    limit = (1 << 30) // count - 1
    x = random.integers(-limit, limit + 1, count)
    if full:  # all sizes the largest, signs those of a bin
        wave = np.cos(2 * np.pi * random.integers(0, count) * np.arange(count) / count)
        x = np.where(wave >= 0, limit, -limit)
    numbers = fourier.transform(x)
    exact = np.fft.rfft(x)[1 : count // 2]
    assert np.abs(numbers[0] + 1j * numbers[1] - exact).max() < 2e-4 * np.abs(x).sum()
    sizes = fourier.magnitude(*numbers)
    for library in in_c:
        points = np.ascontiguousarray(x, np.int32)
        place = ctypes.c_void_p(points.ctypes.data)
        library.library.mct_fourier(place, count)
        bins = range(1, count // 2)
        found = [library.library.mct_fourier_magnitude(place, count, k) for k in bins]
        assert found == sizes.tolist()


@given(x=st.integers(0, 2**32 - 1), root=st.integers(0, 2**16 - 1), more=st.integers(-1, 1))
def test_roots_are_the_nearest(in_c: list[InC], x: int, root: int, more: int) -> None:
    halfway = root * root + root + more
    for number in (x, min(max(halfway, 0), 2**32 - 1)):
        found = int(fourier.root(np.array([number]))[0])
        assert found in (0, 65536) or (2 * found - 1) ** 2 < 4 * number < (2 * found + 1) ** 2
        assert {library.library.mct_root(ctypes.c_uint32(number)) for library in in_c} == {found}


@settings(deadline=None, max_examples=20)
@given(share=st.integers(0, 2**61))
def test_logarithms_are_exact_to_four_units(in_c: list[InC], share: int) -> None:
    powers = [1 << bits for bits in range(62)]
    for number in (n for power in powers for n in (power, power + share % power, 2 * power - 1)):
        found = int(fourier.log2(np.array([number]))[0])
        assert abs(found - 65536 * np.log2(float(number))) < 4
        logarithms = {library.library.mct_log2(ctypes.c_uint64(number)) for library in in_c}
        assert logarithms == {found}


def test_the_tables_in_c_are_those_of_numpy() -> None:
    header, text = FOLDER / "mct_mfcc_tables.h", mfcc_tables.header()
    if os.environ.get("MCUTRAIN_WRITE_GOLDEN"):
        header.write_text(text, encoding="utf-8")
    assert header.read_text(encoding="utf-8") == text
    code = (FOLDER / "mct_mfcc.c").read_text(encoding="utf-8")
    assert f"SILENCE ({mfcc.silence()})" in code
    assert f"FLOOR {mfcc.FLOOR}u" in code


@pytest.mark.parametrize("wrong", [np.zeros(480), np.zeros((2, 480), np.int16)])
def test_a_sound_of_another_kind_is_named(wrong: npt.NDArray[np.generic]) -> None:
    with pytest.raises(ValueError, match=str(wrong.dtype)):
        mfcc.features(wrong)


@pytest.mark.parametrize("scale", [0, -1, 2**-20, 512, float("inf"), float("nan")])
def test_a_scale_out_of_range_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="between"):
        mfcc.MfccQuantization.of(scale, 0)

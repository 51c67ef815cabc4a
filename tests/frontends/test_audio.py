"""The audio front end: TensorFlow Lite Micro's numbers, in numpy and in C, from any pieces."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.frontends import audio, tables
from tests.drawing import drawn_by_commit
from tests.frontends.in_c import FOLDER, libraries
from tests.frontends.sounds import Sound, sound

HEADER = FOLDER / "mct_audio_tables.h"
FRAMES = 25_000
"""A million features."""


class InC:
    """The C, as a library of this machine."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._library.mct_audio_push.restype = ctypes.c_uint32
        self._audio = (ctypes.c_uint32 * 281)()  # sizeof (mct_audio), and nothing behind it

    def features(self, x: Sound, step: int, pieces: Sequence[int]) -> npt.NDArray[np.uint16]:
        self._library.mct_audio_reset(self._audio, ctypes.c_uint16(step))
        found, work, row = [], (ctypes.c_int16 * 512)(), (ctypes.c_uint16 * 40)()
        is_frame = ctypes.c_int32()
        for piece in np.split(x, np.cumsum(pieces)):
            piece = np.ascontiguousarray(piece)
            taken = 0
            while taken < len(piece):
                place = ctypes.c_void_p(piece.ctypes.data + 2 * taken)
                count = ctypes.c_uint32(len(piece) - taken)
                rest = (self._audio, place, count, work, row, ctypes.byref(is_frame))
                taken += self._library.mct_audio_push(*rest)
                if is_frame.value:
                    found.append(list(row))
        return np.array(found, np.uint16).reshape(-1, 40)


def by_tflite_micro(x: Sound) -> npt.NDArray[np.uint16]:
    """A frame every 10 ms."""
    package = pytest.importorskip("pymicro_features", reason="pip install 'mcutrain[test]'")
    front, found, sound_bytes = package.MicroFrontend(), [], x.tobytes()
    while sound_bytes:
        made = front.process_samples(sound_bytes[:320])
        sound_bytes = sound_bytes[2 * made.samples_read :]
        found += [made.features] if made.features else []
    return np.rint(np.array(found) / audio.FEATURE_SCALE).astype(np.uint16)


@pytest.mark.slow
@pytest.mark.oracle
def test_features_are_tflite_micros() -> None:
    """A million of them with MCUTRAIN_STRESS=1."""
    differing = total = 0
    for seed in drawn_by_commit(range(5), 1):
        x = sound(seed, 480 + 160 * (FRAMES // 5 - 1))
        ours, theirs = audio.features(x, 160), by_tflite_micro(x)
        differing, total = differing + int((ours != theirs).sum()), total + theirs.size
    assert differing == 0 < total


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32), step=st.sampled_from(audio.STEPS), cuts=st.data())
def test_pieces_give_what_the_whole_sound_gives(seed: int, step: int, cuts: st.DataObject) -> None:
    x = sound(seed, 1600)
    lengths = cuts.draw(st.lists(st.integers(0, 700), max_size=8))
    front = audio.AudioFeatures(step)
    pieces = [front.push(piece) for piece in np.split(x, np.cumsum(lengths))]
    assert np.array_equal(np.concatenate(pieces), audio.features(x, step))


def test_after_a_reset_nothing_is_left_of_a_sound() -> None:
    front, x = audio.AudioFeatures(160), sound(3, 2000)
    first = front.push(x)
    assert not np.array_equal(front.push(x), first)
    front.reset()
    assert np.array_equal(front.push(x), first)


@pytest.fixture(scope="module")
def in_c(
    sanitizing: Mapping[str, tuple[str, ...]],
    c_compilers: list[tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[InC]:
    """By each compiler, and with sanitizers where a compiler has them."""
    folder = tmp_path_factory.mktemp("audio")
    return [InC(made) for made in libraries(["mct_audio.c"], c_compilers, sanitizing, folder)]


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32), step=st.sampled_from(audio.STEPS), cuts=st.data())
def test_c_computes_the_same_bits(
    in_c: list[InC], seed: int, step: int, cuts: st.DataObject
) -> None:
    x = sound(seed, 2000)
    lengths = cuts.draw(st.lists(st.integers(0, 700), max_size=8))
    expected = audio.features(x, step)
    for library in in_c:
        assert np.array_equal(library.features(x, step, lengths), expected)


@pytest.mark.draws(1)
@pytest.mark.parametrize("value", [-32768, 32767])
def test_the_largest_sums_fit(in_c: list[InC], value: int) -> None:
    """Signals whose samples all have the sign of a bin's own wave, at full size."""
    time = np.arange(480 + 320)
    for bin_number in range(0, 257, 16):
        wave = np.cos(2 * np.pi * bin_number * time / 512 + 0.4) >= 0
        x = np.where(wave, value, -1 - value).astype(np.int16)
        expected = audio.features(x, 160)
        for library in in_c:
            assert np.array_equal(library.features(x, 160, []), expected)


def test_the_tables_in_c_are_those_of_numpy() -> None:
    text = tables.header()
    if os.environ.get("MCUTRAIN_WRITE_GOLDEN"):
        HEADER.write_text(text, encoding="utf-8")
    assert HEADER.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("wrong", [np.zeros(480), np.zeros((2, 480), np.int16)])
def test_a_sound_of_another_kind_is_named(wrong: npt.NDArray[np.generic]) -> None:
    with pytest.raises(ValueError, match=str(wrong.dtype)):
        audio.AudioFeatures().push(wrong)


def test_another_step_is_refused() -> None:
    with pytest.raises(ValueError, match="every 100 samples"):
        audio.AudioFeatures(100)

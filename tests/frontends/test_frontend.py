"""What all front ends have in common: texts, files, codes, and sentences for what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.data import quantize_input
from mcutrain.errors import DataError
from mcutrain.frontends import Frontend, audio, mfcc, parse
from mcutrain.frontends.sound import AudioFrontend
from mcutrain.frontends.speech import MfccFrontend
from tests.frontends.sounds import sound

TWO = AudioFrontend(20, 2)
BY_KIND = (TWO, MfccFrontend(2))


@pytest.mark.parametrize("front", BY_KIND, ids=lambda front: front.kind)
@settings(deadline=None)
@given(
    scale=st.floats(2**-12, 4, width=32) | st.sampled_from([26 / 256, 10 / 256, 5 / 256, 20 / 256]),
    zero_point=st.integers(-128, 127),
)
def test_codes_by_steps_are_those_of_the_real_numbers(
    front: Frontend, scale: float, zero_point: int
) -> None:
    low, high = front.RANGE
    features = np.arange(low, high + 1)
    codes = front.codes(features, scale, zero_point)
    real = front.as_real(features)
    assert np.array_equal(codes, quantize_input(real, scale=scale, zero_point=zero_point))


@given(seed=st.integers(0, 2**32))
def test_no_feature_is_outside_the_range(seed: int) -> None:
    for front in BY_KIND:
        found = front.features(sound(seed, 800)[np.newaxis])
        assert found.min() >= front.RANGE[0]
        assert found.max() <= front.RANGE[1]


def test_a_window_of_mfccs_is_that_of_the_kernel() -> None:
    x = sound(3, 2000)
    frames, _ = mfcc.features(x)
    front = parse("mfcc", (len(frames), 10, 1))
    used = x[: front.input_shape[0]]
    found = front.features(x[np.newaxis])[0]
    assert np.array_equal(found, mfcc.shifted(frames, int(used.max())))
    assert not np.array_equal(found, frames)


def test_the_largest_logarithm_is_the_ranges_end() -> None:
    assert audio._logarithm(0xFFFFFFFF) <= TWO.RANGE[1] <= audio._logarithm(0xFFFFFFFF) + 2


def test_windows_begin_anew_and_short_ones_end_in_zeros() -> None:
    x = sound(5, 800)
    windows = np.stack([x, x])
    found = TWO.compute(windows, 0.1, -128)
    assert found.shape == (2, 2, 40)
    assert np.array_equal(found[0], found[1])
    short = np.concatenate((x[:500], np.zeros(300, np.int16)))
    assert np.array_equal(TWO.features(x[np.newaxis, :500]), TWO.features(short[np.newaxis]))


def test_what_lies_behind_a_window_is_left_out() -> None:
    x = sound(5, 900)[np.newaxis]
    assert np.array_equal(TWO.features(x), TWO.features(x[:, :800]))


@pytest.mark.parametrize("text", ["audio", "audio:frames=49", " audio:step_ms=20 "])
def test_the_model_says_what_a_text_leaves_out(text: str) -> None:
    assert parse(text, (49, 40, 1)).text == "audio:step_ms=20,frames=49"


def test_a_text_is_read_as_it_is_written() -> None:
    front = AudioFrontend(10, 7)
    assert parse(front.text) == front
    assert parse(front.text, (7, 40)) == front
    assert parse("mfcc", (49, 10, 1)) == parse("mfcc:frames=49") == MfccFrontend(49)


def test_a_file_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "front.toml"
    path.write_text('kind = "audio"\nstep_ms = 10\nframes = 98\n')
    assert parse(str(path)) == AudioFrontend(10, 98)


@pytest.mark.parametrize(
    ("text", "shape", "part"),
    [
        ("mfcc9", (49, 40), "no front end 'mfcc9'"),
        ("audio:step=1", (49, 40), "no option 'step'"),
        ("audio:step_ms=fast", (49, 40), "NAME=NUMBER"),
        ("audio:step_ms=15", (49, 40), "give 10 or 20"),
        ("audio:frames=0,step_ms=20", None, "give 1 to"),
        ("audio", None, "how many frames"),
        ("audio", (50, 40), "10 or of 20 ms"),
        ("audio", (49, 10), r"takes \(49, 10\)"),
        ("audio:frames=48", (49, 40), "makes 48 frames"),
        ("mfcc", (49, 40), r"takes \(49, 40\)"),
        ("mfcc:frames=48", (49, 10), "makes 48 frames"),
        ("mfcc", None, "how many frames"),
        ("mfcc:frames=0", None, "give 1 to"),
        ("nowhere.toml", (49, 40), "describes no front end"),
    ],
)
def test_what_fits_nothing_gets_a_sentence(
    text: str, shape: tuple[int, ...] | None, part: str
) -> None:
    with pytest.raises(DataError, match=part):
        parse(text, shape)


@pytest.mark.parametrize(
    ("content", "part"),
    [("step_ms = 10", "names no front end"), ("kind = ", "describes no"), ('kind="x"', "no front")],
)
def test_a_file_that_says_none_gets_a_sentence(tmp_path: Path, content: str, part: str) -> None:
    path = tmp_path / "front.toml"
    path.write_text(content)
    with pytest.raises(DataError, match=part):
        parse(str(path))


def test_an_option_that_is_no_number_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "front.toml"
    path.write_text('kind = "audio"\nstep_ms = true\n')
    with pytest.raises(DataError, match="step_ms is True"):
        parse(str(path))


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (np.zeros((2, 800), np.float32), "takes int16 samples"),
        (np.zeros((2, 800, 2), np.int16), "one channel"),
        (np.zeros((2, 479), np.int16), "takes 480"),
    ],
)
def test_other_samples_get_a_sentence(wrong: np.ndarray, part: str) -> None:
    with pytest.raises(DataError, match=part):
        TWO.features(wrong)

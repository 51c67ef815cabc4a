"""What all front ends have in common: texts, files, codes, and sentences for what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.data import quantize_input
from mcutrain.errors import DataError
from mcutrain.frontends import KINDS, MOST_TEXT, Frontend, audio, mfcc, motion, parse
from mcutrain.frontends.audio import AudioFrontend
from mcutrain.frontends.mfcc import MfccFrontend
from mcutrain.frontends.motion import Motion, SensorAxis
from mcutrain.functions.options import Flag, FrontendFlag
from mcutrain.simulation.field import Ear
from tests.frontends.sounds import sound

TWO = AudioFrontend(20, 2)
BY_KIND = (
    TWO,
    MfccFrontend(2),
    parse("motion:axes=1,frames=4,window=150,step=200,rms=1,bands=4,unit=77,mult=-5,shift=2"),
)
OTHERS = (
    parse("mel:bands=32,frames=3"),
    parse("camera:width=8,height=6,format=rgb565,out_width=4,out_height=3,out_channels=3"),
)


def test_every_kind_stands_in_the_help_and_in_the_table_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "frontends.md").read_text(encoding="utf-8")
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert rows[: len(KINDS)] == list(KINDS)
    (flag,) = (f for f in FrontendFlag.__metadata__ if isinstance(f, Flag))
    assert ", ".join(KINDS) in flag.help


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


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_no_feature_is_outside_the_range(seed: int) -> None:
    for front in BY_KIND:
        found = front.features(sound(seed, 800).reshape(1, 800, *front.input_shape[1:]))
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


@pytest.mark.parametrize("front", [*BY_KIND, *OTHERS], ids=lambda front: front.kind)
def test_a_stream_takes_pieces_in_which_no_frame_ends(front: Frontend) -> None:
    stream = front.stream()
    piece = np.zeros(front.input_shape, front.input_dtype)
    for count in (0, 1):
        assert len(stream.push(piece[:count])) == 0
    assert len(stream.push(piece[1:])) == front.output_shape[0]


@pytest.mark.parametrize("at_once", [1, 2, 6, 7])
def test_frames_of_a_stream_are_computed_a_few_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = parse("mfcc:frames=7")
    x = sound(2, *front.input_shape)
    whole = front.stream().push(x)
    monkeypatch.setattr("mcutrain.frontends.sound.AT_ONCE", at_once)
    assert np.array_equal(front.stream().push(x), whole)


@pytest.mark.parametrize("front", [*BY_KIND, *OTHERS], ids=lambda front: front.kind)
def test_an_ear_hears_the_same_behind_an_empty_piece(front: Frontend) -> None:
    samples = np.random.default_rng(3).integers(-9, 9, (2, *front.input_shape))
    rows = np.concatenate(samples.astype(front.input_dtype))
    one, other = Ear(front, 1.0, 0, 8), Ear(front, 1.0, 0, 8)
    one.push(rows[:0])
    assert one.push(rows) == other.push(rows)
    assert one.loudest == other.loudest
    assert np.array_equal(one._activities, other._activities)


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


@pytest.mark.parametrize(
    ("text", "shape", "options"),
    [
        ("motion", (128, 3, 1), {"axes": 3, "frames": 128, "window": 1, "step": 1}),
        ("motion:magnitude=3", (128, 4), {"axes": 3, "frames": 128}),
        ("motion:axes=1", (128, 1), {"axes": 1, "frames": 128}),
        ("motion:axes=3", (384,), {"axes": 3, "frames": 128}),
        ("motion:window=64,rms=1,bands=4", (5, 15), {"axes": 3, "frames": 5, "step": 64}),
        ("motion:axes=6,window=64,mean=1,rms=1", (12,), {"frames": 1, "step": 64}),
    ],
)
def test_motion_takes_frames_and_axes_from_the_model(
    text: str, shape: tuple[int, ...], options: dict[str, int]
) -> None:
    front = parse(text, shape)
    assert front.options().items() >= options.items()
    assert parse(front.text, shape) == parse(front.text) == front


def test_bands_are_octaves_and_the_unit_is_one() -> None:
    how = parse("motion:axes=2,frames=3,window=200,step=9,bands=8,rms=1,unit=100,rate=50")
    kernel = Motion(
        (SensorAxis(),) * 2, 200, 9, has_rms=True, band_ends=(2, 4, 8, 16, 32, 64, 128, 256)
    )
    x = sound(7, 2 * 218).reshape(1, 218, 2)
    expected = motion.features(kernel, motion.MotionWindows(kernel).push(x[0]))
    assert np.array_equal(how.features(x)[0], expected)
    assert np.array_equal(how.real(x)[0], (expected / 100).astype(np.float32))
    assert (how.input_shape, how.hop, how.rate_hz) == ((218, 2), 9, 50)


def test_the_longest_text_is_read() -> None:
    text = "motion:axes=9,frames=1024,window=512,step=1023,gravity=15,magnitude=3,mean=1,rms=1"
    text += ",crossings=1,bands=8,mult=-16384,shift=30,unit=32768,rate=1000000"
    assert parse(text).text == text
    assert len(text) <= MOST_TEXT


def test_a_file_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "front.toml"
    path.write_text('kind = "audio"\nstep_ms = 10\nframes = 98\n')
    assert parse(str(path)) == AudioFrontend(10, 98)


@pytest.mark.parametrize(
    ("text", "shape", "part"),
    [
        ("mfcc9", (49, 40), "no front end 'mfcc9'"),
        ("audio:step=1", (49, 40), "no option 'step'"),
        ("audio:step_ms=fast", (49, 40), "whole number"),
        ("audio:step_ms=1x", (49, 40), "NAME=NUMBER"),
        ("audio:step_ms=15", (49, 40), "give 10 or 20"),
        ("audio:frames=0,step_ms=20", None, "give 1 to"),
        ("audio", None, "how many frames"),
        ("audio", (50, 40), "10 or of 20 ms"),
        ("audio", (49, 10), r"takes \(49, 10\)"),
        ("audio:frames=48", (49, 40), "makes 48 frames"),
        ("mfcc", (49, 40), r"takes \(49, 40\)"),
        ("mfcc:frames=48", (49, 10), "makes 48 frames"),
        ("mfcc", None, "how many frames"),
        ("motion", None, "say axes"),
        ("motion:axes=3", None, "say frames"),
        ("motion", (384,), "say axes"),
        ("motion:axes=10", (128, 10), "give 1 to 9"),
        ("motion:axes=4", (128, 3), r"128 frames of 4 numbers of 4 axes.*takes \(128, 3\)"),
        ("motion:frames=9", (128, 3), "makes 9 frames of 3"),
        ("motion:frames=2000", (2000, 3), "give 1 to 1,024"),
        ("motion:window=8", (128, 3), "without features is a row"),
        ("motion:step=2", (128, 3), "without features is a row"),
        ("motion:rms=1,window=8,step=65535", (18, 3), "1,114,103 rows, but a window has at most"),
        ("motion:rms=2,window=8", (5, 3), "rms is 2"),
        ("motion:bands=5,window=32", (5, 15), "2 to 16"),
        ("motion:magnitude=3", (128, 3), "magnitude of 3 of 2"),
        ("motion:mult=20000", (128, 3), "times 20000"),
        ("motion:unit=0", (128, 3), "unit is 0"),
        ("mfcc:frames=0", None, "give 1 to"),
        ("nowhere.toml", (49, 40), "describes no front end"),
        ("audio:step_ms=10,step_ms=20", (49, 40), "step_ms is given twice"),
        ("audio: frames=49, frames =49", (49, 40), "frames is given twice"),
        (
            "audio:step_ms=20," + 210 * "0",
            (49, 40),
            "at most 220 characters, and 'audio:step_ms=20,0",
        ),
        ("audio:step_ms=20,frames=49" + 195 * " ", (49, 40), "has 221: write a .toml file"),
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


def test_a_text_may_have_220_characters_and_a_model_one_frame() -> None:
    text = "audio:step_ms=20,frames=49"
    assert parse(text + (MOST_TEXT - len(text)) * " ", (49, 40)) == AudioFrontend(20, 49)
    for shape in ((1, 40), (40, 1), (40,)):
        assert parse("audio:step_ms=20", shape) == AudioFrontend(20, 1)
        assert parse("mfcc", (*(n // 4 or 1 for n in shape),)) == MfccFrontend(1)


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

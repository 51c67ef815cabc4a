"""WAV files become the MFCCs of keyword models, or a sentence."""

import io
import math
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.data import _sounds as sounds
from mcutrain.data import load, mfcc
from mcutrain.data.unlabelled import load_samples
from mcutrain.errors import DataError

KWS = (49, 10, 1)


def encoded(sound: np.ndarray, rate: int = 16_000, width: int = 2, channels: int = 1) -> bytes:
    """A WAV file; sound: -1 to 1."""
    codes = np.repeat(np.round(sound * (2 ** (8 * width - 1) - 1)).astype(np.int64), channels)
    raw = codes.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width].copy()
    if width == 1:
        raw = (codes + 128).astype(np.uint8)
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(raw.tobytes())
    return stream.getvalue()


def tone(hertz: float, seconds: float = 1.0, rate: int = 16_000) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, hertz in (("low", 300), ("high", 2000)):
        for i in range(3):
            path = tmp_path / "words" / name / f"{i}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(tone(hertz + i)))
    return tmp_path / "words"


def by_definition(sound: np.ndarray, frame: int) -> list[float]:
    """One frame's coefficients, every sum written out."""
    scaled = sound / sound.max()
    cut = [
        scaled[320 * frame + i] * (0.5 - 0.5 * math.cos(2 * math.pi * i / 480)) for i in range(480)
    ]
    times = np.arange(480)
    magnitude = [abs(np.sum(cut * np.exp(-2j * np.pi * k * times / 512))) for k in range(257)]
    mel = [1127 * math.log(1 + 16_000 / 512 * k / 700) for k in range(257)]
    low, high = (1127 * math.log(1 + f / 700) for f in (20, 4000))
    edge = [low + (high - low) * i / 41 for i in range(42)]
    logs = []
    for band in range(40):
        left, centre, right = edge[band : band + 3]
        total = 0.0
        for k in range(1, 257):
            rising, falling = (mel[k] - left) / (centre - left), (right - mel[k]) / (right - centre)
            total += magnitude[k] * max(0.0, min(rising, falling))
        logs.append(math.log(total + 1e-6))
    return [
        math.sqrt(2 / 40)
        * sum(v * math.cos(math.pi * c * (m + 0.5) / 40) for m, v in enumerate(logs))
        for c in range(10)
    ]


def test_mfccs_are_what_their_definition_says() -> None:
    sound = tone(440) + 0.1 * np.random.default_rng(0).normal(size=16_000)
    found = mfcc.mfcc(sound)
    assert found.shape == (49, 10)
    assert found.dtype == np.float32
    for frame in (0, 17, 48):
        assert found[frame].tolist() == pytest.approx(by_definition(sound, frame), abs=1e-4)


def test_loudness_does_not_matter_and_silence_is_finite() -> None:
    np.testing.assert_allclose(mfcc.mfcc(tone(440)), mfcc.mfcc(3 * tone(440)), atol=1e-4)
    silence = mfcc.mfcc(np.zeros(16_000))
    assert silence[0, 0] == pytest.approx(40 * math.log(1e-6) * math.sqrt(2 / 40))
    assert np.abs(silence[:, 1:]).max() < 1e-4


def test_a_folder_per_word_becomes_features(folder: Path) -> None:
    split = load(folder, input_shape=KWS, test_share=0.34)
    assert split.names == ("high", "low")
    assert split.train.x.shape == (4, 49, 10, 1)
    assert split.train.x.dtype == np.float32
    assert len(split.test) == 2
    assert load(folder, test_share=0.34).train.x.tolist() == split.train.x.tolist()
    few = load(folder, input_shape=KWS, test_share=0.34, samples=2)
    assert few.train.y.tolist() == [0, 1]
    assert load_samples(folder, 4, input_shape=KWS).shape == (4, 49, 10, 1)


def test_a_model_may_take_the_sound_itself(folder: Path) -> None:
    x = load(folder, input_shape=(1, 16_000, 1)).train.x
    assert x.shape[1:] == (16_000,)
    assert x[0] == pytest.approx(tone(2000), abs=2**-15) or x.shape[0] > 1
    with pytest.raises(DataError, match=r"become 49 frames of 10 MFCCs, .* takes \(7, 7, 1\)"):
        load(folder, input_shape=(7, 7, 1))


@pytest.mark.parametrize(
    ("rate", "width", "channels"), [(16_000, 1, 2), (8000, 2, 1), (48_000, 3, 2), (44_100, 4, 1)]
)
def test_rates_widths_and_channels_become_the_same_sound(
    tmp_path: Path, rate: int, width: int, channels: int
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(encoded(tone(440, 0.9, rate), rate, width, channels))
    found = sounds.read_sound(path)
    assert found.shape == (16_000,)
    middle = slice(1000, 13_000)
    assert np.abs(found - np.append(tone(440, 0.9), np.zeros(1600)))[middle].max() < 0.02
    assert abs(found[middle].mean()) < 0.002, "330 whole waves"
    assert not found[14_800:].any()


GOOD = encoded(tone(440, 0.05))
BAD = {
    "empty": (b"", "is no readable WAV file"),
    "text": (b"hello, world", "is no readable WAV file"),
    "header only": (GOOD[:44], "holds no sound"),
    "cut header": (GOOD[:30], "is no readable WAV file"),
    "rate": (encoded(tone(440, 0.05), 1000), "has 1000 Hz"),
    "float": (GOOD[:20] + b"\x03\x00" + GOOD[22:], "is no readable WAV file"),
}


@pytest.mark.parametrize("case", BAD)
def test_other_files_are_refused_by_name(folder: Path, case: str) -> None:
    content, message = BAD[case]
    (folder / "low" / "9.wav").write_bytes(content)
    with pytest.raises(DataError, match=rf"low/9\.wav {message}") as caught:
        load(folder, input_shape=KWS)
    assert "\n" not in str(caught.value)


def test_a_file_of_minutes_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sounds, "MAX_FILE_BYTES", 1000)
    with pytest.raises(DataError, match="cut it into seconds"):
        load(folder, input_shape=KWS)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(st.tuples(st.integers(0, 60), st.binary(max_size=4)), min_size=1, max_size=5),
)
def test_a_damaged_file_is_a_second_of_sound_or_a_sentence(
    tmp_path: Path, edits: list[tuple[int, bytes]]
) -> None:
    content = bytearray(GOOD)
    for place, value in edits:
        content[place : place + len(value) if value else len(content)] = value
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    try:
        found = sounds.read_sound(path)
    except DataError as error:
        found = np.zeros(0 if "\n" in str(error) else 16_000)
    assert found.shape == (16_000,)
    assert np.abs(found).max() <= 2


def test_arrays_may_lie_in_files_of_their_own(tmp_path: Path) -> None:
    x, y = np.arange(24, dtype=np.uint8).reshape(12, 2), np.array(["a", "b"] * 6)
    for name, array in (("x", x), ("y", y)):
        np.save(tmp_path / f"{name}.npy", array)
    assert load(tmp_path).names == ("a", "b")
    assert load(tmp_path / "x.npy").is_labelled is False
    assert load_samples(tmp_path, 5).shape == (5, 2)
    (tmp_path / "y.npy").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"y\.npy has no sound header"):
        load(tmp_path)

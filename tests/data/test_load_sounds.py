"""WAV files become the MFCCs of keyword models, or a sentence."""

import io
import math
import struct
import wave
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.data import _sounds as sounds
from mcutrain.data import load, mfcc
from mcutrain.data.unlabelled import load_samples
from mcutrain.errors import DataError
from mcutrain.frontends import audio

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
    ("shape", "frames", "step"),
    [((49, 40, 1), 49, 320), ((1960,), 49, 320), ((40, 98), 98, 160), ((3920, 1), 98, 160)],
)
def test_models_of_40_features_get_those_of_the_audio_front_end(
    folder: Path, shape: tuple[int, ...], frames: int, step: int
) -> None:
    x = load(folder, input_shape=shape).train.x
    first = np.rint(sounds.read_sound(folder / "high" / "0.wav") * 32768).astype(np.int16)
    expected = audio.features(first, step) * (10 / 256)
    assert expected.shape == (frames, 40)
    assert x[0].reshape(frames, 40).tolist() == expected.tolist()


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
    "float": (GOOD[:20] + b"\x03\x00" + GOOD[22:], "has 1 channels of 16 bits floats"),
    "A-law": (GOOD[:20] + b"\x06\x00" + GOOD[22:], r"is of the format A-law \(6\), no PCM"),
    "no format": (GOOD[:12] + GOOD[36:], "is no readable WAV file"),
    "no sound": (GOOD[:36], "is no readable WAV file"),
    "big end": (b"RIFX" + GOOD[4:], r"is no readable WAV file \(RIFX\)"),
    "padded frames": (
        GOOD[:32] + b"\x04\x00" + GOOD[34:],
        "has 1 channels of 16 bits in 4 bytes, which can mean",
    ),
}
TAIL = bytes.fromhex("000000001000800000aa00389b71")


def stored(sound: np.ndarray, kind: int, width: int, channels: int = 1, **how: bytes) -> bytes:
    """A WAV file with an extensible header. how: chunks before the sound, another GUID's end."""
    if kind == 3:
        raw = np.repeat(sound, channels).astype(f"<f{width}").tobytes()
    else:
        plain = encoded(sound, width=width, channels=channels)
        raw = plain[plain.index(b"data") + 8 :]
    frame = width * channels
    head = struct.pack("<HHIIHH", 0xFFFE, channels, 16_000, 16_000 * frame, frame, 8 * width)
    head += struct.pack("<HHIH", 22, 8 * width, 0, kind) + how.get("guid", TAIL)
    body = b"WAVEfmt " + struct.pack("<I", len(head)) + head + how.get("before", b"")
    body += b"data" + struct.pack("<I", len(raw)) + raw
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(("kind", "width"), [(1, 1), (1, 2), (1, 3), (1, 4), (3, 4), (3, 8)])
@pytest.mark.parametrize("channels", [1, 2])
def test_the_extensible_header_holds_the_same_sound(
    tmp_path: Path, kind: int, width: int, channels: int
) -> None:
    path, sound = tmp_path / "x.wav", tone(440)
    path.write_bytes(stored(sound, kind, width, channels, before=b"LIST\x03\0\0\0abc\0"))
    error = np.abs(sounds.read_sound(path) - sound).max()
    assert error < {1: 0.01, 2: 1e-4, 3: 1e-6, 4: 1e-7, 8: 1e-15}[width]


@pytest.mark.parametrize("width", [4, 8])
def test_floats_need_no_extensible_header(tmp_path: Path, width: int) -> None:
    path, sound = tmp_path / "x.wav", tone(440)
    raw = sound.astype(f"<f{width}").tobytes()
    head = struct.pack("<HHIIHH", 3, 1, 16_000, 16_000 * width, width, 8 * width)
    chunks = b"WAVEfmt " + struct.pack("<I", 16) + head + b"data" + struct.pack("<I", len(raw))
    path.write_bytes(b"RIFF" + struct.pack("<I", len(chunks) + len(raw)) + chunks + raw)
    assert np.abs(sounds.read_sound(path) - sound).max() < 1e-7


def test_an_extensible_header_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    path.write_bytes(stored(tone(440), 6, 1))
    with pytest.raises(DataError, match=r"of the format A-law \(6\)"):
        sounds.read_sound(path)
    path.write_bytes(stored(tone(440), 1, 2, guid=bytes(14)))
    with pytest.raises(DataError, match=r"a format of its own"):
        sounds.read_sound(path)
    path.write_bytes(stored(np.full(100, np.nan), 3, 4))
    with pytest.raises(DataError, match=r"NaN or infinite"):
        sounds.read_sound(path)


def test_damaged_headers_end_in_a_sentence(tmp_path: Path) -> None:
    path, rng = tmp_path / "x.wav", np.random.default_rng(0)
    good = stored(tone(440, 0.05), 1, 3, before=b"LIST\x04\0\0\0abcd")
    for _ in range(300):
        content = bytearray(good)
        for place in rng.integers(0, 80, 3):
            content[place] = rng.integers(256)
        path.write_bytes(content[: rng.integers(1, len(content) + 1)])
        with suppress(DataError):
            assert len(sounds.read_sound(path)) == 16_000


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

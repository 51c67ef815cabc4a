"""Levels of mel bands: near their definition in real numbers, the same in C, in a program too."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain import prepare
from mcutrain.errors import DataError
from mcutrain.frontends import parse
from mcutrain.frontends.mel import MelFrontend
from mcutrain.frontends.tables import RATE_HZ
from tests.frontends.in_c import CORES, Guarded, array_in_c, libraries, saved_by
from tests.frontends.networks import listener
from tests.frontends.sounds import Sound, sound
from tests.frontends.test_listening import FRAMES, Device

SOURCES = ("mct_mel.c", "mct_fourier.c")
SPEECH = "mel:bands=32,frames=76,high=3800"
TEXTS = (
    SPEECH,
    "mel:bands=40,frames=49,low=20,high=8000,window_ms=30,step_ms=20",
    "mel:bands=1,frames=9,low=0,high=8000,window_ms=1,step_ms=1,floor=0",
    "mel:bands=9,frames=3,low=300,high=5000,window_ms=29,step_ms=29,floor=200",
)
REACH = 40
"""Decibels below the loudest band in which a level is near the real one."""


class Params(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("window", "ends", "weights", "offsets")),
        *((name, ctypes.c_uint16) for name in ("samples", "step", "first", "bands")),
    )


class InC:
    """The C, as a library of this machine."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        library.mct_mel_push.restype = ctypes.c_uint32

    def levels(self, front: MelFrontend, x: Sound, pieces: Sequence[int]) -> npt.NDArray[np.int16]:
        bands, mel = front.triangles, Guarded(964)
        tables = [
            np.ascontiguousarray(values, dtype)
            for values, dtype in (
                (front.window, np.int16),
                (bands.ends, np.uint16),
                (bands.weights, np.uint16),
                (bands.offsets, np.int32),
            )
        ]
        numbers = (front.least_samples, front.hop, bands.first, front.bands)
        params = Params(*(table.ctypes.data for table in tables), *numbers)
        work, row, is_frame = Guarded(2048), Guarded(2 * front.bands), ctypes.c_int32()
        self.library.mct_mel_reset(mel.pointer)
        found = []
        for part in np.split(x, np.cumsum(pieces)):
            taken, piece = 0, np.ascontiguousarray(part)
            while taken < len(piece):
                place = ctypes.c_void_p(piece.ctypes.data + 2 * taken)
                count = ctypes.c_uint32(len(piece) - taken)
                outputs = (work.pointer, row.pointer, ctypes.byref(is_frame))
                taken += self.library.mct_mel_push(
                    mel.pointer, ctypes.byref(params), place, count, *outputs
                )
                if is_frame.value:
                    found.append(row.array(np.int16))
        work.array(np.int32), mel.array(np.uint8)  # nothing behind them was written
        return np.array(found, np.int16).reshape(-1, front.bands)


@pytest.fixture(scope="module")
def in_c(
    sanitizing: Mapping[str, tuple[str, ...]],
    c_compilers: list[tuple[str, ...]],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[InC]:
    folder = tmp_path_factory.mktemp("mel")
    return [InC(library) for library in libraries(SOURCES, c_compilers, sanitizing, folder)]


def front_of(text: str) -> MelFrontend:
    found = parse(text)
    assert isinstance(found, MelFrontend)
    return found


def edges_of(front: MelFrontend) -> npt.NDArray[np.float64]:
    """In Hz, evenly spaced on the scale of the Auditory Toolbox: 27 steps from 1 to 6.4 kHz."""
    scale = np.concatenate((np.arange(15) * 200 / 3, 1000 * 6.4 ** (np.arange(33) / 27)))
    at = np.interp([front.low, front.high], scale, np.arange(48.0))
    fine = np.linspace(0, 47, 1_000_001)
    hertz = np.where(fine < 15, fine * 200 / 3, 1000 * 6.4 ** ((fine - 15) / 27))
    low, high = (fine[np.searchsorted(hertz, f)] for f in (front.low, front.high))
    assert np.allclose(at, (low, high), atol=0.01)
    return np.interp(np.linspace(low, high, front.bands + 2), fine, hertz)


def real(front: MelFrontend, x: Sound) -> npt.NDArray[np.float64]:
    """The definition, of samples between -1 and 1, in decibels above the floor."""
    count, edges = front.least_samples, edges_of(front)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(count) / count)
    frames = np.lib.stride_tricks.sliding_window_view(x / 32768, count)[:: front.hop] * hann
    energy = np.abs(np.fft.rfft(frames, 512)) ** 2
    hertz = np.arange(257)[:, np.newaxis] * RATE_HZ / 512
    rising = (hertz - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - hertz) / np.diff(edges)[1:]
    weights = np.maximum(0, np.minimum(rising, falling)) * 2 / (edges[2:] - edges[:-2])
    with np.errstate(divide="ignore"):
        return np.maximum(10 * np.log10(energy @ weights) + front.floor, 0)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), text=st.sampled_from(TEXTS[:2]))
def test_levels_are_near_the_definition(seed: int, text: str) -> None:
    front, random = front_of(text), np.random.default_rng(seed)
    loud = 2.0 ** random.uniform(6, 14)
    tone = np.sin(random.uniform(0.01, 3) * np.arange(4000)) * random.uniform(0, 1)
    noise = random.normal(0, 0.2, 4000)
    x = np.clip(np.rint(loud * (tone + noise)), -32768, 32767).astype(np.int16)
    found, expected = front.as_real(front.stream().push(x)), real(front, x)
    assert found.shape == expected.shape
    near = expected > expected.max(axis=1, keepdims=True) - REACH
    assert np.abs(found - expected)[near].max() < 0.1


def test_many_windows_are_what_each_is_as_a_stream() -> None:
    """Short ones end in silence, and what is behind a window is left out."""
    front = front_of(TEXTS[3])
    for more in (-front.hop - 7, 0, 99):
        x = np.stack([sound(i, front.input_shape[0] + more) for i in range(40)])
        whole = np.pad(x, ((0, 0), (0, max(0, -more))))[:, : front.input_shape[0]]
        expected = [front.stream().push(window) for window in whole]
        assert np.array_equal(front.features(x), expected)


def test_silence_is_the_floor_and_a_tone_is_as_loud_as_it_is() -> None:
    front = front_of(SPEECH)
    assert not front.stream().push(np.zeros(1600, np.int16)).any()
    x = np.rint(8000 * np.sin(2 * np.pi * 1000 * np.arange(1600) / RATE_HZ)).astype(np.int16)
    found = front.as_real(front.stream().push(x))
    loudest = found.argmax(axis=1)
    assert (np.abs(edges_of(front)[loudest + 1] - 1000) < 70).all()
    doubled = front.as_real(front.stream().push(2 * x))
    assert np.abs(doubled - found - 20 * np.log10(2))[:, loudest].max() < 0.05


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), text=st.sampled_from(TEXTS), cuts=st.data())
def test_c_computes_the_same_bits_from_any_pieces(
    in_c: list[InC], seed: int, text: str, cuts: st.DataObject
) -> None:
    front, x = front_of(text), sound(seed, 1500)
    lengths = cuts.draw(st.lists(st.integers(0, 700), max_size=8))
    expected = front.stream().push(x)
    assert len(expected) == (1500 - front.least_samples) // front.hop + 1
    stream = front.stream()
    pieces = np.concatenate([stream.push(part) for part in np.split(x, np.cumsum(lengths))])
    assert np.array_equal(pieces, expected)
    for library in in_c:
        assert np.array_equal(library.levels(front, x, lengths), expected)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("value", [-32768, 32767])
def test_the_largest_sums_fit(in_c: list[InC], text: str, value: int) -> None:
    """Signals whose samples all have the sign of a bin's own wave, at full size."""
    front = front_of(text)
    time = np.arange(front.least_samples)
    for number, phase in [(n, p) for n in range(1, 257, 32) for p in (0, 0.4)]:
        wave = np.cos(2 * np.pi * number * time / 512 + phase) >= 0
        x = np.where(wave, value, -1 - value).astype(np.int16)
        for library in in_c:
            assert np.array_equal(library.levels(front, x, []), front.stream().push(x))


def test_a_program_hears_what_numpy_hears() -> None:
    front = parse(f"mel:bands=20,frames={FRAMES}")
    device = Device(prepare(listener(FRAMES, 3, front.text, 20, 0.5, -128), "head"))
    x = device.hear(3, front.input_shape[0] + 5 * front.hop)
    device.push_all(x)
    assert device.c.mct_window_take() == 0
    expected = device.last(x)
    assert np.unique(expected).size > 20
    assert np.array_equal(device.window, expected)
    assert device.infer() == list(device.simulator.infer(expected[np.newaxis])[0])


MAIN = """
static mct_mel heard;
static int32_t work[MCT_MEL_WORK];
static int16_t saved[{frames}][{bands}];

static int learn(void)
{{
    const uint32_t samples = sizeof sound / sizeof *sound;
    int32_t is_frame, frame = 0;
    mct_mel_reset(&heard);
    for (uint32_t i = 0; i < samples; frame += is_frame) {{
        const uint32_t left = samples - i;
        i += mel_push(&heard, sound + i, left < 100 ? left : 100, work, saved[frame], &is_frame);
    }}
    return frame != {frames};
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_a_core_computes_the_same_levels(core: str, tmp_path: Path) -> None:
    front = front_of("mel:bands=24,frames=20")
    x = sound(11, front.input_shape[0])
    text = array_in_c("int16_t", "sound", x) + '#include "mct_mel.h"\n' + front.c.definitions
    main = MAIN.format(frames=front.frames, bands=front.bands)
    expected = front.stream().push(x)
    assert saved_by(core, text + main, SOURCES, tmp_path) == expected.tobytes()
    assert np.unique(expected).size > 100


def test_what_is_left_out_follows_from_the_model() -> None:
    assert parse("mel", (98, 40, 1)) == MelFrontend(98, 40, 60, 7600, 25, 10, 110)
    front = parse(SPEECH)
    assert parse(front.text) == front
    assert (front.input_shape, front.least_samples, front.hop) == ((12_400,), 400, 160)


@pytest.mark.parametrize(
    ("text", "shape", "part"),
    [
        ("mel", None, "how many bands"),
        ("mel:bands=40", None, "how many frames"),
        ("mel:bands=40", (98, 32), r"makes frames of 40 levels.*takes \(98, 32\)"),
        ("mel:bands=0,frames=9", None, "bands is 0: give 1 to 128"),
        ("mel:bands=0", (98, 32), "takes|bands is 0"),
        ("mel:frames=1025,bands=9", None, "frames is 1025"),
        ("mel:frames=9,bands=9,high=8001", None, "high is 8001"),
        ("mel:frames=9,bands=9,low=3000,high=3000", None, "low is below high"),
        ("mel:frames=9,bands=9,window_ms=10,step_ms=11", None, "at most window_ms"),
        ("mel:frames=9,bands=9,window_ms=31", None, "window_ms is 31"),
        ("mel:frames=9,bands=9,floor=-1", None, "floor is -1"),
        ("mel:frames=9,bands=128", None, r"128 bands from 60 to 7600 Hz are narrower than"),
    ],
)
def test_what_fits_nothing_gets_a_sentence(
    text: str, shape: tuple[int, ...] | None, part: str
) -> None:
    with pytest.raises(DataError, match=part):
        parse(text, shape)


def test_sound_of_another_kind_is_named() -> None:
    with pytest.raises(DataError, match="takes int16 samples"):
        parse(SPEECH).features(np.zeros((1, 16_000)))

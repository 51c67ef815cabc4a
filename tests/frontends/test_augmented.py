"""Raw samples varied before the front end: one definition for numpy, C, every run and the board."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcutrain
from mcutrain.data import ModelInput, RawWindows
from mcutrain.data.dataset import Dataset
from mcutrain.errors import DataError, OptionError
from mcutrain.frontends import Frontend, parse
from mcutrain.functions.chosen import read_samples
from mcutrain.functions.fit_readme import _augment
from mcutrain.functions.listener import SILENT
from mcutrain.functions.preparing import Asked
from mcutrain.functions.run_options import DataOptions, FitOptions, TrainingOptions
from mcutrain.ir.graph import Graph
from mcutrain.runs.sample_reading import model_input, prepare_samples
from mcutrain.simulation import RunSettings, Samples, augment
from mcutrain.simulation.augment import background, sample_key, shift
from mcutrain.target import FIRMWARE
from tests.frontends.networks import KINDS, keyword_listener, write_wav

KEYS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    made = tmp_path_factory.mktemp("augment") / "augment.so"
    runtime = FIRMWARE / "runtime"
    flags = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1", "-shared", "-fPIC")
    checked = ("-fsanitize=undefined", "-fno-sanitize-recover", "-static-libubsan")
    command = ["gcc", *flags, *checked, f"-I{runtime}", str(runtime / "mct_augment.c")]
    subprocess.run([*command, "-o", str(made)], check=True)
    return ctypes.CDLL(str(made))


def pointer(x: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.ctypes.data)


def drawn(seed: int, count: int, loud: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-loud - 1, loud + 1, count).astype(np.int16)


@given(
    key=KEYS,
    sizes=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    louds=st.tuples(*[st.sampled_from([0, 1, 40, 3000, 32767])] * 2),
    decibels=st.tuples(st.integers(-20, 60), st.integers(-20, 60)).map(sorted),
)
def test_c_mixes_the_bits_of_numpy(
    key: int,
    sizes: tuple[int, int],
    louds: tuple[int, int],
    decibels: list[int],
    library: ctypes.CDLL,
) -> None:
    x, noise = (drawn(key + i, sizes[i], louds[i]) for i in range(2))
    low, high = decibels
    found = x.copy()
    library.mct_augment_background(
        ctypes.c_uint32(key), pointer(noise), len(noise), low, high, len(x), pointer(found)
    )
    np.testing.assert_array_equal(found, background(x, key, noise, (low, high)))


@pytest.mark.parametrize("value", [-32768, 32767])
def test_the_loudest_sounds_saturate_alike(value: int, library: ctypes.CDLL) -> None:
    x, noise = np.full(1 << 17, value, np.int16), np.full(5, value, np.int16)
    found = x.copy()
    library.mct_augment_background(9, pointer(noise), 5, -20, -20, len(x), pointer(found))
    assert (found == value).all()
    np.testing.assert_array_equal(found, background(x, 9, noise, (-20, -20)))
    other = background(x, 9, np.full(5, -1 - value, np.int16), (-20, -20))
    assert (other == -1 - value).all()


@given(key=KEYS, channels=st.integers(1, 3), count=st.integers(2, 60))
def test_a_time_shift_in_c_is_that_of_bytes(
    key: int, channels: int, count: int, library: ctypes.CDLL
) -> None:
    x = drawn(key, count * channels, 900).reshape(count, channels)
    most = count // augment.SHIFT_SHARE
    found = x.copy()
    library.mct_augment_shift(ctypes.c_uint32(key), count, 2 * channels, most, 0, pointer(found))
    np.testing.assert_array_equal(found, shift(x, key, most, 0))


@pytest.mark.parametrize("decibels", [-20, -3, 0, 7, 20, 33])
def test_the_energy_is_that_of_the_ratio(decibels: int) -> None:
    x, noise = drawn(1, 16_000, 900), drawn(2, 90_000, 700)
    added = background(x, 5, noise, (decibels, decibels)).astype(float) - x
    found = 10 * np.log10((x.astype(float) ** 2).mean() / (added**2).mean())
    assert abs(found - decibels) < 0.1


def test_ratios_places_and_shifts_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [sample_key(0, 0, i) for i in range(2000)]
    ratios: list[int] = []
    monkeypatch.setattr(augment, "_noise_gain", lambda x, piece, db: ratios.append(db) or 1 << 16)
    noise, x = np.arange(1000, dtype=np.int16), np.zeros(1, np.int16)
    places = [int(background(x, key, noise, (5, 30))[0]) for key in keys]
    assert set(ratios) == set(range(5, 31))
    assert min(places) < 10
    assert max(places) > 990
    assert abs(np.mean(places) - 500) < 30
    assert background(np.zeros(3, np.int16), 0, noise[:2], (5, 5)).tolist() in (
        [0, 1, 0],
        [1, 0, 1],
    )


def test_silence_stays_silent_quiet_noise_grows_sixteen_times_at_most() -> None:
    silent, loud = np.zeros(50, np.int16), np.full(50, 30_000, np.int16)
    assert not background(silent, 3, drawn(0, 70, 100), (5, 5)).any()
    assert (background(loud, 3, np.full(9, 2, np.int16), (5, 5)) == 30_032).all()
    assert (background(loud, 3, np.zeros(9, np.int16), (5, 5)) == loud).all()


# ------------------------------------------------------------------------------------------- runs


def front_of(graph: Graph) -> Frontend:
    assert graph.input_order is not None
    assert graph.input_order.frontend is not None
    return graph.input_order.frontend


def raw(front: Frontend, count: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Windows of three classes, which differ in pitch."""
    random, y = np.random.default_rng(3), np.arange(count) % 3
    steps = np.arange(front.input_shape[0])
    tones = 6000 * np.sin(steps * (0.05 + 0.2 * y[:, np.newaxis]))
    x = tones.reshape(count, -1, *[1] * (len(front.input_shape) - 1))
    return (x + random.normal(0, 300, (count, *front.input_shape))).astype(np.int16), y


@pytest.fixture
def noise(tmp_path: Path) -> Path:
    (tmp_path / "noise").mkdir()
    for i in range(2):
        write_wav(tmp_path / "noise" / f"{i}.wav", drawn(i, 3000 + i, 2000))
    return tmp_path / "noise"


def prepared(graph: Graph, settings: RunSettings, keeps: bool = True) -> tuple[Samples, Any]:
    x, y = raw(front_of(graph))
    data = ((x[:9], y[:9]), (x[9:], y[9:]))
    split = read_samples(graph, data, DataOptions(), Asked(), 0, SILENT, keeps_raw=keeps)
    return prepare_samples(split, settings, model_input(graph)), x


@pytest.mark.parametrize("kind", ["audio", "mfcc", "rows"])
def test_samples_are_what_the_front_end_makes_of_varied_windows(kind: str, noise: Path) -> None:
    graph = KINDS[kind](24 if kind == "rows" else 6)
    front, t = front_of(graph), next(iter(graph.types(graph.inputs)))
    sound = "" if front.takes_rows else str(noise)
    settings = RunSettings(augment=("time-shift",), background=sound, snr_db=(3, 9), seed=4)
    samples, x = prepared(graph, settings)
    index = np.array([5, 0, 7])
    expected = []
    for i in index:
        key = sample_key(4, 2, int(i))
        window = shift(x[i], key, len(x[i]) // 10, 0)
        if sound:
            whole = np.concatenate([drawn(i, 3000 + i, 2000) for i in range(2)])
            window = background(window, key, whole, (3, 9))
        expected.append(front.compute(window[np.newaxis], t.scale, t.zero_point))
    found = samples.train(index, 2, 4)
    np.testing.assert_array_equal(found.ravel(), np.concatenate(expected).ravel())
    assert found.tobytes() != samples.train(index, 3, 4).tobytes()
    assert found.tobytes() != samples.quantized(samples.split.train.x[index]).tobytes()
    plain, _ = prepared(graph, RunSettings())
    assert samples.test(0, 3).tobytes() == plain.test(0, 3).tobytes()


def test_numpy_and_c_learn_the_same_of_varied_sound(noise: Path) -> None:
    graph = keyword_listener()
    data = raw(front_of(graph))
    how: dict[str, Any] = {"epochs": 1, "learning_rate": 0.02, "class_names": ("a", "b", "c")}
    how |= {"augment": ("time-shift",), "background": noise, "snr": (0, 12), "scheme": "last:1"}
    of_c, of_numpy = (mcutrain.simulate(graph, data, **how, reference=r) for r in (False, True))
    assert of_c.saved == of_numpy.saved
    assert mcutrain.simulate(graph, data, **{**how, "snr": (0, 11)}).saved != of_c.saved
    assert mcutrain.simulate(graph, data, **{**how, "background": None, "snr": None}).saved != (
        of_c.saved
    )


def test_latents_of_varied_sound_are_kept_by_version_and_by_noise(noise: Path) -> None:
    graph = keyword_listener()
    data = raw(front_of(graph))
    how: dict[str, Any] = {"epochs": 3, "learning_rate": 0.02, "class_names": ("a", "b", "c")}
    how |= {"background": noise, "versions": 2, "scheme": "head"}
    first = mcutrain.simulate(graph, data, **how)
    assert mcutrain.simulate(graph, data, **how, latent="off").saved == first.saved
    write_wav(noise / "1.wav", drawn(8, 3001, 2000))
    again = mcutrain.simulate(graph, data, **how)
    assert again.saved != first.saved
    assert mcutrain.simulate(graph, data, **how, latent="off").saved == again.saved


def test_a_checkpoint_does_not_go_on_with_other_noise(noise: Path, tmp_path: Path) -> None:
    graph = keyword_listener()
    data, file = raw(front_of(graph)), tmp_path / "run.npz"
    how: dict[str, Any] = {"epochs": 1, "learning_rate": 0.02, "class_names": ("a", "b", "c")}
    how |= {"background": noise, "checkpoint": file, "scheme": "head"}
    first = mcutrain.simulate(graph, data, **how)
    moved = noise.rename(tmp_path / "moved")
    assert mcutrain.simulate(graph, data, **{**how, "background": moved}).saved == first.saved
    write_wav(moved / "1.wav", drawn(8, 3001, 2000))
    with pytest.raises(mcutrain.McutrainError, match="belongs to another"):
        mcutrain.simulate(graph, data, **{**how, "background": moved})


def test_a_board_finds_the_sound_of_every_varied_input(noise: Path) -> None:
    graph = keyword_listener()
    x = next(iter(graph.types(graph.inputs)))
    order = graph.input_order
    assert order is not None
    kept = RawWindows(x.scale, x.zero_point)
    order = replace(order, kept=kept)
    samples, y = raw(front_of(graph))
    part = Dataset(order.of_raw(samples), y, ("a", "b", "c"), is_in_order=True, heard=order)
    split = mcutrain.data.Split(part, part)
    model = ModelInput(x.shape[1:], x.scale, x.zero_point, order)
    made = prepare_samples(split, RunSettings(background=str(noise)), model)
    codes = made.train(np.arange(6), 1, 0)
    front = front_of(graph)
    for code in codes:
        window = np.frombuffer(kept.find(code.tobytes()) or b"", "<i2")[np.newaxis]
        assert front.compute(window, x.scale, x.zero_point).tobytes() == code.tobytes()
    count = len(kept)
    assert count > len(samples)
    kept.close()
    made.train(np.arange(6), 2, 0)
    assert len(kept) == count


@pytest.mark.parametrize("count", [1, 2, 5])
def test_many_windows_of_mfccs_are_those_of_each(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcutrain.frontends.sound.WINDOWS", 2)
    front = parse("mfcc:frames=5")
    for length in (480, 1761):
        x = drawn(count, count * length, 9000).reshape(count, length)
        np.testing.assert_array_equal(front.features(x), Frontend.features(front, x))


# -------------------------------------------------------------------------------------- sentences


def test_what_cannot_be_varied_gets_a_sentence(noise: Path, tmp_path: Path) -> None:
    sound, rows = keyword_listener(), KINDS["rows"](6)
    cases: list[tuple[Graph, dict[str, Any], bool, str]] = [
        (sound, {"augment": ("time-shift",)}, False, "of raw samples, of which a front end makes"),
        (rows, {"background": str(noise)}, True, "mixed behind sounds"),
        (sound, {"background": str(tmp_path / "no")}, True, "no cannot be read"),
        (sound, {"background": str(tmp_path)}, True, "holds no sounds: give the folder"),
    ]
    for graph, how, keeps, sentence in cases:
        with pytest.raises(DataError, match=sentence):
            prepared(graph, RunSettings(**how), keeps)
    write_wav(noise / "slow.wav", drawn(0, 30, 9), 8000)
    with pytest.raises(DataError, match=r"slow.wav has 1 channels of 16-bit PCM at 8,000 Hz"):
        prepared(sound, RunSettings(background=str(noise)))
    for snr in ((5, 4), (-21, 0), (0, 61)):
        with pytest.raises(DataError, match="signal-to-noise ratio"):
            TrainingOptions(background=noise, snr=snr).settings(0)
    for given_snr, folder in (
        ((5, 30), None),
        ((5.5, 30), noise),
        ((5,), noise),
        ((math.nan, math.inf), noise),
    ):
        with pytest.raises(OptionError, match=r"background mixes in|whole numbers of decibels"):
            TrainingOptions(background=folder, snr=given_snr).settings(0)


@pytest.mark.filterwarnings("ignore:the training samples")
def test_features_beside_raw_samples_cannot_be_varied() -> None:
    graph = keyword_listener()
    x, y = raw(front_of(graph))
    features = np.zeros((9, *next(iter(graph.types(graph.inputs))).shape[1:]), np.float32)
    how: dict[str, Any] = {"scheme": "head", "epochs": 1, "class_names": ("a", "b", "c")}
    how |= {"augment": ("time-shift",), "learning_rate": 0.02}
    with pytest.raises(DataError, match="the training samples are features already"):
        mcutrain.simulate(graph, ((features, y[:9]), (x[9:], y[9:])), **how)


def test_fits_readme_says_what_was_varied(noise: Path) -> None:
    class Story:
        training = FitOptions(augment=("time-shift",), background=noise, snr=(0, 12))

    said = ["--augment", "time-shift", "--background", str(noise), "--snr", "0,12"]
    assert _augment(Story) == said  # type: ignore[arg-type]

"""Augmentation: a function of key and sample alone, the same bits in numpy and in C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mcutrain import data
from mcutrain.errors import DataError
from mcutrain.simulation import RunSettings, augment
from mcutrain.simulation.augment import Augmentation, parse_augment, sample_key
from mcutrain.simulation.samples import Samples
from mcutrain.target import FIRMWARE

SHAPES = ((5, 7, 3), (1, 6, 2), (49, 10, 1), (4, 1, 1))
KEYS = tuple(sample_key(3, 1, i) for i in range(12))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    made = tmp_path_factory.mktemp("augment") / "augment.so"
    runtime = FIRMWARE / "runtime"
    flags = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1", "-shared", "-fPIC")
    command = ["gcc", *flags, f"-I{runtime}", str(runtime / "mct_augment.c"), "-o", str(made)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(made))
    loaded.mct_augment_key.restype = ctypes.c_uint32
    return loaded


def in_c(function: Any, x: np.ndarray, key: int, *arguments: int) -> np.ndarray:
    copied = np.ascontiguousarray(x).copy()
    function(ctypes.c_uint32(key), *arguments, ctypes.c_void_p(copied.ctypes.data))
    return copied


def drawn(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.draws(16)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("key", KEYS)
def test_c_computes_the_bits_of_numpy(
    shape: tuple[int, ...], key: int, library: ctypes.CDLL
) -> None:
    x = drawn(shape)
    lines = next(size for size in shape if size > 1)
    width = x.size // lines
    most = lines - 1
    pairs = (
        (augment.flip(x, key), in_c(library.mct_augment_flip, x, key, *shape)),
        (
            augment.shift(x, key, most, -7),
            in_c(library.mct_augment_shift, x, key, lines, width, most, -7),
        ),
        (augment.gain(x, key, 51, -3), in_c(library.mct_augment_gain, x, key, x.size, 51, -3)),
        (augment.gain(x, key, 255, 99), in_c(library.mct_augment_gain, x, key, x.size, 255, 99)),
        (augment.noise(x, key, 7), in_c(library.mct_augment_noise, x, key, x.size, 7)),
        (augment.noise(x, key, 60), in_c(library.mct_augment_noise, x, key, x.size, 60)),
    )
    for expected, found in pairs:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**40 + 5])
def test_keys_are_the_same_in_c_and_differ(seed: int, library: ctypes.CDLL) -> None:
    found = {
        (epoch, index): sample_key(seed, epoch, index) for epoch in range(5) for index in range(40)
    }
    assert len(set(found.values())) == len(found)
    for (epoch, index), key in found.items():
        assert library.mct_augment_key(seed & 0xFFFFFFFF, epoch, index) == key


def test_draws_are_spread_over_what_they_may_be() -> None:
    keys = [sample_key(0, 0, i) for i in range(2000)]
    x = np.arange(11, dtype=np.int8).reshape(11, 1, 1)
    moved = [augment.shift(x, key, 3, -1).ravel().tolist() for key in keys]
    assert {tuple(v) for v in moved} == {
        tuple([-1] * max(b, 0) + list(range(11))[max(-b, 0) : 11 - max(b, 0)] + [-1] * max(-b, 0))
        for b in range(-3, 4)
    }
    row = np.arange(2, dtype=np.int8).reshape(1, 2, 1)
    mirrored = sum(int(augment.flip(row, key)[0, 0, 0]) for key in keys)
    assert 900 < mirrored < 1100
    noisy = np.concatenate([augment.noise(np.zeros(50, np.int8), key, 7) for key in keys[:200]])
    assert abs(float(noisy.mean())) < 0.2
    assert 3.8 < float(noisy.std()) < 4.3
    loud = {int(augment.gain(np.full(1, 100, np.int8), key, 51, 0)[0]) for key in keys}
    assert (min(loud), max(loud)) == (80, 120)


def images(n: int = 6, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(4).integers(0, 256, (n, 12, 10, channels)).astype(np.uint8)


def test_a_crop_is_a_part_of_the_image_enlarged() -> None:
    ramp = np.broadcast_to(np.arange(0, 240, 4, np.uint8)[:, None, None], (60, 50, 1))
    chosen = Augmentation(("crop",), ramp.shape, 0)
    spans = []
    for key in KEYS:
        (found,) = chosen.pixels(ramp[np.newaxis], [key])
        assert found.shape == ramp.shape
        assert (np.diff(found[:, 0, 0].astype(int)) >= 0).all()
        spans.append(int(found[-1, 0, 0]) - int(found[0, 0, 0]))
    assert min(spans) >= 0.6 * 236 - 8
    assert len(set(spans)) > 6


def test_colours_stay_in_range_and_grey_stays_grey() -> None:
    grey = np.repeat(images(channels=1), 3, axis=3)
    keys = list(KEYS[: len(grey)])
    found = Augmentation(("colour",), grey.shape[1:], 0).pixels(grey, keys)
    spread = found.max(axis=-1).astype(int) - found.min(axis=-1)
    assert spread.max() == 0
    assert (found != grey).any()
    coloured = Augmentation(("colour",), (12, 10, 3), 0).pixels(images(), keys)
    assert coloured.dtype == np.uint8
    assert (coloured != images()).any()


def course_samples(kinds: tuple[str, ...]) -> Samples:
    x, y = images(8), np.arange(8) % 2
    split = data.Split(data.Dataset(x, y, ("a", "b")), data.Dataset(x, y, ("a", "b")))
    return Samples.prepare(split, (12, 10, 3), 1 / 255, -128, RunSettings(augment=kinds))


@pytest.mark.parametrize("kind", [*augment.OF_PIXELS, *augment.OF_CODES])
def test_a_sample_is_changed_alike_in_any_batch_and_never_in_a_test(kind: str) -> None:
    samples = course_samples((kind,))
    index = np.array([5, 0, 3, 7])
    whole = samples.train(index, 2, 9)
    alone = np.concatenate([samples.train(index[i : i + 1], 2, 9) for i in range(4)])
    np.testing.assert_array_equal(whole, alone)
    plain = course_samples(())
    every = np.arange(8)
    different = [(samples.train(every, e, 9) != plain.train(every, e, 9)).any() for e in range(4)]
    assert any(different)
    np.testing.assert_array_equal(samples.test(0, 8), plain.test(0, 8))
    again = [samples.train(every, epoch, 9).tobytes() for epoch in range(4)]
    assert len(set(again)) > 1


def test_kinds_are_applied_in_one_order() -> None:
    assert parse_augment("noise, crop,flip") == ("crop", "flip", "noise")
    for text in ("", "crop,blur", ","):
        with pytest.raises(DataError, match="give some of time-shift, crop, colour, flip"):
            parse_augment(text)


@pytest.mark.parametrize("kind", ["crop", "colour", "flip"])
def test_what_is_of_images_is_refused_for_windows(kind: str) -> None:
    with pytest.raises(DataError, match="are of images"):
        Augmentation((kind,), (40, 3), 0)


def test_crops_and_colours_need_pixels() -> None:
    chosen: Callable[..., Any] = Augmentation(("crop",), (12, 10, 3), 0).pixels
    with pytest.raises(DataError, match="are of uint8 pixels"):
        chosen(images().astype(np.float32), list(KEYS[:6]))

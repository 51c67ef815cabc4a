"""Reads folders of sounds: a second each, as the features of keyword models or as it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data import _compressed, mfcc
from mcutrain.data._compressed import read_compressed, read_lossless, require_soundfile
from mcutrain.data._folders import Kind, Listing, Progress, is_of, place_of
from mcutrain.data._wav import read_samples as read_wav_samples
from mcutrain.data._wav import read_wav
from mcutrain.data.dataset import Samples
from mcutrain.data.layout import InputOrder
from mcutrain.errors import DataError
from mcutrain.frontends import audio
from mcutrain.frontends.frontend import SOUND
from mcutrain.frontends.tables import CHANNELS

SOUNDS = Kind("sound", "sounds", frozenset({".wav", ".wave"}) | _compressed.SUFFIXES)
MAX_FILE_BYTES = 64 << 20
"""Minutes of sound, of which a second is taken."""


def read_sounds(
    listing: Listing, input_shape: tuple[int, ...] | None, progress: Progress | None
) -> Samples:
    """float32 (n, ...) of all files, as the model's input asks for them.

    (49, 10) are MFCCs. (49, 40), (98, 40) and as many in a row are features of the audio front end,
    every 20 or 10 ms. (16000,) is the sound itself, which a model of unknown input does not get.
    """
    shape = _shape_for(input_shape)
    require_soundfile(listing.paths)
    made = MADE[shape]
    x = np.empty((len(listing.paths), *shape), np.float32)
    for i, path in enumerate(listing.paths):
        x[i] = made(read_sound(path)).reshape(shape)
        if progress is not None:
            progress(i + 1, len(listing.paths))
    return x


def read_raw_sounds(listing: Listing, order: InputOrder, progress: Progress | None) -> Samples:
    """float32 (n, *model_shape): what the front end makes of all files, as the device would.

    A file is one channel of 16-bit PCM, or FLAC of it, at the front end's rate, so that it holds
    what the device hears, bit for bit. Raises DataError for others.
    """
    front = order.frontend
    assert front is not None, "there is a front end"
    if front.RAW is not SOUND:
        raise DataError(
            f"the front end {front.kind} takes {front.RAW.words}, but there are "
            "sounds: give one that takes sound, as --frontend audio"
        )
    require_soundfile(listing.paths)
    x = np.empty((len(listing.paths), *order.model_shape), np.float32)
    for i, path in enumerate(listing.paths):
        try:
            samples = read_samples(path, front.rate_hz, front.input_shape[0])
            x[i] = order.of_raw(samples[np.newaxis], "the sound")[0]
        except DataError as error:
            raise DataError(f"{place_of(path)} {error}") from error
        if progress is not None:
            progress(i + 1, len(listing.paths))
    return x


def read_noise(folder: Path, rate_hz: int) -> npt.NDArray[np.int16]:
    """All sounds of a folder, sorted by name, one after the other: int16 (n,).

    Raises DataError where there is none, or one of another form.
    """
    try:
        files = sorted(file for file in folder.iterdir() if is_of(file, SOUNDS))
    except OSError as error:
        raise DataError(
            f"{folder} cannot be read ({error.strerror}): give a folder of sounds"
        ) from error
    if not files:
        raise DataError(f"{folder} holds no sounds: give the folder in which they are")
    found = []
    for path in files:
        try:
            found.append(read_samples(path, rate_hz, MAX_FILE_BYTES // 2))
        except DataError as error:
            raise DataError(f"{path} {error}") from error
    noise = np.concatenate(found)
    if not len(noise):
        raise DataError(f"the sounds in {folder} are empty: give others")
    return noise


def _shape_for(input_shape: tuple[int, ...] | None) -> tuple[int, ...]:
    usual = (mfcc.FRAMES, mfcc.COEFFICIENTS)
    lengths = usual if input_shape is None else tuple(n for n in input_shape if n != 1)
    for shape in MADE:
        if lengths in (shape, shape[::-1]):
            return shape
    raise DataError(
        f"sounds become {usual[0]} frames of {usual[1]} MFCCs, 49 or 98 frames of {CHANNELS} "
        f"features of the audio front end, or {mfcc.LENGTH} samples as they are, but the model "
        f"takes {input_shape}: compute its features yourself and save them in an .npz file"
    )


def audio_features(sound: npt.NDArray[np.float64], step: int) -> npt.NDArray[np.float32]:
    """(frames, 40) of a sound from -1 to 1, a frame every `step` samples."""
    samples = np.clip(np.rint(sound * 32768), -32768, 32767).astype(np.int16)
    return (audio.features(samples, step) * audio.FEATURE_SCALE).astype(np.float32)


def read_samples(path: Path, rate_hz: int, count: int) -> npt.NDArray[np.int16]:
    """The first `count` samples (n,) of a file of one channel of 16 bits, as they are.

    Raises DataError for other files.
    """
    require_soundfile((path,))
    is_compressed = path.suffix.lower() in _compressed.SUFFIXES
    return (read_lossless if is_compressed else read_wav_samples)(path, rate_hz, count)


def read_sound(path: Path) -> npt.NDArray[np.float64]:
    """The first second (16000,) at 16 kHz, -1 to 1; channels are averaged, zeros fill the end.

    Raises DataError for what is no PCM of 8, 16, 24 or 32 bits, no floats of 32 or 64, and no
    compressed sound.
    """
    require_soundfile((path,))
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataError(f"has more than {MAX_FILE_BYTES >> 20} MB: cut it into seconds")
        is_compressed = path.suffix.lower() in _compressed.SUFFIXES
        sound, rate = (read_compressed if is_compressed else read_wav)(path)
    except DataError as error:
        raise DataError(f"{place_of(path)} {error}") from error
    if rate != mfcc.RATE_HZ:
        sound = _resampled(sound, rate)
    result = np.zeros(mfcc.LENGTH)
    kept = sound[: mfcc.LENGTH]
    result[: len(kept)] = kept
    return result


def _resampled(sound: npt.NDArray[np.float64], rate: int) -> npt.NDArray[np.float64]:
    from scipy.signal import resample_poly  # slow to import

    common = math.gcd(rate, mfcc.RATE_HZ)
    result: npt.NDArray[np.float64] = resample_poly(sound, mfcc.RATE_HZ // common, rate // common)
    return result


Made = Callable[[npt.NDArray[np.float64]], npt.NDArray[Any]]
MADE: Mapping[tuple[int, ...], Made] = {
    (mfcc.FRAMES, mfcc.COEFFICIENTS): mfcc.mfcc,
    (mfcc.LENGTH,): lambda sound: sound,
    (49, CHANNELS): partial(audio_features, step=320),
    (98, CHANNELS): partial(audio_features, step=160),
    (49 * CHANNELS,): partial(audio_features, step=320),
    (98 * CHANNELS,): partial(audio_features, step=160),
}
"""What a sound becomes, by the shape that a model takes."""

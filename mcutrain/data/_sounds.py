"""Reads folders of WAV files: a second each, as the features of keyword models or as it is."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mcutrain.data import mfcc
from mcutrain.data._folders import Kind, Listing, Progress, place_of
from mcutrain.data._wav import read_wav
from mcutrain.data.dataset import Samples
from mcutrain.errors import DataError

SOUNDS = Kind("WAV file", "WAV files", frozenset({".wav", ".wave"}))
MAX_FILE_BYTES = 64 << 20
"""Minutes of sound, of which a second is taken."""


def read_sounds(
    listing: Listing, input_shape: tuple[int, ...] | None, progress: Progress | None
) -> Samples:
    """float32 (n, 49, 10) of all files, or (n, 16000) for a model that takes the sound itself."""
    shape = _shape_for(input_shape)
    x = np.empty((len(listing.paths), *shape), np.float32)
    for i, path in enumerate(listing.paths):
        sound = read_sound(path)
        x[i] = sound if len(shape) == 1 else mfcc.mfcc(sound)
        if progress is not None:
            progress(i + 1, len(listing.paths))
    return x


def _shape_for(input_shape: tuple[int, ...] | None) -> tuple[int, ...]:
    features = (mfcc.FRAMES, mfcc.COEFFICIENTS)
    lengths = features if input_shape is None else tuple(n for n in input_shape if n != 1)
    if lengths in (features, features[::-1]):
        return features
    if lengths == (mfcc.LENGTH,):
        return lengths
    raise DataError(
        f"WAV files become {features[0]} frames of {features[1]} MFCCs, or {mfcc.LENGTH} samples "
        f"as they are, but the model takes {input_shape}: compute its features yourself and save "
        "them in an .npz file"
    )


def read_sound(path: Path) -> npt.NDArray[np.float64]:
    """The first second (16000,) at 16 kHz, -1 to 1; channels are averaged, zeros fill the end.

    Raises DataError for what is no PCM of 8, 16, 24 or 32 bits, and no floats of 32 or 64.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataError(f"has more than {MAX_FILE_BYTES >> 20} MB: cut it into seconds")
        sound, rate = read_wav(path)
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

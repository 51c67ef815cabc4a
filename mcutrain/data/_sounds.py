"""Reads folders of WAV files: a second each, as the features of keyword models or as it is."""

from __future__ import annotations

import math
import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt
from mcutrain_host.text import reason

from mcutrain.data import mfcc
from mcutrain.data._folders import Kind, Listing, Progress, place_of
from mcutrain.data.dataset import Samples
from mcutrain.errors import DataError

SOUNDS = Kind("WAV file", "WAV files", frozenset({".wav", ".wave"}))
MAX_FILE_BYTES = 64 << 20
"""Minutes of sound, of which a second is taken."""
RATES_HZ = (4_000, 192_000)
MAX_CHANNELS = 16


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

    Raises DataError for what is no PCM of 8, 16, 24 or 32 bits.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataError(f"has more than {MAX_FILE_BYTES >> 20} MB: cut it into seconds")
        sound, rate = _decode(path)
    except DataError as error:
        raise DataError(f"{place_of(path)} {error}") from error
    except OSError:
        raise
    except Exception as error:  # the wave module raises anything for damaged files
        raise DataError(
            f"{place_of(path)} is no readable WAV file ({_reason(error)}): save it as PCM of 16 "
            "bits, or remove it"
        ) from error
    if rate != mfcc.RATE_HZ:
        sound = _resampled(sound, rate)
    result = np.zeros(mfcc.LENGTH)
    kept = sound[: mfcc.LENGTH]
    result[: len(kept)] = kept
    return result


def _decode(path: Path) -> tuple[npt.NDArray[np.float64], int]:
    """A little more than the first second, and its rate."""
    with wave.open(str(path), "rb") as file:
        rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
        if not RATES_HZ[0] <= rate <= RATES_HZ[1]:
            raise DataError(
                f"has {rate} Hz: save it with {RATES_HZ[0]} to {RATES_HZ[1]}, best 16000"
            )
        if not (1 <= channels <= MAX_CHANNELS and 1 <= width <= 4):
            raise DataError(
                f"has {channels} channels of {8 * width} bits: save one channel of 16 bits"
            )
        content = file.readframes(rate + rate // 4)
    frame = channels * width
    content = content[: len(content) // frame * frame]
    if not content:
        raise DataError("holds no sound: replace or remove it")
    return _pcm(content, width).reshape(-1, channels).mean(axis=1), rate


def _pcm(content: bytes, width: int) -> npt.NDArray[np.float64]:
    """Little-endian integers of `width` bytes as -1 to 1; those of one byte have no sign."""
    if width == 1:
        return (np.frombuffer(content, np.uint8).astype(np.float64) - 128) / 128
    raw = np.frombuffer(content, np.uint8).reshape(-1, width)
    wide = np.zeros((len(raw), 4), np.uint8)
    wide[:, 4 - width :] = raw
    return wide.view("<i4")[:, 0].astype(np.float64) / 2**31


def _resampled(sound: npt.NDArray[np.float64], rate: int) -> npt.NDArray[np.float64]:
    from scipy.signal import resample_poly  # slow to import

    common = math.gcd(rate, mfcc.RATE_HZ)
    result: npt.NDArray[np.float64] = resample_poly(sound, mfcc.RATE_HZ // common, rate // common)
    return result


def _reason(error: Exception) -> str:
    return reason(error).encode("ascii", "replace").decode()

"""Reads compressed sound by libsndfile, which is optional: FLAC, Ogg (Vorbis, Opus) and MP3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.packages import OPTIONAL

from mcutrain.data._wav import MAX_CHANNELS, RATES_HZ, check_heard
from mcutrain.errors import DataError

LOSSLESS = frozenset({".flac"})
SUFFIXES = LOSSLESS | {".ogg", ".oga", ".opus", ".mp3"}


def require_soundfile(paths: Iterable[Path]) -> None:
    """Raise DataError where one of these needs the package and it is not installed."""
    package = OPTIONAL["soundfile"]
    if not package.is_installed and any(path.suffix.lower() in SUFFIXES for path in paths):
        raise DataError(package.missing)


def read_compressed(path: Path) -> tuple[npt.NDArray[np.float64], int]:
    """A little more than the first second (n,), -1 to 1, its channels averaged; and its rate.

    Raises DataError for what is no sound.
    """
    with _opened(path) as file:
        rate = int(file.samplerate)
        values = file.read(rate + rate // 4, dtype="float64", always_2d=True)
    if not len(values):
        raise DataError("holds no sound: replace or remove it")
    if not np.isfinite(values).all():
        raise DataError("holds values that are NaN or infinite: replace or remove it")
    found: npt.NDArray[np.float64] = values.mean(axis=1)
    return found, rate


def read_lossless(path: Path, rate_hz: int, count: int) -> npt.NDArray[np.int16]:
    """The first `count` samples (n,) of one channel of 16 bits, as they are.

    Raises DataError for other files, and for lossy ones, of which decoders make other bits.
    """
    if path.suffix.lower() not in LOSSLESS:
        raise DataError(
            "is lossy, and decoders make other bits of it, but the front end takes what the device "
            f"hears: save one channel of 16 bits at {rate_hz:,} Hz, as WAV or FLAC"
        )
    with _opened(path) as file:
        bits = {"PCM_S8": 8, "PCM_16": 16, "PCM_24": 24}.get(str(file.subtype), 32)
        check_heard(int(file.channels), f"{bits}-bit PCM", int(file.samplerate), rate_hz)
        found: npt.NDArray[np.int16] = file.read(count, dtype="int16")
    return found


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file of libsndfile. Raises DataError for what it cannot read."""
    import soundfile  # optional: only compressed sounds need it

    try:
        with path.open("rb") as content, soundfile.SoundFile(content) as file:
            if not RATES_HZ[0] <= file.samplerate <= RATES_HZ[1]:
                raise DataError(
                    f"has {file.samplerate} Hz: save it with {RATES_HZ[0]} to {RATES_HZ[1]}, best "
                    "16000"
                )
            if file.channels > MAX_CHANNELS:
                raise DataError(f"has {file.channels} channels: save one channel of 16 bits")
            yield file
    except soundfile.SoundFileError as error:
        said = str(error).rpartition(": ")[2].strip().rstrip(".")
        raise DataError(
            f"is no readable {path.suffix.lower()[1:].upper()} file ({said}): save it as PCM of 16 "
            "bits, or remove it"
        ) from error

"""Reads WAV files: RIFF chunks, PCM and IEEE floats, also with the extensible header.

Microsoft and IBM, "Multimedia Programming Interface and Data Specifications 1.0", 1991; the
extensible header: WAVEFORMATEXTENSIBLE in mmreg.h, whose format is the first half of a GUID.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import DataError

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
NAMES = {
    2: "ADPCM",
    6: "A-law",
    7: "mu-law",
    17: "IMA ADPCM",
    49: "GSM 6.10",
    80: "MPEG",
    85: "MP3",
}
GUID = bytes.fromhex("000000001000800000aa00389b71")
"""What follows the format in the extensible header, where it is one of those without."""
MOST_CHUNKS = 1000
MOST_HEADER_BYTES = 4096
RATES_HZ = (4_000, 192_000)
MAX_CHANNELS = 16
AS_PCM = "save it as PCM of 16 bits, or remove it"


@dataclass(frozen=True)
class WavFormat:
    """How samples are stored. kind: PCM or FLOAT. width: bytes of a sample of one channel."""

    kind: int
    channels: int
    rate_hz: int
    width: int

    @property
    def frame_bytes(self) -> int:
        """Bytes of one point in time."""
        return self.channels * self.width


def read_wav(path: Path) -> tuple[npt.NDArray[np.float64], int]:
    """A little more than the first second (n,), -1 to 1, its channels averaged; and its rate.

    Raises DataError for what is no sound WAV file of PCM or floats.
    """
    with path.open("rb") as file:
        header, size_bytes = _found_data(file)
        wanted = (header.rate_hz + header.rate_hz // 4) * header.frame_bytes
        content = file.read(min(wanted, size_bytes))
    content = content[: len(content) // header.frame_bytes * header.frame_bytes]
    if not content:
        raise DataError("holds no sound: replace or remove it")
    values = _floats(content, header.width) if header.kind == FLOAT else _pcm(content, header.width)
    return values.reshape(-1, header.channels).mean(axis=1), header.rate_hz


def read_samples(path: Path, rate_hz: int, count: int) -> npt.NDArray[np.int16]:
    """The first `count` samples (n,) of a file of one channel of 16-bit PCM, as they are.

    Raises DataError for other files.
    """
    with path.open("rb") as file:
        header, size_bytes = _found_data(file)
        kind = "floats" if header.kind == FLOAT else "PCM"
        check_heard(header.channels, f"{8 * header.width}-bit {kind}", header.rate_hz, rate_hz)
        content = file.read(min(2 * count, size_bytes))
    return np.frombuffer(content[: len(content) // 2 * 2], "<i2").astype(np.int16)


def check_heard(channels: int, samples: str, rate_hz: int, wanted_hz: int) -> None:
    """Raise DataError unless a file holds what a device hears. samples: their type, in words."""
    if (channels, samples, rate_hz) != (1, "16-bit PCM", wanted_hz):
        raise DataError(
            f"has {channels} channels of {samples} at {rate_hz:,} Hz, but the front end takes what "
            f"the device hears: save one channel of 16-bit PCM at {wanted_hz:,} Hz"
        )


def _found_data(file: IO[bytes]) -> tuple[WavFormat, int]:
    """The format, and the bytes of sound, where the file is read next."""
    begin = file.read(12)
    if begin[:4] != b"RIFF" or begin[8:] != b"WAVE":
        what = begin[:4].decode("ascii", "replace") if begin[:4] in (b"RF64", b"RIFX") else ""
        raise DataError(
            f"is no readable WAV file ({what or 'it does not begin with RIFF and WAVE'}): {AS_PCM}"
        )
    found: WavFormat | None = None
    for _ in range(MOST_CHUNKS):
        head = file.read(8)
        if len(head) < 8:
            break
        name, size = head[:4], struct.unpack("<I", head[4:])[0]
        if name == b"data":
            if found is None:
                raise DataError(f"is no readable WAV file (no format before the sound): {AS_PCM}")
            return found, size
        content = file.read(min(size, MOST_HEADER_BYTES)) if name == b"fmt " else b""
        if name == b"fmt ":
            found = _format(content)
        file.seek(size - len(content) + size % 2, 1)
    raise DataError(f"is no readable WAV file (it has no sound): {AS_PCM}")


def _format(content: bytes) -> WavFormat:
    """Parse the chunk `fmt `. Raises DataError for what is not read."""
    if len(content) < 16:
        raise DataError(f"is no readable WAV file (its format is cut off): {AS_PCM}")
    kind, channels, rate, _, frame_bytes, bits = struct.unpack("<HHIIHH", content[:16])
    if kind == EXTENSIBLE:
        if len(content) < 40 or content[26:40] != GUID:
            raise DataError(f"has a format of its own (extensible, unknown): {AS_PCM}")
        kind = struct.unpack("<H", content[24:26])[0]
    widths = {PCM: (1, 2, 3, 4), FLOAT: (4, 8)}.get(kind)
    if widths is None:
        raise DataError(f"is of the format {NAMES.get(kind, 'number')} ({kind}), no PCM: {AS_PCM}")
    if not RATES_HZ[0] <= rate <= RATES_HZ[1]:
        raise DataError(f"has {rate} Hz: save it with {RATES_HZ[0]} to {RATES_HZ[1]}, best 16000")
    width = (bits + 7) // 8
    if not (1 <= channels <= MAX_CHANNELS and width in widths):
        floats = " floats" if kind == FLOAT else ""
        raise DataError(
            f"has {channels} channels of {bits} bits{floats}: save one channel of 16 bits"
        )
    if frame_bytes != channels * width:
        raise DataError(
            f"has {channels} channels of {bits} bits in {frame_bytes} bytes, which can mean several"
            f" things: {AS_PCM}"
        )
    return WavFormat(kind, channels, rate, width)


def _pcm(content: bytes, width: int) -> npt.NDArray[np.float64]:
    """Little-endian integers of `width` bytes as -1 to 1; those of one byte have no sign."""
    if width == 1:
        return (np.frombuffer(content, np.uint8).astype(np.float64) - 128) / 128
    raw = np.frombuffer(content, np.uint8).reshape(-1, width)
    wide = np.zeros((len(raw), 4), np.uint8)
    wide[:, 4 - width :] = raw
    return wide.view("<i4")[:, 0].astype(np.float64) / 2**31


def _floats(content: bytes, width: int) -> npt.NDArray[np.float64]:
    """Little-endian IEEE numbers. Raises DataError for what is none."""
    values = np.frombuffer(content, f"<f{width}").astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError("holds values that are NaN or infinite: replace or remove it")
    return values

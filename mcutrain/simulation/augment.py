"""Training samples varied at random: the same for every run, and on the device where C does it too.

What happens to a sample follows from a key alone, a hash of (seed, epoch, index of the sample), in
integers. Crops and colours change pixels before they are quantized: random resized crops and colour
jitter, as ImageNet is trained with. Flips, shifts, gains and noise change the model's int8 input,
and firmware/runtime/mct_augment.c computes the same bits. It also has time shifts of raw samples,
int16, and background noise behind sound, both before the front end.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data.transform import LUMA_BLUE, LUMA_GREEN, LUMA_RED, resize_bilinear
from mcutrain.errors import DataError
from mcutrain.fixedpoint import hash32

Array = npt.NDArray[Any]

TIME_SHIFT = "time-shift"
OF_RAW = (TIME_SHIFT,)
OF_PIXELS = ("crop", "colour")
OF_CODES = ("flip", "shift", "gain", "noise")
KINDS = (*OF_RAW, *OF_PIXELS, *OF_CODES)
"""Kinds in the order in which they happen."""
LEAST_SIDE_Q8 = 154
"""Least side of a crop: 0.6 of a side, 0.36 of an area."""
MOST_COLOUR_Q8 = 102
"""Brightness, contrast and saturation are 0.6 to 1.4 times what they were."""
MOST_GAIN_Q8 = 51
"""0.8 to 1.2."""
NOISE_Q8 = 7
"""Times the sum of four bytes: a standard deviation of 4 of the 256 codes."""
SHIFT_SHARE = 10
"""Most of a shift: a tenth, either way, of the first axis longer than 1 (time, or rows)."""

FLIP, SHIFT, GAIN = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
HEIGHT, WIDTH, TOP, LEFT = 0xFFFFFFFC, 0xFFFFFFFB, 0xFFFFFFFA, 0xFFFFFFF9
BRIGHTNESS, CONTRAST, SATURATION = 0xFFFFFFF8, 0xFFFFFFF7, 0xFFFFFFF6
PLACE, SNR = 0xFFFFFFF5, 0xFFFFFFF4

MOST_DB, LEAST_DB = 60, -20
"""Of a signal-to-noise ratio."""
AMPLITUDES_Q15 = tuple(round(32768 * 10 ** (-db / 20)) for db in range(20))
"""What noise is scaled by beside sound that is as loud, by whole decibels."""
MOST_GAIN_Q16 = 1 << 20
"""Noise grows at most 16 times: behind loud sound a quiet file then stays quieter."""
MOST_MIXED = 1 << 17
"""Samples of a sound that noise is mixed behind, so that its energy fits 64 bits."""


def parse_augment(text: str) -> tuple[str, ...]:
    """`crop,flip` as kinds in the order in which they happen. Raises DataError."""
    given = [part.strip() for part in text.split(",") if part.strip()]
    check_kinds(given or [text])
    return tuple(kind for kind in KINDS if kind in given)


def check_kinds(given: Sequence[str]) -> None:
    """Raise DataError for a kind that is none."""
    for kind in given:
        if kind not in KINDS:
            raise DataError(
                f"{kind!r} is no augmentation: give some of {', '.join(KINDS)}, separated by commas"
            )


def sample_key(seed: int, epoch: int, index: int) -> int:
    """The 32 bits that all draws of a sample follow from, as mct_augment_key has them."""
    key = _hash(seed)
    key = _hash(key + epoch)
    return _hash(key + index)


@dataclass(frozen=True)
class Augmentation:
    """kinds: some of KINDS. shape: of the model's input, without the batch."""

    kinds: tuple[str, ...]
    shape: tuple[int, ...]
    zero_point: int

    def __post_init__(self) -> None:
        images = {"crop", "colour", "flip"} & set(self.kinds)
        if images and len(self.shape) != 3:
            raise DataError(
                f"{', '.join(sorted(images))} are of images, but the model takes samples of "
                f"{self.shape}: leave them out of the augmentation"
            )

    def pixels(self, x: Array, keys: list[int]) -> Array:
        """uint8 images (n, height, width, channels), cropped and coloured. Raises DataError."""
        wanted = [kind for kind in OF_PIXELS if kind in self.kinds]
        if wanted and x.dtype != np.uint8:
            raise DataError(
                f"{' and '.join(wanted)} are of uint8 pixels, but the samples are {x.dtype}: "
                "leave them out of the augmentation"
            )
        for kind in wanted:
            change = _crop if kind == "crop" else _colour
            x = np.stack([change(image, key) for image, key in zip(x, keys, strict=True)])
        return x

    def codes(self, x: Array, keys: list[int]) -> Array:
        """int8 inputs (n, *shape), flipped, shifted, scaled and with noise: what C does too."""
        most = _lines(self.shape) // SHIFT_SHARE
        changes: dict[str, Callable[[Array, int], Array]] = {
            "flip": flip,
            "shift": lambda v, key: shift(v, key, most, self.zero_point),
            "gain": lambda v, key: gain(v, key, MOST_GAIN_Q8, self.zero_point),
            "noise": lambda v, key: noise(v, key, NOISE_Q8),
        }
        for kind in OF_CODES:
            if kind in self.kinds:
                pairs = zip(x, keys, strict=True)
                x = np.stack([changes[kind](v.reshape(self.shape), key) for v, key in pairs])
        return x


@dataclass(frozen=True, eq=False)
class RawAugmentation:
    """Raw samples (n, time, …) int16, shifted in time, and sound with noise behind it.

    noise: all of it in a row, int16; none if it is empty. snr_db: from, to.
    """

    kinds: tuple[str, ...]
    noise: Array
    snr_db: tuple[int, int]

    def __call__(self, raw: Array, keys: list[int]) -> Array:
        """Each of them varied by its key."""
        made = []
        for x, key in zip(raw, keys, strict=True):
            if TIME_SHIFT in self.kinds:
                x = shift(x, key, len(x) // SHIFT_SHARE, 0)
            made.append(background(x, key, self.noise, self.snr_db) if self.noise.size else x)
        return np.stack(made)

    @property
    def digest(self) -> str:
        """What it does, with the noise."""
        kinds = [kind for kind in self.kinds if kind in OF_RAW]
        if not self.noise.size:
            return f"{kinds}"
        return f"{kinds} {self.snr_db} {hashlib.sha256(self.noise.tobytes()).hexdigest()}"


def background(x: Array, key: int, noise: Array, snr_db: tuple[int, int]) -> Array:
    """Sound (n,) int16 with noise from a drawn place on behind it, at a drawn ratio of energies.

    noise: (m,) int16, which begins again at its end. snr_db: whole decibels from, to. Sound that is
    silent stays so. Sums round half up, and saturate.
    """
    low, high = snr_db
    place = _draw(key, PLACE) * len(noise) >> 32
    piece = noise[(place + np.arange(len(x))) % len(noise)].astype(np.int64)
    gain = _noise_gain(x, piece, low + _below(high - low + 1, key, SNR))
    mixed: Array = np.clip(x + ((piece * gain + (1 << 15)) >> 16), -32768, 32767).astype(np.int16)
    return mixed


def _noise_gain(x: Array, piece: Array, db: int) -> int:
    """Times 2^16."""
    loud, noisy = (
        math.isqrt((int((v.astype(np.int64) ** 2).sum()) << 16) // len(v)) for v in (x, piece)
    )
    amplitude = AMPLITUDES_Q15[db % 20]
    for _ in range(db // 20):
        amplitude //= 10
    if db < 0:
        amplitude *= 10
    return min(2 * loud * amplitude // noisy, MOST_GAIN_Q16) if noisy else 0


def flip(x: Array, key: int) -> Array:
    """(height, width, channels), mirrored left to right at even odds."""
    return x[:, ::-1] if _draw(key, FLIP) >> 31 else x


def shift(x: Array, key: int, most: int, fill: int) -> Array:
    """Moved by -most … most lines of the first axis that is longer than 1; `fill` comes in."""
    by = (_draw(key, SHIFT) >> 16) * (2 * most + 1) // 65536 - most
    lines = x.reshape(_lines(x.shape), -1)
    moved = np.full_like(lines, fill)
    moved[max(by, 0) : len(lines) + min(by, 0)] = lines[max(-by, 0) : len(lines) - max(by, 0)]
    return moved.reshape(x.shape)


def gain(x: Array, key: int, most_q8: int, zero_point: int) -> Array:
    """Real values times 1 - most/256 … 1 + most/256: loudness, or brightness."""
    factor = 256 - most_q8 + (_draw(key, GAIN) >> 16) * (2 * most_q8 + 1) // 65536
    scaled = zero_point + (((x.astype(np.int64) - zero_point) * factor + 128) >> 8)
    codes: Array = np.clip(scaled, -128, 127).astype(np.int8)
    return codes


def noise(x: Array, key: int, amplitude_q8: int) -> Array:
    """Plus the sum of four uniform bytes, less its mean, times amplitude / 256: nearly normal."""
    counter = np.arange(x.size, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(key)
    drawn = hash32(counter)
    parts = [(drawn >> np.uint32(s)) & np.uint32(255) for s in (0, 8, 16, 24)]
    bytes_ = np.sum(np.asarray(parts, np.int64), axis=0)
    added = ((bytes_ - 510) * amplitude_q8 + 128) >> 8
    codes: Array = np.clip(x + added.reshape(x.shape), -128, 127).astype(np.int8)
    return codes


def _crop(image: Array, key: int) -> Array:
    """A part with sides of 0.6 to 1 of the image's, drawn apart, resized to the whole."""
    height, width = image.shape[:2]
    h, w = _side(height, key, HEIGHT), _side(width, key, WIDTH)
    top, left = _below(height - h + 1, key, TOP), _below(width - w + 1, key, LEFT)
    part = image[np.newaxis, top : top + h, left : left + w]
    resized: Array = resize_bilinear(part, height, width)[0]
    return resized


def _side(size: int, key: int, stream: int) -> int:
    return max(1, size * (LEAST_SIDE_Q8 + _below(257 - LEAST_SIDE_Q8, key, stream)) >> 8)


def _colour(image: Array, key: int) -> Array:
    """Brightness, then contrast around the image's mean, then, of RGB, saturation."""
    least, choices = 256 - MOST_COLOUR_Q8, 2 * MOST_COLOUR_Q8 + 1
    bright, contrast, saturation = (
        least + _below(choices, key, stream) for stream in (BRIGHTNESS, CONTRAST, SATURATION)
    )
    x = _towards(np.int64(0), image.astype(np.int64), bright)
    grey = _luma(x)
    x = _towards((grey.sum() + grey.size // 2) // grey.size, x, contrast)
    if x.shape[-1] == 3:
        x = _towards(_luma(x), x, saturation)
    coloured: Array = x.astype(np.uint8)
    return coloured


def _towards(origin: Any, x: Array, factor_q8: int) -> Array:
    changed: Array = np.clip(origin + (((x - origin) * factor_q8 + 128) >> 8), 0, 255)
    return changed


def _luma(x: Array) -> Array:
    if x.shape[-1] != 3:
        return x
    weights = np.array([LUMA_RED, LUMA_GREEN, LUMA_BLUE])
    grey: Array = ((x * weights).sum(axis=-1, keepdims=True) + (1 << 15)) >> 16
    return grey


def _lines(shape: tuple[int, ...]) -> int:
    return next((size for size in shape if size > 1), 1)


def _below(count: int, key: int, stream: int) -> int:
    """0 … count - 1."""
    return (_draw(key, stream) >> 16) * count >> 16


def _draw(key: int, stream: int) -> int:
    return _hash(stream * 0x9E3779B9 + key)


def _hash(value: int) -> int:
    return int(hash32(np.array([value & 0xFFFFFFFF], np.uint32))[0])

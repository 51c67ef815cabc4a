"""Images made to fit a model's input, and varied in a way that a resumed run repeats.

Resizing sums integers only, so every machine gets the same bytes: those of Pillow's BILINEAR
(libImaging/Resample.c), whose arithmetic is repeated here so that Pillow stays optional.
"""

from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data.dataset import Indices, Samples
from mcutrain.errors import DataError

Pixels: TypeAlias = npt.NDArray[np.uint8]
Resize: TypeAlias = Literal["bilinear", "nearest"]

WEIGHT_BITS = 22
"""Fraction bits of a resize weight: 255 * 2^22 + 2^21 fits into int32."""
BLOCK_IMAGES = 16
"""Images resized at once, so that the sums of a line stay in the cache; fewer large ones."""
BLOCK_VALUES = 1 << 22
LUMA_RED, LUMA_GREEN, LUMA_BLUE = 19595, 38470, 7471
"""ITU-R 601 luma times 2^16, as Pillow has it; the sum is 2^16."""


@dataclass(frozen=True)
class Transform:
    """What happens to an image between the data set and the model's input.

    height, width, channels: what the model takes; channels is 1 or 3 where it must change.
    flip: mirror half of the images left to right, in training.
    crop_pixels: shift each image by up to that many pixels (of the model's input) in both
        directions, in training; the edge pixels fill what comes in.
    resize: "bilinear" or "nearest".
    """

    height: int
    width: int
    channels: int
    flip: bool = False
    crop_pixels: int = 0
    resize: Resize = "bilinear"

    def __post_init__(self) -> None:
        if min(self.shape) < 1:
            raise DataError(f"images cannot become {self.shape}: give sizes of at least 1")
        if not 0 <= self.crop_pixels < min(self.height, self.width):
            raise DataError(
                f"a crop of {self.crop_pixels} pixels does not suit images of {self.height} x "
                f"{self.width}: give 0 to {min(self.height, self.width) - 1}"
            )
        if self.resize not in get_args(Resize):
            raise DataError(f"resize is {self.resize!r}: use 'bilinear' or 'nearest'")

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels) of the result."""
        return self.height, self.width, self.channels

    def fit(self, images: Samples) -> Samples:
        """Images (n, h, w, c) -> (n, height, width, channels): what does not vary.

        Centre-crops to the aspect ratio of the result, resizes (see `resize_bilinear`), then
        repeats a grey channel or takes the luma of RGB. Images that fit already come back as
        they are, whatever their type; others must be uint8. Raises DataError otherwise.
        """
        if images.ndim != 4:
            raise DataError(
                f"samples of shape {images.shape[1:]} are no images: "
                f"save them as (n, height, width, channels) for an input of {self.shape}"
            )
        if images.shape[1:] == self.shape:
            return images
        if images.dtype != np.uint8:
            raise DataError(
                f"{images.dtype} samples of shape {images.shape[1:]} do not fit an input of "
                f"{self.shape}: only uint8 images are resized, so save them in that shape"
            )
        cropped = centre_crop(images, self.height, self.width)
        scale = resize_bilinear if self.resize == "bilinear" else resize_nearest
        return to_channels(scale(cropped, self.height, self.width), self.channels)

    def augment(self, images: Samples, index: Indices, *, seed: int, epoch: int) -> Samples:
        """Flip and shift images (n, height, width, channels) that fit, of any type.

        index: (n,) the place of each image in its data set. What happens to an image depends on
        (seed, epoch, its index) alone, so neither batches nor an interruption change it.
        """
        if not self.flip and self.crop_pixels == 0:
            return images
        draw = splitmix64_of(seed, epoch, index)
        rows = self._sources(self.height, draw)
        columns = self._sources(self.width, draw >> np.uint64(24))
        if self.flip:
            mirrored = (draw >> np.uint64(63)).astype(np.bool_)
            columns[mirrored] = columns[mirrored, ::-1]
        return _gather(images, rows, columns)

    def apply(self, images: Samples, index: Indices, *, seed: int, epoch: int) -> Samples:
        """`fit`, then `augment`."""
        return self.augment(self.fit(images), index, seed=seed, epoch=epoch)

    def _sources(self, size: int, draw: npt.NDArray[np.uint64]) -> Indices:
        """(n, size): from which line each line comes, by the low 24 bits of `draw`."""
        choices = np.uint64(2 * self.crop_pixels + 1)
        drawn = ((draw & np.uint64(0xFFFFFF)) * choices >> np.uint64(24)).astype(np.int64)
        lines = np.arange(size) + (drawn - self.crop_pixels)[:, np.newaxis]
        sources: Indices = np.clip(lines, 0, size - 1)
        return sources


def splitmix64_of(seed: int, epoch: int, index: Indices) -> npt.NDArray[np.uint64]:
    """64 random bits (n,) per index: mix(mix(mix(seed) ^ epoch) ^ index), each modulo 2^64.

    `mix` is one step of splitmix64 (Steele, Lea, Flood 2014): a bijection, so two images of an
    epoch never share all their bits.
    """
    state = _mix(np.array([seed % 2**64], dtype=np.uint64))
    state = _mix(state ^ np.array([epoch % 2**64], dtype=np.uint64))
    return _mix(state ^ np.asarray(index).astype(np.uint64))


def _mix(value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    return value


def centre_crop(images: Samples, height: int, width: int) -> Samples:
    """The largest centred part (n, h, w, c) whose h : w is height : width; a view.

    The shorter side is rounded half up, at least 1; an odd rest is one larger at right or below.
    """
    h, w = images.shape[1:3]
    if w * height > h * width:
        w = max(1, (2 * h * width + height) // (2 * height))
    else:
        h = max(1, (2 * w * height + width) // (2 * width))
    top, left = (images.shape[1] - h) // 2, (images.shape[2] - w) // 2
    return images[:, top : top + h, left : left + w]


def to_channels(images: Pixels, channels: int) -> Pixels:
    """uint8 (n, h, w, c) with 1 or 3 channels made of 1 or 3.

    Grey from RGB is (19595 R + 38470 G + 7471 B + 32768) >> 16. Raises DataError for others.
    """
    given = images.shape[3]
    if given == channels:
        return images
    if (given, channels) == (1, 3):
        return np.repeat(images, 3, axis=3)
    if (given, channels) != (3, 1):
        raise DataError(
            f"images of {given} channels cannot become {channels}: "
            "only 1 and 3 are turned into each other"
        )
    red, green, blue = (images[..., i : i + 1].astype(np.uint32) for i in range(3))
    luma = LUMA_RED * red + LUMA_GREEN * green + LUMA_BLUE * blue + (1 << 15)
    return (luma >> 16).astype(np.uint8)


def resize_nearest(images: Pixels, height: int, width: int) -> Pixels:
    """The pixel that holds the centre: source line floor((i + 1/2) * size / new size)."""
    h, w = images.shape[1:3]
    rows = (2 * np.arange(height) + 1) * h // (2 * height)
    columns = (2 * np.arange(width) + 1) * w // (2 * width)
    return images[:, rows[:, np.newaxis], columns]


def resize_bilinear(images: Pixels, height: int, width: int) -> Pixels:
    """uint8 (n, h, w, c) -> (n, height, width, c), the bytes of Pillow's BILINEAR.

    Pixel centres lie at halves (align_corners=False) and edges repeat. Enlarging interpolates
    between neighbours; reducing widens the triangle by the factor, which is an antialias. The
    width is resized first, then the height; each pass rounds to uint8, half up, with weights
    rounded to 22 fraction bits. (Pillow 13 begins with the height for some sizes and then differs
    by the rounding in between; this function never does.)
    """
    n, h, w, c = images.shape
    across, down = _weights(w, width), _weights(h, height)
    result = np.empty((n, height, width, c), dtype=np.uint8)
    block = max(1, min(BLOCK_IMAGES, BLOCK_VALUES // (h * w * c)))
    for first in range(0, n, block):
        part = images[first : first + block]
        lines = _weighted(part.transpose(2, 1, 0, 3), across)  # (width, h, images, c)
        planes = _weighted(lines.transpose(1, 2, 0, 3), down)  # (height, images, width, c)
        result[first : first + block] = planes.swapaxes(0, 1)
    return result


@dataclass(frozen=True, eq=False)
class Weights:
    """Line i of the result is sum_t weight[i, t] * x[source[i, t]] / 2^22; both (lines, taps)."""

    source: Indices
    weight: npt.NDArray[np.int32]


def _weights(size: int, new_size: int) -> Weights:
    """The triangle filter from `size` to `new_size` lines (Resample.c, precompute_coeffs)."""
    step = size / new_size
    support = max(step, 1.0)
    centre = (np.arange(new_size) + 0.5) * step
    low = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    high = np.minimum((centre + support + 0.5).astype(np.int64), size)
    source = low[:, np.newaxis] + np.arange(int((high - low).max()))
    distance = np.abs(source - centre[:, np.newaxis] + 0.5) * (1.0 / support)
    real = np.where(source < high[:, np.newaxis], np.maximum(1.0 - distance, 0.0), 0.0)
    total = np.add.accumulate(real, axis=1)[:, -1:]  # in order, as the C code adds
    weight = (real / total * (1 << WEIGHT_BITS) + 0.5).astype(np.int32)
    return _without_idle_taps(np.minimum(source, size - 1), weight)


def _without_idle_taps(source: Indices, weight: npt.NDArray[np.int32]) -> Weights:
    """Moves each line's weights that are not 0 to the front and drops the taps left over."""
    front = np.argsort(weight == 0, axis=1, kind="stable")
    taps = int((weight != 0).sum(axis=1).max())
    return Weights(
        np.take_along_axis(source, front, axis=1)[:, :taps],
        np.take_along_axis(weight, front, axis=1)[:, :taps],
    )


def _weighted(x: Pixels, weights: Weights) -> Pixels:
    """Along axis 0 of uint8 (size, ...) -> (lines, ...).

    A line's weights sum to 2^22 within half a tap each, so below 16,000 taps no sum passes 255.
    """
    wide = x.astype(np.int32, order="C")
    result = np.empty((len(weights.source), *x.shape[1:]), dtype=np.uint8)
    total, term = np.empty((2, *x.shape[1:]), dtype=np.int32)
    for line, sources, factors in zip(result, weights.source, weights.weight, strict=True):
        np.multiply(wide[sources[0]], factors[0], out=total)
        for source, factor in zip(sources[1:], factors[1:], strict=True):
            total += np.multiply(wide[source], factor, out=term)
        total += 1 << (WEIGHT_BITS - 1)
        line[...] = np.right_shift(total, WEIGHT_BITS, out=total)
    return result


def _gather(images: Samples, rows: Indices, columns: Indices) -> Samples:
    """y[k, i, j] = x[k, rows[k, i], columns[k, j]]."""
    n, h, w, c = images.shape
    values = (columns[:, :, np.newaxis] * c + np.arange(c)).reshape(n, w * c)
    result = np.empty_like(images)
    for k, image in enumerate(images.reshape(n, h, w * c)):
        result[k] = image.take(rows[k], axis=0).take(values[k], axis=1).reshape(h, w, c)
    return result

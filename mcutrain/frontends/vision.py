"""Pixels of a camera become a model's input: crop, resize, colours, in integers.

firmware/frontends/mct_vision.c computes the same, row by row. A pixel becomes red, green and blue
of 8 bits:

- grey: all three; RGB565: the highest bits fill the lowest;
- YUYV (YUV 4:2:2): BT.601 in full range, as JPEG has it, factors with 16 fraction bits; two
  neighbours share their colour;
- Bayer (RGGB): two by two samples are one pixel, whose green is the mean of two, so the image has
  half as many rows and columns.

A model of one channel takes grey: (77 red + 150 green + 29 blue + 128) / 256; of YUYV it takes Y.
Resizing is by area (the mean of what a pixel covers, exact, to the nearest) or bilinear (between
the centres of pixels, weights with 8 fraction bits). The result is less 128: int8.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
MOST = 4096
"""Rows or columns, of the camera and of the model."""
RED_OF_V, GREEN_OF_U, GREEN_OF_V, BLUE_OF_U = 91881, 22554, 46802, 116130
"""1.402, 0.344136, 0.714136, 1.772, times 2^16."""


class Format(IntEnum):
    """How a camera sends pixels."""

    GREY = 0
    RGB565_LITTLE = 1
    """The low byte first."""
    RGB565_BIG = 2
    YUYV = 3
    BAYER_RGGB = 4

    @property
    def row_divisor(self) -> int:
        """Columns come in ones or twos."""
        return 2 if self in (Format.YUYV, Format.BAYER_RGGB) else 1


class Method(IntEnum):
    """How an image is resized."""

    AREA = 0
    BILINEAR = 1


@dataclass(frozen=True)
class Crop:
    """A part of an image, in its pixels; of Bayer images, in pixels of two by two samples."""

    left: int
    top: int
    width: int
    height: int


@dataclass(frozen=True)
class Vision:
    """What becomes of an image. Raises ValueError for what does not fit together.

    width, height: samples of the camera. out_width, out_height, channels: of the model; channels is
    1 or 3.
    """

    format: Format
    width: int
    height: int
    crop: Crop
    out_width: int
    out_height: int
    channels: int
    method: Method = Method.AREA

    def __post_init__(self) -> None:
        crop, divisor = self.crop, self.format.row_divisor
        halves = 2 if self.format == Format.BAYER_RGGB else 1
        columns, rows = self.width // halves, self.height // halves
        lengths = (self.width, self.height, self.out_width, self.out_height)
        if not all(1 <= n <= MOST for n in lengths):
            raise ValueError(f"images of {lengths}: rows and columns are 1 to {MOST}")
        if self.width % divisor or self.height % halves:
            raise ValueError(f"{self.format.name} comes in twos, not {self.width} x {self.height}")
        if self.channels not in (1, 3):
            raise ValueError(f"a model takes 1 or 3 channels, not {self.channels}")
        if min(crop.width, crop.height) < 1 or min(crop.left, crop.top) < 0:
            raise ValueError(f"{crop} is no part of an image")
        if crop.left + crop.width > columns or crop.top + crop.height > rows:
            raise ValueError(f"{crop} is outside of {columns} x {rows} pixels")

    @property
    def row_bytes(self) -> int:
        """Bytes of a camera's row."""
        return self.width * (1 if self.format in (Format.GREY, Format.BAYER_RGGB) else 2)

    @property
    def memory_bytes(self) -> int:
        """What C keeps between rows."""
        per_number = 8 if self.method == Method.AREA else 4
        kept_row = self.width if self.format == Format.BAYER_RGGB else 0
        return self.out_width * self.channels * per_number + kept_row


def resized(how: Vision, image: Bytes) -> npt.NDArray[np.int8]:
    """An image (height, row_bytes) as the model takes it: (out_height, out_width, channels)."""
    if image.dtype != np.uint8 or image.shape != (how.height, how.row_bytes):
        raise ValueError(
            f"an image is uint8 ({how.height}, {how.row_bytes}), not {image.dtype} {image.shape}"
        )
    crop = how.crop
    pixels = _pixels(how, image.astype(np.int64))
    part = pixels[crop.top : crop.top + crop.height, crop.left : crop.left + crop.width]
    made = _by_area if how.method == Method.AREA else _bilinear
    found = made(part, how.out_height, how.out_width)
    return (found - 128).astype(np.int8)


def _pixels(how: Vision, image: Ints) -> Ints:
    """(rows, columns, channels), 0 to 255."""
    if how.format == Format.GREY:
        return np.repeat(image[..., np.newaxis], how.channels, axis=2)
    if how.format == Format.YUYV and how.channels == 1:
        return image[:, 0::2, np.newaxis]
    red, green, blue = _COLOURS[how.format](image)
    if how.channels == 1:
        grey: Ints = 77 * red + 150 * green + 29 * blue + 128 >> 8
        return grey[..., np.newaxis]
    return np.stack((red, green, blue), axis=-1)


def _of_565(low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    word = low | high << 8
    red, green, blue = word >> 11, word >> 5 & 63, word & 31
    return red << 3 | red >> 2, green << 2 | green >> 4, blue << 3 | blue >> 2


def _of_yuyv(image: Ints) -> tuple[Ints, Ints, Ints]:
    y = image[:, 0::2]
    u = np.repeat(image[:, 1::4], 2, axis=1) - 128
    v = np.repeat(image[:, 3::4], 2, axis=1) - 128
    half = 1 << 15
    found = (
        y + (RED_OF_V * v + half >> 16),
        y - (GREEN_OF_U * u + GREEN_OF_V * v + half >> 16),
        y + (BLUE_OF_U * u + half >> 16),
    )
    red, green, blue = (np.clip(colour, 0, 255) for colour in found)
    return red, green, blue


def _of_bayer(image: Ints) -> tuple[Ints, Ints, Ints]:
    green = image[0::2, 1::2] + image[1::2, 0::2] + 1 >> 1
    return image[0::2, 0::2], green, image[1::2, 1::2]


def packed(form: Format, images: Bytes) -> Bytes:
    """Frames (n, rows, row_bytes) of images (n, rows, columns, 3), as a camera would send them.

    RGB565 leaves out the lowest bits. Grey, and Y, U and V, are rounded to the nearest, and the
    colour of two neighbours is that of their mean. A Bayer image has each pixel's red, green, green
    and blue.
    """
    red, green, blue = (images[..., i].astype(np.int64) for i in range(3))
    if form == Format.GREY:
        return (77 * red + 150 * green + 29 * blue + 128 >> 8).astype(np.uint8)
    if form == Format.BAYER_RGGB:
        n, rows, columns = red.shape
        found = np.zeros((n, 2 * rows, 2 * columns), np.uint8)
        found[:, 0::2, 0::2], found[:, 1::2, 1::2] = red, blue
        found[:, 0::2, 1::2] = found[:, 1::2, 0::2] = green
        return found
    if form == Format.YUYV:
        return _as_yuyv(red, green, blue)
    word = red >> 3 << 11 | green >> 2 << 5 | blue >> 3
    two = (word & 255, word >> 8) if form == Format.RGB565_LITTLE else (word >> 8, word & 255)
    pairs: Bytes = np.stack(two, axis=-1).astype(np.uint8)
    return pairs.reshape(*word.shape[:2], -1)


def _as_yuyv(red: Ints, green: Ints, blue: Ints) -> Bytes:
    """U is (blue - y) / 1.772, V is (red - y) / 1.402, y with 16 fraction bits."""
    y = 19595 * red + 38470 * green + 7471 * blue
    found = np.zeros((*red.shape[:2], 2 * red.shape[2]), np.uint8)
    found[:, :, 0::2] = y + (1 << 15) >> 16
    pairs = (((blue << 16) - y, BLUE_OF_U), ((red << 16) - y, RED_OF_V))
    for at, (colour, factor) in zip((1, 3), pairs, strict=True):
        both = colour[..., 0::2] + colour[..., 1::2]
        found[:, :, at::4] = np.clip((both + factor) // (2 * factor) + 128, 0, 255)
    return found


_COLOURS = {
    Format.RGB565_LITTLE: lambda image: _of_565(image[:, 0::2], image[:, 1::2]),
    Format.RGB565_BIG: lambda image: _of_565(image[:, 1::2], image[:, 0::2]),
    Format.YUYV: _of_yuyv,
    Format.BAYER_RGGB: _of_bayer,
}


def _by_area(x: Ints, rows: int, columns: int) -> Ints:
    covered = x.shape[0] * x.shape[1]
    by_column = np.einsum("rcx,oc->rox", x, _overlaps(x.shape[1], columns))
    sums = np.einsum("rox,pr->pox", by_column, _overlaps(x.shape[0], rows))
    found: Ints = (sums + covered // 2) // covered
    return found


def _overlaps(length: int, out_length: int) -> Ints:
    """(out, in): the common part of both, where they are out x in long; a row's sum is `length`."""
    at, out_at = np.arange(length) * out_length, np.arange(out_length)[:, np.newaxis] * length
    common: Ints = np.minimum(at + out_length, out_at + length) - np.maximum(at, out_at)
    return np.maximum(common, 0)


def _bilinear(x: Ints, rows: int, columns: int) -> Ints:
    at, share = _centres(x.shape[1], columns)
    after = np.minimum(at + 1, x.shape[1] - 1)
    share = share[:, np.newaxis]
    wide = x[:, at] * (256 - share) + x[:, after] * share
    at, share = _centres(x.shape[0], rows)
    after = np.minimum(at + 1, x.shape[0] - 1)
    share = share[:, np.newaxis, np.newaxis]
    found: Ints = wide[at] * (256 - share) + wide[after] * share + (1 << 15) >> 16
    return found


def blended(how: Vision) -> tuple[int, int]:
    """Rows that a bilinear image is made of, and its columns that lie between two pixels."""
    at, _ = _centres(how.crop.height, how.out_height)
    _, share = _centres(how.crop.width, how.out_width)
    rows = np.union1d(at, np.minimum(at + 1, how.crop.height - 1))
    return len(rows), int(np.count_nonzero(share))


def _centres(length: int, out_length: int) -> tuple[Ints, Ints]:
    """Where the centre of each pixel lies: the pixel before it, and 256ths towards the next."""
    place = (2 * np.arange(out_length) + 1) * length - out_length
    place = np.clip(place, 0, (length - 1) * 2 * out_length)
    rest = place % (2 * out_length)
    return place // (2 * out_length), (rest * 256 + out_length) // (2 * out_length)

"""Images of a camera as a front end of programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import DataError
from mcutrain.frontends import vision
from mcutrain.frontends.frontend import Array, FeatureStream, FrontendC, ImageC
from mcutrain.frontends.images import Bytes, ImageFrontend
from mcutrain.frontends.vision import Crop, Format, Method, Vision

STATE_BYTES = 24
"""Of mct_vision."""
QUEUE_ROWS = 8
MOST_LEVEL = 1 << 15
FORMATS = {"grey": 0, "rgb565": 1, "rgb565be": 2, "yuyv": 3, "bayer": 4}
"""Numbers of Format."""
CODED = ("rgb565", "rgb565", "yuyv", "bayer")
"""Of all formats but grey, as pixels cost."""
OF_MODEL = ("out_height", "out_width", "out_channels")
METHODS = {"area": 0, "bilinear": 1}
KERNEL = "&heard->vision, &camera_params, heard->memory"
"""What its functions take first."""
NORMS = {"range": 0, "imagenet": 1}
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's red, green and blue, between 0 and 1, as torchvision's networks are trained."""
C = """static const mct_vision_params camera_params = {{
    .width = {width},
    .left = {left},
    .top = {top},
    .crop_width = {crop_width},
    .crop_height = {crop_height},
    .out_width = {out_width},
    .out_height = {out_height},
    .channels = {out_channels},
    .format = {format},
    .is_bilinear = {method},
}};

typedef struct {{
    mct_vision vision;
    uint32_t memory[{words}];
    int8_t row[{row}];
}} camera_heard;
"""


class ImageStream:
    """Images of rows that come in pieces."""

    def __init__(self, how: Vision) -> None:
        self._how = how
        self._rows = np.zeros((0, how.row_bytes // 2), np.int16)

    def push(self, piece: npt.ArrayLike) -> Array:
        """The pixels (images, numbers) of all images that end in this piece."""
        rows = np.concatenate((self._rows, np.asarray(piece, np.int16)))
        height = self._how.height
        count = len(rows) // height
        self._rows = rows[count * height :]
        whole = np.ascontiguousarray(rows[: count * height], "<i2").view(np.uint8)
        images = whole.reshape(count, height, self._how.row_bytes)
        found = [vision.resized(self._how, image).reshape(-1) for image in images]
        numbers = self._how.out_width * self._how.out_height * self._how.channels
        return np.array(found, np.int64).reshape(count, numbers) + 128


@dataclass(frozen=True)
class CameraFrontend(ImageFrontend):
    """Images of a camera, by rows, see `mcutrain.frontends.vision`.

    width, height, format: of the camera; a row is int16, two bytes each. left, top, crop_width,
    crop_height: the part that is taken. out_width, out_height, out_channels: of the model. low,
    high: the real numbers that pixels 0 and 255 are. rate: images a second; 0 if it is not said.
    norm: 1 for less the mean of each channel, in deviations, as ImageNet has them from 0 to 1.
    Raises DataError.
    """

    width: int
    height: int
    format: int
    left: int
    top: int
    crop_width: int
    crop_height: int
    out_width: int
    out_height: int
    out_channels: int
    method: int
    low: int
    high: int
    rate: int
    norm: int = 0

    kind: ClassVar[str] = "camera"
    WORDS: ClassVar[Mapping[str, Mapping[str, int]]] = {
        "format": FORMATS,
        "method": METHODS,
        "norm": NORMS,
    }
    FEATURE_SCALE: ClassVar[float] = 1.0
    RANGE: ClassVar[tuple[int, int]] = (0, 255)

    def __post_init__(self) -> None:
        self.check_options(
            {
                "format": (0, len(Format) - 1),
                "method": (0, len(Method) - 1),
                "low": (-MOST_LEVEL, self.high - 1),
                "high": (self.low + 1, MOST_LEVEL),
                "rate": (0, 1000),
                "norm": (0, 1),
            }
        )
        try:
            how = self.vision
        except ValueError as error:
            raise DataError(f"camera: {error}") from error
        if self.norm and self.out_channels != len(MEAN):
            raise DataError("camera: norm=imagenet is of 3 channels: leave it out")
        if self.norm and (self.low, self.high) != (0, 1):
            raise DataError("camera: norm=imagenet is of pixels 0 to 1: leave out low and high")
        if how.row_bytes % 2:
            raise DataError(f"camera: rows have {self.width} pixels: give an even width")

    @classmethod
    def of(cls, options: Mapping[str, int], input_shape: tuple[int, ...] | None) -> CameraFrontend:
        """With the model's size; by default the largest part in the middle of its proportions."""
        found = {"format": 0, "method": 0, "low": 0, "high": 1, "rate": 0, **options}
        model = () if input_shape is None else _image(input_shape)
        for name, length in zip(OF_MODEL, model, strict=False):
            found.setdefault(name, length)
        for name in ("width", "height", *OF_MODEL):
            if name not in found:
                raise DataError(f"camera: say {name}, as camera:width=160,height=120,format=rgb565")
        halves = 2 if found["format"] == Format.BAYER_RGGB else 1
        columns, rows = found["width"] // halves, found["height"] // halves
        wide, high = max(found["out_width"], 1), max(found["out_height"], 1)
        found.setdefault("crop_width", max(min(columns, rows * wide // high), 1))
        found.setdefault("crop_height", max(min(rows, columns * high // wide), 1))
        found.setdefault("left", (columns - found["crop_width"]) // 2)
        found.setdefault("top", (rows - found["crop_height"]) // 2)
        made = cls(**found)
        if model and model != made.image:
            raise DataError(
                f"the front end camera makes images {made.image[:2]} of "
                f"{made.out_channels} channels, but the model takes {model}: change its options, "
                "or give another model"
            )
        return made

    @cached_property
    def vision(self) -> Vision:
        """What the kernel is told. Raises ValueError."""
        return Vision(
            Format(self.format),
            self.width,
            self.height,
            Crop(self.left, self.top, self.crop_width, self.crop_height),
            self.out_width,
            self.out_height,
            self.out_channels,
            Method(self.method),
        )

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.vision.row_bytes

    @property
    def image(self) -> tuple[int, int, int]:
        """Rows, columns and channels of the model's image."""
        return self.out_height, self.out_width, self.out_channels

    @property
    def hop(self) -> int:
        """Rows of an image."""
        return self.height

    @property
    def rate_hz(self) -> int:
        """Rows a second; 0 if it is not said."""
        return self.rate * self.height

    @property
    def real_pixels(self) -> npt.NDArray[np.float32]:
        """Pixel 0 is `low`, pixel 255 is `high`; by `norm` less the mean, in deviations."""
        real = self.low + np.arange(256)[np.newaxis] * ((self.high - self.low) / 255)
        if self.norm:
            real = (real - np.array(MEAN)[:, np.newaxis]) / np.array(DEVIATION)[:, np.newaxis]
        found: npt.NDArray[np.float32] = real.astype(np.float32)
        return found

    def stream(self) -> FeatureStream:
        """A new stream."""
        return ImageStream(self.vision)

    def packed(self, images: Bytes) -> npt.NDArray[np.int16]:
        """Raw samples of images (n, *picture, 3), as the camera would send them."""
        return self.frames(vision.packed(self.vision.format, images))

    @property
    def picture(self) -> tuple[int, int]:
        """Rows and columns of pixels that the camera sees."""
        halves = 2 if self.format == Format.BAYER_RGGB else 1
        return self.height // halves, self.width // halves

    @property
    def work(self) -> Mapping[str, int]:
        """Rows of the camera, pixels by format, columns and numbers by method."""
        how, numbers, rows = self.vision, self.output_shape[1], self.crop_height
        is_area, is_bayer = how.method == Method.AREA, how.format == Format.BAYER_RGGB
        blended, between = vision.blended(how)
        columns = self.out_width * (rows if is_area else blended)
        pixels = rows * self.crop_width if is_area else 2 * columns
        parts = rows + self.out_height - math.gcd(rows, self.out_height)
        work = {f"{name} {channels}": 0 for name in CODED for channels in (1, 3)}
        if how.format != Format.GREY:
            work[f"{CODED[how.format - 1]} {how.channels}"] = pixels
        work |= {"rows": self.height, "kept": rows * self.width * is_bayer, "aims": self.out_height}
        of_area = {
            "pixels": pixels,
            "columns": columns,
            "sums": columns * how.channels,
            "parts": parts * self.out_width * how.channels,
            "means": numbers,
        }
        of_bilinear = {
            "blended": columns,
            "shares": blended * between,
            "halves": columns * how.channels,
            "between": numbers,
        }
        of_others = dict.fromkeys(of_bilinear if is_area else of_area, 0)
        return work | (of_area if is_area else of_bilinear) | of_others

    @property
    def c(self) -> FrontendC:
        """firmware/frontends/mct_vision.c."""
        how = self.vision
        words, row = -(-how.memory_bytes // 4), how.out_width * how.channels
        return FrontendC(
            sources=("mct_vision.c", "mct_vision.h"),
            header="mct_vision.h",
            state="camera_heard",
            state_bytes=-(-(STATE_BYTES + 4 * words + row) // 4) * 4,
            reset="mct_vision_reset(&{0}.vision, &camera_params, {0}.memory)",
            push="",
            feature="int8_t",
            image=ImageC(
                follow=f"mct_vision_follow_row({KERNEL}, number, row)",
                take=f"mct_vision_take_row({KERNEL}, heard->row)",
                made="vision.out_row",
                due="vision.due",
            ),
            flash_bytes={"portable": 3298, "armv6m": 3686, "dsp": 3262},
            definitions=C.format(**self.options(), words=words, row=row),
            queue=QUEUE_ROWS,
        )


def _image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels of a model's input. Raises DataError."""
    found = (*shape, 1) if len(shape) == 2 else shape
    if len(found) != 3 or found[2] not in (1, 3):
        raise DataError(
            f"the front end camera makes images of 1 or 3 channels, but the model takes {shape}: "
            "give the model that takes images, or another front end"
        )
    return found[0], found[1], found[2]

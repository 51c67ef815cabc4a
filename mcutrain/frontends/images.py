"""What front ends of images have in common: they take rows of a camera."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.frontends.frontend import IMAGES, Array, Frontend, Int8, RawKind, codes_of

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ImageFrontend(Frontend):
    """A front end of images. Its window is one, and `hop` the rows of the camera for it."""

    RAW: ClassVar[RawKind] = IMAGES

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """Bytes of a camera's row, an even number."""

    @property
    @abstractmethod
    def image(self) -> tuple[int, int, int]:
        """Rows, columns and channels of the model's image."""

    @property
    @abstractmethod
    def picture(self) -> tuple[int, int]:
        """Rows and columns of pixels that the camera sees."""

    @abstractmethod
    def packed(self, images: Bytes) -> npt.NDArray[np.int16]:
        """Raw samples of images (n, *picture, 3), as the camera would send them."""

    @property
    @abstractmethod
    def real_pixels(self) -> npt.NDArray[np.float32]:
        """The real number of each pixel from 0 to 255: (1, 256), or of each channel its own."""

    def pixel_codes(self, scale: float, zero_point: int) -> Int8:
        """The code of each pixel (1, 256), or of each channel's, as `real_pixels` has them."""
        return codes_of(self.real_pixels, scale, zero_point)

    def steps_of(self, scale: float, zero_point: int) -> tuple[int, npt.NDArray[np.int64]]:
        """Those of the first channel; pixels become codes by `pixel_codes`."""
        code = self.pixel_codes(scale, zero_point)[0].astype(np.int64)
        return int(code[0]), np.searchsorted(code, np.arange(code[0] + 1, code[-1] + 1))

    def as_real(self, features: Array) -> npt.NDArray[np.float32]:
        """Pixels (..., numbers of an image) as real numbers."""
        return self._looked_up(self.real_pixels, features)

    def codes(self, features: Array, scale: float, zero_point: int) -> Int8:
        """Pixels as an int8 input takes them."""
        return self._looked_up(self.pixel_codes(scale, zero_point), features)

    def _looked_up(self, table: Array, features: Array) -> Array:
        rows = features.reshape(-1, len(table))
        return table[np.arange(len(table)), rows].reshape(features.shape)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Rows of the camera, and numbers of a row."""
        return self.hop, self.row_bytes // 2

    @property
    def output_shape(self) -> tuple[int, int]:
        """An image, and its numbers."""
        return 1, math.prod(self.image)

    @property
    def what(self) -> str:
        """Frames in words."""
        return f"frames as the camera sends them, uint8 (n, {self.hop}, {self.row_bytes})"

    def frames(self, bytes_: Bytes) -> npt.NDArray[np.int16]:
        """Raw samples (n, *input_shape) of frames (n, rows, row_bytes)."""
        whole = np.ascontiguousarray(bytes_).view("<i2").astype(np.int16)
        return whole.reshape(len(bytes_), *self.input_shape)

"""The samples of a run as the model's int8 input: fitted, augmented, quantized."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import data
from mcutrain.errors import DataError
from mcutrain.simulation.augment import (
    MOST_MIXED,
    Augmentation,
    RawAugmentation,
    sample_key,
)
from mcutrain.simulation.settings import RunSettings

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Samples:
    """A split whose images fit the model, quantized and augmented on demand."""

    split: data.Split
    transform: data.Transform
    scale: float
    zero_point: int
    normalization: Any = "auto"
    augmentation: Augmentation | None = None
    versions: int = 0
    raw: RawAugmentation | None = None

    @staticmethod
    def prepare(
        split: data.Split,
        input_shape: tuple[int, ...],
        scale: float,
        zero_point: int,
        settings: RunSettings,
        normalization: Any = "auto",
    ) -> Samples:
        """Resize images once, and give windows of another form the shape of the model's input.

        input_shape: without the batch. Raises DataError if none fits.
        """
        if len(input_shape) != 3 and (settings.flip or settings.crop_pixels):
            raise DataError(
                f"flips and crops are of images, but the model takes samples of {input_shape}: "
                "train without them"
            )
        height, width, channels = (*(1,) * (3 - len(input_shape)), *input_shape)
        transform = data.Transform(height, width, channels, settings.flip, settings.crop_pixels)
        kinds = settings.augment
        augmentation = Augmentation(kinds, input_shape, zero_point) if kinds else None
        split = split.each(lambda part: _fitted(part, input_shape, transform))
        raw = raw_augmentation(split.train, settings) if settings.varies_raw else None
        return Samples(
            split, transform, scale, zero_point, normalization, augmentation, settings.versions, raw
        )

    @property
    def are_varied(self) -> bool:
        """Whether epochs take them otherwise than they are."""
        flips_or_crops = self.transform.flip or self.transform.crop_pixels > 0
        return flips_or_crops or self.augmentation is not None or self.raw is not None

    @property
    def varied(self) -> str:
        """How epochs vary them, as words; empty if they do not."""
        if not self.are_varied:
            return ""
        raw = "" if self.raw is None else f" {self.raw.digest}"
        return f"{self.transform} {self.augmentation}{raw}"

    def train(self, index: Array, epoch: int, seed: int) -> Array:
        """The training samples `index` of an epoch as the model's int8 input."""
        epoch = epoch % self.versions if self.versions else epoch
        x = self.split.train.x[index]
        keys = [sample_key(seed, epoch, int(i)) for i in index] if self.are_varied else []
        if self.raw is not None:
            heard = self.split.train.heard
            assert heard is not None, "raw_augmentation has seen to it"
            x = heard.of_raw(self.raw(heard.raw_of(x), keys)).reshape(x.shape)
        if self.transform.flip or self.transform.crop_pixels:
            x = self.transform.augment(x, index, seed=seed, epoch=epoch)
        if self.augmentation is None:
            return self.quantized(x)
        codes = self.quantized(self.augmentation.pixels(x, keys))
        return self.augmentation.codes(codes, keys)

    def whole(self) -> Samples:
        """The samples themselves, where these are what a network's front makes of them."""
        return self

    def test(self, first: int, last: int) -> Array:
        """Test samples as the model's int8 input."""
        return self.quantized(self.split.test.x[first:last])

    def quantized(self, x: Array) -> Array:
        """Samples of the split as the model's int8 input."""
        return data.quantize_input(
            x, scale=self.scale, zero_point=self.zero_point, normalization=self.normalization
        )


def raw_augmentation(part: data.Dataset, settings: RunSettings) -> RawAugmentation:
    """Return what varies samples before the front end, with its noise. Raises DataError."""
    front = None if part.heard is None else part.heard.frontend
    if front is None:
        raise DataError(
            "time shifts and background noise are of raw samples, of which a front end makes the "
            "model's: give --frontend, and WAV or FLAC files, rows of sensors or int16 arrays"
        )
    if front.takes_images:
        raise DataError(
            "time shifts and background noise are of sound and rows, but the front end "
            f"{front.kind} takes images: give --augment crop, flip, shift or others"
        )
    if not settings.background:
        return RawAugmentation(settings.augment, np.zeros(0, np.int16), settings.snr_db)
    if front.takes_rows or front.input_shape[0] > MOST_MIXED:
        raise DataError(
            f"background noise is mixed behind sounds of at most {MOST_MIXED:,} samples, but the "
            f"front end {front.kind} takes windows of {front.input_shape}: leave it out"
        )
    noise = data.read_noise(Path(settings.background), front.rate_hz)
    return RawAugmentation(settings.augment, noise, settings.snr_db)


def _fitted(part: data.Dataset, shape: tuple[int, ...], transform: data.Transform) -> data.Dataset:
    """Samples in the model's shape where only axes of length 1 differ; other images are resized.

    Windows (n, time, channels) are thus no images (n, height, width), if the model's input says so.
    """
    x = data.arranged(part.x, shape)
    if data.is_same_shape(x.shape[1:], shape):
        return replace(part, x=x.reshape(len(part), *shape))
    return replace(part, x=transform.fit(x)) if x.dtype == np.uint8 else replace(part, x=x)


def content_of(part: data.Dataset) -> bytes:
    """Samples and labels."""
    return np.ascontiguousarray(part.x).tobytes() + part.y.tobytes()

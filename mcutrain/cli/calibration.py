"""Calibration samples as the user has them, and what they say of the model's input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mcutrain.cli.options import parse_number
from mcutrain.cli.output import say
from mcutrain.cli.samples import normalization

if TYPE_CHECKING:
    import numpy.typing as npt

    from mcutrain.data import Normalization
    from mcutrain.quant import Quantization


class Given:
    """The calibration samples as the user has them."""

    def __init__(
        self,
        path: Path,
        count: int,
        seed: int,
        pixels: Normalization | None,
        tell: Callable[[str, int, int], None],
        stride: int | None = None,
    ) -> None:
        self.path, self.count, self.seed, self.pixels, self.tell = path, count, seed, pixels, tell
        self.stride = stride

    def read(
        self, shape: tuple[int, ...], fixed: Quantization | None
    ) -> tuple[npt.NDArray[Any], Quantization | None]:
        """Real numbers for the model's input, and the input's quantization if the data tells it."""
        import numpy as np

        from mcutrain.data import Transform, arranged
        from mcutrain.data.unlabelled import load_samples
        from mcutrain.errors import DataError

        image = (shape[1], shape[2], shape[3]) if len(shape) == 4 else None
        x = load_samples(
            self.path,
            self.count,
            seed=self.seed,
            input_shape=shape[1:],
            stride=self.stride,
            progress=lambda done, of: self.tell("reading samples", done, of),
        )
        x = arranged(x, shape[1:])
        if x.dtype == np.uint8:
            if self.pixels is None:
                raise DataError(
                    f"{self.path} holds pixels: say what numbers the model takes for them, "
                    "--pixels 0,1 (or -1,1, or 0,255), or --mean and --std"
                )
            if image is not None and x.ndim == 4:
                x = Transform(*image).fit(x)
            real, chosen = _real_pixels(x, self.pixels, fixed)
            if fixed is not None:
                self._tell_range(real, fixed)
            return real, chosen
        if self.pixels is not None:
            raise DataError(
                f"{self.path} holds {x.dtype}, not pixels: leave out --pixels, --mean and --std if "
                "these are the numbers that the model takes, or save uint8"
            )
        if x.dtype == np.int8:
            if fixed is None:
                raise DataError(
                    f"{self.path} holds int8: say how it was quantized, --input-scale and "
                    "--input-zero-point"
                )
            real = (x.astype(np.float32) - fixed.zero_point) * np.float32(fixed.scale)
            return real, fixed
        if fixed is not None:
            self._tell_range(x, fixed)
        return x, fixed

    def _tell_range(self, real: npt.NDArray[Any], fixed: Quantization) -> None:
        """Say what the given quantization of the input clips. Raises DataError if it is wrong."""
        from mcutrain.data import ModelInput
        from mcutrain.data.ranges import check_values

        taken = ModelInput(real.shape[1:], fixed.scale, fixed.zero_point)
        remedy = "give another --input-scale and --input-zero-point, or none"
        for note in check_values(real, taken, f"the samples of {self.path}", remedy):
            say(f"mcutrain: note: {note}")


def _real_pixels(
    x: npt.NDArray[Any], pixels: Normalization, fixed: Quantization | None
) -> tuple[npt.NDArray[Any], Quantization]:
    """(pixel / 255 - mean) / std, and the quantization that has a code for every pixel value."""
    import numpy as np

    from mcutrain.errors import DataError
    from mcutrain.quant import Quantization

    mean, std = np.array(pixels.mean), np.array(pixels.std)
    if len(mean) not in (1, x.shape[-1]):
        raise DataError(
            f"there are {len(mean)} means but the images have {x.shape[-1]} channels: give one per "
            "channel, or one for all"
        )
    real = ((x / 255 - mean) / std).astype(np.float32)
    span = Quantization.of_range(float((-mean / std).min()), float(((1 - mean) / std).max()))
    return real, fixed or span


def pixel_range(pixels: str | None, mean: str | None, std: str | None) -> Normalization | None:
    """Of --pixels, or of --mean and --std."""
    from mcutrain.data import Normalization

    if pixels is None:
        return normalization(mean, std)
    numbers = [parse_number(part) for part in pixels.split(",")]
    if len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise typer.BadParameter("give two numbers, LOW below HIGH", param_hint="--pixels")
    if mean is not None or std is not None:
        raise typer.BadParameter("give --pixels, or --mean and --std", param_hint="--pixels")
    low, high = numbers
    return Normalization((-low / (high - low),), (1 / (high - low),))


def fixed_input(scale: float | None, zero_point: int) -> Quantization | None:
    """Of --input-scale and --input-zero-point."""
    import numpy as np

    from mcutrain.quant import Quantization

    if scale is None:
        return None
    if not 1e-30 < scale < 1e30:
        raise typer.BadParameter("a scale is positive and finite", param_hint="--input-scale")
    return Quantization(float(np.float32(scale)), zero_point)

"""Samples become the int8 numbers that a model takes, with the model's own input parameters."""

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data.dataset import Samples
from mcutrain.errors import DataError

Int8: TypeAlias = npt.NDArray[np.int8]

SCALE_TOLERANCE = 0.01
"""How far a scale may be from a convention's: a code is then off by 1.3 at the most."""
CONVENTIONS = ((1 / 127.5, (-1, 0)), (1 / 255, (-128,)), (1.0, (-128,)))
"""(scale, zero points) for real = pixel / 127.5 - 1, pixel / 255, pixel: all mean q = pixel - 128.

The first has its zero point at -1/2, which converters round to either side.
"""


@dataclass(frozen=True)
class Normalization:
    """How pixels became the numbers a model was trained on: real = (pixel / 255 - mean) / std.

    mean, std: one number per channel, or one for all.

    Raises DataError where the numbers are not finite, std is not above 0, or the counts differ.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.mean or len(self.mean) != len(self.std):
            raise DataError(
                f"there are {len(self.mean)} means but {len(self.std)} stds: "
                "give one of each per channel, or one for all"
            )
        if not np.isfinite(self.mean + self.std).all() or min(self.std) <= 0:
            raise DataError(
                f"mean {self.mean} and std {self.std} cannot normalize: "
                "give finite numbers, std above 0"
            )

    @staticmethod
    def of_range(low: float, high: float) -> "Normalization":
        """Return the one that maps pixel 0 to `low` and pixel 255 to `high`, which is larger."""
        return Normalization((-low / (high - low),), (1 / (high - low),))


def quantize_input(
    x: Samples,
    *,
    scale: float,
    zero_point: int,
    normalization: Normalization | Literal["auto"] = "auto",
) -> Int8:
    """The model's int8 input, of the shape of `x`; `scale` and `zero_point` are its input's.

    uint8 are pixels. With "auto", q = pixel - 128: the 256 codes are the 256 pixel values. That is
    right, within 1 %, for models that take pixel / 127.5 - 1 (scale 1/127.5, zero point 0 or -1),
    pixel / 255 (scale 1/255, zero point -128) or pixel (scale 1, zero point -128). Any other model
    needs a Normalization: q = saturate(round_half_even(real / scale) + zero_point), in double
    precision, last axis = channels. int8 is taken as already in the model's input format, and
    returned as it is; so are token ids, int16. float32 are real values: q =
    saturate(round_half_away(x / scale) + zero_point), the division in single precision, as TFLite's
    QUANTIZE does it.

    Raises DataError for other types, parameters that are none, and values that are NaN.
    """
    if not (np.isfinite(scale) and scale > 0 and -128 <= zero_point <= 127):
        raise DataError(
            f"scale {scale} with zero point {zero_point} is no int8 quantization: "
            "take the parameters of the model's input"
        )
    if x.dtype in (np.int8, np.int16):
        return x
    if x.dtype == np.uint8:
        return _quantize_pixels(x, scale, zero_point, normalization)
    if x.dtype == np.float32:
        return _quantize_real(x, scale, zero_point)
    raise DataError(f"samples are {x.dtype}: give uint8 pixels, int8 or float32")


def _quantize_pixels(
    x: Samples, scale: float, zero_point: int, normalization: Normalization | Literal["auto"]
) -> Int8:
    if normalization == "auto":
        _require_convention(scale, zero_point)
        code: Int8 = (x ^ np.uint8(128)).view(np.int8)  # pixel - 128: the top bit turned
        return code
    means = len(normalization.mean)
    if means not in (1, x.shape[-1]):
        raise DataError(
            f"there are {means} means but the images have {x.shape[-1]} channels: "
            "give one per channel, or one for all"
        )
    code = np.empty(x.shape, dtype=np.int8)
    for i, (mean, std) in enumerate(zip(normalization.mean, normalization.std, strict=True)):
        channel = slice(None) if means == 1 else slice(i, i + 1)
        code[..., channel] = pixel_codes(mean, std, scale, zero_point)[x[..., channel]]
    return code


def takes_pixels(scale: float, zero_point: int) -> bool:
    """Whether an input's parameters are those of a convention, so that its code is pixel - 128."""
    return any(
        abs(scale / usual - 1) <= SCALE_TOLERANCE and zero_point in zero_points
        for usual, zero_points in CONVENTIONS
    )


def _require_convention(scale: float, zero_point: int) -> None:
    if takes_pixels(scale, zero_point):
        return
    raise DataError(
        f"the model's input (scale {scale:.6g}, zero point {zero_point}) fits none of "
        "pixel, pixel / 255 and pixel / 127.5 - 1: give the mean and std that it was trained with"
    )


def pixel_codes(mean: float, std: float, scale: float, zero_point: int) -> Int8:
    """The code of each of the 256 pixel values."""
    real = (np.arange(256) / 255 - mean) / std
    code: Int8 = np.clip(np.rint(real / scale) + zero_point, -128, 127).astype(np.int8)
    return code


def _quantize_real(x: Samples, scale: float, zero_point: int) -> Int8:
    from mcutrain.frontends.frontend import codes_of  # which a plan does not need

    if np.isnan(x).any():
        raise DataError("samples hold NaN: remove or replace them")
    with np.errstate(over="ignore"):
        return codes_of(x, scale, zero_point)

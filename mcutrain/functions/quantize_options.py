"""What `quantize` can be asked for; as in mcutrain.functions.options, a field is also a flag."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import Count, Positive, Within
from mcutrain.errors import OptionError
from mcutrain.functions.keywords import Flag, Keywords
from mcutrain.functions.options import FrontendFlag, Mean, Std, number, numbers
from mcutrain.functions.run_options import (
    ClassNames,
    ColumnOptions,
    Stride,
    TargetColumns,
    normalization_of,
)

if TYPE_CHECKING:
    from mcutrain.data import Normalization
    from mcutrain.quant import Quantization, QuantizeSettings

Choice = Literal["auto", "on", "off"]
TRIED = "auto keeps it if the outputs' error on the samples is smaller."


@dataclass(frozen=True, kw_only=True)
class CalibrationOptions(ColumnOptions):
    """How calibration samples are read, and how many."""

    samples: Annotated[Count, Flag("Calibration samples.")] = 200
    stride: Stride = None
    class_names: ClassNames = None
    targets: TargetColumns = ""
    frontend: FrontendFlag = ""


@dataclass(frozen=True, kw_only=True)
class InputOptions(Keywords):
    """What the float model's input takes."""

    pixels: Annotated[
        Sequence[float] | None,
        Flag(
            "The real numbers that the model takes for pixels 0 and 255, such as 0,1 or -1,1 or "
            "0,255; or give --mean and --std.",
            metavar="LOW,HIGH",
            kind=str,
            parse=numbers,
            shown=False,
        ),
    ] = None
    mean: Mean = None
    std: Std = None
    input_scale: Annotated[
        Positive | None,
        Flag(
            "Scale of the int8 input, by which int8 samples were quantized.",
            metavar="X",
            kind=str,
            parse=number,
            shown=False,
        ),
    ] = None
    input_zero_point: Annotated[int, Within(-128, 127), Flag("See --input-scale.")] = 0

    @property
    def normalization(self) -> "Normalization | None":
        """How pixels were normalized. Raises OptionError, DataError."""
        from mcutrain.data import Normalization

        if self.pixels is None:
            return normalization_of(self.mean, self.std)
        if len(self.pixels) != 2 or not self.pixels[0] < self.pixels[1]:
            raise OptionError(
                "pixels", "it takes two numbers, LOW,HIGH, the first below the second"
            )
        if self.mean is not None or self.std is not None:
            raise OptionError("pixels", "says the same as --mean and --std: give one of them")
        return Normalization.of_range(*self.pixels)

    @property
    def quantization(self) -> "Quantization | None":
        """Quantization of the int8 input, if it is given. Raises OptionError."""
        import numpy as np

        from mcutrain.quant import Quantization

        scale = self.input_scale
        if scale is None:
            return None
        if not 1e-30 < scale < 1e30:
            raise OptionError("input_scale", f"is {scale:g}: give one between 1e-30 and 1e30")
        return Quantization(float(np.float32(scale)), self.input_zero_point)


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions(Keywords):
    """What is tried to get a small error, and what is measured of it."""

    ranges: Annotated[
        Literal["auto", "minmax", "percentile", "mse"],
        Flag(
            "How ranges of activations follow from the samples; auto tries all and keeps the one "
            "with the least error at the outputs.",
            "--range",
        ),
    ] = "auto"
    percentile: Annotated[
        float, Within(50, 100), Flag("Percent of the numbers that percentile ranges keep.")
    ] = 99.99
    equalize: Annotated[Choice, Flag(TRIED)] = "auto"
    bias_correction: Annotated[Choice, Flag(TRIED)] = "auto"
    layer_errors: Annotated[
        bool, Flag("Show each layer's error and the layers that hurt.", "--report")
    ] = False

    def settings(self, given: "Quantization | None") -> "QuantizeSettings":
        """Return how the quantizer works. given: quantization of the input."""
        from mcutrain.quant import QuantizeSettings

        return QuantizeSettings(
            self.ranges, self.percentile, self.equalize, self.bias_correction, given
        )

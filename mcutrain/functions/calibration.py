"""Calibration samples as the user has them, and what they say of the model's input."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from mcutrain.data import Data, InputOrder, Normalization
    from mcutrain.quant import Quantization


class Given:
    """The calibration samples as the user has them.

    data: a path, or samples that are at hand. note: called with what the input will clip; turned:
    with what is turned, by default also note. targets, split_by, label_column: columns that are
    no input. y: the labels of what was read, if there are.
    """

    def __init__(
        self,
        data: Data,
        count: int,
        seed: int,
        pixels: Normalization | None,
        tell: Callable[[str, int, int], None],
        note: Callable[[str], None],
        stride: int | None = None,
        turned: Callable[[str], None] | None = None,
        targets: str = "",
        split_by: str = "",
        label_column: str = "",
    ) -> None:
        self.turned, self.targets, self.split_by = turned or note, targets, split_by
        self.label_column = label_column
        self.y: npt.NDArray[Any] | None = None
        self.data, self.count, self.seed, self.pixels = data, count, seed, pixels
        self.tell, self.note, self.stride = tell, note, stride

    @property
    def name(self) -> str:
        """Name of the data, for sentences."""
        from mcutrain.data import is_path

        return str(self.data) if is_path(self.data) else "the calibration array"

    def read(
        self, order: InputOrder, fixed: Quantization | None
    ) -> tuple[npt.NDArray[Any], Quantization | None]:
        """Real numbers for the model's input, and the input's quantization if the data tells it.

        order: of the samples, and of the model's input.
        """
        import numpy as np

        from mcutrain.data import Transform, as_ids, is_same_shape
        from mcutrain.errors import DataError

        x, shape = self._samples(order), order.model_shape
        if order.ids and self.pixels is None:
            return as_ids(x, order.ids).astype(np.float32), None
        if x.dtype == np.uint8:
            if self.pixels is None:
                raise DataError(
                    f"{self.name} holds pixels: say what numbers the model takes for them, "
                    "--pixels 0,1 (or -1,1, or 0,255), or --mean and --std"
                )
            if len(shape) == 3 and x.ndim == 4 and not is_same_shape(x.shape[1:], shape):
                x = Transform(shape[0], shape[1], shape[2]).fit(x)
            real, chosen = _real_pixels(x, self.pixels, fixed)
            if fixed is not None:
                self._tell_range(real, fixed)
            return real, chosen
        if self.pixels is not None:
            raise DataError(
                f"{self.name} holds {x.dtype}, not pixels: leave out --pixels, --mean and --std if "
                "these are the numbers that the model takes, or save uint8"
            )
        if x.dtype == np.int8:
            return self._of_int8(x, fixed)
        if fixed is not None:
            self._tell_range(x, fixed)
        return x, fixed

    def _of_int8(
        self, x: npt.NDArray[Any], fixed: Quantization | None
    ) -> tuple[npt.NDArray[Any], Quantization]:
        import numpy as np

        from mcutrain.errors import DataError

        if fixed is None:
            raise DataError(
                f"{self.name} holds int8: say how it was quantized, --input-scale and "
                "--input-zero-point"
            )
        real = (x.astype(np.float32) - fixed.zero_point) * np.float32(fixed.scale)
        return real, fixed

    def _samples(self, order: InputOrder) -> npt.NDArray[Any]:
        """Take at most as many samples as asked for."""
        from mcutrain.data import NO_TABLE, is_path, samples_of
        from mcutrain.data.unlabelled import load_samples
        from mcutrain.errors import DataError

        if not is_path(self.data):
            if self.label_column:
                raise DataError(f"{self.name}: {NO_TABLE}")
            read = (order, self.turned, self._keep, self.split_by)
            return samples_of(self.data, self.count, self.seed, *read)
        return load_samples(
            self.data,
            self.count,
            seed=self.seed,
            order=order,
            stride=self.stride,
            progress=lambda done, of: self.tell("reading samples", done, of),
            note=self.turned,
            left_out=self.note,
            targets=self.targets,
            split_by=self.split_by,
            label_column=self.label_column,
            labels=self._keep,
        )

    def _keep(self, y: npt.NDArray[Any]) -> None:
        self.y = y

    def _tell_range(self, real: npt.NDArray[Any], fixed: Quantization) -> None:
        """Say what the given quantization of the input clips. Raises DataError if it is wrong."""
        from mcutrain.data import ModelInput
        from mcutrain.data.ranges import check_values

        taken = ModelInput(real.shape[1:], fixed.scale, fixed.zero_point)
        remedy = "give another --input-scale and --input-zero-point, or none"
        for note in check_values(real, taken, f"the samples of {self.name}", remedy):
            self.note(note)


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

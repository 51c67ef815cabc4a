"""A float model becomes an int8 one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import PathLike, Seed, checked, warn
from mcutrain.data import Data, InputOrder, Normalization, has_real_targets
from mcutrain.errors import DataError, NoiseError
from mcutrain.formats import (
    FloatModel,
    as_format,
    format_of,
    format_of_quantized,
    read_float,
    with_class_names,
    write,
)
from mcutrain.formats.outputs import choosing
from mcutrain.functions.calibration import Given
from mcutrain.functions.files import check_writable
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener, Progress
from mcutrain.functions.quantize_options import CalibrationOptions, InputOptions, QuantizeOptions
from mcutrain.ir.graph import Graph
from mcutrain.oracle.original import compare_with_original
from mcutrain.pipeline import load
from mcutrain.quant import (
    LayerError,
    Quantization,
    Quantized,
    compared_samples,
    layer_errors,
    named_as,
    target_errors,
    useful,
)
from mcutrain.shown import Record, Shown

Array = npt.NDArray[Any]
BY = "quantized by mcutrain"
PIXELS = Quantization(1.0, -128)
"""Of an input that takes pixels as they are."""


@dataclass(frozen=True, repr=False)
class QuantizedModel(Shown):
    """An int8 model that `quantize` made.

    graph: as `load` would read it.
    read_as: how the float file compares with its own runtime.
    layers: the error of each layer, if it was asked for, on so many `compared` samples.
    path: where it was written. note: what is to be said of the file, if anything.
    warning: what is poor about the outputs, if anything.
    turned: how the file's input relates to the float file's, if it is another.
    mae: of the float and of the int8 outputs, where the samples have real targets for these.
    """

    graph: Graph
    result: Quantized
    samples: int
    read_as: str
    layers: tuple[LayerError, ...] = ()
    path: Path | None = None
    compared: int = 0
    warning: str = ""
    note: str = ""
    turned: str = ""
    mae: tuple[float, float] | None = None

    @property
    def snr_db(self) -> float:
        """Signal to noise at the outputs, on the calibration samples."""
        return self.result.chosen.snr_db

    def write(self, output: PathLike) -> Path:
        """Write it as .tflite or QDQ .onnx, as the name says. Raises ModelError."""
        note = write(self.graph, Path(output), description=BY)
        if note:
            warn(note)
        return Path(output)

    def summary(self) -> str:
        """Return a line that describes it."""
        return (
            f"{self.graph.name}, ranges by {self.result.chosen.ranges}, {self.snr_db:.1f} dB "
            f"signal to noise at the outputs, {self.samples:,} samples"
        )

    def records(self) -> list[Record]:
        """Every layer's error, or, if they were not asked for, every way that was tried."""
        rows = self.layers or self.result.trials
        return [asdict(row) for row in rows]

    def to_dict(self) -> Record:
        """The choice, what was tried, the layers."""
        return {
            "model": self.graph.name,
            "file": None if self.path is None else str(self.path),
            "samples": self.samples,
            "read_as": self.read_as,
            "chosen": asdict(self.result.chosen),
            "tried": [asdict(trial) for trial in self.result.trials],
            "layers": [asdict(layer) for layer in self.layers],
            "mae": self.mae,
        }


@with_keywords
@checked
def quantize(
    model: PathLike,
    calibration: Data,
    output: PathLike | None = None,
    *,
    reading: CalibrationOptions = CalibrationOptions(),
    taking: InputOptions = InputOptions(),
    method: QuantizeOptions = QuantizeOptions(),
    model_output: str | None = None,
    seed: Seed = 0,
    progress: Progress | None = None,
    listener: Listener = SILENT,
) -> QuantizedModel:
    """Quantize a float .onnx or .tflite file to int8, with weights per channel.

    Fields of reading, taking and method are keywords, too; mcutrain.functions.quantize_options
    explains each.

    calibration: samples as the model was trained on: a path (.npz file or folder of images), an
        array, or (x, y), whose labels are not used. An array has the file's order of axes, or
        channels last. uint8 values are pixels; real numbers are taken as they are; int8 needs
        input_scale and input_zero_point.
    output: a .tflite or .onnx file to write. A folder gets MODEL.int8.tflite, or .onnx where no
        .tflite file can hold the model.
    reading: samples, how many are drawn by seed; targets, split_by and label_column, columns of a
        CSV that are no input; class_names of the outputs, for the file (by default the float
        model's).
    taking: pixels, the numbers (low, high) that the model takes for 0 and 255; or mean and std of
        pixel / 255, one number or one per channel.
    method: how it quantizes; layer_errors measures each layer's error, too.
    model_output: the name of the one output to keep, if the model has several.

    Warns of poor outputs. Raises NoiseError if they are noise, DataError if the samples do not fit;
    ModelError, UnsupportedError, ArgumentError.

    >>> quantize("model.onnx", x_train, "model.int8.tflite", pixels=(0, 1)).snr_db
    """
    if progress is not None:
        listener = _ToldOfParts(progress)
    if output is not None and not Path(output).is_dir():
        format_of(Path(output))  # or a sentence, before anything is read
    with choosing(model_output):
        graph = replace(read_float(Path(model)), frontend=reading.frontend)
        _ = graph.input_order  # the front end fits, or a sentence
        for note in filter(None, (graph.several_inputs, graph.several_outputs)):
            listener.note(note)
        path = _path(graph, Path(model), output)
        with listener.counting("quantize") as tell:
            work = _Work(graph, taking, method, listener, tell)
            return work.done(calibration, reading, seed, path)


class _ToldOfParts(Listener):
    """Turns notes into Python warnings, and tells how far each part of the work is."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def counting(self, title: str) -> AbstractContextManager[Progress]:
        """Tell it."""
        return nullcontext(self.progress)


def _path(found: FloatModel, model: Path, output: PathLike | None) -> Path | None:
    """Return the file to write. Raises ModelError for one that cannot hold the model."""
    given = None if output is None else Path(output)
    is_folder = given is not None and given.is_dir()
    suffix = format_of_quantized(found.network, None if is_folder else given)
    path = given / f"{model.stem}.int8{suffix}" if is_folder and given is not None else given
    if path is not None:
        check_writable(path)
    return path


@dataclass(frozen=True)
class _Work:
    """A float model that is quantized. tell: called with how far each part is."""

    model: FloatModel
    taking: InputOptions
    method: QuantizeOptions
    listener: Listener
    tell: Progress

    def done(
        self, calibration: Data, reading: CalibrationOptions, seed: int, path: Path | None
    ) -> QuantizedModel:
        """Quantize, and write to the path, if there is one."""
        x, own, y = self._samples(calibration, reading, seed)
        self.tell("comparing with the file's own runtime", 0, 1)
        read_as = compare_with_original(self.model, x)
        result = self.model.quantize(x, self.method.settings(own), self.tell)
        if reading.class_names:
            result = replace(result, graph=with_class_names(result.graph, reading.class_names))
        for text in result.notes:
            self.listener.note(text)
        layers = layer_errors(result, x, self.tell) if self.method.layer_errors else ()
        warning, note, graph = _poor(result, x, layers), "", result.graph
        if warning:
            self.listener.result_says(warning)
        if path is not None:
            self.tell("writing", 0, 1)
            graph = as_format(graph, path)
            note = write(graph, path, description=BY)
            layers = named_as(layers, load(path)) if layers else ()
        if note:
            self.listener.result_says(note)
        return QuantizedModel(
            graph,
            result,
            len(x),
            read_as,
            layers,
            path,
            compared=compared_samples(result, len(x)) if layers else 0,
            warning=warning,
            note=note,
            turned="" if path is None else _turned(self.model.input_order, path),
            mae=target_errors(result, x, y) if y is not None and has_real_targets(y) else None,
        )

    def _samples(
        self, calibration: Data, reading: CalibrationOptions, seed: int
    ) -> tuple[Array, Quantization | None, Array | None]:
        """Read the samples. Returns the input's quantization, if they tell it, and labels."""
        order, hears = self.model.input_order, self.listener
        given = Given(
            calibration,
            reading.samples,
            seed,
            self._normalization(),
            self.tell,
            hears.note,
            reading.stride,
            hears.note if order.is_square else hears.detail,
            reading.targets,
            reading.split_by,
            reading.label_column,
        )
        x, own = given.read(order, self.taking.quantization)
        own = PIXELS if own is None and self.model.network.takes_pixels else own
        return x, own, given.y

    def _normalization(self) -> Normalization | None:
        """Return what the model takes for pixels; an input of uint8 takes them as they are."""
        asked = self.taking.normalization
        if not self.model.network.takes_pixels:
            return asked
        taken = Normalization.of_range(0.0, 255.0)
        if asked not in (None, taken):
            raise DataError(
                f"the input of {self.model.path} is uint8: it takes pixels as they are, and "
                "normalizes them itself; leave out --pixels, --mean and --std"
            )
        return taken


def _poor(result: Quantized, x: Array, layers: tuple[LayerError, ...]) -> str:
    """Return what is poor about the outputs, if anything. Raises NoiseError with the layers."""
    try:
        return useful(result, x)
    except DataError as error:
        raise NoiseError(str(error), layers) from error


def _turned(order: InputOrder, path: Path) -> str:
    """How the int8 file's input relates to the float file's; nothing where it is the same."""
    if not order.is_turned or path.suffix.lower() == ".onnx":
        return ""
    there, here = order.names or (order.shape, order.model_shape)
    return (
        f"input {_axes(order.shape)} of {order.file}, {_axes(there)}, is {_axes(order.model_shape)}"
        f", {_axes(here)}, in {path.name}; mcutrain turns samples of the former"
    )


def _axes(axes: tuple[Any, ...]) -> str:
    return f"({', '.join(map(str, axes))})"

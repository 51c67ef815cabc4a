"""Float model file and samples in, int8 graph out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.frontends._tflite_file import is_tflite
from mcutrain.frontends.foreign import is_saved_model, not_a_model
from mcutrain.ir.graph import Graph
from mcutrain.quant.calibrate import Progress
from mcutrain.quant.float_graph import FloatGraph
from mcutrain.quant.from_tflite import is_hybrid, read_tflite
from mcutrain.quant.original import compare_with_original
from mcutrain.quant.quantizer import Quantized, Settings, as_input, quantize_network, useful
from mcutrain.quant.simplify import simplify

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class FloatModel:
    """A float model as read. rounds_weights: whether the file has int8 weights already."""

    path: Path
    network: FloatGraph
    rounds_weights: bool = False

    def quantize(
        self,
        samples: Array,
        settings: Settings | None = None,
        report: Progress = lambda *_: None,
    ) -> Quantized:
        """The int8 graph and how it came about. samples: real numbers [n, …], channels last."""
        return quantize_network(self.network, samples, settings, report)

    def compare(self, samples: Array) -> str:
        """As compare_with_original, for the first samples."""
        x = as_input(self.network, samples)
        return compare_with_original(self.path, self.network, x, self.rounds_weights)


def read_float(path: str | Path) -> FloatModel:
    """Read a float .onnx or .tflite file and fold what can be folded. Raises ModelError."""
    path = Path(path)
    hybrid = False
    if is_saved_model(path):
        raise not_a_model(path)
    with np.errstate(all="ignore"):
        if is_tflite(path):
            graph = read_tflite(path)
            hybrid = is_hybrid(path)
        elif path.suffix.lower() == ".onnx":
            from mcutrain.quant.from_onnx import read_onnx  # onnx is slow to import

            graph = read_onnx(path)
        else:
            raise not_a_model(path)
        return FloatModel(path, simplify(graph), hybrid)


def quantize(
    path: str | Path,
    samples: Array,
    settings: Settings | None = None,
    report: Progress = lambda *_: None,
) -> Graph:
    """The int8 graph of a float .onnx or .tflite file.

    samples: real numbers [n, …] such as the model takes, channels last; a few hundred. Raises
    ModelError if the file's own runtime, where it is installed, computes other outputs, DataError
    if the int8 outputs are noise; warns if they are poor.
    """
    model = read_float(path)
    model.compare(samples)
    result = model.quantize(samples, settings, report)
    if note := useful(result, samples):
        warnings.warn(note, stacklevel=2)
    return result.graph

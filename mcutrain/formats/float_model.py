"""A float model, read from a file of either format."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data.layout import InputOrder
from mcutrain.errors import some_of
from mcutrain.formats.class_names import named
from mcutrain.formats.foreign import is_saved_model, not_a_model
from mcutrain.formats.input_order import order_of_file
from mcutrain.formats.outputs import FLAG
from mcutrain.formats.tflite.file import is_tflite
from mcutrain.formats.tflite.read import is_hybrid, read_tflite
from mcutrain.quant.calibrate import Progress
from mcutrain.quant.float_graph import FloatGraph
from mcutrain.quant.simplify import simplify

if TYPE_CHECKING:
    from mcutrain.quant.quantizer import Quantized, QuantizeSettings

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class FloatModel:
    """A float model as read. rounds_weights: whether the file has int8 weights already.

    frontend: what makes its samples of raw ones, as a text or file says it; empty for nothing.
    """

    path: Path
    network: FloatGraph
    rounds_weights: bool = False
    frontend: str = ""

    @property
    def input_order(self) -> InputOrder:
        """How samples in the order of the file relate to the network's input. Raises DataError."""
        axes = self.network.file_axes.get(self.network.input)
        order = order_of_file(self.path, self.network.input_shape, axes)
        ids = self.network.ids.get(self.network.input, 0)
        return replace(order, ids=ids).with_frontend(self.frontend)

    @property
    def several_outputs(self) -> str:
        """Say that all outputs are kept; empty for a model with one output."""
        graph = self.network
        if len(graph.outputs) < 2:
            return ""
        shapes = ("×".join(map(str, graph.shapes[name][1:])) for name in graph.outputs)
        named = (f"{n!r} ({shape})" for n, shape in zip(graph.outputs, shapes, strict=True))
        return (
            f"the model has {len(graph.outputs)} outputs, {some_of(named)}: all are kept; what is "
            f"trained needs one, which {FLAG} names"
        )

    @property
    def several_inputs(self) -> str:
        """Say how a sample has several inputs; empty for a model with one."""
        row = self.network.row
        if not row:
            return ""
        named = (f"{name!r} ({'×'.join(map(str, shape[1:]))})" for name, shape in row.items())
        return (
            f"the model has {len(row)} inputs: a sample is a row of all their numbers, "
            f"{math.prod(self.network.input_shape):,}, {some_of(named)}, flattened as the file has "
            "them; they share one scale, so bring them to about one range"
        )

    def quantize(
        self,
        samples: Array,
        settings: QuantizeSettings | None = None,
        report: Progress = lambda *_: None,
    ) -> Quantized:
        """The int8 graph and how it came about. samples: real numbers [n, …] for `network`.

        It has the class names of the float file, and says in which order that has samples.
        """
        from mcutrain.quant.quantizer import quantize_network  # who reads needs none of it

        found = quantize_network(self.network, samples, settings, report)
        graph = named(found.graph, self.path)
        if self.frontend or not is_tflite(self.path):
            graph = replace(graph, input_order=self.input_order)
        return replace(found, graph=graph)


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
            from mcutrain.formats.onnx.read_float import read_onnx  # onnx is slow to import

            graph = read_onnx(path)
        else:
            raise not_a_model(path)
        return FloatModel(path, simplify(graph), hybrid)

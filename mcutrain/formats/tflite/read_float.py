"""Float .tflite models become float graphs.

Weights may be int8 with scales (a dynamic-range quantized file); they are read as real numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.file import (
    MISSING,
    FileModel,
    FileOperator,
    FileTensor,
    naming,
    read_file,
)
from mcutrain.formats.tflite.float_operator import Operator
from mcutrain.formats.tflite.float_rules import CONVERTERS, SHAPED_BY_OUTPUT, SUPPORTED
from mcutrain.ir.names import Names
from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_op import FloatOp, Shape

Array = npt.NDArray[Any]


def read_tflite(path: Path) -> FloatGraph:
    """The float graph of a .tflite file. Raises ModelError with a sentence."""
    with naming(path):
        return Importer(read_file(path)).graph(path.stem)


def is_hybrid(path: Path) -> bool:
    """Whether weights are int8: the interpreter then rounds activations too, as it goes."""
    return any(t.data is not None and t.dtype == "int8" for t in read_file(path).tensors)


class Importer:
    """One float graph in the making."""

    def __init__(self, model: FileModel) -> None:
        self.model = model
        self.nodes: list[FloatNode] = []
        self.names = Names()
        self.alias: dict[int, int] = {}
        self.shapes: dict[str, Shape] = {}
        for t in model.tensors:
            self.names.take(t.name)

    def graph(self, name: str) -> FloatGraph:
        """Convert what the outputs need."""
        x = self._input()
        self.shapes[x.name] = x.shape
        for op in self._needed():
            self._convert(op)
        outputs = tuple(self.name(i) for i in self.model.outputs)
        if len(set(outputs)) != len(outputs):
            raise UnsupportedError("two outputs of the model are the same; leave one")
        graph = FloatGraph(name, x.name, x.shape, tuple(self.nodes), outputs)
        if missing := [n for n in outputs if n not in graph.shapes]:
            raise ModelError(f"the output {missing[0]!r} is not computed from the input")
        return graph

    def _input(self) -> FileTensor:
        """The one input: float, of batch 1."""
        if len(self.model.inputs) != 1 or not self.model.outputs:
            raise UnsupportedError(
                f"the model has {len(self.model.inputs)} inputs and {len(self.model.outputs)} "
                "outputs; supported are one input and at least one output"
            )
        (first,) = self.model.inputs
        if MISSING in (first, *self.model.outputs):
            raise ModelError("the file is corrupt: an input or output of the model is missing")
        x = self.model.tensors[first]
        if x.dtype != "float32":
            raise UnsupportedError(
                f"the model's input {x.name!r} is {x.dtype}; supported are float models (an int8 "
                "model needs no quantization)"
            )
        if x.shape[:1] != (1,):
            raise UnsupportedError(f"the model's input has shape {x.shape}; supported is batch 1")
        return x

    def _convert(self, op: FileOperator) -> None:
        """Add the nodes for an operator."""
        convert = CONVERTERS.get(op.code)
        where = _where(self.model, op)
        if convert is None:
            raise UnsupportedError(
                f"{where} is not supported; supported are {', '.join(sorted(SUPPORTED))}"
            )
        try:
            convert(Operator(self, op, where))
        except ModelError:
            raise
        except ValueError as error:
            raise ModelError(f"{where}: {error}") from error

    def _needed(self) -> list[FileOperator]:
        """The operators that the outputs depend on; what only computes shapes is left out."""
        wanted, kept = set(self.model.outputs), []
        for op in reversed(self.model.operators):
            if wanted.intersection(op.outputs) - {MISSING}:
                kept.append(op)
                data = op.inputs[:1] if op.code in SHAPED_BY_OUTPUT else op.inputs
                wanted.update(i for i in data if i != MISSING)
        return kept[::-1]

    def name(self, index: int) -> str:
        """Of the tensor that holds the values of the file's tensor."""
        return self.model.tensors[self.alias.get(index, index)].name

    def add(self, op: FloatOp, inputs: tuple[str, ...], output: str, stem: str) -> str:
        """Append a node."""
        try:
            shape = op.shape(*(self.shapes[n] for n in inputs))
        except KeyError as error:
            raise ModelError(f"{stem!r} reads {error}, which nothing before it computes") from error
        if output in self.shapes:
            raise ModelError(f"the tensor {output!r} is computed twice")
        self.shapes[output] = shape
        self.nodes.append(FloatNode(stem.split(";")[0] or output, op, inputs, output))
        return output


def _where(model: FileModel, op: FileOperator) -> str:
    known = [model.tensors[i].name for i in op.outputs if i != MISSING]
    return f"operator {op.name} (node {known[0] if known else '?'!r})"

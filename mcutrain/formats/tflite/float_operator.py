"""A float graph in the making: its nodes, and an operator with its operands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import ONE_INPUT, ModelError, UnsupportedError
from mcutrain.formats.tflite.file import MISSING, FileModel, FileOperator, FileTensor
from mcutrain.formats.tflite.operands import Conversion, Operands
from mcutrain.ir.names import Names
from mcutrain.ops.slice import Part
from mcutrain.ops.spatial import Window
from mcutrain.quant.float_elementwise import Clamp
from mcutrain.quant.float_embedding import FloatEmbedding
from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_op import FloatOp, Shape
from mcutrain.quant.float_shapes import FloatConcat, FloatReshape, FloatSlice
from mcutrain.quant.float_sums import Conv, Sums
from mcutrain.quant.multipliers import ACTIVATION_RANGE
from mcutrain.quant.transposed import Transposed

Array = npt.NDArray[Any]

ID_TYPES = ("int16", "int32", "int64")
"""What token ids may be."""


class Importer:
    """One float graph in the making.

    views: the operators whose other inputs need not be known, as the file says the output's shape.
    """

    def __init__(self, model: FileModel, rules: Mapping[str, Rule], views: Collection[str]) -> None:
        self.model = model
        self.rules, self.views = rules, views
        self.nodes: list[FloatNode] = []
        self.names = Names()
        self.shapes: dict[str, Shape] = {}
        self.inputs: dict[str, Shape] = {}  # those of the file, where it has several
        self.integers: list[str] = []  # types of the input, or to which it is cast
        self.constants: dict[int, FileTensor] = {}  # of tensors that follow from constants
        for t in model.tensors:
            self.names.take(t.name)

    def graph(self, name: str) -> FloatGraph:
        """Convert what the outputs need."""
        self._refuse_integers()
        conversion = Conversion(self.rules, [FloatOperator(self, op) for op in self._needed()])
        with conversion.refusing(self.model):
            x = self._input()
            self.shapes[x.name] = x.shape
            self.integers += [x.dtype] * (x.dtype in ID_TYPES)
            conversion.run()
            outputs = tuple(self.model.tensors[i].name for i in self.model.outputs)
            if len(set(outputs)) != len(outputs):
                raise UnsupportedError("two outputs of the model are the same; leave one")
        graph = FloatGraph(name, x.name, x.shape, tuple(self.nodes), outputs, row=self.inputs)
        if self.integers and not graph.ids:
            raise _not_float(replace(x, dtype=self.integers[0]))
        if missing := [n for n in outputs if n not in graph.shapes]:
            raise ModelError(f"the output {missing[0]!r} is not computed from the input")
        return graph

    def _refuse_integers(self) -> None:
        """A quantized model: what else is in its way would be of no use."""
        for t in (self.model.tensors[i] for i in self.model.inputs if i != MISSING):
            if t.dtype in ("int8", "uint8"):
                raise _not_float(t)

    def _input(self) -> FileTensor:
        """The one input: float, of batch 1; several are a row."""
        if len(self.model.inputs) > 1 and MISSING not in (*self.model.inputs, *self.model.outputs):
            return self._row([self.model.tensors[i] for i in self.model.inputs])
        if len(self.model.inputs) != 1 or not self.model.outputs:
            raise UnsupportedError(
                f"the model has {len(self.model.inputs)} inputs and {len(self.model.outputs)} "
                "outputs; supported are one input and at least one output"
            )
        (first,) = self.model.inputs
        if MISSING in (first, *self.model.outputs):
            raise ModelError("the file is corrupt: an input or output of the model is missing")
        x = self.model.tensors[first]
        if x.dtype not in ("float32", *ID_TYPES):
            raise _not_float(x)
        if x.shape[:1] != (1,):
            raise UnsupportedError(f"the model's input has shape {x.shape}; supported is batch 1")
        return x

    def _row(self, inputs: Sequence[FileTensor]) -> FileTensor:
        """One input that has float ones after each other, and what cuts it apart."""
        if any(x.dtype != "float32" or x.shape[:1] != (1,) for x in inputs):
            raise UnsupportedError(f"the model has {len(inputs)} inputs; {ONE_INPUT}")
        sizes = [math.prod(x.shape) for x in inputs]
        row = replace(inputs[0], name=self.names.take("inputs"), shape=(1, sum(sizes)))
        self.shapes[row.name] = row.shape
        for end, x in zip(itertools.accumulate(sizes), inputs, strict=True):
            size = math.prod(x.shape)
            part = FloatSlice(Part((0, end - size), (1, size), (1, 1)), sum(sizes))
            name = self.names.take(f"{x.name}/part")
            self.add(part, (row.name,), name, name)
            self.add(FloatReshape(x.shape), (name,), x.name, x.name)
            self.inputs[x.name] = x.shape
        return row

    def _needed(self) -> list[FileOperator]:
        """The operators that the outputs depend on; what only computes shapes is left out."""
        wanted, kept = set(self.model.outputs), []
        for op in reversed(self.model.operators):
            if wanted.intersection(op.outputs) - {MISSING}:
                kept.append(op)
                data = op.inputs[:1] if op.name in self.views else op.inputs
                wanted.update(i for i in data if i != MISSING)
        return kept[::-1]

    def shape(self, op: FloatOp, inputs: tuple[str, ...], stem: str) -> Shape:
        """Return the shape of what an operator computes."""
        try:
            return op.shape(*(self.shapes[n] for n in inputs))
        except KeyError as error:
            raise ModelError(f"{stem!r} reads {error}, which nothing before it computes") from error

    def add(self, op: FloatOp, inputs: tuple[str, ...], output: str, stem: str) -> str:
        """Append a node."""
        shape = self.shape(op, inputs, stem)
        if output in self.shapes:
            raise ModelError(f"the tensor {output!r} is computed twice")
        self.shapes[output] = shape
        self.nodes.append(FloatNode(stem.split(";")[0] or output, op, inputs, output))
        return output


class FloatOperator(Operands):
    """One operator of a float model."""

    def __init__(self, importer: Importer, op: FileOperator) -> None:
        super().__init__(importer.model, op)
        self.importer = importer

    @property
    def y(self) -> FileTensor:
        """The one output."""
        return self.model.tensors[self.output_index()]

    def file_tensor(self, position: int) -> FileTensor:
        """The file's tensor of a required input, or what its constant was found to be."""
        index = self.input_index(position)
        return self.importer.constants.get(index, self.model.tensors[index])

    def x(self, position: int = 0) -> str:
        """The name of an input that is computed."""
        t = self.file_tensor(position)
        if t.data is not None:
            raise UnsupportedError(f"{self.where}: input {t.name!r} must not be constant")
        return t.name

    def shape(self, position: int = 0) -> Shape:
        """Return the shape of an input that is computed."""
        name = self.x(position)
        if name not in self.importer.shapes:
            raise ModelError(f"{self.where} reads {name!r}, which nothing before it computes")
        return self.importer.shapes[name]

    def real(self, position: int) -> Array:
        """A constant input in real numbers, float32."""
        t = self.file_tensor(position)
        if t.data is None or t.dtype not in ("float32", "float16", "int8"):
            raise UnsupportedError(
                f"{self.where}: {t.name!r} ({t.dtype}) must be a constant of float32 or float16, "
                "or of int8 with scales"
            )
        data = t.data
        if t.dtype == "int8":
            if not t.scales or any(t.zero_points):
                raise UnsupportedError(f"{self.where}: {t.name!r} has no scales")
            shape = [1] * data.ndim
            if len(t.scales) > 1:
                shape[t.axis] = -1
            data = data * np.array(t.scales, np.float32).reshape(shape)
        if not np.isfinite(data).all():
            raise ModelError(f"{self.where}: {t.name!r} holds infinity or NaN")
        return np.asarray(data, np.float32)

    def number(self, position: int) -> float:
        """A constant of one element."""
        (number,) = self.real(position).ravel()
        return float(number)

    @property
    def y_shape(self) -> Shape:
        """Shape of the output, with a batch axis in front if the file has none."""
        return _of_one(self.y.shape)

    def assume(self, index: int) -> bool:
        """An activation of the shape that the file says."""
        t = self.model.tensors[index]
        if t.dtype == "float32":
            self.importer.shapes.setdefault(t.name, _of_one(t.shape))
        return t.dtype == "float32"

    def emit(self, op: FloatOp, *inputs: str, activation: str = "none") -> None:
        """The node that computes the output; behind it perhaps a view and an activation."""
        shape = self.importer.shape(op, inputs, self.y.name)
        if shape != self.y_shape and math.prod(shape) == math.prod(self.y_shape):
            part = type(op).__name__.removeprefix("Float").lower()
            op, inputs = FloatReshape(self.y_shape), (self.inner(op, part, *inputs),)
        output = self.y.name
        if activation == "none":
            self.importer.add(op, inputs, output, output)
            return
        inner = self.inner(op, "sum", *inputs)
        limits = ACTIVATION_RANGE[activation]
        self.importer.add(Clamp(*limits), (inner,), output, f"{output}/activation")

    def emit_ids(self) -> None:
        """Nothing else may read them then."""
        self.importer.integers.append(self.file_tensor(0).dtype)
        super().emit_ids()

    def emit_rows(self, table: int, ids: str) -> None:
        """The table is part of the operator."""
        self.emit(FloatEmbedding(self.real(table)), ids)

    def check_alike(self, what: str, tolerance: float = 0.0, inputs: int | None = None) -> None:
        """Nothing is quantized yet."""

    def check_weight(self, axis: int) -> None:
        """Its real numbers are all that is asked for."""

    def emit_sums(
        self, kind: type[Sums], window: Window, x: str, w: Shape, activation: str
    ) -> None:
        """Weight and bias in real numbers."""
        b = self._bias(2, w[kind.channel_axis])
        op = kind(window, self.real(1).reshape(w), b)
        if not self.is_dense:
            self.emit(op, x, activation=activation)
            return
        limited = op.clamped(*ACTIVATION_RANGE[activation]) or op
        self.emit(FloatReshape(self.y_shape), self.inner(limited, "sums", x))

    def transposed_sums(self, shape: Transposed, x: str, activation: str) -> str:
        """A convolution in real numbers."""
        w = self.real(1)
        op = Conv(shape.window, shape.weight(w), np.tile(self._bias(3, len(w)), shape.copies))
        return self.inner(op.clamped(*ACTIVATION_RANGE[activation]) or op, "sums", x)

    def _bias(self, position: int, channels: int) -> Array:
        """One number per channel, float64."""
        b = self.real(position).ravel() if self.has(position) else np.zeros(channels)
        if len(b) != channels:
            raise ModelError(f"{self.where}: {len(b)} biases for {channels} channels")
        return b.astype(np.float64)

    def moved(self, x: str, op: FloatOp) -> str:
        """A node of its own."""
        return self.inner(op, "image" if op.is_view else "transpose", x)

    def joined(self, names: Sequence[str], axis: int) -> str:
        """A node of its own."""
        return self.inner(FloatConcat(axis), "joined", *names)

    def inner(self, op: FloatOp, part: str, *inputs: str) -> str:
        """A node whose output the file does not name."""
        name = self.importer.names.take(f"{self.y.name}/{part}")
        return self.importer.add(op, inputs, name, self.y.name)


def _not_float(x: FileTensor) -> UnsupportedError:
    """Return the error for an input that is not float."""
    return UnsupportedError(
        f"the model's input {x.name!r} is {x.dtype}; supported are float models, and token ids "
        "that choose rows of a constant table (an int8 model needs no quantization)"
    )


def _of_one(shape: Shape) -> Shape:
    """A shape with the batch axis in front."""
    return shape if shape[:1] == (1,) else (1, *shape)


Rule = Callable[[FloatOperator], None]

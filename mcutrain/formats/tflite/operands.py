"""One operator of a file with what it reads and writes: what int8 and float models share.

A rule says by these methods what an operator computes, as an operator of float networks; the graph
in the making is a float or an int8 one.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic, TypeVar

import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.obstacles import Obstacle, Obstacles, Place, unknown
from mcutrain.formats.tflite.file import MISSING, FileModel, FileOperator, FileTensor
from mcutrain.ops.spatial import Window
from mcutrain.quant.float_op import FloatOp, Shape
from mcutrain.quant.float_resize import repeated
from mcutrain.quant.float_shapes import FloatReshape
from mcutrain.quant.float_sums import Sums
from mcutrain.quant.transposed import Transposed

MOST_NUMBERS = 2**24  # of a tensor that is repeated
MOST_INTEGERS = 64  # of a constant that says axes or widths

ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: "none",
    tflite.ActivationFunctionType.RELU: "relu",
    tflite.ActivationFunctionType.RELU6: "relu6",
    tflite.ActivationFunctionType.RELU_N1_TO_1: "relu_n1_to_1",
}
"""The fused activations by their numbers in a file."""


class Operands(ABC):
    """An operator of the file; a reader adds what the graph in the making knows of its tensors."""

    def __init__(self, model: FileModel, op: FileOperator) -> None:
        self.model, self.op = model, op
        known = [model.tensors[i].name for i in op.outputs if i != MISSING]
        self.name = known[0] if known else "?"
        self.where = f"operator {op.name} (node {self.name!r})"

    def has(self, position: int) -> bool:
        """Return whether an input is there."""
        return position < len(self.op.inputs) and self.op.inputs[position] != MISSING

    def input_index(self, position: int) -> int:
        """The index of a required input."""
        if not self.has(position):
            raise ModelError(f"{self.where} has no input {position}")
        return self.op.inputs[position]

    def output_index(self) -> int:
        """The index of the one output."""
        if len(self.op.outputs) != 1 or self.op.outputs[0] == MISSING:
            raise ModelError(f"{self.where} has {len(self.op.outputs)} outputs instead of one")
        return self.op.outputs[0]

    def file_tensor(self, position: int) -> FileTensor:
        """The file's tensor of a required input."""
        return self.model.tensors[self.input_index(position)]

    def integers(self, position: int) -> list[int]:
        """A constant input of int32 or int64."""
        t = self.file_tensor(position)
        if t.data is None or t.dtype not in ("int32", "int64") or t.data.size > MOST_INTEGERS:
            raise UnsupportedError(f"{self.where}: {t.name!r} must be a constant of a few integers")
        return [int(v) for v in t.data.ravel()]

    def options(self, table: type[Any]) -> Any:
        """The operator's options, whose type is told by the name of its table."""
        return self.op.table(table, self.where)

    def activation(self, options: Any) -> str:
        """The name of the fused activation."""
        code = options.FusedActivationFunction()
        if code not in ACTIVATIONS:
            names = ", ".join(name.upper() for name in ACTIVATIONS.values())
            raise UnsupportedError(
                f"{self.where} has the fused activation {code}; supported are {names}"
            )
        return ACTIVATIONS[code]

    def image(self) -> Shape:
        """The shape of the first input, [1, h, w, c]."""
        shape = self.shape()
        if len(shape) != 4 or shape[0] != 1 or 0 in shape:
            raise UnsupportedError(f"{self.where} has input {shape}; supported is [1,h,w,c]")
        return shape

    def place(self, index: int) -> Place:
        """Return where it is, as the operator of that index."""
        return Place(index, self.op.name, self.name, self.where)

    def alone(self: AnyOperands, position: int, output: int) -> AnyOperands:
        """The operator with one of its outputs, and one input before those that it does not say."""
        one = copy.copy(self)
        x, y = self.input_index(position), self.op.outputs[output]
        one.op = replace(self.op, inputs=(x,), outputs=(y,))
        return one

    @property
    def is_dense(self) -> bool:
        """Whether the weight at input 1 is a matrix."""
        return len(self.file_tensor(1).shape) == 2

    @abstractmethod
    def x(self, position: int = 0) -> str:
        """The name of an input that is no parameter."""

    @abstractmethod
    def shape(self, position: int = 0) -> Shape:
        """Return the shape of an input that is computed."""

    @property
    @abstractmethod
    def y_shape(self) -> Shape:
        """Shape of the output, by the file."""

    @abstractmethod
    def number(self, position: int) -> float:
        """The real number that a constant of one element means; of int8, as the output would."""

    @abstractmethod
    def check_weight(self, axis: int) -> None:
        """Raise a ModelError if input 1 is no weight. axis: of its output channels."""

    @abstractmethod
    def emit(self, op: FloatOp, *inputs: str, activation: str = "none") -> None:
        """Add what computes the output, which may have axes of length 1 more or less."""

    def emit_ids(self) -> None:
        """Emit the input as token ids, which it holds already."""
        self.emit(FloatReshape(self.y_shape), self.x())

    @abstractmethod
    def emit_rows(self, table: int, ids: str) -> None:
        """Emit the rows of a constant table, the input `table`, that token ids choose."""

    @abstractmethod
    def emit_sums(
        self, kind: type[Sums], window: Window, x: str, w: Shape, activation: str
    ) -> None:
        """Emit an operator with the weight at input 1 and the bias at input 2.

        x: an image. w: the weight's shape as `kind` has it. If the file's is a matrix, the output
        is a view of the sums.
        """

    @abstractmethod
    def transposed_sums(self, shape: Transposed, x: str, activation: str) -> str:
        """The sums of a transposed convolution, whose channels are not pixels yet.

        The weight is at input 1, the bias, if any, at input 3. x: an image.
        """

    @abstractmethod
    def moved(self, x: str, op: FloatOp) -> str:
        """A tensor with its elements elsewhere, or repeated, or the largest of them."""

    @abstractmethod
    def joined(self, names: Sequence[str], axis: int) -> str:
        """Tensors of one quantization beside each other along an axis."""

    def tiled(self, x: str, shape: Shape, counts: Sequence[int]) -> str:
        """A tensor of that shape, repeated so often along each axis; as a view."""
        grown = list(shape)
        for axis, count in enumerate(counts):
            if count > 1:
                outer = math.prod(grown[:axis])
                inner = math.prod(grown[axis:])
                if outer * inner * count > MOST_NUMBERS:
                    raise UnsupportedError(
                        f"{self.where} makes more than {MOST_NUMBERS:,} numbers; smaller tensors "
                        "are supported"
                    )
                x = self.moved(self.view(x, (1, outer, 1, inner)), repeated(outer, count))
                grown[axis] *= count
        return self.view(x, (*(() if grown[:1] == [1] else (1,)), *grown))

    def broadcast(self, x: str, given: Shape, shape: Shape) -> str:
        """A tensor repeated along the axes of length 1 that `shape` has longer."""
        given = (*(1 for _ in shape[len(given) :]), *given)
        counts = [new // old for old, new in zip(given, shape, strict=True)]
        return self.tiled(x, given, counts)

    def view(self, x: str, shape: Shape) -> str:
        """A tensor under another shape, which simplifying drops if it has that shape."""
        return self.moved(x, FloatReshape(shape))

    @abstractmethod
    def check_alike(self, what: str, tolerance: float = 0.0, inputs: int | None = None) -> None:
        """Check that an int8 model's inputs, or so many, and its output are quantized alike."""

    @abstractmethod
    def assume(self, index: int) -> bool:
        """Take an output that no rule computes as the file describes it. Returns whether that
        helps.
        """


AnyOperands = TypeVar("AnyOperands", bound=Operands)
Rules = Mapping[str, Callable[[AnyOperands], None]]


class Conversion(Generic[AnyOperands]):
    """Operators of a file on their way into a graph, by their rules."""

    def __init__(self, rules: Rules[AnyOperands], operands: Sequence[AnyOperands]) -> None:
        self.rules, self.operands = rules, operands
        self.obstacles = Obstacles(o.op.name for o in operands)
        self.lost: set[int] = set()  # tensors of which nothing is known, as no rule computes them

    @contextmanager
    def refusing(self, model: FileModel) -> Iterator[None]:
        """Read the model in here. Raises ModelError with all that is in the way."""
        with self.obstacles.told(self._scan):
            with self.obstacles.noted():
                if model.subgraphs != 1:
                    raise UnsupportedError(
                        f"the model has {model.subgraphs} subgraphs; supported is one"
                    )
            yield

    def run(self) -> None:
        """Add every operator to the graph; go on behind those that are refused."""
        for index, o in enumerate(self.operands):
            if self.lost.isdisjoint(o.op.inputs):
                with self.obstacles.noted(o.place(index)):
                    self._apply(o)
                    continue
            self.lost.update(i for i in o.op.outputs if i != MISSING and not o.assume(i))

    def _apply(self, o: AnyOperands) -> None:
        """Add the operator to its graph by its rule. Raises ModelError."""
        rule = self.rules.get(o.op.name)
        if rule is None:
            raise unknown(o.where, self.rules)
        try:
            rule(o)
        except ModelError:
            raise
        except ValueError as error:
            raise ModelError(f"{o.where}: {error}") from error

    def _scan(self) -> Iterator[Obstacle]:
        """The operators without a rule."""
        for index, o in enumerate(self.operands):
            if o.op.name not in self.rules:
                yield Obstacle(unknown(o.where, self.rules), o.place(index))

"""Layer normalization, which .tflite files have in parts: MEAN, SQUARED_DIFFERENCE, RSQRT and more.

In models to quantize, the many operators that Keras' layer is converted to become one again. So do
those of JAX' Flax, whose means are a SUM times a number, without the axes that they are over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import tflite
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import UnsupportedError
from mcutrain.formats.normalizations import (
    LAST_ADD,
    Array,
    NormalizationPart,
    Normalized,
    normalized,
)
from mcutrain.formats.tflite.file import (
    MISSING,
    FileModel,
    FileOperator,
    FileTensor,
    constants_of,
)
from mcutrain.formats.tflite.float_operator import FloatOperator
from mcutrain.formats.tflite.operands import ACTIVATIONS
from mcutrain.quant.float_affine import Affine
from mcutrain.quant.float_norm import FloatLayerNorm
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_shapes import FloatTranspose

NAME = "layer normalization"
KINDS = {
    "ADD": ("Add", tflite.AddOptions),
    "DIV": ("Div", tflite.DivOptions),
    "MUL": ("Mul", tflite.MulOptions),
    "SUB": ("Sub", tflite.SubOptions),
}
"""What parts of two operands are called; each may have an activation, and is no part then."""
ALONG = {*KINDS, "NEG", "RSQRT", "SQRT", "SQUARE", "MAXIMUM", "RELU"}
"""What may compute with tensors that lost the axes that a mean is over."""
SHARE_TOLERANCE = 1e-5  # of the number that a sum is multiplied by, in float32


def with_layer_norms(model: FileModel) -> FileModel:
    """The model with one operator for each that is written in parts."""
    if not {"RSQRT", "SQRT"} & {op.name for op in model.operators}:
        return model
    names = [t.name for t in model.tensors]
    index = {name: i for i, name in enumerate(names)}
    parts = _FileParts(model)
    outputs = {names[i] for i in model.outputs if i != MISSING}
    found = normalized(parts.parts, parts.constants.get, outputs, along_any=True)
    return replace(
        model,
        operators=tuple(
            _joined(op, found[names[op.outputs[0]]], index) if _is_last(model, op, found) else op
            for op in model.operators
        ),
    )


@dataclass(frozen=True)
class Options:
    """Options of a layer normalization. axes: as the MEAN has them. activation: behind it."""

    axes: tuple[int, ...]
    epsilon: float
    is_centred: bool
    activation: str


def _is_last(model: FileModel, op: FileOperator, found: dict[str, Normalized]) -> bool:
    return _is_known(op, len(op.inputs)) and model.tensors[op.outputs[0]].name in found


def _is_known(op: FileOperator, inputs: int) -> bool:
    """Return whether an operator has one output and so many inputs."""
    return len(op.inputs) == inputs and len(op.outputs) == 1 and MISSING not in op.outputs


def _joined(op: FileOperator, one: Normalized, index: dict[str, int]) -> FileOperator:
    inputs = (one.of.x, one.gamma, one.beta)
    code = op.table(tflite.AddOptions, op.name).FusedActivationFunction() if op.name == "ADD" else 0
    options = Options(one.of.axes, one.of.epsilon, one.of.is_centred, ACTIVATIONS[code])
    places = tuple(index[name] if name else MISSING for name in inputs)
    return FileOperator(NAME, places, op.outputs, 0, options)


class _FileParts:
    """What operators are as parts.

    A mean may be without the axes that it is over. What a RESHAPE makes of it, with them, has its
    name; where it is broadcast without them, along other axes, it has another.
    """

    def __init__(self, model: FileModel) -> None:
        self.model = model
        self.constants = {model.tensors[i].name: v for i, v in constants_of(model).items()}
        self.whole: dict[str, Shape] = {}  # by name of a tensor without axes: its shape with them
        self.names: dict[str, str] = {}  # of parts by those of the file, where they differ
        self.sums: dict[str, tuple[str, tuple[int, ...], int]] = {}  # x, axes, how many numbers
        self.parts = [part for op in model.operators for part in self._of(op)]

    def _of(self, op: FileOperator) -> Iterator[NormalizationPart]:
        """SQUARED_DIFFERENCE and RSQRT are two parts, a SUM of the right factor is one with it."""
        if MISSING in (*op.inputs, *op.outputs) or not _is_known(op, len(op.inputs)):
            return
        inputs = tuple(self.model.tensors[i].name for i in op.inputs)
        y = self.model.tensors[op.outputs[0]]
        if op.name == "RESHAPE" and self.whole.get(inputs[0]) == y.shape:
            self.names[y.name] = inputs[0]
        elif op.name in ("MEAN", "SUM") and len(inputs) == 2:
            yield from self._reduced(op, inputs, y.name)
        else:
            names = self._read(op, inputs, y)
            yield from self._mean(op, names, y.name) or _plain_parts(op, names, y.name)

    def _reduced(
        self, op: FileOperator, inputs: tuple[str, ...], y: str
    ) -> Iterator[NormalizationPart]:
        given = self.model.tensors[op.inputs[1]].data
        shape = self.model.tensors[op.inputs[0]].shape
        rank = len(shape)
        if given is None or any(not -rank <= axis < rank for axis in given.ravel()):
            return
        axes = tuple(sorted({int(axis) % rank - rank for axis in given.ravel()}))
        if not op.table(tflite.ReducerOptions, op.name).KeepDims():
            self.whole[y] = tuple(1 if i - rank in axes else d for i, d in enumerate(shape))
        x = self.names.get(inputs[0], inputs[0])
        if op.name == "MEAN":
            yield NormalizationPart("ReduceMean", (x, inputs[1]), (y,), axes)
        else:
            self.sums[y] = x, axes, math.prod(shape[axis] for axis in axes)

    def _read(self, op: FileOperator, inputs: tuple[str, ...], y: FileTensor) -> tuple[str, ...]:
        """The names of what an operator reads; notes whether its output lacks axes, too."""
        computed = [name for name in inputs if name not in self.constants]
        wholes = {self.whole.get(name) for name in computed}
        numbers = (c.size == 1 for n in inputs if (c := self.constants.get(n)) is not None)
        if op.name in ALONG and len(wholes) == 1 and all(numbers):
            (whole,) = wholes
            if whole is not None:
                self.whole[y.name] = whole
        names = []
        for index, name in zip(op.inputs, inputs, strict=True):
            is_broadcast = self.model.tensors[index].shape != y.shape
            if name in self.whole and is_broadcast:
                names.append(f"{name}/along other axes")
            else:
                names.append(self.names.get(name, name))
        return tuple(names)

    def _mean(
        self, op: FileOperator, inputs: tuple[str, ...], output: str
    ) -> tuple[NormalizationPart, ...]:
        """The mean that a SUM is if this operator divides it by how many numbers it adds."""
        found = [self.sums[name] for name in inputs if name in self.sums]
        numbers = [c for n in inputs if (c := self.constants.get(n)) is not None and c.size == 1]
        if op.name not in ("MUL", "DIV") or len(found) != 1 or len(numbers) != 1:
            return ()
        ((x, axes, count),), number = found, float(numbers[0].ravel()[0])
        divides = op.name == "DIV" and inputs[0] in self.sums
        share = number * count if op.name == "MUL" else number / count if divides else 0.0
        if abs(share - 1) >= SHARE_TOLERANCE or not _is_plain(op):
            return ()
        return (NormalizationPart("ReduceMean", (x,), (output,), axes),)


def _is_plain(op: FileOperator) -> bool:
    """Return whether an operator of KINDS has no activation."""
    return not op.table(KINDS[op.name][1], op.name).FusedActivationFunction()


def _plain_parts(
    op: FileOperator, inputs: tuple[str, ...], output: str
) -> Iterator[NormalizationPart]:
    """Return what an operator is by itself."""
    outputs, inner = (output,), f"{output}/inner"
    if op.name == "SQUARED_DIFFERENCE" and len(inputs) == 2:
        yield NormalizationPart("Sub", inputs, (inner,))
        yield NormalizationPart("Mul", (inner, inner), outputs)
    elif op.name == "RSQRT" and len(inputs) == 1:
        yield NormalizationPart("Sqrt", inputs, (inner,))
        yield NormalizationPart("Reciprocal", (inner,), outputs)
    elif op.name == "NEG" and len(inputs) == 1:
        yield NormalizationPart("Neg", inputs, outputs)
    elif op.name == "SQRT" and len(inputs) == 1:
        yield NormalizationPart("Sqrt", inputs, outputs)
    elif op.name == "SQUARE" and len(inputs) == 1:
        yield NormalizationPart("Mul", (*inputs, *inputs), outputs)
    elif op.name == "MAXIMUM" and len(inputs) == 2:
        yield NormalizationPart("Max", inputs, outputs)
    elif op.name == "RELU":
        yield NormalizationPart("Relu", inputs, outputs)
    elif op.name in KINDS and len(inputs) == 2:
        kind, table = KINDS[op.name]
        code = op.table(table, op.name).FusedActivationFunction()
        if op.name == "SUB" and code == tflite.ActivationFunctionType.RELU:  # a variance
            yield NormalizationPart(kind, inputs, (inner,))
            yield NormalizationPart("Relu", (inner,), outputs)
        else:
            is_last = op.name == "ADD" and code in ACTIVATIONS
            last = LAST_ADD if is_last else op.name
            yield NormalizationPart(last if code else kind, inputs, outputs)
    else:
        yield NormalizationPart(op.name, inputs, outputs)


def layer_norm(o: FloatOperator) -> None:
    """Over any axes but the batch; gamma and beta along others are those of channels behind it."""
    options, shape = o.op.options, o.shape()
    axes = sorted(axis % len(shape) for axis in options.axes)
    if not axes or axes[0] == 0:
        raise UnsupportedError(
            f"{o.where} normalizes {shape} over the axes {axes}; supported are all but the batch, 0"
        )
    kept = [i for i in range(len(shape)) if i not in axes]
    parameters = [_numbers(o, position, shape) for position in (1, 2)]
    of_rows = all(numbers.shape[i] == 1 for numbers in parameters for i in kept)
    lengths = [d if i in axes else 1 for i, d in enumerate(shape)]
    own = parameters if of_rows else [np.ones(1), np.zeros(1)]
    gamma, beta = (np.broadcast_to(numbers, lengths).ravel() for numbers in own)
    is_affine = of_rows and (o.has(2) or bool(np.ptp(gamma)))
    op = FloatLayerNorm(gamma, beta, options.epsilon, options.is_centred, is_affine)
    order = (*kept, *axes)
    moved = tuple(shape[i] for i in order)
    is_last = order == (*range(len(shape)),)
    rows = o.x() if is_last else o.moved(o.x(), FloatTranspose(order))
    if len(axes) > 1:
        rows = o.view(rows, (*moved[: len(kept)], len(gamma)))
    if is_last and of_rows:
        o.emit(op, rows, activation=options.activation)
        return
    found = o.view(o.inner(op, "rows", rows), moved)
    back = FloatTranspose(tuple(int(i) for i in np.argsort(order)))
    if of_rows:
        o.emit(back, found, activation=options.activation)
        return
    first = min(i for numbers in parameters for i, d in enumerate(numbers.shape) if d > 1)
    channels = (*(1 for _ in shape[:first]), *shape[first:])
    affine = Affine(*(np.broadcast_to(numbers, channels).ravel() for numbers in parameters))
    count = len(affine.factor)
    found = o.view(o.moved(found, back), (1, math.prod(shape) // count, count))
    o.emit(affine, found, activation=options.activation)


def _numbers(o: FloatOperator, position: int, shape: Shape) -> Array:
    """Gamma or beta, if it is there, with all axes; of length 1 where it does not vary."""
    if not o.has(position):
        return np.full((1,) * len(shape), 2.0 - position)
    data = o.real(position).astype(np.float64)
    data = data.reshape(data.shape[max(data.ndim - len(shape), 0) :])  # axes of length 1 go
    data = data.reshape((1,) * (len(shape) - data.ndim) + data.shape)
    if any(mine not in (1, theirs) for mine, theirs in zip(data.shape, shape, strict=True)):
        raise UnsupportedError(
            f"{o.where} normalizes {shape} with parameters {data.shape}; supported are as many as "
            "each axis has, or one"
        )
    return data

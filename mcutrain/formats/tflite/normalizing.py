"""Layer normalization, which .tflite files have in parts: MEAN, SQUARED_DIFFERENCE, RSQRT and more.

What Keras' layer is converted to is one operator again for its many, in models to quantize.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import tflite

from mcutrain.errors import UnsupportedError
from mcutrain.formats.normalizations import Array, NormalizationPart, Normalized, normalized
from mcutrain.formats.tflite.file import MISSING, FileModel, FileOperator
from mcutrain.formats.tflite.float_operator import FloatOperator
from mcutrain.quant.float_norm import FloatLayerNorm
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_shapes import FloatReshape

NAME = "layer normalization"
KINDS = {
    "ADD": ("Add", tflite.AddOptions),
    "DIV": ("Div", tflite.DivOptions),
    "MUL": ("Mul", tflite.MulOptions),
    "SUB": ("Sub", tflite.SubOptions),
}
"""What parts of two operands are called; each may have an activation, and is no part then."""


def with_layer_norms(model: FileModel) -> FileModel:
    """The model with one operator for each that is written in parts."""
    if not {"RSQRT", "SQRT"} & {op.name for op in model.operators}:
        return model
    names = [t.name for t in model.tensors]
    index = {name: i for i, name in enumerate(names)}
    parts = [part for op in model.operators for part in _parts(model, op)]
    outputs = {names[i] for i in model.outputs if i != MISSING}
    constants = _constants(model)
    found = normalized(parts, constants.get, outputs)
    return replace(
        model,
        operators=tuple(
            _joined(op, found[names[op.outputs[0]]], index) if _is_last(model, op, found) else op
            for op in model.operators
        ),
    )


@dataclass(frozen=True)
class Options:
    """Of a layer normalization. axes: as the MEAN has them."""

    axes: tuple[int, ...]
    epsilon: float


def _is_last(model: FileModel, op: FileOperator, found: dict[str, Normalized]) -> bool:
    return _is_known(op, len(op.inputs)) and model.tensors[op.outputs[0]].name in found


def _is_known(op: FileOperator, inputs: int) -> bool:
    """Whether an operator has one output and so many inputs."""
    return len(op.inputs) == inputs and len(op.outputs) == 1 and MISSING not in op.outputs


def _joined(op: FileOperator, one: Normalized, index: dict[str, int]) -> FileOperator:
    inputs = (one.of.x, one.gamma, one.beta)
    options = Options(one.of.axes, one.of.epsilon)
    places = tuple(index[name] if name else MISSING for name in inputs)
    return FileOperator(NAME, places, op.outputs, 0, options)


def _constants(model: FileModel) -> dict[str, Array]:
    """The numbers of what is known; those of float16 are of a tensor that DEQUANTIZE writes."""
    found = {t.name: t.data for t in model.tensors if t.data is not None}
    for op in model.operators:
        if op.name == "DEQUANTIZE" and _is_known(op, 1):
            source = model.tensors[op.inputs[0]]
            if source.data is not None and source.dtype == "float16":
                found[model.tensors[op.outputs[0]].name] = source.data
    return found


def _parts(model: FileModel, op: FileOperator) -> Iterator[NormalizationPart]:
    """What an operator is as parts: SQUARED_DIFFERENCE and RSQRT are two."""
    if MISSING in (*op.inputs, *op.outputs) or not _is_known(op, len(op.inputs)):
        return
    inputs = tuple(model.tensors[i].name for i in op.inputs)
    outputs = (model.tensors[op.outputs[0]].name,)
    inner = f"{outputs[0]}/inner"
    if op.name == "MEAN" and len(inputs) == 2:
        yield NormalizationPart("ReduceMean", inputs, outputs, _axes(model, op))
    elif op.name == "SQUARED_DIFFERENCE" and len(inputs) == 2:
        yield NormalizationPart("Sub", inputs, (inner,))
        yield NormalizationPart("Mul", (inner, inner), outputs)
    elif op.name == "RSQRT" and len(inputs) == 1:
        yield NormalizationPart("Sqrt", inputs, (inner,))
        yield NormalizationPart("Reciprocal", (inner,), outputs)
    elif op.name == "SQRT" and len(inputs) == 1:
        yield NormalizationPart("Sqrt", inputs, outputs)
    elif op.name == "SQUARE" and len(inputs) == 1:
        yield NormalizationPart("Mul", (*inputs, *inputs), outputs)
    elif op.name in KINDS and len(inputs) == 2:
        kind, table = KINDS[op.name]
        is_plain = not op.table(table, op.name).FusedActivationFunction()
        yield NormalizationPart(kind if is_plain else op.name, inputs, outputs)
    else:
        yield NormalizationPart(op.name, inputs, outputs)


def _axes(model: FileModel, mean: FileOperator) -> tuple[int, ...]:
    """Of a MEAN that keeps them; empty where they are not known."""
    given = model.tensors[mean.inputs[1]].data
    if given is None or not mean.table(tflite.ReducerOptions, mean.name).KeepDims():
        return ()
    return tuple(int(axis) for axis in given.ravel())


def layer_norm(o: FloatOperator) -> None:
    """Over the last axis, or the last ones."""
    options, shape = o.op.options, o.shape()
    axes = sorted(axis % len(shape) for axis in options.axes)
    if not axes or axes != list(range(axes[0], len(shape))) or axes[0] == 0:
        raise UnsupportedError(
            f"{o.where} normalizes {shape} over the axes {axes}; supported are the last ones"
        )
    kept, lengths = shape[: axes[0]], shape[axes[0] :]
    gamma, beta = (_numbers(o, position, lengths) for position in (1, 2))
    rows = o.x()
    if len(axes) > 1:
        rows = o.moved(rows, FloatReshape((*kept, math.prod(lengths))))
    o.emit(FloatLayerNorm(gamma, beta, options.epsilon), rows)


def _numbers(o: FloatOperator, position: int, lengths: Shape) -> Array:
    """Gamma or beta, if it is there, in the order in which a row is stored."""
    if not o.has(position):
        return np.full(math.prod(lengths), 2.0 - position)
    return np.broadcast_to(o.real(position), lengths).ravel().astype(np.float64)

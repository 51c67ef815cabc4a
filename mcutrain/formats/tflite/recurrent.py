"""Sequences with a state: UNIDIRECTIONAL_SEQUENCE_LSTM."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.entry import Entry
from mcutrain.formats.tflite.file import FileTensor
from mcutrain.formats.tflite.int8_operator import Int8Operator
from mcutrain.ir.graph import TensorType
from mcutrain.ops.lstm import CELL_INTEGER_BITS, GATES, Lstm
from mcutrain.ops.recurrent import INT16
from mcutrain.quant import multipliers

Array = npt.NDArray[Any]

INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES = 1, 5, 12
"""Places of the first of four operands, one for each gate: input, forget, cell, output."""
PARTS = (INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES)
"""These places by the inputs of a node behind x."""
PEEPHOLES, PROJECTION, OUTPUT_STATE, CELL_STATE = (9, 10, 11), (16, 17), 18, 19
NORMALIZATION = (20, 21, 22, 23)
HIDDEN = 4
"""Which of the intermediate tensors has the scale that h is computed in."""


def _int8_lstm(o: Int8Operator) -> None:
    """The integers that the interpreter computes, from a state of zeros."""
    options = o.options(tflite.UnidirectionalSequenceLSTMOptions)
    _check_kind(o, options)
    x, y = o.tensor().type, o.y().type
    parts = [_gates(o, first) for first in (INPUT_WEIGHTS, RECURRENT_WEIGHTS)]
    biases = [_bias(o, BIASES + gate, parts[1][0].shape[0]) for gate in range(GATES)]
    state, cell, hidden = o.file_tensor(OUTPUT_STATE), o.file_tensor(CELL_STATE), _hidden(o)
    for part in (state, cell, hidden):
        if len(part.scales) != 1:
            raise ModelError(f"{o.where}: its state {part.name!r} must have one scale")
    if cell.dtype != "int16" or state.dtype != "int8":
        raise UnsupportedError(
            f"{o.where} keeps a state of {state.dtype} and {cell.dtype}; supported is int8 and "
            "int16, as the converter of TensorFlow quantizes it"
        )
    if not state.zero_points == hidden.zero_points == (y.zero_point,):
        raise ModelError(f"{o.where}: its state, h and output must have one zero point")
    op = Lstm(
        x.zero_point,
        multipliers.gates(x.scale, [t.scales[0] for t in parts[0]]),
        multipliers.gates(state.scales[0], [t.scales[0] for t in parts[1]]),
        multipliers.of_state(30, hidden.scales[0]),
        y.zero_point,
        cell_integer_bits=_integer_bits(o, cell),
        cell_limit=_cell_limit(options.CellClip(), cell.scales[0]),
    )
    constants = [
        o.converter.constant(tensors[0].name, _kind(tensors), _joined(tensors)) for tensors in parts
    ]
    b = np.concatenate([t.data.ravel() for t in biases if t.data is not None])
    scales = tuple(x.scale * scale for scale in _kind(parts[0]).scales)
    bias = o.converter.constant(biases[0].name, TensorType(b.shape, "int32", scales, 0, 0), b)
    o.node(op, o.x(), *constants, bias)


def _check_kind(o: Int8Operator, options: Any) -> None:
    """Refuse what the converter writes for other layers than the LSTM of Keras."""
    shape = o.shape()
    batch = 1 if options.TimeMajor() else 0
    if len(shape) != 3 or shape[batch] != 1 or 0 in shape:
        raise UnsupportedError(f"{o.where} has input {shape}; supported is a batch of 1")
    if options.FusedActivationFunction() != tflite.ActivationFunctionType.TANH:
        raise UnsupportedError(f"{o.where} has an activation other than TANH, which is supported")
    for places, what in (
        (PEEPHOLES, "peephole weights"),
        (PROJECTION, "a projection"),
        (NORMALIZATION, "layer normalization"),
    ):
        if any(o.has(place) for place in places):
            raise UnsupportedError(f"{o.where} has {what}; supported is an LSTM without")
    if not o.has(INPUT_WEIGHTS):
        raise UnsupportedError(f"{o.where} couples its input and forget gates; supported are both")


def _gates(o: Int8Operator, first: int) -> list[FileTensor]:
    """The weights of the gates, alike in shape."""
    tensors = [o.file_tensor(first + gate) for gate in range(GATES)]
    for t in tensors:
        if t.dtype != "int8" or t.data is None or len(t.shape) != 2 or 0 in t.shape:
            raise UnsupportedError(
                f"{o.where}: weight {t.name!r} must be a constant matrix of int8"
            )
        if len(t.scales) != 1 or any(t.zero_points):
            raise UnsupportedError(f"{o.where}: weight {t.name!r} needs one scale, zero point 0")
        if t.shape != tensors[0].shape:
            raise ModelError(f"{o.where}: its gates have weights of different shapes")
    return tensors


def _bias(o: Int8Operator, position: int, units: int) -> FileTensor:
    t = o.file_tensor(position)
    if t.dtype != "int32" or t.data is None or t.data.size != units:
        raise ModelError(f"{o.where}: bias {t.name!r} must be {units} constant int32")
    return t


def _hidden(o: Int8Operator) -> FileTensor:
    """The tensor whose scale h is computed in."""
    known = o.op.intermediates
    if len(known) != HIDDEN + 1 or known[HIDDEN] < 0:
        raise UnsupportedError(
            f"{o.where} has {len(known)} intermediate tensors; supported is the full-integer LSTM "
            f"with {HIDDEN + 1}"
        )
    return o.model.tensors[known[HIDDEN]]


def _integer_bits(o: Int8Operator, cell: FileTensor) -> int:
    """Bits before the point of the cell state, whose scale is a power of two."""
    mantissa, exponent = math.frexp(cell.scales[0])
    bits = 15 + exponent - 1
    if mantissa != 0.5 or bits not in CELL_INTEGER_BITS:
        raise UnsupportedError(
            f"{o.where} has a cell state of scale {cell.scales[0]:g}; supported are the powers of "
            "two from 2**-15 to 2**-9"
        )
    return bits


def _cell_limit(clip: float, scale: float) -> int:
    """The largest cell state, truncated as the interpreter does; 0 and less are none."""
    with np.errstate(over="ignore"):
        limit = int(np.clip(np.float32(clip) / np.float32(scale), *INT16)) if clip > 0 else 0
    return limit if limit > 0 else INT16[1]


def _joined(weights: list[FileTensor]) -> Array:
    return np.concatenate([t.data for t in weights if t.data is not None])


def _kind(weights: list[FileTensor]) -> TensorType:
    """All gates' rows, with the scale of each."""
    scales = tuple(t.scales[0] for t in weights for _ in range(t.shape[0]))
    rows, columns = len(scales), weights[0].shape[1]
    return TensorType((rows, columns), "int8", scales, 0, 0)


OPERATORS = (
    Entry(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        int8=_int8_lstm,
        reason="quantize it by TensorFlow's converter: its int8 file is read",
    ),
)

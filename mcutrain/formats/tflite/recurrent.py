"""Sequences with a state: UNIDIRECTIONAL_SEQUENCE_LSTM, and the WHILE that Keras' layers become."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.entry import Entry
from mcutrain.formats.tflite.file import FileModel, FileOperator, FileTensor
from mcutrain.formats.tflite.float_operator import FloatOperator
from mcutrain.formats.tflite.int8_operator import Int8Operator
from mcutrain.formats.tflite.loops import MOST_STEPS, loop_of, real
from mcutrain.formats.tflite.operands import Operands
from mcutrain.ir.graph import TensorType
from mcutrain.ops.lstm import CELL_INTEGER_BITS, GATES, NO_CELL_LIMIT, Lstm
from mcutrain.ops.recurrent import INT16
from mcutrain.quant import multipliers
from mcutrain.quant.float_recurrent import FloatLstm, FloatRecurrent

Array = npt.NDArray[Any]

INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES = 1, 5, 12
"""Places of the first of four operands, one for each gate: input, forget, cell, output."""
PARTS = (INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES)
"""These places by the inputs of a node behind x."""
PEEPHOLES, PROJECTION, OUTPUT_STATE, CELL_STATE = (9, 10, 11), (16, 17), 18, 19
NORMALIZATION = (20, 21, 22, 23)
HIDDEN = 4
"""Which of the intermediate tensors has the scale that h is computed in."""


LSTM, LOOP, REVERSE, STEP = "UNIDIRECTIONAL_SEQUENCE_LSTM", "WHILE", "REVERSE_V2", "STRIDED_SLICE"
LEAST_CLIP = 10.0
LAST = ([0, -1, 0], [1, 1, 1], 0b010)
"""Begin, strides and shrunk axes of a slice of the last step."""


@dataclass(frozen=True)
class RecurrentLayer:
    """A recurrent layer of a float file, in one direction. of: LSTM, or what a loop is.

    is_last: it gives h of the step that it ends with, not the sequence.
    """

    of: FileOperator | FloatRecurrent
    direction: str = "forward"
    is_last: bool = False


def with_layers(model: FileModel) -> FileModel:
    """The model with one operator for each recurrent layer of real numbers, and its direction."""
    if not {LSTM, LOOP} & {op.name for op in model.operators}:
        return model
    known = _known(model)
    operators = [one for op in model.operators for one in _layers(model, op, known)]
    turned = _Turned(model, operators)
    operators = [turned.instead(op) for op in operators]
    subgraphs = 1 if LOOP in {op.name for op in model.operators} else model.subgraphs
    return replace(model, operators=tuple(operators), subgraphs=subgraphs)


def _known(model: FileModel) -> dict[int, Array]:
    """The numbers of constants, and of those of float16 that DEQUANTIZE makes float32."""
    found = {i: v for i, t in enumerate(model.tensors) if (v := real(t)) is not None}
    for op in model.operators:
        if op.name == "DEQUANTIZE" and op.inputs[0] in found:
            found[op.outputs[0]] = found[op.inputs[0]]
    return found


def _layers(model: FileModel, op: FileOperator, known: dict[int, Array]) -> Iterator[FileOperator]:
    """An operator, or a layer for each output that is read of a loop."""
    if op.name == LSTM and model.tensors[op.outputs[0]].dtype == "float32":
        yield replace(op, options=RecurrentLayer(op))
        return
    loop = loop_of(model, op, known) if op.name == LOOP else None
    reads = model.reads + Counter(model.outputs)
    if loop is None or any(reads[i] and i not in loop.outputs for i in op.outputs):
        yield op
        return
    for i, is_last in loop.outputs.items():
        if reads[i]:
            yield FileOperator(
                op.name, (loop.x,), (i,), 0, RecurrentLayer(loop.cell, is_last=is_last)
            )


class _Turned:
    """Which layers begin at the end: those behind a REVERSE_V2, and mostly before another one.

    instead: an operator, or what it is then. A slice of the last step becomes the layer.
    """

    def __init__(self, model: FileModel, operators: list[FileOperator]) -> None:
        self.model = model
        self.made = {op.outputs[0]: op for op in operators if op.outputs}
        self.readers: dict[int, list[FileOperator]] = {i: [] for i in model.outputs}
        for op in operators:
            for i in op.inputs:
                self.readers.setdefault(i, []).append(op)
        self.other: dict[int, FileOperator] = {}  # by output
        for op in operators:
            if isinstance(op.options, RecurrentLayer):
                self._turn(op)

    def instead(self, op: FileOperator) -> FileOperator:
        """Return the operator that stands in its place."""
        return self.other.get(op.outputs[0], op) if op.outputs else op

    def _turn(self, op: FileOperator) -> None:
        source, y = self.made.get(op.inputs[0]), op.outputs[0]
        is_back = source is not None and self._is_reverse(source)
        first = source.inputs[0] if source is not None and is_back else op.inputs[0]
        inputs = (first, *op.inputs[1:])
        layer = replace(op.options, direction="reverse" if is_back else "forward")
        readers = self.readers.get(y, [])
        if y not in self.model.outputs and readers and all(map(self._is_last_step, readers)):
            for one in readers:
                last = replace(layer, is_last=True)
                self.other[one.outputs[0]] = FileOperator(op.name, inputs, one.outputs, 0, last)
        elif not is_back:
            return
        elif layer.is_last or (y not in self.model.outputs and (turned := self._turned(readers))):
            self.other[y] = replace(op, inputs=inputs, options=layer)
            for one in () if layer.is_last else turned:
                self.other[one.outputs[0]] = replace(one, name="RESHAPE", inputs=one.inputs[:1])

    def _turned(self, readers: list[FileOperator]) -> list[FileOperator]:
        """The REVERSE_V2s that are all readers, or behind a RESHAPE that is; else nothing."""
        if len(readers) == 1 and readers[0].name == "RESHAPE":
            y = readers[0].outputs[0]
            readers = [] if y in self.model.outputs else self.readers.get(y, [])
        return readers if all(map(self._is_reverse, readers)) else []

    def _is_reverse(self, op: FileOperator) -> bool:
        """Return whether it turns the steps of one sequence around."""
        if op.name != REVERSE:
            return False
        axes, shape = self.model.tensors[op.inputs[1]].data, self.model.tensors[op.inputs[0]].shape
        if axes is None or axes.size != 1 or len(shape) != 3:
            return False
        axis = int(axes.ravel()[0]) % 3
        return axis < 2 and shape[axis] == math.prod(shape[:2])

    def _is_last_step(self, op: FileOperator) -> bool:
        """Return whether it cuts the last step of [1, steps, units] out."""
        if op.name != STEP:
            return False
        options = op.table(tflite.StridedSliceOptions, op.name)
        begin, _, strides = (self.model.tensors[i].data for i in op.inputs[1:4])
        shape = self.model.tensors[op.inputs[0]].shape
        others = options.EllipsisMask() or options.NewAxisMask() or options.BeginMask() & 0b010
        if begin is None or strides is None or others or options.EndMask() & 0b101 != 0b101:
            return False
        found = begin.tolist(), strides.tolist(), options.ShrinkAxisMask()
        return found == LAST and shape[0] == 1


def _real_layer(o: FloatOperator) -> None:
    """The layer, over one sequence of rows."""
    known = o.op.options
    if not isinstance(known, RecurrentLayer):
        raise UnsupportedError(
            f"{o.where} is no layer that is known; supported is what Keras' LSTM and GRU become, "
            f"with tanh and sigmoids, a batch of 1, {MOST_STEPS:,} steps or fewer, and of GRU "
            "reset_after=True"
        )
    if isinstance(known.of, FileOperator):
        one = copy.copy(o)
        one.op = replace(known.of, inputs=o.op.inputs)
        cell: FloatRecurrent = _float_lstm(one)
    else:
        cell = known.of
    count = cell.w.shape[-1]
    steps = math.prod(o.shape()) // count
    rows = o.view(o.x(), (1, steps, count))
    o.emit(replace(cell, direction=known.direction, is_last=known.is_last), rows)


def _float_lstm(o: FloatOperator) -> FloatLstm:
    """The operator's weights and biases in real numbers."""
    options = o.options(tflite.UnidirectionalSequenceLSTMOptions)
    _check_kind(o, options)
    if 0 < options.CellClip() < LEAST_CLIP:
        raise UnsupportedError(
            f"{o.where} clips its cell state at {options.CellClip():g}; supported is a clip at "
            f"{LEAST_CLIP:g}, which the converter writes though Keras' layer has none, and more"
        )
    w, u, b = (
        np.stack([o.real(first + gate) for gate in range(GATES)])
        for first in (INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES)
    )
    units, count = u.shape[-1], o.shape()[-1]
    if (w.shape, u.shape, b.shape) != (
        (GATES, units, count),
        (GATES, units, units),
        (GATES, units),
    ):
        raise ModelError(f"{o.where}: its weights and biases do not fit each other")
    return FloatLstm(w[None], u[None], b[None], np.zeros((1, units), np.float32))


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


def _check_kind(o: Operands, options: Any) -> None:
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
    return limit if limit > 0 else NO_CELL_LIMIT


def _joined(weights: list[FileTensor]) -> Array:
    return np.concatenate([t.data for t in weights if t.data is not None])


def _kind(weights: list[FileTensor]) -> TensorType:
    """All gates' rows, with the scale of each."""
    scales = tuple(t.scales[0] for t in weights for _ in range(t.shape[0]))
    rows, columns = len(scales), weights[0].shape[1]
    return TensorType((rows, columns), "int8", scales, 0, 0)


OPERATORS = (
    Entry(LSTM, int8=_int8_lstm, real=_real_layer),
    Entry(LOOP, real=_real_layer, reason="quantize the float file"),
)

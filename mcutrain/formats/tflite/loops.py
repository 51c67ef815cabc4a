"""A WHILE of a float .tflite, computed by numpy, to tell whether it is an LSTM or a GRU.

Keras' layers become such a loop. Each turn gathers a row, multiplies it and the state by two
matrices, and puts the new state into a list or in the place of the last one. What it computes of
drawn rows is compared with the layer of those matrices: nothing else has to be known of how it is
written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite
from mcutrain_host.dataclass import dataclass

from mcutrain.formats.tflite.expressions import ELEMENTWISE, is_plain
from mcutrain.formats.tflite.file import MISSING, FileModel, FileOperator, FileTensor
from mcutrain.quant.float_recurrent import FloatGru, FloatLstm, FloatRecurrent

Array = npt.NDArray[Any]
Values = dict[int, Array]

KINDS: Mapping[int, tuple[type[FloatRecurrent], int]] = {1: (FloatGru, 3), 2: (FloatLstm, 4)}
"""By the number of their states: the layer and its gates, whose order is Keras', too."""
MOST_STEPS = 4096  # of a loop that is computed
REACH = 8.0  # of a gate's sum, at least: close to 0 tanh(x) is hardly another number than x
MOST_NUMBERS = 2**24  # of a tensor in it
TOLERANCE = 1e-3  # of h, which is between -1 and 1, in float32


class UnknownError(Exception):
    """The loop is none of those that are known."""


@dataclass(frozen=True)
class Loop:
    """A recurrent layer. x: the tensor of its rows. outputs: whether each is the last h alone."""

    cell: FloatRecurrent
    x: int
    outputs: Mapping[int, bool]


def loop_of(model: FileModel, op: FileOperator, known: Mapping[int, Array]) -> Loop | None:
    """The layer that a WHILE is, if it is one. known: numbers of constant tensors."""
    try:
        return _loop_of(model, op, known)
    except (UnknownError, LookupError, TypeError, ValueError):
        return None


def real(t: FileTensor) -> Array | None:
    """Return what a constant means; None for what is none. int8 without scales is not known."""
    if t.data is None:
        return None
    if t.dtype != "int8":
        return t.data.astype(np.float32) if t.dtype == "float16" else t.data
    if not t.scales or any(t.zero_points):
        return None
    shape = [1] * t.data.ndim
    if len(t.scales) > 1:
        shape[t.axis] = -1
    return np.asarray(t.data * np.array(t.scales, np.float32).reshape(shape), np.float32)


def _loop_of(model: FileModel, op: FileOperator, known: Mapping[int, Array]) -> Loop:
    options = op.table(tflite.WhileOptions, op.name)
    condition = model.loops[options.CondSubgraphIndex()]
    body = model.loops[options.BodySubgraphIndex()]
    places = range(len(op.inputs))
    if not len(places) == len(body.inputs) == len(body.outputs) == len(condition.inputs):
        raise UnknownError
    (row,) = (k for k in places if op.inputs[k] not in known)
    shape = model.tensors[op.inputs[row]].shape
    is_whole = body.outputs[row] == body.inputs[row]
    if not is_whole or len(shape) != 3 or shape[1] != 1 or not 0 < shape[0] <= MOST_STEPS:
        raise UnknownError
    start = {k: known[op.inputs[k]] for k in places if k != row}
    cell = _cell(body, row, start)
    most = max(REACH / max(float(np.abs(cell.w).sum(axis=-1).max()), TOLERANCE), 1.0)
    x = np.random.default_rng(0).uniform(-most, most, shape).astype(np.float32)
    ended = _run(condition, body, {**start, row: x}, shape[0])
    h = cell.run(x.swapaxes(0, 1))[0]  # [steps, units]
    outputs = {}
    for k in places:
        wanted = {True: h[-1:], False: h}
        for is_last, value in wanted.items():
            if ended[k].size == value.size and k != row and _is_near(ended[k], value):
                outputs[op.outputs[k]] = is_last
                break
    return Loop(cell, op.inputs[row], outputs)


def _is_near(found: Array, wanted: Array) -> bool:
    return bool(np.abs(found.reshape(wanted.shape) - wanted).max() < TOLERANCE)


def _cell(body: FileModel, row: int, start: Mapping[int, Array]) -> FloatRecurrent:
    """The layer of the two matrices; its biases are what gates are at a row and state of zeros."""
    states = [k for k, v in start.items() if v.dtype == np.float32 and len(v.shape) == 2]
    if len(states) not in KINDS or any(start[k].any() for k in states):
        raise UnknownError
    kind, gates = KINDS[len(states)]
    of = {"h": {body.inputs[k] for k in states}, "x": {body.inputs[row]}}
    units = start[states[0]].shape[1]
    zeros = {body.inputs[k]: v for k, v in start.items()}
    steps = body.tensors[body.inputs[row]].shape
    nothing = np.zeros(steps, np.float32)
    values = _computed(body, {**_constants(body), **zeros, body.inputs[row]: nothing})
    weights: dict[str, Array] = {}
    biases: dict[str, Array] = {}
    for op in body.operators:
        source = "".join(name for name, tensors in of.items() if tensors.intersection(op.inputs))
        for name in source:
            of[name].update(op.outputs)
        if op.name == "FULLY_CONNECTED" and source in ("x", "h"):
            if source in weights:
                raise UnknownError
            weights[source] = values[op.inputs[1]]
        y = values[op.outputs[0]]
        if source and y.size == gates * units and y.shape[-1] == y.size:  # no list of states
            biases[source] = y.reshape(gates, units)
    w, u = (weights[name].reshape(1, gates, units, -1) for name in ("x", "h"))
    b, h_bias = biases.get("hx", biases["x"]).copy(), np.zeros((1, units), np.float32)
    if "hx" not in biases:
        b[:-1] += biases["h"][:-1]
        h_bias = biases["h"][-1:]
    return kind(w, u, b[None], h_bias)


def _run(condition: FileModel, body: FileModel, start: Values, steps: int) -> Values:
    """Return what the loop ends with, after as many turns as there are rows."""
    state, numbers = dict(start), [_constants(graph) for graph in (condition, body)]
    for turn in range(steps + 1):
        given = {i: state[k] for k, i in enumerate(condition.inputs)}
        found = _computed(condition, {**numbers[0], **given})
        goes_on = bool(found[condition.outputs[0]].ravel()[0])
        if goes_on != (turn < steps):
            raise UnknownError
        if goes_on:
            given = {i: state[k] for k, i in enumerate(body.inputs)}
            found = _computed(body, {**numbers[1], **given})
            state = {k: found[i] for k, i in enumerate(body.outputs)}
    return state


def _constants(graph: FileModel) -> Values:
    return {i: v for i, t in enumerate(graph.tensors) if (v := real(t)) is not None}


def _computed(graph: FileModel, given: Values) -> Values:
    """The values of all tensors of a subgraph. Raises UnknownError for an unknown operator."""
    values = dict(given)
    with np.errstate(all="ignore"):
        for op in graph.operators:
            if op.name not in OPERATORS and (op.name not in ELEMENTWISE or not is_plain(op)):
                raise UnknownError
            x = [values[i] for i in op.inputs if i != MISSING]
            if _largest(op, x) > MOST_NUMBERS:
                raise UnknownError
            compute = OPERATORS.get(op.name, _elementwise)
            shapes = [graph.tensors[i].shape for i in op.outputs]
            for i, y in zip(op.outputs, compute(op, x, shapes), strict=True):
                values[i] = y
    return values


def _largest(op: FileOperator, x: Sequence[Array]) -> int:
    """Return how many numbers the operator may give: what is put into itself in each turn grows."""
    if op.name in ELEMENTWISE:
        return math.prod(np.broadcast_shapes(*(v.shape for v in x)))
    if op.name == "GATHER":
        return int(x[0].size * x[1].size)
    if op.name == "FULLY_CONNECTED":
        return int(x[0].size * x[1].shape[0] // x[1].shape[1])
    return sum(v.size for v in x)


Shapes = Sequence[tuple[int, ...]]


def _elementwise(op: FileOperator, x: Sequence[Array], _: Shapes) -> list[Array]:
    return [np.asarray(ELEMENTWISE[op.name](*x), x[0].dtype if x[0].dtype.kind == "i" else None)]


def _dense(op: FileOperator, x: Sequence[Array], _: Shapes) -> list[Array]:
    if op.table(tflite.FullyConnectedOptions, op.name).FusedActivationFunction():
        raise UnknownError
    y = x[0].reshape(-1, x[1].shape[1]) @ x[1].T
    return [y + x[2] if len(x) > 2 else y]


def _reshape(op: FileOperator, x: Sequence[Array], shapes: Shapes) -> list[Array]:
    return [x[0].reshape(shapes[0])]


def _gather(op: FileOperator, x: Sequence[Array], _: Shapes) -> list[Array]:
    return [np.take(x[0], x[1], axis=op.table(tflite.GatherOptions, op.name).Axis())]


def _split(op: FileOperator, x: Sequence[Array], shapes: Shapes) -> list[Array]:
    return np.split(x[1], len(shapes), axis=int(x[0].ravel()[0]))


def _slice(op: FileOperator, x: Sequence[Array], _: Shapes) -> list[Array]:
    ends = [b + n if n >= 0 else None for b, n in zip(x[1].tolist(), x[2].tolist(), strict=True)]
    return [x[0][tuple(map(slice, x[1].tolist(), ends))]]


def _strided_slice(op: FileOperator, x: Sequence[Array], shapes: Shapes) -> list[Array]:
    options = op.table(tflite.StridedSliceOptions, op.name)
    if options.EllipsisMask() or options.NewAxisMask() or options.ShrinkAxisMask():
        raise UnknownError
    ranges = []
    for axis, (begin, end, stride) in enumerate(zip(*(v.tolist() for v in x[1:4]), strict=True)):
        first, last = (mask >> axis & 1 for mask in (options.BeginMask(), options.EndMask()))
        ranges.append(slice(None if first else begin, None if last else end, stride))
    return [x[0][tuple(ranges)]]


def _joined(op: FileOperator, x: Sequence[Array], _: Shapes) -> list[Array]:
    return [np.concatenate(x, axis=op.table(tflite.ConcatenationOptions, op.name).Axis())]


def _and(op: FileOperator, x: Sequence[Array], _: Shapes) -> list[Array]:
    return [np.logical_and(*x)]


def _same(op: FileOperator, x: Sequence[Array], _: Shapes) -> list[Array]:
    return [x[0]]


OPERATORS: Mapping[str, Callable[[FileOperator, Sequence[Array], Shapes], list[Array]]] = {
    "CONCATENATION": _joined,
    "DEQUANTIZE": _same,  # of constants, whose real numbers are known
    "FULLY_CONNECTED": _dense,
    "GATHER": _gather,
    "LOGICAL_AND": _and,
    "RESHAPE": _reshape,
    "SLICE": _slice,
    "SPLIT": _split,
    "STRIDED_SLICE": _strided_slice,
}

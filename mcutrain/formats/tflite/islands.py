"""Functions that an int8 file computes in float: DEQUANTIZE, operators, QUANTIZE, in its middle.

The converter leaves what has no int8 kernel in its tables (ELU, of TensorFlow 2.21) to float. What
follows from one int8 tensor element by element has 256 values: it is a table of int8, which the
island's operators, in single precision, fill. All others are refused, as DEQUANTIZE in the middle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.formats.tflite.expressions import ELEMENTWISE, is_plain
from mcutrain.formats.tflite.file import MISSING, FileModel, FileOperator
from mcutrain.formats.tflite.int8_operator import Int8Operator
from mcutrain.ops.activation_functions import STORED
from mcutrain.ops.lookup import lookup_of
from mcutrain.quant.float_elementwise import FUNCTIONS

Array = npt.NDArray[Any]

NAME = "function in float"
INTEGERS = np.arange(STORED[0], STORED[-1] + 1)
NEAR = 2.0**-12  # of a step of x: over twice that slopes are measured
MOST_FLOATS = 1024


def _elu(x: Array) -> Array:
    below: Array = np.expm1(np.minimum(x, 0))
    return np.where(x < 0, below, x)


FLOAT: Mapping[str, Callable[..., Array]] = {**ELEMENTWISE, "ELU": _elu}


@dataclass(frozen=True)
class IslandValues:
    """A function of an int8 tensor. at: its values for all its integers, in single precision.

    slopes: by the integers. function: the operator, where there is only one; else what they are.
    """

    at: Array
    slopes: Array
    function: str


def with_tables(model: FileModel) -> FileModel:
    """The model with one operator for each function in float of an int8 tensor."""
    if not any(op.name == "DEQUANTIZE" for op in model.operators):
        return model
    islands = _Islands(model)
    return replace(model, operators=tuple(islands.shortened(op) for op in model.operators))


def table(o: Int8Operator) -> None:
    """As the reference kernel of QUANTIZE rounds: halves away from zero."""
    values: IslandValues = o.op.options
    scale, zero_point = o.quantization
    unrounded = values.at / np.float32(scale)
    rounded = np.trunc(unrounded + np.copysign(np.float32(0.5), unrounded)) + zero_point
    stored = np.clip(rounded, STORED[0], STORED[-1]).astype(np.int8)
    made = lookup_of(
        values.function,
        stored,
        unrounded.astype(np.float64) + zero_point,
        values.slopes / scale,
    )
    o.node(made, o.x())


@dataclass(frozen=True)
class _Followed:
    """A float tensor that follows from the int8 tensor x: by operators of these names.

    values: at the integers of x in single precision; a little below and above them in double.
    """

    x: int
    values: tuple[Array, Array, Array]
    names: tuple[str, ...] = ()


class _Islands:
    """What float tensors are as functions of an int8 one."""

    def __init__(self, model: FileModel) -> None:
        self.model = model
        self.of: dict[int, _Followed] = {}
        for op in model.operators:
            if len(op.outputs) == 1 and MISSING not in (*op.outputs, *op.inputs):
                self._follow(op)

    def shortened(self, op: FileOperator) -> FileOperator:
        """The operator, or, of a QUANTIZE of a function, that function."""
        if op.name != "QUANTIZE" or len(op.inputs) != 1 or op.inputs[0] not in self.of:
            return op
        found = self.of[op.inputs[0]]
        names, (at, below, above) = found.names, found.values
        if not names or not np.isfinite(at).all() or len(op.outputs) != 1:
            return op
        slopes = (above - below) / (2 * NEAR)
        name = names[0].lower() if len(names) == 1 and names[0].lower() in FUNCTIONS else NAME
        values = IslandValues(at, np.where(np.isfinite(slopes), slopes, 0.0), name)
        return FileOperator(NAME, (found.x,), op.outputs, 0, values)

    def _follow(self, op: FileOperator) -> None:
        """Note the values of the output, at each integer and a little beside it."""
        tensors = self.model.tensors
        (y,) = op.outputs
        if op.name == "DEQUANTIZE" and len(op.inputs) == 1:
            kind = tensors[op.inputs[0]]
            if kind.dtype == "int8" and kind.data is None and len(kind.scales) == 1:
                real = _real(kind.scales[0], kind.zero_points[0])
                self.of[y] = _Followed(op.inputs[0], real)
            return
        if op.name not in FLOAT or not is_plain(op) or len(self.of) > MOST_FLOATS:
            return
        numbers = {i: _number(tensors[i].data) for i in op.inputs}
        computed = [i for i in op.inputs if numbers[i] is None]
        sources = {self.of[i].x for i in computed if i in self.of}
        if len(sources) != 1 or any(i not in self.of for i in computed):
            return
        (x,) = sources
        if tensors[x].shape != tensors[y].shape:
            return
        names = tuple(dict.fromkeys(n for i in computed for n in self.of[i].names))
        results = []
        for place, dtype in enumerate((np.float32, np.float64, np.float64)):
            given = [
                self.of[i].values[place] if (n := numbers[i]) is None else n for i in op.inputs
            ]
            with np.errstate(all="ignore"):
                try:
                    found = FLOAT[op.name](*(_in(dtype, g) for g in given))
                    results.append(np.broadcast_to(found, INTEGERS.shape))
                except (TypeError, ValueError):
                    return
        self.of[y] = _Followed(x, (results[0], results[1], results[2]), (*names, op.name))


def _real(scale: float, zero_point: int) -> tuple[Array, Array, Array]:
    """Return what the integers mean, and a little less and more."""
    exact = (INTEGERS - zero_point) * scale
    step = NEAR * scale
    return exact.astype(np.float32), exact - step, exact + step


def _in(dtype: npt.DTypeLike, values: Array) -> Array:
    """An operand in the type that is computed in; truth values stay such."""
    return values if values.dtype == np.bool_ else values.astype(dtype)


def _number(data: Array | None) -> Array | None:
    """A constant of one element."""
    is_one = data is not None and data.size == 1 and data.dtype.kind in "fb"
    if data is None or not is_one or not math.isfinite(float(data.ravel()[0])):
        return None
    return np.asarray(data.ravel()[0])

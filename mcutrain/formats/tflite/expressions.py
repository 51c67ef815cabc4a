"""Functions of one tensor that a float .tflite writes in operators without a rule, by their values.

JAX' exact GELU is 44 of them: a rational approximation of erfc on either side of 1, chosen by
LESS and SELECT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from mcutrain.errors import ModelError
from mcutrain.formats.tflite.file import MISSING, FileModel, FileOperator, constants_of
from mcutrain.formats.tflite.float_operator import FloatOperator
from mcutrain.quant.float_elementwise import FUNCTIONS, Function

Array = npt.NDArray[Any]

NAME = "function of one tensor"
FAR = np.array([9.0, 12.0, 20.0, 50.0, 100.0])
POINTS = np.concatenate([-FAR[::-1], np.linspace(-8.0, 8.0, 1025), FAR])
"""Far ones, too: a clip at 10 is part of a function."""
TOLERANCE = 1e-4  # of a function's values, in parts of those above 1
OF_HALVES = 2.0**-10  # the same where constants are float16
MOST_VALUES = 4096  # tensors that are followed: the others stay as they are

WITHOUT_RULE: Mapping[str, Callable[..., Array]] = {
    "ABS": np.abs,
    "EXP": np.exp,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "LOG": np.log,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "NEG": np.negative,
    "POW": np.power,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "SELECT": np.where,
    "SELECT_V2": np.where,
    "SQRT": np.sqrt,
    "SQUARE": np.square,
}
WITH_RULE: Mapping[str, Callable[..., Array]] = {
    "ADD": np.add,
    "DIV": np.divide,
    "LOGISTIC": FUNCTIONS["logistic"],
    "MUL": np.multiply,
    "RELU": lambda x: np.maximum(x, 0),
    "RELU6": lambda x: np.clip(x, 0, 6),
    "SUB": np.subtract,
    "TANH": np.tanh,
}
ELEMENTWISE = {**WITHOUT_RULE, **WITH_RULE}
OPTIONS = {
    "ADD": tflite.AddOptions,
    "DIV": tflite.DivOptions,
    "MUL": tflite.MulOptions,
    "SUB": tflite.SubOptions,
}
"""Options of operators that may have an activation, and are followed only without one."""


def with_functions(model: FileModel) -> FileModel:
    """The model with one operator for each known function that needs operators without a rule."""
    if not any(op.name in WITHOUT_RULE for op in model.operators):
        return model
    found = _Values(model).found
    return replace(model, operators=tuple(_as_one(op, found) for op in model.operators))


def _as_one(op: FileOperator, found: Mapping[int, tuple[int, str]]) -> FileOperator:
    if len(op.outputs) != 1 or op.outputs[0] not in found:
        return op
    x, name = found[op.outputs[0]]
    return FileOperator(NAME, (x,), op.outputs, 0, name)


def function(o: FloatOperator) -> None:
    """The function of its name."""
    o.emit(Function(o.op.options), o.x())


class _Values:
    """What tensors are as functions of another one, from which they follow element by element.

    of: by tensor: of which one, and its values at POINTS. strange: those computed by an operator
    without a rule. found: by tensor: the tensor that it is a known function of, and the function's
    name. What follows is a function of that tensor.
    """

    def __init__(self, model: FileModel) -> None:
        self.model = model
        self.constants = constants_of(model)
        halves = any(v.dtype == np.float16 for v in self.constants.values())
        self.tolerance = OF_HALVES if halves else TOLERANCE
        self.of: dict[int, tuple[int, Array]] = {}
        self.strange: set[int] = set()
        self.found: dict[int, tuple[int, str]] = {}
        for op in model.operators:
            self._follow(op)

    def _follow(self, op: FileOperator) -> None:
        """Note the output's values, if they follow from one tensor."""
        if op.name not in ELEMENTWISE or len(self.of) > MOST_VALUES or not is_plain(op):
            return
        if len(op.outputs) != 1 or MISSING in (*op.inputs, *op.outputs):
            return
        (y,) = op.outputs
        numbers = {i: self._number(i) for i in op.inputs}
        computed = [i for i in op.inputs if numbers[i] is None]
        sources = {self.of[i][0] if i in self.of else i for i in computed}
        if len(sources) != 1 or any(i in self.constants for i in computed):
            return
        (x,) = sources
        if self.model.tensors[x].shape != self.model.tensors[y].shape:
            return
        given = [
            numbers[i] if numbers[i] is not None else self.of[i][1] if i in self.of else POINTS
            for i in op.inputs
        ]
        with np.errstate(all="ignore"):
            try:
                values = np.broadcast_to(ELEMENTWISE[op.name](*given), POINTS.shape)
            except (TypeError, ValueError):
                return
        if op.name in WITHOUT_RULE or self.strange.intersection(op.inputs):
            if name := _name_of(values, self.tolerance):
                self.found[y] = x, name
                return
            self.strange.add(y)
        self.of[y] = x, values

    def _number(self, index: int) -> Array | None:
        """A constant of one element."""
        data = self.constants.get(index)
        is_one = data is not None and data.size == 1 and data.dtype.kind in "fb"
        return data.ravel()[0].astype(np.float64) if data is not None and is_one else None


def is_plain(op: FileOperator) -> bool:
    """Return whether an operator has no activation."""
    if op.name not in OPTIONS:
        return True
    try:
        return not op.table(OPTIONS[op.name], op.name).FusedActivationFunction()
    except ModelError:
        return False  # its rule says so


def _name_of(values: Array, tolerance: float) -> str:
    """The known function with these values; "" if there is none."""
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return ""
    with np.errstate(all="ignore"):
        errors = {name: _error(values, known(POINTS)) for name, known in FUNCTIONS.items()}
    name = min(errors, key=errors.__getitem__)
    return name if errors[name] < tolerance else ""


def _error(values: Array, known: Array) -> float:
    """The largest one; infinite where the known function overflows."""
    largest = float((np.abs(values - known) / np.maximum(np.abs(known), 1.0)).max())
    return largest if np.isfinite(largest) else np.inf

"""Functions that an int8 file chooses between: GREATER, and SELECT of what follows from one tensor.

Keras' SELU is such. What follows from one int8 tensor element by element has 256 values: it is a
table of int8, filled by the integers that the file's own operators give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.errors import ModelError
from mcutrain.formats.tflite.expressions import ELEMENTWISE, is_plain
from mcutrain.formats.tflite.file import MISSING, FileModel, FileOperator
from mcutrain.formats.tflite.int8_operator import Converter, Int8Operator, Rule
from mcutrain.formats.tflite.islands import FLOAT, INTEGERS, NEAR
from mcutrain.ir.interpret import interpret
from mcutrain.ops.lookup import lookup_of

Array = npt.NDArray[Any]

NAME = "function by cases"
SELECTS = ("SELECT", "SELECT_V2")
COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    name: ELEMENTWISE[name] for name in ("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
}
COMPARED_SHIFT = 8  # fraction bits of compared numbers, as comparisons.cc has them
MOST_OPERATORS = 32  # of a function


@dataclass(frozen=True)
class Cases:
    """A function of an int8 tensor: its integers, before they are rounded, and its slopes."""

    stored: Array
    unrounded: Array
    slopes: Array


def with_cases(model: FileModel, rules: Mapping[str, Rule]) -> FileModel:
    """The model with one operator for each SELECT that follows from one int8 tensor."""
    if not any(op.name in SELECTS for op in model.operators):
        return model
    producers = {i: op for op in model.operators for i in op.outputs if i != MISSING}
    known = _KnownValue(model, rules, producers)
    return replace(model, operators=tuple(known.shortened(op) for op in model.operators))


def table(o: Int8Operator) -> None:
    """The table."""
    cases: Cases = o.op.options
    o.node(lookup_of("composite", cases.stored, cases.unrounded, cases.slopes), o.x())


@dataclass(frozen=True)
class _KnownValue:
    """A file whose tensors are functions of others."""

    model: FileModel
    rules: Mapping[str, Rule]
    producers: Mapping[int, FileOperator]

    def shortened(self, op: FileOperator) -> FileOperator:
        """The operator, or, of a SELECT, the function that its output is."""
        if op.name not in SELECTS or len(op.outputs) != 1 or MISSING in (*op.inputs, *op.outputs):
            return op
        (y,) = op.outputs
        x = self._source(y)
        if x is None:
            return op
        try:
            values = _FunctionValues(self, x)
            stored = values.integers(y)
            at, below, above = (values.reals(y, step) for step in (0.0, -NEAR, NEAR))
        except (ModelError, ArithmeticError, LookupError, TypeError, ValueError):
            return op  # its rule says what is in the way
        kind = self.model.tensors[y]
        (scale,), (zero_point,) = kind.scales, kind.zero_points
        slopes = (above - below) / (2 * NEAR * scale)
        slopes = np.where(np.isfinite(slopes), slopes, 0.0)
        return FileOperator(
            NAME, (x,), op.outputs, 0, Cases(stored, at / scale + zero_point, slopes)
        )

    def _source(self, y: int) -> int | None:
        """The int8 tensor that a SELECT's output follows from; None if there are several."""
        tensors, pending, found, seen = self.model.tensors, [y], set[int](), set[int]()
        while pending and len(seen) <= MOST_OPERATORS:
            index = pending.pop()
            op = self.producers.get(index)
            if index in seen or tensors[index].data is not None:
                continue
            seen.add(index)
            is_followed = op is not None and (op.name in FLOAT or op.name in COMPARISONS)
            if op is not None and is_followed and is_plain(op) and MISSING not in op.inputs:
                pending += op.inputs
            else:
                found.add(index)
        alike = all(tensors[i].shape == tensors[y].shape for i in seen)
        if pending or len(found) != 1 or not alike:
            return None
        (x,) = found
        kind = tensors[x]
        return x if kind.dtype == "int8" and len(kind.scales) == 1 else None


class _FunctionValues:
    """What tensors are for each integer of x."""

    def __init__(self, known: _KnownValue, x: int) -> None:
        self.known, self.x = known, x
        self.tensors = known.model.tensors
        self.found: dict[int, Array] = {x: INTEGERS.astype(np.int8)}

    def integers(self, index: int) -> Array:
        """As the file's kernels compute them; of a comparison truth values."""
        data = self.tensors[index].data
        if data is not None:
            return np.full(len(INTEGERS), data.ravel()[0]) if data.size == 1 else data[:0]
        if index not in self.found:
            self.found[index] = self._computed(self.known.producers[index])
        return self.found[index]

    def _computed(self, op: FileOperator) -> Array:
        given = [self.integers(i) for i in op.inputs]
        if op.name in SELECTS:
            return np.where(*given)
        if op.name in COMPARISONS:
            pairs = zip(given, op.inputs, strict=True)
            return COMPARISONS[op.name](*(self._compared(v, i) for v, i in pairs))
        return self._by_rule(op)

    def _compared(self, values: Array, index: int) -> Array:
        kind = self.tensors[index]
        shifted = (values.astype(np.int64) - kind.zero_points[0]) << COMPARED_SHIFT
        multiplier = fixedpoint.quantize_multiplier(kind.scales[0])
        return fixedpoint.multiply_by_quantized_multiplier(shifted, *multiplier)

    def _by_rule(self, op: FileOperator) -> Array:
        """By the operator alone, of all integers at once."""
        computed = [i for i in dict.fromkeys(op.inputs) if self.tensors[i].data is None]
        row = (1, len(INTEGERS))
        inside = {*computed, *op.outputs}
        tensors = tuple(
            replace(t, shape=row) if i in inside else t for i, t in enumerate(self.tensors)
        )
        alone = replace(
            self.known.model,
            tensors=tensors, operators=(op,), inputs=tuple(computed), outputs=op.outputs,
        )  # fmt: skip
        graph = Converter(alone, self.known.rules).graph("function")
        given = {tensors[i].name: self.integers(i).reshape(row) for i in computed}
        return interpret(graph, given)[graph.outputs[0]].ravel()

    def reals(self, index: int, step: float) -> Array:
        """Return what is meant, of x and `step` of its scale more."""
        kind = self.tensors[index]
        if index == self.x:
            return (INTEGERS + step - kind.zero_points[0]) * kind.scales[0]
        if kind.data is not None:
            return (kind.data.ravel().astype(np.float64) - kind.zero_points[0]) * kind.scales[0]
        op = self.known.producers[index]
        with np.errstate(all="ignore"):
            return FLOAT[op.name](*(self.reals(i, step) for i in op.inputs))

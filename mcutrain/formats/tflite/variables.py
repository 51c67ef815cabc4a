"""Streaming models: variables that keep rows between calls, as inputs and outputs of one step.

A variable (VAR_HANDLE) is set once (CALL_ONCE) to zero points, read (READ_VARIABLE) and assigned
(ASSIGN_VARIABLE) in each call.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import tflite
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.file import FileModel, FileOperator, FileTensor
from mcutrain.formats.tflite.shapes import VIEWS

SUMS = ("ADD", "MUL", "SUB")
NAMES = ("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")


@dataclass(frozen=True)
class Variable:
    """A state between calls: the tensor that it is read as, and the one that is assigned to it."""

    read: int
    assigned: int


def has_variables(model: FileModel) -> bool:
    """Return whether a model keeps a state between calls."""
    return any(op.name in NAMES for op in model.operators)


def as_step(model: FileModel) -> tuple[FileModel, tuple[Variable, ...]]:
    """The model of one call: its variables are inputs behind its own, and outputs behind its own.

    Raises ModelError, UnsupportedError where variables do not begin with zeros, or are not read
    once before they are assigned once. What is kept as real numbers of int8 is taken as int8.
    """
    model = _without_float(model)
    handles = _handles(model)
    read: dict[str, int] = {}
    assigned: dict[str, int] = {}
    for op in model.operators:
        if op.name not in ("READ_VARIABLE", "ASSIGN_VARIABLE"):
            continue
        reads = op.name == "READ_VARIABLE"
        value = op.outputs[0] if reads else op.inputs[1]
        where = f"operator {op.name} (node {model.tensors[value].name!r})"
        name = handles.get(op.inputs[0])
        if name is None:
            raise ModelError(f"{where} names no variable of a VAR_HANDLE")
        if name in (read if reads else assigned) or (reads and name in assigned):
            raise UnsupportedError(
                f"{where} is the second of its variable in a call, or behind the assignment; "
                "supported is one of each, the reading first"
            )
        (read if reads else assigned)[name] = value
    variables = tuple(Variable(read[name], assigned[name]) for name in read if name in assigned)
    _check_kinds(model, read, assigned)
    _check_beginning(model, read)
    return (
        replace(
            model,
            operators=tuple(_with_whole_operands(model)),
            inputs=(*model.inputs, *(v.read for v in variables)),
            outputs=(*model.outputs, *(v.assigned for v in variables)),
            subgraphs=1,
            once=None,
        ),
        variables,
    )


def _without_float(model: FileModel) -> FileModel:
    """The model with variables of int8 for those of float32, where these have the int8 values.

    Without an option of its own the converter keeps variables as real numbers: what is joined with
    one is dequantized, the result quantized, and its last rows are dequantized. With one scale all
    over, that changes no integer.
    """
    made = {i: op for op in model.operators for i in op.outputs}
    real = {i: op.inputs[0] for i, op in made.items() if op.name == "DEQUANTIZE"}
    read = {i for i, op in made.items() if op.name == "READ_VARIABLE"}
    joined = {}
    for op in model.operators:
        found = _joined(model, op, made, real, read)
        if found is not None:
            joined[op.inputs[0]] = found
    tensors = list(model.tensors)
    for op in joined.values():
        t = tensors[op.outputs[0]]
        for i in read.intersection(op.inputs):
            tensors[i] = replace(
                tensors[i], dtype=t.dtype, scales=t.scales, zero_points=t.zero_points
            )
    operators = []
    for op in model.operators:
        if op.name == "ASSIGN_VARIABLE":
            op = replace(op, inputs=tuple(real.get(i, i) for i in op.inputs))
        if joined.keys().isdisjoint(op.outputs):
            operators.append(joined.get(op.inputs[0], op) if op.name == "QUANTIZE" else op)
    used = {*model.outputs, *(i for op in operators for i in op.inputs)}
    kept = (op for op in operators if op.name != "DEQUANTIZE" or op.outputs[0] in used)
    return replace(model, tensors=tuple(tensors), operators=tuple(kept))


def _joined(
    model: FileModel,
    op: FileOperator,
    made: Mapping[int, FileOperator],
    real: Mapping[int, int],
    read: Container[int],
) -> FileOperator | None:
    """What joins a variable with int8 rows, for a QUANTIZE of that; None for other operators."""
    source = None if op.name != "QUANTIZE" else made.get(op.inputs[0])
    if source is None or source.name != "CONCATENATION":
        return None
    inputs = tuple(real.get(i, i) for i in source.inputs)
    kind = _kind_of_numbers(model.tensors[op.outputs[0]])
    others = [i for i in inputs if i not in read]
    if len(others) == len(inputs) or any(
        _kind_of_numbers(model.tensors[i]) != kind for i in others
    ):
        return None
    return replace(source, inputs=inputs, outputs=op.outputs)


def _kind_of_numbers(t: FileTensor) -> tuple[object, ...]:
    return t.dtype, t.scales, t.zero_points


def _with_whole_operands(model: FileModel) -> Iterator[FileOperator]:
    """The operators without those of variables; sums read tensors of their own shape, if possible.

    For steps of one row converters drop the axes of one operand, and time among them.
    """
    views = {op.outputs[0]: op.inputs[0] for op in model.operators if op.name in VIEWS}
    tensors = model.tensors
    for op in model.operators:
        if op.name in NAMES:
            continue
        if op.name in SUMS:
            shape = tensors[op.outputs[0]].shape
            whole = {i: views.get(i, i) for i in op.inputs}
            inputs = (whole[i] if tensors[whole[i]].shape == shape else i for i in op.inputs)
            op = replace(op, inputs=tuple(inputs))
        yield op


def _handles(model: FileModel) -> dict[int, str]:
    """The tensor that stands for a variable → the variable's name."""
    found = {}
    for op in model.operators:
        if op.name == "VAR_HANDLE":
            where = f"operator VAR_HANDLE (node {model.tensors[op.outputs[0]].name!r})"
            options = op.table(tflite.VarHandleOptions, where)
            name = (options.Container() or b"", options.SharedName() or b"")
            found[op.outputs[0]] = b"/".join(name).decode("utf-8", "replace")
    return found


def _check_kinds(model: FileModel, read: dict[str, int], assigned: dict[str, int]) -> None:
    for name, index in read.items():
        t = model.tensors[index]
        if name not in assigned:
            raise UnsupportedError(
                f"operator READ_VARIABLE (node {t.name!r}) reads what no ASSIGN_VARIABLE changes"
            )
        new = model.tensors[assigned[name]]
        if _kind(t) != _kind(new):
            raise UnsupportedError(
                f"operator ASSIGN_VARIABLE (node {new.name!r}) assigns what is not quantized, or "
                f"has not the shape, as {t.name!r}, which is read; convert the model anew"
            )


def _kind(t: FileTensor) -> tuple[object, ...]:
    return t.shape, *_kind_of_numbers(t)


def _check_beginning(model: FileModel, read: dict[str, int]) -> None:
    """Check that each variable is set to zero points before the first call."""
    first = dict[str, FileTensor]()
    for once in _initial(model):
        handles = _handles(once)
        for op in once.operators:
            if op.name == "ASSIGN_VARIABLE" and op.inputs[0] in handles:
                first[handles[op.inputs[0]]] = once.tensors[op.inputs[1]]
    for name, index in read.items():
        t, value = model.tensors[index], first.get(name)
        zero = t.zero_points[0] if t.zero_points and value and value.dtype == t.dtype else 0
        data = None if value is None else value.data
        if data is None or data.size != math.prod(t.shape) or not np.all(data == zero):
            raise UnsupportedError(
                f"the variable that is read as {t.name!r} does not begin with zeros by a CALL_ONCE "
                "of constants; supported is a state that does"
            )


def _initial(model: FileModel) -> Iterable[FileModel]:
    return () if model.once is None else (model.once,)

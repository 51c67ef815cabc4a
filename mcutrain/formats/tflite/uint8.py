"""Files of uint8, as converters wrote them before int8, as the int8 models that they stand for.

An activation's integers are stored 128 higher: the same scale, another zero point. A weight has a
zero point that is not in the middle, and int8 kernels have none: see `mcutrain.formats.fitting`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import ModelError
from mcutrain.formats.fitting import Fitting, fitted
from mcutrain.formats.tflite.file import (
    LARGEST_FILE,
    MISSING,
    UINT8_OFFSET,
    FileModel,
    FileOperator,
    FileTensor,
)
from mcutrain.formats.tflite.shapes import VIEWS
from mcutrain.formats.tflite.sums import WEIGHT_AXES

Array = npt.NDArray[Any]

LARGEST_UINT8 = 255
MOVING = (*VIEWS, "QUANTIZE", "DEQUANTIZE")
"""Operators that an int8 model may have at its edges, where tensors may be uint8."""


def is_uint8(model: FileModel) -> bool:
    """Whether an operator computes with uint8; tensors at the edges alone may be of an int8 one."""
    return any(
        model.tensors[i].dtype == "uint8"
        for op in model.operators
        if op.name not in MOVING
        for i in (*op.inputs[:2], *op.outputs)
        if i != MISSING
    )


def as_int8(model: FileModel) -> tuple[FileModel, Fitting]:
    """The model in int8, and how its weights fit. Raises ModelError."""
    used = {
        i
        for op in model.operators
        if op.name in WEIGHT_AXES
        for i in op.inputs[1:2]
        if i != MISSING and _is_weight(model.tensors[i])
    }
    _check_sizes(model.tensors[i] for i in used)
    tensors = [
        t if i in used or not _is_quantized(t) else _shifted(t) for i, t in enumerate(model.tensors)
    ]
    fitting, operators = Fitting(), []
    for op in model.operators:
        if used.isdisjoint(op.inputs[1:2]) or op.name not in WEIGHT_AXES:
            operators.append(op)
            continue
        weight, found, coarser = _fitted(model.tensors[op.inputs[1]], WEIGHT_AXES[op.name])
        fitting += found
        operators.append(_reading(op, weight, coarser, tensors))
    return replace(model, tensors=tuple(tensors), operators=tuple(operators)), fitting


def _is_quantized(t: FileTensor) -> bool:
    return t.dtype == "uint8" and len(t.scales) == 1


def _is_weight(t: FileTensor) -> bool:
    return _is_quantized(t) and t.data is not None


def _check_sizes(weights: Iterable[FileTensor]) -> None:
    """Weights may share their bytes in the file, but not here."""
    if sum(math.prod(t.shape) for t in weights) > LARGEST_FILE:
        raise ModelError("the file is corrupt: its tensors overlap each other")


def _zero_point(t: FileTensor) -> int:
    if not 0 <= t.zero_points[0] <= LARGEST_UINT8:
        raise ModelError(f"tensor {t.name!r} has the impossible zero point {t.zero_points[0]}")
    return t.zero_points[0]


def _shifted(t: FileTensor) -> FileTensor:
    """An activation, or a constant that is one."""
    zero_point = _zero_point(t) - UINT8_OFFSET
    data = None if t.data is None else (t.data ^ np.uint8(UINT8_OFFSET)).view(np.int8)
    return replace(t, dtype="int8", zero_points=(zero_point,), data=data)


def _fitted(t: FileTensor, axis: int) -> tuple[FileTensor, Fitting, Array]:
    """A weight in int8, how it fits, and by what each channel's step is larger.

    axis: of its channels. A weight that fits as it is keeps its one scale.
    """
    assert t.data is not None
    if not -len(t.shape) <= axis < len(t.shape) or 0 in t.shape:
        raise ModelError(f"weight {t.name!r} has the impossible shape {t.shape}")
    exact = t.data.astype(np.int16) - np.int16(_zero_point(t))
    data, scales, fitting = fitted(exact, np.array(t.scales[:1]), axis)
    coarser = scales / t.scales[0]
    made = replace(t, dtype="int8", zero_points=(0,), data=data, axis=axis)
    if fitting.rounded:
        made = replace(made, scales=tuple(scales.tolist()), zero_points=(0,) * len(scales))
    return made, fitting, coarser


def _reading(
    op: FileOperator, weight: FileTensor, coarser: Array, tensors: list[FileTensor]
) -> FileOperator:
    """The operator with the weight, appended to the tensors, and with the bias in its steps."""
    tensors.append(weight)
    inputs = [op.inputs[0], len(tensors) - 1, *op.inputs[2:]]
    if len(inputs) > 2 and inputs[2] != MISSING and (coarser != 1).any():
        bias = tensors[inputs[2]]
        if bias.data is not None and bias.dtype == "int32" and bias.data.size == coarser.size:
            data = np.rint(bias.data.ravel() / coarser).astype(np.int32)
            tensors.append(replace(bias, data=data.reshape(bias.shape), scales=(), zero_points=()))
            inputs[2] = len(tensors) - 1
    return replace(op, inputs=tuple(inputs))

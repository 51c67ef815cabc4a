"""ONNX operators on constants of float models: computed shapes, scaled weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from mcutrain.formats.onnx import constants
from mcutrain.formats.onnx.file import MAX_NUMBERS
from mcutrain.formats.onnx.node import OnnxNode
from mcutrain.formats.onnx.values import Builder, Constant

Array = npt.NDArray[Any]
Rule = Callable[[Builder, OnnxNode], Constant]

MAX_ELEMENTS = 2**24
CASTS: dict[int, type[np.generic]] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
    TensorProto.BOOL: np.bool_,
}


def _arithmetic(function: Callable[..., Array]) -> Rule:
    """Elementwise, with broadcasting."""

    def apply(builder: Builder, node: OnnxNode) -> Constant:
        operands = [node.constant(i) for i in range(len(node.inputs))]
        data = [c.data if c.scales is None else c.real().astype(np.float32) for c in operands]
        shape = np.broadcast_shapes(*(d.shape for d in data))
        if math.prod(shape) > MAX_ELEMENTS:
            raise node.wrong(f"a constant {shape} has more than {MAX_ELEMENTS:,} numbers")
        with np.errstate(all="ignore"):
            result = np.asarray(function(*data)).astype(data[0].dtype)
        builder.spend(result.nbytes)
        return Constant(node.name, result)

    return apply


def _quotient(a: Array, b: Array) -> Array:
    """ONNX divides integers towards 0."""
    if a.dtype.kind == "f":
        result: Array = a / b
        return result
    if (b == 0).any():
        raise ValueError("integers are divided by 0")
    return np.trunc(a / b)


def cast(builder: Builder, node: OnnxNode) -> Constant:
    """Another element type."""
    to = node.attributes.integer("to", 0)
    node.attributes.integer("saturate", 1)
    if to not in CASTS:
        raise node.unsupported("a cast to this type is not; to float, int32, int64, bool are")
    data = node.constant(0).data
    builder.spend(8 * data.size)
    with np.errstate(all="ignore"):
        return Constant(node.name, data.astype(CASTS[to]))


def slice_of(builder: Builder, node: OnnxNode) -> Constant:
    """Parts along axes."""
    data = node.constant(0).data
    starts, ends = node.integers(1), node.integers(2)
    axes = node.integers(3) if node.has(3) else tuple(range(len(starts)))
    steps = node.integers(4) if node.has(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise node.wrong("starts, ends, axes and steps do not fit each other")
    parts = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        stop = None if step < 0 and end < -data.shape[axis] else end
        parts[axis] = slice(start, stop, step)
    return Constant(node.name, data[tuple(parts)])


def constant_of_shape(builder: Builder, node: OnnxNode) -> Constant:
    """One number many times."""
    shape = node.integers(0)
    value = node.attributes.array("value")
    value = np.zeros(1, np.float32) if value is None else value
    if min(shape, default=1) < 0 or math.prod(shape) > MAX_ELEMENTS or value.size != 1:
        raise node.wrong(f"the shape {shape} is impossible or too large")
    builder.spend(math.prod(shape) * value.itemsize)
    return Constant(node.name, np.full(shape, value.ravel()[0]))


def number_range(builder: Builder, node: OnnxNode) -> Constant:
    """A short arithmetic sequence."""
    start, limit, step = (node.number(i, math.nan) for i in range(3))
    if not step or not 0 <= (limit - start) / step <= MAX_NUMBERS:
        raise node.unsupported("only short ranges are")
    return Constant(node.name, np.arange(start, limit, step).astype(node.constant(0).data.dtype))


RULES: dict[str, Rule] = {
    **constants.RULES,
    "Add": _arithmetic(np.add),
    "Cast": cast,
    "ConstantOfShape": constant_of_shape,
    "Div": _arithmetic(_quotient),
    "Exp": _arithmetic(np.exp),
    "Mul": _arithmetic(np.multiply),
    "Neg": _arithmetic(np.negative),
    "Pow": _arithmetic(np.power),
    "Range": number_range,
    "Reciprocal": _arithmetic(np.reciprocal),
    "Slice": slice_of,
    "Sqrt": _arithmetic(np.sqrt),
    "Sub": _arithmetic(np.subtract),
}

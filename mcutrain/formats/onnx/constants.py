"""ONNX operators on constants: weights that are quantized in the file, shapes that are computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.formats.onnx.file import MAX_NUMBERS
from mcutrain.formats.onnx.node import OnnxNode, normalized_axes
from mcutrain.formats.onnx.operators import check_plain, new_shape, scales_of
from mcutrain.formats.onnx.values import Builder, Constant

Array = npt.NDArray[Any]


def dequantize(builder: Builder, node: OnnxNode) -> Constant:
    """Integers get their scales; the zero point is subtracted if the result is int8 again."""
    check_plain(node)
    x = node.constant(0)
    if x.data.dtype not in (np.int8, np.uint8, np.int32) or x.scales is not None:
        raise node.unsupported(f"a constant of {x.data.dtype} is not; int8, uint8, int32 are")
    scales, axis = _along_axis(builder, node, x)
    data = x.data
    if node.has(2) or data.dtype == np.uint8:
        builder.spend(data.nbytes)
        data = _without_zero_point(node, x, axis)
    return Constant(x.name, data, scales, axis)


def quantize(builder: Builder, node: OnnxNode) -> Constant:
    """A float weight becomes integers: divided, rounded to even, saturated."""
    check_plain(node)
    x = node.constant(0)
    zero_point = node.constant(2).data if node.has(2) else np.zeros(1, np.uint8)
    if x.data.dtype != np.float32 or zero_point.dtype not in (np.int8, np.uint8):
        raise node.unsupported(f"{x.data.dtype} to {zero_point.dtype} is not; float32 to int8 is")
    scales, axis = _along_axis(builder, node, x)
    builder.spend(2 * x.data.nbytes)
    limits = np.iinfo(zero_point.dtype)
    with np.errstate(all="ignore"):
        scaled = np.rint(x.data / _column(scales, axis, x.data.ndim).astype(np.float32))
    if np.isnan(scaled).any():
        raise node.wrong(f"the weight {x.name!r} holds numbers that are no numbers")
    shifted = scaled + _column(zero_point.ravel(), axis, x.data.ndim).astype(np.float32)
    data = np.clip(shifted, limits.min, limits.max).astype(zero_point.dtype)
    return Constant(x.name, data)


def _along_axis(builder: Builder, node: OnnxNode, x: Constant) -> tuple[Array, int]:
    """The scales and their axis, which must fit the data and the zero points."""
    scales, axis = scales_of(node), node.attributes.integer("axis", 1)
    builder.spend(scales.nbytes)
    if scales.size > 1:
        (axis,) = normalized_axes(node, [axis], x.data.ndim)
        if x.data.shape[axis] != scales.size:
            raise node.wrong(f"{scales.size} scales for axis {axis} of {x.data.shape}")
    if node.has(2) and node.constant(2).data.size not in (1, scales.size):
        raise node.wrong(f"{node.constant(2).data.size} zero points for {scales.size} scales")
    return scales, axis


def _column(values: Array, axis: int, rank: int) -> Array:
    """One number per index of an axis, to be broadcast; one number alone fits every rank."""
    shape = [1] * rank
    if values.size > 1:
        shape[axis] = -1
    return values.reshape(shape)


def _without_zero_point(node: OnnxNode, x: Constant, axis: int) -> Array:
    """Integers minus zero point; int8 and uint8 stay int8 where that loses nothing."""
    zero_point = node.constant(2).data if node.has(2) else np.zeros(1, x.data.dtype)
    if zero_point.dtype != x.data.dtype:
        raise node.wrong(f"reads {x.data.dtype} with a zero point of {zero_point.dtype}")
    if not zero_point.any():
        return x.data if x.data.dtype != np.uint8 else x.data.astype(np.int32)
    if x.data.dtype == np.uint8 and (zero_point == 128).all():
        return (x.data ^ 128).view(np.int8)
    wide = x.data.astype(np.int64) - _column(zero_point.astype(np.int64).ravel(), axis, x.data.ndim)
    if np.abs(wide).max(initial=0) > 2**31 - 1:
        raise node.wrong(f"the constant {x.name!r} minus its zero point leaves int32")
    return wide.astype(np.int32)


def shape_of(builder: Builder, node: OnnxNode) -> Constant:
    """Shape of anything."""
    x = node.inputs[0]
    if x is None:
        raise node.wrong("input 0 is missing")
    shape = x.data.shape if isinstance(x, Constant) else x.shape
    first = node.attributes.integer("start", 0)
    last = node.attributes.integer("end", len(shape))
    return Constant(node.name, np.array(shape[first:last], np.int64))


def constant(builder: Builder, node: OnnxNode) -> Constant:
    """Constant in its forms that occur beside QDQ models."""
    attributes = node.attributes
    data = attributes.array("value")
    if data is None and "value_float" in attributes.protos:
        data = np.array(attributes.real("value_float", 0.0), np.float32)
    if data is None and "value_int" in attributes.protos:
        data = np.array(attributes.integer("value_int", 0), np.int64)
    if data is None and "value_ints" in attributes.protos:
        data = np.array(attributes.integers("value_ints"), np.int64)
    if data is None:
        raise node.unsupported("this form is not; value, value_float, value_int, value_ints are")
    return Constant(node.outputs[0], data)


def gather(builder: Builder, node: OnnxNode) -> Constant:
    """Numbers of a short list, as in the arithmetic of shapes."""
    x, indices = _short(node, 0), _short(node, 1)
    if indices.dtype.kind not in "iu" or x.ndim != 1 or node.attributes.integer("axis", 0):
        raise node.unsupported("only numbers of a list are")
    if not ((indices >= -x.size) & (indices < x.size)).all():
        raise node.wrong(f"indices {indices.tolist()} are outside {x.size} numbers")
    return Constant(node.name, x[indices])


def concat(builder: Builder, node: OnnxNode) -> Constant:
    """Short lists one after another."""
    parts = [_short(node, i) for i in range(len(node.inputs))]
    if node.attributes.integer("axis", 0) not in (0, -1) or any(p.ndim != 1 for p in parts):
        raise node.unsupported("only short lists are")
    if sum(p.size for p in parts) > MAX_NUMBERS or len({p.dtype for p in parts}) != 1:
        raise node.wrong("the lists are too long or of different types")
    return Constant(node.name, np.concatenate(parts))


def _short(node: OnnxNode, index: int) -> Array:
    """A constant that is as short as a shape."""
    data = node.constant(index).data
    if data.size > MAX_NUMBERS:
        raise node.unsupported(f"a constant of {data.size} numbers is not; short lists are")
    return data


def transpose(builder: Builder, node: OnnxNode) -> Constant:
    """Axes in another order; the axis of the scales moves along."""
    x = node.constant(0)
    order = node.attributes.integers("perm", tuple(reversed(range(x.data.ndim)))) or ()
    if sorted(order) != list(range(x.data.ndim)):
        raise node.wrong(f"perm {order} does not fit {x.data.shape}")
    axis = order.index(x.axis) if x.scales is not None and x.scales.size > 1 else x.axis
    return replace(x, data=x.data.transpose(order), axis=axis)


def reshape(builder: Builder, node: OnnxNode) -> Constant:
    """Another shape; per-channel scales must keep theirs."""
    x = node.constant(0)
    shape = new_shape(node, x.data.shape)
    if math.prod(shape) != x.data.size:
        raise node.wrong(f"{x.data.shape} cannot become {shape}")
    axis = x.axis
    if x.scales is not None and x.scales.size > 1:
        before = math.prod(x.data.shape[: x.axis])
        fits = [
            i for i, d in enumerate(shape) if d == x.scales.size and math.prod(shape[:i]) == before
        ]
        if not fits:
            raise node.unsupported("a shape that splits the scaled axis is not; another is")
        axis = fits[0]
    if not x.data.flags.c_contiguous:
        builder.spend(x.data.nbytes)
    return replace(x, data=x.data.reshape(shape), axis=axis)


def identity(builder: Builder, node: OnnxNode) -> Constant:
    """The same."""
    return node.constant(0)


RULES: dict[str, Callable[[Builder, OnnxNode], Constant]] = {
    "Concat": concat,
    "Constant": constant,
    "DequantizeLinear": dequantize,
    "Flatten": reshape,
    "Gather": gather,
    "Identity": identity,
    "QuantizeLinear": quantize,
    "Reshape": reshape,
    "Shape": shape_of,
    "Squeeze": reshape,
    "Transpose": transpose,
    "Unsqueeze": reshape,
}

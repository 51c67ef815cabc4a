"""ONNX operators on constants: quantized and scaled weights, shapes that are computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from mcutrain.formats.onnx.file import MAX_NUMBERS
from mcutrain.formats.onnx.node import Constant, OnnxNode
from mcutrain.formats.onnx.scales import check_plain, scales_of
from mcutrain.formats.onnx.views import new_shape, slices, transposed_order

Array = npt.NDArray[Any]
Node = OnnxNode[Any]
Rule = Callable[[Node], Constant]

MAX_ELEMENTS = 2**24
CASTS: dict[int, type[np.generic]] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.FLOAT16: np.float32,  # as constants of these types are read
    TensorProto.BFLOAT16: np.float32,
    TensorProto.DOUBLE: np.float32,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
    TensorProto.BOOL: np.bool_,
}


def dequantize(node: Node) -> Constant:
    """Integers get their scales; the zero point is subtracted if the result is int8 again."""
    check_plain(node)
    x = node.constant(0)
    if x.data.dtype not in (np.int8, np.uint8, np.int32) or x.scales is not None:
        raise node.unsupported(f"a constant of {x.data.dtype} is not; int8, uint8, int32 are")
    scales, axis = _along_axis(node, x)
    data = x.data
    if node.has(2) or data.dtype == np.uint8:
        node.budget.spend(data.nbytes)
        data = _without_zero_point(node, x, axis)
    return Constant(x.name, data, scales, axis)


def quantize(node: Node) -> Constant:
    """A float weight becomes integers: divided, rounded to even, saturated."""
    check_plain(node)
    x = node.constant(0)
    zero_point = node.constant(2).data if node.has(2) else np.zeros(1, np.uint8)
    if x.data.dtype != np.float32 or zero_point.dtype not in (np.int8, np.uint8):
        raise node.unsupported(f"{x.data.dtype} to {zero_point.dtype} is not; float32 to int8 is")
    scales, axis = _along_axis(node, x)
    node.budget.spend(2 * x.data.nbytes)
    limits = np.iinfo(zero_point.dtype)
    with np.errstate(all="ignore"):
        scaled = np.rint(x.data / _column(scales, axis, x.data.ndim).astype(np.float32))
    if np.isnan(scaled).any():
        raise node.wrong(f"the weight {x.name!r} holds numbers that are no numbers")
    shifted = scaled + _column(zero_point.ravel(), axis, x.data.ndim).astype(np.float32)
    data = np.clip(shifted, limits.min, limits.max).astype(zero_point.dtype)
    return Constant(x.name, data)


def _along_axis(node: Node, x: Constant) -> tuple[Array, int]:
    """The scales and their axis, which must fit the data and the zero points."""
    scales, axis = scales_of(node), node.attributes.integer("axis", 1)
    node.budget.spend(scales.nbytes)
    if scales.size > 1:
        (axis,) = node.axes([axis], x.data.ndim)
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


def _without_zero_point(node: Node, x: Constant, axis: int) -> Array:
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


def shape_of(node: Node) -> Constant:
    """Shape of anything."""
    shape = node.input(0).shape
    first = node.attributes.integer("start", 0)
    last = node.attributes.integer("end", len(shape))
    return Constant(node.name, np.array(shape[first:last], np.int64))


def constant(node: Node) -> Constant:
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


def concat(node: Node) -> Constant:
    """Short lists one after another."""
    parts = [_short(node, i) for i in range(len(node.inputs))]
    if node.attributes.integer("axis", 0) not in (0, -1) or any(p.ndim != 1 for p in parts):
        raise node.unsupported("only short lists are")
    if sum(p.size for p in parts) > MAX_NUMBERS or len({p.dtype for p in parts}) != 1:
        raise node.wrong("the lists are too long or of different types")
    return Constant(node.name, np.concatenate(parts))


def _short(node: Node, index: int) -> Array:
    """A constant that is as short as a shape."""
    data = _numbers(node, index)
    if data.size > MAX_NUMBERS:
        raise node.unsupported(f"a constant of {data.size} numbers is not; short lists are")
    return data


def transpose(node: Node) -> Constant:
    """Axes in another order; the axis of the scales moves along."""
    x = node.constant(0)
    order = transposed_order(node, x.data.ndim)
    axis = order.index(x.axis) if x.scales is not None and x.scales.size > 1 else x.axis
    return replace(x, data=x.data.transpose(order), axis=axis)


def reshape(node: Node) -> Constant:
    """Another shape; per-channel scales must keep theirs."""
    x = node.constant(0)
    shape = new_shape(node, x.data.shape)
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
        node.budget.spend(x.data.nbytes)
    return replace(x, data=x.data.reshape(shape), axis=axis)


def identity(node: Node) -> Constant:
    """Return the constant as it is."""
    return node.constant(0)


def _numbers(node: Node, index: int) -> Array:
    """A constant as it is computed with: what has scales in single precision."""
    constant = node.constant(index)
    return constant.data if constant.scales is None else constant.real().astype(np.float32)


def _arithmetic(function: Callable[..., Array], operands: int) -> Rule:
    """Elementwise, with broadcasting."""

    def apply(node: Node) -> Constant:
        data = [_numbers(node, i) for i in range(len(node.inputs))]
        if len(data) != operands or any(d.dtype.kind not in "fiu" for d in data):
            raise node.wrong(f"needs {operands} operands that are numbers")
        shape = np.broadcast_shapes(*(d.shape for d in data))
        if math.prod(shape) > MAX_ELEMENTS:
            raise node.wrong(f"a constant {shape} has more than {MAX_ELEMENTS:,} numbers")
        with np.errstate(all="ignore"):
            result = np.asarray(function(*data)).astype(data[0].dtype)
        node.budget.spend(result.nbytes)
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


def cast(node: Node) -> Constant:
    """Another element type."""
    to = node.attributes.integer("to", 0)
    node.attributes.integer("saturate", 1)
    if to not in CASTS:
        raise node.unsupported("a cast to this type is not; to float, int32, int64, bool are")
    data = _numbers(node, 0)
    node.budget.spend(8 * data.size)
    with np.errstate(all="ignore"):
        return Constant(node.name, data.astype(CASTS[to]))


def slice_of(node: Node) -> Constant:
    """Parts along axes."""
    data = _numbers(node, 0)
    return Constant(node.name, data[slices(node, data.shape)])


def gather_elements(node: Node) -> Constant:
    """One number for each index, along an axis.

    The package onnx takes no more than 64 along it, and indices that are out of range.
    """
    if len(node.inputs) != 2:
        raise node.wrong(f"has {len(node.inputs)} inputs; 2 are needed")
    data, indices = _numbers(node, 0), _numbers(node, 1)
    axis = node.attributes.integer("axis", 0)
    if data.ndim != indices.ndim or not -data.ndim <= axis < data.ndim:
        raise node.wrong(f"chooses by indices {indices.shape} along axis {axis} of {data.shape}")
    axis %= data.ndim
    part = tuple(slice(None if i == axis else d) for i, d in enumerate(indices.shape))
    length = data.shape[axis]
    others = zip(data[part].shape, indices.shape, strict=True)
    if any(have != want for i, (have, want) in enumerate(others) if i != axis):
        raise node.wrong(f"chooses by indices {indices.shape} along axis {axis} of {data.shape}")
    if indices.dtype.kind != "i" or (indices < -length).any() or (indices >= length).any():
        raise node.wrong(f"has an index that is none of the {length} along axis {axis}")
    node.budget.spend(8 * indices.size)
    return Constant(node.name, np.take_along_axis(data[part], indices, axis))


def constant_of_shape(node: Node) -> Constant:
    """One number many times."""
    shape = node.integers(0)
    value = node.attributes.array("value")
    value = np.zeros(1, np.float32) if value is None else value
    if min(shape, default=1) < 0 or math.prod(shape) > MAX_ELEMENTS or value.size != 1:
        raise node.wrong(f"the shape {shape} is impossible or too large")
    node.budget.spend(math.prod(shape) * value.itemsize)
    return Constant(node.name, np.full(shape, value.ravel()[0]))


def number_range(node: Node) -> Constant:
    """A short arithmetic sequence."""
    start, limit, step = (node.number(i, math.nan) for i in range(3))
    if not step or not 0 <= (limit - start) / step <= MAX_NUMBERS:
        raise node.unsupported("only short ranges are")
    return Constant(node.name, np.arange(start, limit, step).astype(node.constant(0).data.dtype))


def _by_reference(count: Callable[..., int]) -> Rule:
    """Return what the package onnx computes. count: of the result's numbers, from the operands."""

    def apply(node: Node) -> Constant:
        from onnx.reference import ReferenceEvaluator  # few models need it

        given = [i for i in range(len(node.inputs)) if node.has(i)]
        data = [_numbers(node, i) for i in given]
        try:
            numbers = count(*data)
        except TypeError as error:
            raise node.wrong(f"it has {len(data)} inputs of odd shapes") from error
        if numbers > MAX_ELEMENTS:
            raise node.wrong(f"a constant has {numbers:,} numbers, more than {MAX_ELEMENTS:,}")
        node.budget.spend(8 * numbers)
        model = _alone(node, data, given)
        names = [value.name for value in model.graph.input]
        try:
            with np.errstate(all="ignore"):
                (result,) = ReferenceEvaluator(model).run(None, dict(zip(names, data, strict=True)))
        except Exception as error:  # it checks little: any kind may come of a damaged file
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise node.wrong(f"it cannot be computed: {reason}") from error
        return Constant(node.name, np.asarray(result))

    return apply


def _alone(node: Node, data: Sequence[Array], given: Sequence[int]) -> ModelProto:
    """A model of this node, its constants as inputs. given: those that are not left out."""
    made = NodeProto(op_type=node.op_type, output=["y"])
    made.attribute.extend(node.attributes.all())
    made.input.extend(f"x{i}" * (i in given) for i in range(len(node.inputs)))
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(filter(None, made.input), data, strict=True)
    ]
    y = ValueInfoProto(name="y")
    return helper.make_model(
        helper.make_graph([made], node.name, values, [y]),
        opset_imports=[helper.make_opsetid("", node.opset)],
    )


def _broadcast(*data: Array) -> int:
    return math.prod(np.broadcast_shapes(*(x.shape for x in data)))


def _expanded(x: Array, shape: Array) -> int:
    return math.prod(np.broadcast_shapes(x.shape, tuple(int(d) for d in shape)))


def _gathered(x: Array, indices: Array) -> int:
    return x.size // max(min(x.shape, default=1), 1) * indices.size


def _tiled(x: Array, repeats: Array) -> int:
    return int(x.size * np.abs(repeats).prod(dtype=np.float64))


def _as_many(x: Array, *_: Array) -> int:
    return x.size


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod", "Or", "Where"),
        _by_reference(_broadcast),
    ),
    **dict.fromkeys(
        (
            *("Abs", "Ceil", "Cos", "CumSum", "Floor", "Log", "Not", "Round", "Sign", "Sin"),
            *("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
            *("Clip", "Erf", "IsNaN", "ReduceSum", "ReduceSumSquare", "Sigmoid", "Tanh", "Trilu"),
        ),
        _by_reference(_as_many),
    ),
    "Add": _arithmetic(np.add, 2),
    "Cast": cast,
    "Concat": concat,
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "DequantizeLinear": dequantize,
    "Div": _arithmetic(_quotient, 2),
    "Exp": _arithmetic(np.exp, 1),
    "Expand": _by_reference(_expanded),
    "Flatten": reshape,
    "Gather": _by_reference(_gathered),
    "GatherElements": gather_elements,
    "Identity": identity,
    "Mul": _arithmetic(np.multiply, 2),
    "Neg": _arithmetic(np.negative, 1),
    "Pow": _arithmetic(np.power, 2),
    "QuantizeLinear": quantize,
    "Range": number_range,
    "Reciprocal": _arithmetic(np.reciprocal, 1),
    "Reshape": reshape,
    "Shape": shape_of,
    "Slice": slice_of,
    "Split": slice_of,
    "Sqrt": _arithmetic(np.sqrt, 1),
    "Squeeze": reshape,
    "Sub": _arithmetic(np.subtract, 2),
    "Tile": _by_reference(_tiled),
    "Transpose": transpose,
    "Unsqueeze": reshape,
}

"""ONNX operators with two operands: activations, numbers per channel, one number; and Neg."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mcutrain.formats.layers import minuend_first
from mcutrain.formats.onnx.curves import F32, Curve, curve_of, with_curve
from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.int8_sums import with_bias
from mcutrain.formats.onnx.layout import IMAGE_RANKS, Layout
from mcutrain.formats.onnx.node import Activation, Array, Constant, OnnxNode
from mcutrain.formats.onnx.shaping import reshaped
from mcutrain.formats.onnx.values import Value
from mcutrain.formats.onnx.writer import OnnxWriter, channels_first
from mcutrain.ir.graph import Node
from mcutrain.ops.add import Add
from mcutrain.ops.div import Div
from mcutrain.ops.mul import Mul
from mcutrain.quant.float_affine import (
    Affine,
    is_map,
    plus_constant,
    signed_map,
    times_constant,
)
from mcutrain.quant.float_elementwise import (
    AddConstant,
    FloatAdd,
    FloatDiv,
    FloatMul,
    Function,
    MulConstant,
)
from mcutrain.quant.float_op import FloatOp, Quantization, Shape

Rule = Callable[[FloatOnnx], FloatValue]

# --------------------------------------------------------------------------------------------- int8


LEAST_MASK = -1e4  # what is lower than that, a softmax takes for nothing
MOST_WRITTEN_OUT = 2**22  # elements of a constant that is broadcast


def int8_add(node: Int8Node) -> Value:
    """Add of two activations or of a constant; a bias is part of the sums before it."""
    constants = _constants(node)
    if constants:
        biased = with_bias(node, node.real(1 - constants[0]), node.constant(constants[0]))
        if biased is not None:
            return biased
    return _binary(node)


def int8_binary(node: Int8Node) -> Value:
    """Sub, Mul, Div."""
    return _binary(node)


def _constants(node: OnnxNode[Any]) -> list[int]:
    """Return which of two inputs are known."""
    return [i for i in (0, 1) if node.is_constant(i)]


def _binary(node: Int8Node) -> Value:
    constants = _constants(node)
    if constants:
        if node.constant(constants[0]).data.size == 1:
            return _with_number(node, constants[0])
        return _with_constant(node, constants[0])
    a, b = node.real(0), node.real(1)
    if isinstance(a.source, Curve) or isinstance(b.source, Curve):
        return _of_two_curves(node)
    return _of_activations(node)


OPERATIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
}
SLOPES: Mapping[str, Callable[[Array, Array, Array, Array], Array]] = {
    "Add": lambda x, dx, y, dy: dx + dy,
    "Sub": lambda x, dx, y, dy: dx - dy,
    "Mul": lambda x, dx, y, dy: dx * y + x * dy,
    "Div": lambda x, dx, y, dy: (dx * y - x * dy) / (y * y),
}
"""The derivative of the result, from both operands and their derivatives."""


def _combined(
    node: Int8Node, a: tuple[Array, Array], b: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Values and slopes of the result, from those of both operands."""
    with np.errstate(all="ignore"):
        values = OPERATIONS[node.op_type](a[0], b[0])
        (x, dx), (y, dy) = ((v.astype(np.float64), d) for v, d in (a, b))
        slopes = SLOPES[node.op_type](x, dx, y, dy)
    return values, slopes


def _with_number(node: Int8Node, index: int) -> Value:
    """An activation and one number."""
    curve, value = curve_of(node, 1 - index)
    constant = node.constant(index)
    if constant.data.ndim > len(value.shape):
        raise node.unsupported(f"a number of {constant.data.ndim} dimensions is not; one of 0 is")
    number = np.full(256, constant.real().ravel()[0], F32), np.zeros(256)
    operands = [(curve.values, curve.slopes)]
    operands.insert(index, number)
    return with_curve(value, curve.then(node, *_combined(node, *operands)))


def _of_two_curves(node: Int8Node) -> Value:
    """Both are functions of the same integers, such as x * sigmoid(x)."""
    (a, value), (b, other) = curve_of(node, 0), curve_of(node, 1)
    if (a.x, a.x_quantization) != (b.x, b.x_quantization) or value.shape != other.shape:
        raise node.unsupported(
            "float inputs are not, unless both follow from one tensor; a QuantizeLinear and "
            "DequantizeLinear before it is"
        )
    combined = _combined(node, (a.values, a.slopes), (b.values, b.slopes))
    return with_curve(value, a.then(node, *combined))


def _of_activations(node: Int8Node) -> Value:
    """Combine two activations; what has fewer numbers is repeated, unless it is one per channel."""
    a, b = node.real(0), node.real(1)
    shape = broadcast_shape(node, a.shape, b.shape)
    narrow = (1, *shape[1:2], *(1 for _ in shape[2:]))
    is_image = (len(shape) in IMAGE_RANKS and node.op_type != "Div") or a.shape == b.shape
    if not {a.shape, b.shape} <= {shape, narrow} or not is_image:
        order = common_order(shape, a, b)
        layout = Layout.of_order(shape, order).of_rank(4)
        repeated = [node.expanded(i, shape, order) for i in (0, 1)]
        names = [node.view(x, layout.stored, f"stored{i}") for i, x in enumerate(repeated)]
        return _of_two_tensors(node, names, layout)
    if a.layout.is_stored_like(b.layout):
        layout = a.layout.of_rank(4)
        names = [_stored(node, i, layout) for i in (0, 1)]
    else:
        layout = Layout.of_image((1, *node.image_of(shape)), len(shape))
        names = [node.image(i) for i in (0, 1)]
    return _of_two_tensors(node, names, layout)


def broadcast_shape(node: OnnxNode[Any], *shapes: Shape) -> Shape:
    """The shape of what is computed of several tensors, element by element."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError as error:
        said = " and ".join(map(str, shapes))
        raise node.wrong(f"shapes {said} do not fit each other") from error


def common_order(shape: Shape, *operands: Activation) -> Sequence[int]:
    """The order of the axes in which the first of the largest operands is stored."""
    wide = max(operands, key=lambda x: math.prod(x.shape))
    more = len(shape) - len(wide.shape)
    return (*range(more), *(more + axis for axis in wide.layout.order))


def _with_constant(node: Int8Node, index: int) -> Value:
    """An activation and numbers of their own for its channels, or for its elements."""
    if node.op_type == "Div":
        raise node.unsupported("numbers per channel are not; one number, or Mul by 1 / numbers is")
    layout = node.real(1 - index).layout.of_rank(4)
    names = [_stored(node, 1 - index, layout), _stored_constant(node, index, layout)]
    if node.op_type == "Sub" and index == 0:
        names.reverse()
    return _of_two_tensors(node, names, layout)


def _stored(node: Int8Node, index: int, layout: Layout) -> str:
    """An input as it is stored."""
    return node.view(node.as_stored(index), layout.stored, f"stored{index}")


OF_TENSORS: Mapping[str, FloatOp] = {
    "Add": FloatAdd(),
    "Sub": FloatAdd(-1),
    "Mul": FloatMul(),
    "Div": FloatDiv(),
}


def _of_two_tensors(node: Int8Node, names: list[str], layout: Layout) -> Value:
    return node.computed(OF_TENSORS[node.op_type], (names[0], names[1]), layout)


def _stored_constant(node: Int8Node, index: int, layout: Layout) -> str:
    """The numbers as int8 in the order of the layout's, one per channel if that is all."""
    constant, shape = node.constant(index), layout.shape
    if np.broadcast_shapes(constant.data.shape, shape) != shape or math.prod(shape) > (
        MOST_WRITTEN_OUT
    ):
        raise node.unsupported(f"{constant.data.shape} for {shape} is not; fewer numbers are")
    integers, quantization = _as_int8(node, constant)
    full = layout.store(np.broadcast_to(integers, shape))
    first = full[(slice(None), *[slice(1)] * (full.ndim - 2))]
    data = first if (full == first).all() else full
    scales, zero_point = (quantization.scale,), quantization.zero_point
    return node.builder.constant(constant.name, data, scales, 0, zero_point)


def _as_int8(node: Int8Node, constant: Constant) -> tuple[Array, Quantization]:
    """The file's own integers if they have one scale; else symmetric ones up to 127."""
    if constant.scales is not None and constant.scales.size == 1:
        low, high = int(constant.data.min()), int(constant.data.max())
        zero_point = min(max(0, -128 - low), 127 - high)
        if high - low <= 255 and -128 <= zero_point <= 127:
            stored = (constant.data.astype(np.int64) + zero_point).astype(np.int8)
            return stored, Quantization(float(constant.scales.ravel()[0]), zero_point)
    real = constant.real()
    largest = float(np.abs(real).max(initial=0.0))
    if not math.isfinite(largest):
        raise node.wrong(f"the constant {constant.name!r} holds numbers that are no numbers")
    scale = float(F32(largest / 127)) or 1.0
    return np.clip(np.rint(real / scale), -127, 127).astype(np.int8), Quantization(scale, 0)


# -------------------------------------------------------------------------------------------- float


def affine(node: FloatOnnx, x: FloatValue, op: Affine, axis: int) -> FloatValue:
    """Along an ONNX axis, which must be stored last."""
    if not -len(x.shape) <= axis < len(x.shape) or x.shape[axis] != len(op.factor):
        raise node.wrong(f"{len(op.factor)} numbers do not fit axis {axis} of {x.shape}")
    if len(x.shape) < 2:
        raise node.unsupported(f"an input {x.shape} is not; [1, c, …] is")
    return node.elementwise(op, node.with_last(x, axis % len(x.shape)))


def float_arithmetic(
    with_constant: Callable[[Array, bool], Affine | None], of_tensors: FloatOp | None
) -> Rule:
    """with_constant: an Affine of the constant, and of whether it is the first operand.

    of_tensors: the operator on two tensors.
    """

    def apply(node: FloatOnnx) -> FloatValue:
        constants = _constants(node)
        if not constants:
            if of_tensors is None:
                inverse = node.elementwise(Function("reciprocal"), node.x(1))
                return _of_two(node.reading(node.x(0), inverse), FloatMul())
            return _of_two(node, of_tensors)
        first = constants[0] == 0
        x, numbers = node.x(int(first)), node.numbers(constants[0], node.op_type == "Add")
        if isinstance(of_tensors, FloatAdd) and is_map(numbers, x.shape):
            return _plus_map(node, x, with_constant, numbers, first)
        if isinstance(of_tensors, FloatMul) and is_map(numbers, x.shape):
            return _times_map(node, x, numbers)
        axis, numbers = along(node, x, numbers)
        found = with_constant(numbers, first)
        if found is None:
            x = node.elementwise(Function("reciprocal"), x)
            found = times_constant(numbers, first)
        return affine(node, x, found, axis)

    return apply


def float_where(node: FloatOnnx) -> FloatValue:
    """A choice by known truth values: a mask added to scores, or both operands times 0 or 1."""
    chosen = node.constant(0).data.astype(bool)
    added = float_arithmetic(plus_constant, FloatAdd())
    if node.is_constant(1) != node.is_constant(2):
        place = 1 if node.is_constant(1) else 2
        x, fill = node.x(3 - place), node.numbers(place, is_mask=True)
        is_filled = chosen if place == 1 else ~chosen
        shape = broadcast_shape(node, x.shape, is_filled.shape, fill.shape)
        if shape != x.shape:
            raise node.unsupported(f"{x.shape} repeated to {shape} is not; its own shape is")
        shift = np.where(is_filled, fill, 0.0)
        if (fill > LEAST_MASK).any():
            x = _kept(node, x, ~is_filled)
        return added(replace(node, op_type="Add").reading(x, Constant(node.name, shift)))
    parts = [_kept(node, node.x(i), chosen == (i == 1)) for i in (1, 2)]
    return _of_two(node.reading(*parts), FloatAdd())


def _kept(node: FloatOnnx, x: FloatValue, is_kept: Array) -> FloatValue:
    """The numbers where the truth value says so, and 0 elsewhere."""
    return _times_map(node, x, is_kept.astype(np.float64))


def _plus_map(
    node: FloatOnnx,
    x: FloatValue,
    with_constant: Callable[[Array, bool], Affine | None],
    value: Array,
    first: bool,
) -> FloatValue:
    """x + c, x - c or c - x of a constant with a number for each element."""
    negative, shift = signed_map(with_constant, value, x.shape, first)
    axis = x.layout.order[-1]
    signed = x
    if negative is not None:
        signed = affine(node, x, negative.of_channels(x.shape[axis]), axis)
    order = signed.layout.order
    tensor = node.nodes.arrange(signed.tensor, signed.layout, x.shape, order, node.output)
    layout = Layout.of_order(x.shape, order)
    stored = layout.store(shift).reshape(layout.stored)
    return node.computed(AddConstant(stored), (tensor,), layout)


def _times_map(node: FloatOnnx, x: FloatValue, value: Array) -> FloatValue:
    """x * c of a constant that varies along more than one axis."""
    layout = Layout.of_order(x.shape, x.layout.order)
    tensor = node.nodes.arrange(x.tensor, x.layout, x.shape, x.layout.order, node.output)
    stored = layout.store(np.broadcast_to(value, x.shape).astype(np.float32))
    return node.computed(MulConstant(stored.reshape(layout.stored)), (tensor,), layout)


def along(node: FloatOnnx, x: FloatValue, value: Array) -> tuple[int, Array]:
    """The axis along which a constant varies, and its numbers; for one number any axis."""
    if value.size == 1:
        axis = x.layout.order[-1]
        return axis, np.full(x.shape[axis], float(value.ravel()[0]))
    rank = len(x.shape)
    shape = (1,) * (rank - value.ndim) + value.shape
    longer = [i for i, d in enumerate(shape) if d > 1]
    if len(shape) != rank or len(longer) != 1 or x.shape[longer[0]] != value.size:
        raise node.unsupported(
            f"a constant {value.shape} for {x.shape} is not; one number, or one per channel is"
        )
    return longer[0], value.ravel()


def _of_two(node: FloatOnnx, op: FloatOp) -> FloatValue:
    """Apply an operator to two tensors, which must be stored in one order."""
    a, b = node.x(0), node.x(1)
    shape = broadcast_shape(node, a.shape, b.shape)
    wide, gate = (a, b) if math.prod(a.shape) >= math.prod(b.shape) else (b, a)
    longer = [i for i, d in enumerate(gate.shape) if d > 1]
    if (
        isinstance(op, FloatMul)
        and wide.shape == shape
        and len(gate.shape) == len(shape)
        and len(longer) == 1
        and sum(d > 1 for d in shape) > 1
    ):
        return _gated(node, wide, gate, longer[0])
    order = common_order(shape, a, b)
    tensors = [node.expanded(i, shape, order) for i in (0, 1)]
    return node.computed(op, (tensors[0], tensors[1]), Layout.of_order(shape, order))


def _gated(node: FloatOnnx, wide: FloatValue, gate: FloatValue, axis: int) -> FloatValue:
    """One operand has one number per channel, which both must have last."""
    found = node.with_last(wide, axis)
    *others, channels = found.layout.stored
    small = node.view(gate.tensor, (*(1 for _ in others), channels), "")
    return node.computed(FloatMul(), (found.tensor, small), found.layout)


def float_negative(node: FloatOnnx) -> FloatValue:
    """-x."""
    axis, ones = along(node, node.x(), np.full(1, -1.0))
    return affine(node, node.x(), Affine(ones, np.zeros_like(ones)), axis)


# ------------------------------------------------------------------------------------------ writing


def write_add(w: OnnxWriter, node: Node) -> None:
    """Add, or Sub where a factor is negative."""
    op = node.op
    assert isinstance(op, Add)
    real = dict(zip(node.inputs, _broadcast(w, node), strict=True))
    is_subtraction, operands = minuend_first(op, node.inputs)
    name = "Sub" if is_subtraction else "Add"
    sums = w.layer(node, name, [real[n] for n in operands])
    w.finish(sums, node.outputs[0], (op.low, op.high))


def write_mul(w: OnnxWriter, node: Node) -> None:
    """Mul."""
    op = node.op
    assert isinstance(op, Mul)
    w.finish(w.layer(node, "Mul", _broadcast(w, node)), node.outputs[0], (op.low, op.high))


def write_div(w: OnnxWriter, node: Node) -> None:
    """Div."""
    op = node.op
    assert isinstance(op, Div)
    w.finish(w.layer(node, "Div", _broadcast(w, node)), node.outputs[0], (op.low, op.high))


def _broadcast(w: OnnxWriter, node: Node) -> list[str]:
    """Both operands; one with a number per channel gets as many axes as the other."""
    first, second = (w.type(n).shape for n in node.inputs)
    a, b = (w.real(n) for n in node.inputs)
    if len(first) == len(second):
        return [a, b]
    shape = channels_first((*(1 for _ in first[1:]), second[-1]))
    return [a, reshaped(w, b, shape, f"{node.inputs[1]}/channels")]

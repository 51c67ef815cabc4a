"""ONNX operators with two operands: activations, numbers per channel, one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from mcutrain.formats.onnx.curves import F32, Curve, curve_of, with_curve
from mcutrain.formats.onnx.node import Array, OnnxNode
from mcutrain.formats.onnx.sums import with_bias
from mcutrain.formats.onnx.values import (
    Builder,
    Constant,
    Quantization,
    Scaling,
    Value,
    as_image,
    check_factor,
)
from mcutrain.ir.op import Op
from mcutrain.ops.add import Add
from mcutrain.ops.add_channels import AddChannels
from mcutrain.quant import multipliers

MOST_WRITTEN_OUT = 2**22  # elements of a constant that is broadcast


def add(builder: Builder, node: OnnxNode) -> Value:
    """Add of two activations or of a constant; a bias is part of the sums before it."""
    constants = _constants(node)
    if constants:
        biased = with_bias(node, node.real(1 - constants[0]), node.constant(constants[0]))
        if biased is not None:
            return biased
    return _binary(builder, node)


def binary(builder: Builder, node: OnnxNode) -> Value:
    """Sub, Mul, Div."""
    return _binary(builder, node)


def _constants(node: OnnxNode) -> list[int]:
    return [i for i in (0, 1) if node.has(i) and isinstance(node.inputs[i], Constant)]


def _binary(builder: Builder, node: OnnxNode) -> Value:
    constants = _constants(node)
    if constants:
        if node.constant(constants[0]).data.size == 1:
            return _with_number(builder, node, constants[0])
        return _with_constant(builder, node, constants[0])
    a, b = node.real(0), node.real(1)
    if isinstance(a.source, Curve) or isinstance(b.source, Curve):
        return _of_two_curves(builder, node)
    return _of_activations(builder, node)


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
    node: OnnxNode, a: tuple[Array, Array], b: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Values and slopes of the result, from those of both operands."""
    with np.errstate(all="ignore"):
        values = OPERATIONS[node.op_type](a[0], b[0])
        (x, dx), (y, dy) = ((v.astype(np.float64), d) for v, d in (a, b))
        slopes = SLOPES[node.op_type](x, dx, y, dy)
    return values, slopes


def _with_number(builder: Builder, node: OnnxNode, index: int) -> Value:
    """An activation and one number."""
    curve, value = curve_of(builder, node, 1 - index)
    constant = node.constant(index)
    if constant.data.ndim > len(value.shape):
        raise node.unsupported(f"a number of {constant.data.ndim} dimensions is not; one of 0 is")
    number = np.full(256, constant.real().ravel()[0], F32), np.zeros(256)
    operands = [(curve.values, curve.slopes)]
    operands.insert(index, number)
    return with_curve(value, curve.then(node, *_combined(node, *operands)))


def _of_two_curves(builder: Builder, node: OnnxNode) -> Value:
    """Both are functions of the same integers, such as x * sigmoid(x)."""
    (a, value), (b, other) = curve_of(builder, node, 0), curve_of(builder, node, 1)
    if (a.x, a.x_quantization) != (b.x, b.x_quantization) or value.shape != other.shape:
        raise node.unsupported(
            "float inputs are not, unless both follow from one tensor; a QuantizeLinear and "
            "DequantizeLinear before it is"
        )
    combined = _combined(node, (a.values, a.slopes), (b.values, b.slopes))
    return with_curve(value, a.then(node, *combined))


def _of_activations(builder: Builder, node: OnnxNode) -> Value:
    """Of equal shapes, or one of them with a number per channel."""
    shapes = [node.real(i).shape for i in (0, 1)]
    wide = 0 if math.prod(shapes[0]) >= math.prod(shapes[1]) else 1
    shape = shapes[wide]
    narrow = (1, *shape[1:2], *(1 for _ in shape[2:]))
    if shapes[1 - wide] not in (shape, narrow):
        raise node.unsupported(
            f"broadcasting {shapes[0]} and {shapes[1]} is not; equal shapes and [1, c, 1, 1] are"
        )
    image = node.real(0).image
    if shapes[0] == shapes[1] and image == node.real(1).image:
        found = [node.stored(builder, i) for i in (0, 1)]
    else:
        found = [node.image(builder, i) for i in (0, 1)]
        image = as_image(f"node {node.name!r}", shape)
    return Value(_scaling(builder, node, found[0], found[1], wide), image, shape)


def _with_constant(builder: Builder, node: OnnxNode, index: int) -> Value:
    """An activation and numbers of their own for its channels, or for its elements."""
    value = node.real(1 - index)
    if node.op_type == "Div":
        raise node.unsupported("numbers per channel are not; one number, or Mul by 1 / numbers is")
    found = [node.stored(builder, 1 - index)]
    found.insert(index, _stored_constant(builder, node, index, value))
    return Value(_scaling(builder, node, found[0], found[1], 1 - index), value.image, value.shape)


def _scaling(
    builder: Builder,
    node: OnnxNode,
    a: tuple[str, Quantization],
    b: tuple[str, Quantization],
    wide: int,
) -> Scaling:
    """The operator on tensors of which `wide` (0 or 1) has all elements: it comes first."""
    (x, x_q), (y, y_q) = a, b
    names = (x, y) if wide == 0 else (y, x)
    kind = node.op_type

    def make(wanted: Quantization) -> Op:
        if kind == "Mul":
            return multipliers.multiply(*((x_q, y_q) if wide == 0 else (y_q, x_q)), wanted)
        check_factor(node.name, x_q.scale / wanted.scale, y_q.scale / wanted.scale)
        rule = multipliers.add_scales if kind == "Add" else multipliers.sub_scales
        first, second, result = rule(x_q, y_q, wanted)
        scaled = (first, second) if wide == 0 else (second, first)
        return (AddChannels if per_channel else Add)(*scaled, result)

    if kind == "Div":
        raise node.unsupported("the quotient of two activations is not; that by a number is")
    per_channel = builder.tensors[x].type.shape != builder.tensors[y].type.shape
    return Scaling(node.name, make, names)


def _stored_constant(
    builder: Builder, node: OnnxNode, index: int, value: Value
) -> tuple[str, Quantization]:
    """The numbers as int8 in the order of the value's integers, one per channel if that is all."""
    constant = node.constant(index)
    shape = value.shape
    if np.broadcast_shapes(constant.data.shape, shape) != shape or math.prod(shape) > (
        MOST_WRITTEN_OUT
    ):
        raise node.unsupported(f"{constant.data.shape} for {shape} is not; fewer numbers are")
    integers, quantization = _as_int8(node, constant)
    height, width, channels = value.image
    full = np.broadcast_to(integers, shape).reshape(channels, height, width).transpose(1, 2, 0)
    per_channel = bool((full == full[:1, :1]).all())
    data = full[None, :1, :1] if per_channel else full[None]
    scales, zero_point = (quantization.scale,), quantization.zero_point
    return builder.constant(constant.name, data, scales, 0, zero_point), quantization


def _as_int8(node: OnnxNode, constant: Constant) -> tuple[Array, Quantization]:
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

"""Operators of two operands: ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM, SQUARED_DIFFERENCE."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.layers import minuend_first
from mcutrain.formats.tflite.entry import Entry, FloatRule, Int8Rule
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.float_operator import FloatOperator
from mcutrain.formats.tflite.int8_operator import Int8Operator
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node, Tensor
from mcutrain.ops.add import Add
from mcutrain.ops.add_channels import AddChannels
from mcutrain.ops.lookup import negative
from mcutrain.ops.mul import Mul, is_per_channel
from mcutrain.ops.spatial import Window
from mcutrain.ops.squared_difference import SquaredDifference
from mcutrain.quant import multipliers
from mcutrain.quant.float_affine import (
    Affine,
    divided_by_constant,
    is_map,
    minus_constant,
    plus_constant,
    signed_map,
    times_constant,
)
from mcutrain.quant.float_elementwise import AddConstant, Clamp, FloatAdd, FloatMul, Function
from mcutrain.quant.float_op import FloatOp, Quantization
from mcutrain.quant.float_shapes import FloatPool, FloatReshape

Array = npt.NDArray[Any]

MOST_WRITTEN_OUT = 2**22  # elements of a constant that is broadcast

# -------------------------------------------------------------------------------------------- int8


def _int8_arithmetic(table: type[Any], op: FloatOp) -> Int8Rule:
    def convert(o: Int8Operator) -> None:
        options = o.options(table)
        o.emit(op, *_operands(o), activation=o.activation(options))

    return convert


def _operands(o: Int8Operator) -> tuple[str, str]:
    """Two operands of one shape, or one of them with a number per channel of the other.

    What is broadcast otherwise is repeated.
    """
    a, b = o.tensor(0), o.tensor(1)
    shapes = f"{o.where} takes shapes {a.type.shape} and {b.type.shape}"
    try:
        shape = np.broadcast_shapes(a.type.shape, b.type.shape)
    except ValueError as error:
        raise ModelError(f"{shapes}, which do not fit each other") from error
    a, b = (spread(o, x, shape) for x in (a, b))
    narrow, wide = sorted((a.type, b.type), key=lambda t: t.elements)
    if narrow.shape != wide.shape and not is_per_channel(narrow, wide):
        return same_shape(o)
    return a.name, b.name


def same_shape(o: Int8Operator) -> tuple[str, str]:
    """Two operands that are brought to one shape."""
    a, b = o.tensor(0), o.tensor(1)
    shape = np.broadcast_shapes(a.type.shape, b.type.shape)
    names = []
    for x in (a, b):
        if x.data is None:
            names.append(o.broadcast(x.name, x.type.shape, shape))
        else:
            names.append(spread(o, x, shape, is_whole=True).name)
    return names[0], names[1]


def spread(o: Int8Operator, x: Tensor, shape: tuple[int, ...], is_whole: bool = False) -> Tensor:
    """A constant of fewer numbers than channels, or that varies otherwise, is written out.

    is_whole: so is any other.
    """
    if x.data is None or x.type.shape == shape or 0 in shape:
        return x
    narrow = (1,) * (len(shape) - 1) + shape[-1:]
    varies = is_whole or x.type.elements > (x.type.shape[-1] if x.type.shape else 1)
    data = np.broadcast_to(x.data, shape if varies else narrow)
    if data.size > MOST_WRITTEN_OUT:
        raise UnsupportedError(
            f"{o.where}: constant {x.name!r} would fill {data.size:,} elements; up to "
            f"{MOST_WRITTEN_OUT:,} are supported, or one number per channel"
        )
    name = o.converter.constant(x.name, replace(x.type, shape=data.shape), data)
    return o.converter.tensors[name]


# ------------------------------------------------------------------------------------------- float


def _float_arithmetic(
    table: type[Any],
    with_constant: Callable[[Array, bool], Affine | None],
    of_tensors: FloatOp | None,
) -> FloatRule:
    """with_constant: an Affine of the constant, and of whether it is the first operand."""

    def convert(o: FloatOperator) -> None:
        activation = o.activation(o.options(table))
        if isinstance(of_tensors, FloatAdd) and (places := _map_operand(o)) is not None:
            _emit_map(o, places, with_constant, activation)
            return
        found = _constant_operand(o)
        if found is None:
            a, b = o.x(0), o.x(1)
            if of_tensors is None:
                b = o.inner(Function("reciprocal"), "reciprocal", b)
            of_two_tensors(o, of_tensors or FloatMul(), a, b, activation)
            return
        x, affine = o.x(found[0]), with_constant(found[1], found[0] == 1)
        if affine is None:
            x, affine = (
                o.inner(Function("reciprocal"), "reciprocal", x),
                times_constant(found[1], True),
            )
        o.emit(affine, x, activation=activation)

    return convert


def of_two_tensors(o: FloatOperator, op: FloatOp, a: str, b: str, activation: str) -> None:
    """Apply an operator to two computed tensors, broadcast where it does not do so itself."""
    shapes = [o.importer.shapes[name] for name in (a, b)]
    try:
        shape = tuple(np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise ModelError(
            f"{o.where} takes shapes {shapes[0]} and {shapes[1]}, which do not fit each other"
        ) from error
    channels = (*(1 for _ in shape[1:]), *shape[-1:])
    is_gate = isinstance(op, FloatMul) and set(shapes) <= {shape, channels}
    names = [a, b]
    if not is_gate:
        pairs = zip(names, shapes, strict=True)
        names = [n if given == shape else o.broadcast(n, given, shape) for n, given in pairs]
    o.emit(op, *names, activation=activation)


def _map_operand(o: FloatOperator) -> tuple[int, int] | None:
    """Which operand is computed, and which is a constant that varies along more than one axis."""
    constants = [i for i in (0, 1) if o.file_tensor(i).data is not None]
    if len(constants) != 1:
        return None
    (place,) = constants
    return (1 - place, place) if is_map(o.real(place), o.shape(1 - place)) else None


def _emit_map(
    o: FloatOperator,
    places: tuple[int, int],
    with_constant: Callable[[Array, bool], Affine | None],
    activation: str,
) -> None:
    """x + c, x - c or c - x of a constant with a number for each element."""
    x, place = places
    shape, name = o.shape(x), o.x(x)
    negative, shift = signed_map(with_constant, o.real(place), shape, place == 0)
    if negative is not None:
        name = o.inner(negative.of_channels(shape[-1]), "negative", name)
    o.emit(AddConstant(shift), name, activation=activation)


def _constant_operand(o: FloatOperator) -> tuple[int, Array] | None:
    """Which operand is computed, and the other one if it is one constant, or one per channel."""
    constants = [i for i in (0, 1) if o.file_tensor(i).data is not None]
    if len(constants) != 1:
        return None
    value, x = o.real(constants[0]), 1 - constants[0]
    channels = o.shape(x)[-1]
    if value.size != 1 and (value.size != channels or value.shape[-1] != channels):
        raise UnsupportedError(
            f"{o.where} has a constant of shape {value.shape}; supported are one number, and one "
            "per channel"
        )
    return x, np.broadcast_to(value.astype(np.float64).ravel(), (channels,))


# ----------------------------------------------------------------------------------------- written


def _write_sum(w: TfliteWriter, node: Node) -> None:
    """ADD, or SUB where a factor is negative; the second operand may be per channel."""
    op = node.op
    assert isinstance(op, Add)
    written, code = w.limited(node, op.low, op.high)
    is_subtraction, operands = minuend_first(op, node.inputs)
    name, table = ("SUB", "SubOptions") if is_subtraction else ("ADD", "AddOptions")
    w.operator(name, operands, written, Table(table, {"FusedActivationFunction": code}))
    w.finish_limits(written, node, op.low, op.high)


def _write_squared_difference(w: TfliteWriter, node: Node) -> None:
    op = node.op
    assert isinstance(op, SquaredDifference)
    options = Table("SquaredDifferenceOptions")
    w.then_limits(node, "SQUARED_DIFFERENCE", node.inputs, options, (op.low, op.high))


def _write_mul(w: TfliteWriter, node: Node) -> None:
    """The second operand may be per channel."""
    op = node.op
    assert isinstance(op, Mul)
    written, code = w.limited(node, op.low, op.high)
    options = Table("MulOptions", {"FusedActivationFunction": code})
    w.operator("MUL", node.inputs, written, options)
    w.finish_limits(written, node, op.low, op.high)


# ------------------------------------------------------------------------------------ extremes


def _int8_extreme(is_least: bool) -> Int8Rule:
    """Integers of one quantization are compared as they are; the least by the negatives."""

    def convert(o: Int8Operator) -> None:
        o.check_alike("comparison")
        names = list(same_shape(o))
        if is_least:
            names = [o.negative(name) for name in names]
        y = _largest(o, names)
        o.node(negative(), y) if is_least else o.emit(FloatReshape(o.y_shape), y)

    return convert


def _largest(o: Operands, names: Sequence[str]) -> str:
    """A pool over tensors of the output's shape, put side by side."""
    channels = o.y_shape[-1] if o.y_shape else 1
    row = (1, 1, math.prod(o.y_shape) // channels, channels)
    joined = o.joined([o.view(name, row) for name in names], 1)
    pool = FloatPool(Window((len(names), 1)), largest=True)
    return o.view(o.moved(joined, pool), o.y_shape)


def _float_extreme(is_least: bool) -> FloatRule:
    """A limit where one operand is a number, which a Clamp has if 0 is within."""

    def convert(o: FloatOperator) -> None:
        constants = [i for i in (0, 1) if o.file_tensor(i).data is not None]
        if constants and o.file_tensor(constants[0]).data is not None:
            _limit(o, constants[0], is_least)
            return
        names = [o.broadcast(o.x(i), o.shape(i), o.y_shape) for i in (0, 1)]
        if is_least:
            names = [o.inner(_times(o.y_shape[-1], -1.0), "negative", name) for name in names]
        y = _largest(o, names)
        o.emit(_times(o.y_shape[-1], -1.0) if is_least else FloatReshape(o.y_shape), y)

    return convert


def _limit(o: FloatOperator, place: int, is_least: bool) -> None:
    """The other operand, held by a number."""
    if o.real(place).size != 1:
        raise UnsupportedError(
            f"{o.where} compares with a constant of more than one number; one is supported"
        )
    number, x = o.number(place), o.x(1 - place)
    moved = Affine(np.ones(o.y_shape[-1]), np.full(o.y_shape[-1], -number))
    limits = (-math.inf, 0.0) if is_least else (0.0, math.inf)
    held = o.inner(Clamp(*limits), "limited", o.inner(moved, "moved", x))
    o.emit(Affine(np.ones(o.y_shape[-1]), np.full(o.y_shape[-1], number)), held)


def _times(channels: int, number: float) -> Affine:
    return Affine(np.full(channels, number), np.zeros(channels))


# --------------------------------------------------------------------------- squared differences


def _int8_squared_difference(o: Int8Operator) -> None:
    a, b = same_shape(o)
    first, second = (Quantization.of(o.converter.tensors[name].type) for name in (a, b))
    o.node(multipliers.squared_difference(first, second, o.quantization), a, b)


def _float_squared_difference(o: FloatOperator) -> None:
    names = [o.broadcast(o.x(i), o.shape(i), o.y_shape) for i in (0, 1)]
    difference = o.inner(FloatAdd(-1), "difference", *names)
    o.emit(FloatMul(), difference, difference)


OPERATORS = (
    Entry("MAXIMUM", int8=_int8_extreme(False), real=_float_extreme(False)),
    Entry("MINIMUM", int8=_int8_extreme(True), real=_float_extreme(True)),
    Entry(
        "SQUARED_DIFFERENCE",
        int8=_int8_squared_difference,
        real=_float_squared_difference,
        writes={SquaredDifference: _write_squared_difference},
    ),
    Entry(
        "ADD",
        int8=_int8_arithmetic(tflite.AddOptions, FloatAdd()),
        real=_float_arithmetic(tflite.AddOptions, plus_constant, FloatAdd()),
        writes={Add: _write_sum, AddChannels: _write_sum},
        version=2,
    ),
    Entry(
        "DIV",
        real=_float_arithmetic(tflite.DivOptions, divided_by_constant, None),
        reason="LiteRT's shifts too far",
    ),
    Entry(
        "MUL",
        int8=_int8_arithmetic(tflite.MulOptions, FloatMul()),
        real=_float_arithmetic(tflite.MulOptions, times_constant, FloatMul()),
        writes={Mul: _write_mul},
        version=2,
    ),
    Entry(
        "SUB",
        int8=_int8_arithmetic(tflite.SubOptions, FloatAdd(-1)),
        real=_float_arithmetic(tflite.SubOptions, minus_constant, FloatAdd(-1)),
        writes={Add: _write_sum, AddChannels: _write_sum},
        version=2,
    ),
)

"""Operators of two operands: ADD, SUB, MUL, DIV."""

from __future__ import annotations

from collections.abc import Callable
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
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node, Tensor
from mcutrain.ops.add import Add
from mcutrain.ops.add_channels import AddChannels
from mcutrain.ops.mul import Mul, is_per_channel
from mcutrain.quant.float_affine import (
    Affine,
    divided_by_constant,
    is_map,
    minus_constant,
    plus_constant,
    signed_map,
    times_constant,
)
from mcutrain.quant.float_elementwise import AddConstant, FloatAdd, FloatMul
from mcutrain.quant.float_op import FloatOp

Array = npt.NDArray[Any]

MOST_WRITTEN_OUT = 2**22  # elements of a constant that is broadcast

# -------------------------------------------------------------------------------------------- int8


def _int8_arithmetic(table: type[Any], op: FloatOp) -> Int8Rule:
    def convert(o: Int8Operator) -> None:
        options = o.options(table)
        o.emit(op, *_operands(o), activation=o.activation(options))

    return convert


def _operands(o: Int8Operator) -> tuple[str, str]:
    """Two operands of one shape, or one of them with a number per channel of the other."""
    a, b = o.tensor(0), o.tensor(1)
    shapes = f"{o.where} takes shapes {a.type.shape} and {b.type.shape}"
    try:
        shape = np.broadcast_shapes(a.type.shape, b.type.shape)
    except ValueError as error:
        raise ModelError(f"{shapes}, which do not fit each other") from error
    a, b = (spread(o, x, shape) for x in (a, b))
    narrow, wide = sorted((a.type, b.type), key=lambda t: t.elements)
    if narrow.shape != wide.shape and not is_per_channel(narrow, wide):
        raise UnsupportedError(
            f"{shapes}; supported are equal shapes and one number per channel, [1,1,1,c]"
        )
    return a.name, b.name


def spread(o: Int8Operator, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A constant of fewer numbers than channels, or that varies otherwise, is written out."""
    if x.data is None or x.type.shape == shape or 0 in shape:
        return x
    narrow = (1,) * (len(shape) - 1) + shape[-1:]
    varies = x.type.elements > (x.type.shape[-1] if x.type.shape else 1)
    data = np.broadcast_to(x.data, shape if varies else narrow)
    if data.size > MOST_WRITTEN_OUT:
        raise UnsupportedError(f"{o.where}: constant {x.name!r} would fill {data.size} elements")
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
            if of_tensors is None:
                raise UnsupportedError(f"{o.where} divides by a tensor; supported is by a constant")
            o.emit(of_tensors, o.x(0), o.x(1), activation=activation)
            return
        affine = with_constant(found[1], found[0] == 1)
        if affine is None:
            raise UnsupportedError(f"{o.where}: a constant divided by a tensor is not supported")
        o.emit(affine, o.x(found[0]), activation=activation)

    return convert


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


def _write_mul(w: TfliteWriter, node: Node) -> None:
    """The second operand may be per channel."""
    op = node.op
    assert isinstance(op, Mul)
    written, code = w.limited(node, op.low, op.high)
    options = Table("MulOptions", {"FusedActivationFunction": code})
    w.operator("MUL", node.inputs, written, options)
    w.finish_limits(written, node, op.low, op.high)


OPERATORS = (
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
        reason="not yet",
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

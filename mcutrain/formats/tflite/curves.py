"""Functions of one tensor: tables of 256 numbers, LEAKY_RELU, SOFTMAX."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.layers import beta_of, nearby
from mcutrain.formats.tflite.arithmetic import spread
from mcutrain.formats.tflite.entry import Entry
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.float_operator import FloatOperator
from mcutrain.formats.tflite.int8_operator import Int8Operator
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.rescaling import sides
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node, Tensor
from mcutrain.ops.leaky_relu import LeakyRelu
from mcutrain.ops.lookup import Lookup, lookup
from mcutrain.ops.softmax import Softmax
from mcutrain.quant import multipliers
from mcutrain.quant.float_affine import Affine
from mcutrain.quant.float_elementwise import (
    Clamp,
    FloatAdd,
    FloatLeakyRelu,
    FloatMul,
    Function,
    is_leaky,
)
from mcutrain.quant.float_op import Quantization
from mcutrain.quant.float_shapes import SOFTMAX_OUTPUT, FloatSoftmax

# ------------------------------------------------------------------------------------------ tables

TABLES = {
    "elu": ("ELU", None, 1),
    "exp": ("EXP", Table("ExpOptions"), 2),
    "gelu": ("GELU", Table("GeluOptions", {"Approximate": False}), 2),
    "gelu_tanh": ("GELU", Table("GeluOptions", {"Approximate": True}), 2),
    "hard_swish": ("HARD_SWISH", Table("HardSwishOptions"), 1),
    "log": ("LOG", None, 2),
    "logistic": ("LOGISTIC", None, 2),
    "rsqrt": ("RSQRT", None, 2),
    "tanh": ("TANH", None, 2),
}
"""Operator, how the options are written, and the operator's version, by function."""


def _table(function: str) -> Entry:
    name, _, version = TABLES[function]

    def convert(o: Operands) -> None:
        approximate = name == "GELU" and o.options(tflite.GeluOptions).Approximate()
        o.emit(Function("gelu_tanh" if approximate else function), o.x())

    return Entry(name, convert, writes={Lookup: _write_lookup}, version=version)


def _write_lookup(w: TfliteWriter, node: Node) -> None:
    """The operator whose table this is."""
    op = node.op
    assert isinstance(op, Lookup)
    x, y = w.type(node.inputs[0]), w.type(node.outputs[0])
    if op.function not in TABLES or lookup(op.function, x, y).table != op.table:
        raise UnsupportedError(
            f"node {node.name!r} is a table of {op.function} that no operator of .tflite computes; "
            "export it as .onnx"
        )
    name, options, _ = TABLES[op.function]
    w.operator(name, node.inputs, node.outputs[0], options)


# ------------------------------------------------------------------------------------ LEAKY_RELU


def _leaky_relu(o: Operands) -> None:
    alpha = float(o.options(tflite.LeakyReluOptions).Alpha())
    if not 0 <= alpha <= 1:
        raise UnsupportedError(f"{o.where} has the slope {alpha}; supported are 0 to 1")
    o.emit(FloatLeakyRelu(alpha), o.x())


def _write_leaky_relu(w: TfliteWriter, node: Node) -> None:
    """Write a LeakyRelu with the alpha that gives its multipliers."""
    op = node.op
    assert isinstance(op, LeakyRelu)
    x, y = sides(w, node)
    plain = replace(op, low=multipliers.INT8[0], high=multipliers.INT8[1])
    positive, negative = (mult * 2.0 ** (shift - 31) for mult, shift in (op.positive, op.negative))
    estimate = negative / positive
    alpha = nearby(estimate, plain, lambda a: multipliers.leaky_relu(a, x, y), estimate)
    options = Table("LeakyReluOptions", {"Alpha": alpha})
    w.then_limits(node, "LEAKY_RELU", node.inputs, options, (op.low, op.high))


# ----------------------------------------------------------------------------------------- PRELU


def _int8_prelu(o: Int8Operator) -> None:
    """The sum of RELU and of the negative part times the slopes: of the two one is 0, always.

    Both have the output's quantization, so that ADD is exact, and the multipliers of PRELU
    (prelu.h): s_x / s_y and s_x * s_alpha / s_y in float32. A tensor of zero point 127 holds the
    negative part, exactly. One slope for all is a LEAKY_RELU, where that gives the same integers.
    """
    x, y = o.tensor(), o.quantization
    slopes = o.tensor(1)
    if slopes.data is None:
        raise UnsupportedError(f"{o.where} computes its slopes; supported are constant ones")
    given = Quantization.of(x.type)
    if slopes.data.size == 1 and (leaky := _leaky(given, slopes, y)) is not None:
        o.node(leaky, x.name)
        return
    slopes = spread(o, slopes, x.type.shape)
    below = given._replace(zero_point=multipliers.INT8[1])
    negative = o.inner(Clamp(-math.inf, 0.0), "below", x.name, quantized=below)
    negative = o.inner(FloatMul(), "negative", negative, slopes.name, quantized=y)
    positive = o.inner(Clamp(0.0, math.inf), "positive", x.name, quantized=y)
    o.emit(FloatAdd(), positive, negative)


def _leaky(x: Quantization, slope: Tensor, y: Quantization) -> LeakyRelu | None:
    """Return what PRELU with one slope is, if there is such a one: equal for all 256 integers."""
    assert slope.data is not None
    stored, kind = int(slope.data.ravel()[0]), slope.type
    alpha = (stored - kind.zero_point) * kind.scale
    if not 0 <= alpha <= 1:
        return None
    made = multipliers.leaky_relu(alpha, x, y)
    q = np.arange(multipliers.INT8[0], x.zero_point, dtype=np.int8).reshape(1, -1)
    product = multipliers.multiply(x, Quantization.of(kind), y)
    (wanted,) = product.reference(q, np.full_like(q, stored))
    (found,) = made.reference(q)
    return made if np.array_equal(wanted, found) else None


def _float_prelu(o: FloatOperator) -> None:
    """One slope, or one for each channel."""
    slopes, channels = o.real(1), o.shape()[-1]
    if slopes.size not in (1, channels) or slopes.shape[-1:] not in ((), (1,), (channels,)):
        raise UnsupportedError(
            f"{o.where} has slopes of shape {slopes.shape}; supported are one, and one per channel"
        )
    if is_leaky(slopes):
        o.emit(FloatLeakyRelu(float(slopes.flat[0])), o.x())
        return
    factor = np.broadcast_to(slopes.ravel(), channels).astype(np.float64)
    below = o.inner(Clamp(-math.inf, 0.0), "below", o.x())
    negative = o.inner(Affine(factor, np.zeros(channels)), "negative", below)
    positive = o.inner(Clamp(0.0, math.inf), "positive", o.x())
    o.emit(FloatAdd(), positive, negative)


# --------------------------------------------------------------------------------------- SOFTMAX


def _softmax(o: Operands) -> None:
    beta = float(o.options(tflite.SoftmaxOptions).Beta())
    if not (beta > 0 and math.isfinite(beta)):
        raise ModelError(f"{o.where} has the impossible beta {beta}")
    o.emit(FloatSoftmax(beta), o.x())


def _int8_softmax(o: Int8Operator) -> None:
    x, beta = o.tensor().type, float(o.options(tflite.SoftmaxOptions).Beta())
    if o.quantization != SOFTMAX_OUTPUT:
        raise ModelError(f"{o.where}: the output of a softmax has scale 1/256 and zero point -128")
    if x.scale * beta * 2**26 <= 1:
        raise ModelError(f"{o.where}: beta {beta} times scale {x.scale} is out of range")
    if not x.shape or x.shape[-1] == 0:
        raise ModelError(f"{o.where}: there is nothing in input {x.shape}")
    _softmax(o)


def _write_softmax(w: TfliteWriter, node: Node) -> None:
    """Write a Softmax with the beta that gives its multiplier."""
    op = node.op
    assert isinstance(op, Softmax)
    scale = w.type(node.inputs[0]).scale
    options = Table("SoftmaxOptions", {"Beta": beta_of(op, scale)})
    w.operator("SOFTMAX", node.inputs, node.outputs[0], options)


def _float_only(name: str, function: str) -> Entry:
    def convert(o: FloatOperator) -> None:
        o.emit(Function(function), o.x())

    return Entry(name, real=convert, reason="TFLite has no int8 kernel for it")


def _negative(o: FloatOperator) -> None:
    channels = o.y_shape[-1]
    o.emit(Affine(np.full(channels, -1.0), np.zeros(channels)), o.x())


def _square(o: FloatOperator) -> None:
    o.emit(FloatMul(), o.x(), o.x())


OPERATORS = (
    _float_only("ABS", "abs"),
    _float_only("SQRT", "sqrt"),
    Entry("NEG", real=_negative, reason="TFLite has no int8 kernel for it"),
    Entry("SQUARE", real=_square, reason="TFLite has no int8 kernel for it"),
    *(_table(function) for function in TABLES if function != "gelu_tanh"),
    Entry("LEAKY_RELU", _leaky_relu, writes={LeakyRelu: _write_leaky_relu}, version=2),
    Entry("PRELU", int8=_int8_prelu, real=_float_prelu),
    Entry("SOFTMAX", _softmax, int8=_int8_softmax, writes={Softmax: _write_softmax}, version=2),
)

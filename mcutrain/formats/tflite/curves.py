"""Functions of one tensor: tables of 256 numbers, LEAKY_RELU, SOFTMAX."""

from __future__ import annotations

import math
from dataclasses import replace

import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.layers import beta_of, nearby
from mcutrain.formats.tflite.entry import Entry
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.int8_operator import Int8Operator
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.rescaling import sides
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node
from mcutrain.ops.leaky_relu import LeakyRelu
from mcutrain.ops.lookup import Lookup, lookup
from mcutrain.ops.softmax import Softmax
from mcutrain.quant import multipliers
from mcutrain.quant.float_elementwise import FloatLeakyRelu, Function
from mcutrain.quant.float_shapes import SOFTMAX_OUTPUT, FloatSoftmax

# ------------------------------------------------------------------------------------------ tables

TABLES = {
    "elu": ("ELU", None, 1),
    "gelu": ("GELU", Table("GeluOptions", {"Approximate": False}), 2),
    "gelu_tanh": ("GELU", Table("GeluOptions", {"Approximate": True}), 2),
    "hard_swish": ("HARD_SWISH", Table("HardSwishOptions"), 1),
    "logistic": ("LOGISTIC", None, 2),
    "tanh": ("TANH", None, 2),
}
"""By function: its operator, how the options are written, the operator's version."""


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
    """With the alpha that gives its multipliers."""
    op = node.op
    assert isinstance(op, LeakyRelu)
    x, y = sides(w, node)
    plain = replace(op, low=multipliers.INT8[0], high=multipliers.INT8[1])
    positive, negative = (mult * 2.0 ** (shift - 31) for mult, shift in (op.positive, op.negative))
    estimate = negative / positive
    alpha = nearby(estimate, plain, lambda a: multipliers.leaky_relu(a, x, y), estimate)
    options = Table("LeakyReluOptions", {"Alpha": alpha})
    w.then_limits(node, "LEAKY_RELU", node.inputs, options, (op.low, op.high))


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
    """With the beta that gives its multiplier."""
    op = node.op
    assert isinstance(op, Softmax)
    scale = w.type(node.inputs[0]).scale
    options = Table("SoftmaxOptions", {"Beta": beta_of(op, scale)})
    w.operator("SOFTMAX", node.inputs, node.outputs[0], options)


OPERATORS = (
    *(_table(function) for function in TABLES if function != "gelu_tanh"),
    Entry("LEAKY_RELU", _leaky_relu, writes={LeakyRelu: _write_leaky_relu}, version=2),
    Entry("SOFTMAX", _softmax, int8=_int8_softmax, writes={Softmax: _write_softmax}, version=2),
)

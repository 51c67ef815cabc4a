"""One rule per operator of a graph: which operator of TFLite computes the same bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import tflite

from mcutrain.errors import UnsupportedError
from mcutrain.formats.layers import minuend_first
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.write_sums import conv_2d, depthwise_conv_2d, padding_of
from mcutrain.formats.tflite.writer import FUSED, TfliteWriter
from mcutrain.ir.graph import Node, TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.add import Add
from mcutrain.ops.add_channels import AddChannels
from mcutrain.ops.concatenation import Concatenation
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.leaky_relu import LeakyRelu
from mcutrain.ops.lookup import Lookup, lookup
from mcutrain.ops.mul import Mul
from mcutrain.ops.pad import Pad
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D, Mean
from mcutrain.ops.rescale import Rescale
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.softmax import Softmax
from mcutrain.ops.transpose import Transpose
from mcutrain.quant import multipliers

FULL = multipliers.INT8
NEIGHBOURS = 4  # float32 numbers on each side of an estimate that are tried
LOOKUPS = {
    "elu": ("ELU", None),
    "gelu": ("GELU", Table("GeluOptions", {"Approximate": False})),
    "hard_swish": ("HARD_SWISH", Table("HardSwishOptions")),
    "logistic": ("LOGISTIC", None),
    "tanh": ("TANH", None),
}

Quantization = tuple[float, int]
Made = TypeVar("Made", bound=Op)


def add(w: TfliteWriter, node: Node) -> None:
    """ADD, or SUB where a factor is negative; the second operand may be per channel."""
    op = node.op
    assert isinstance(op, Add)
    written, code = w.limited(node, op.low, op.high)
    is_subtraction, operands = minuend_first(op, node.inputs)
    name, table = ("SUB", "SubOptions") if is_subtraction else ("ADD", "AddOptions")
    w.operator(name, operands, written, Table(table, {"FusedActivationFunction": code}))
    w.finish_limits(written, node, op.low, op.high)


def mul(w: TfliteWriter, node: Node) -> None:
    """MUL; the second operand may be per channel."""
    op = node.op
    assert isinstance(op, Mul)
    written, code = w.limited(node, op.low, op.high)
    options = Table("MulOptions", {"FusedActivationFunction": code})
    w.operator("MUL", node.inputs, written, options)
    w.finish_limits(written, node, op.low, op.high)


def concatenation(w: TfliteWriter, node: Node) -> None:
    """CONCATENATION."""
    op = node.op
    assert isinstance(op, Concatenation)
    fields = {"Axis": op.axis, "FusedActivationFunction": FUSED["none"]}
    w.operator("CONCATENATION", node.inputs, node.outputs[0], Table("ConcatenationOptions", fields))


def max_pool_2d(w: TfliteWriter, node: Node) -> None:
    """MAX_POOL_2D; padding that is neither SAME nor VALID is a PADV2 with the least number."""
    op = node.op
    assert isinstance(op, MaxPool2D)
    x = node.inputs[0]
    padding = padding_of(op.window, w.type(x).shape)
    if padding is None:
        x = w.padded(node, x, op.window.padding, FULL[0])
        padding = tflite.Padding.VALID
    _pool(w, node, op, "MAX_POOL_2D", (x, padding))


def average_pool_2d(w: TfliteWriter, node: Node) -> None:
    """AVERAGE_POOL_2D."""
    op = node.op
    assert isinstance(op, AveragePool2D)
    padding = padding_of(op.window, w.type(node.inputs[0]).shape)
    if padding is None:
        raise UnsupportedError(
            f"node {node.name!r} averages with the padding {op.window.padding}; .tflite has only "
            "SAME and VALID, export it as .onnx"
        )
    _pool(w, node, op, "AVERAGE_POOL_2D", (node.inputs[0], padding))


def _pool(
    w: TfliteWriter, node: Node, op: AveragePool2D | MaxPool2D, name: str, source: tuple[str, int]
) -> None:
    """source: what is pooled, and the number of its padding."""
    if op.window.dilation != (1, 1):
        raise UnsupportedError(
            f"node {node.name!r} pools with the dilation {op.window.dilation}; .tflite has none, "
            "export it as .onnx"
        )
    written, code = w.limited(node, op.low, op.high)
    fields = {
        "Padding": source[1],
        "StrideH": op.window.stride[0],
        "StrideW": op.window.stride[1],
        "FilterHeight": op.window.kernel[0],
        "FilterWidth": op.window.kernel[1],
        "FusedActivationFunction": code,
    }
    w.operator(name, [source[0]], written, Table("Pool2DOptions", fields))
    w.finish_limits(written, node, op.low, op.high)


def mean(w: TfliteWriter, node: Node) -> None:
    """MEAN over height and width, which drops them if a Reshape to [1, c] alone reads it."""
    op = node.op
    assert isinstance(op, Mean)
    y = node.outputs[0]
    kind = w.type(y)
    reader = w.following_reshape(y) if (op.low, op.high) == FULL else None
    drops = reader is not None and w.type(reader.outputs[0]).shape == (1, kind.shape[3])
    axes = w.helper(f"{y}/axes", np.array([1, 2], np.int32))
    options = Table("ReducerOptions", {"KeepDims": not drops})
    if drops:
        assert reader is not None
        w.left_out.add(reader.outputs[0])
        w.operator("MEAN", [node.inputs[0], axes], reader.outputs[0], options)
        return
    written = y if (op.low, op.high) == FULL else w.intermediate(f"{y}/unclamped", kind)
    w.operator("MEAN", [node.inputs[0], axes], written, options)
    w.finish_limits(written, node, op.low, op.high)


def pad(w: TfliteWriter, node: Node) -> None:
    """PAD with the zero point, else PADV2."""
    op = node.op
    assert isinstance(op, Pad)
    w.pad(node.inputs[0], node.outputs[0], op.padding, op.value)


def reshape(w: TfliteWriter, node: Node) -> None:
    """RESHAPE, unless the operator before or behind it is already written without it."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Reshape)
    if y in w.left_out:
        return
    shape = np.array(op.shape, np.int32)
    numbers = w.helper(f"{y}/shape", shape)
    w.operator(
        "RESHAPE", [node.inputs[0], numbers], y, Table("ReshapeOptions", {"NewShape": shape})
    )


def transpose(w: TfliteWriter, node: Node) -> None:
    """TRANSPOSE."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Transpose)
    order = w.helper(f"{y}/perm", np.array(op.perm, np.int32))
    w.operator("TRANSPOSE", [node.inputs[0], order], y, Table("TransposeOptions"))


def softmax(w: TfliteWriter, node: Node) -> None:
    """SOFTMAX with the beta that gives its multiplier."""
    op = node.op
    assert isinstance(op, Softmax)
    scale = w.type(node.inputs[0]).scale
    estimate = op.mult_q31 * 2.0 ** (op.left_shift - 31) / (scale * 2.0**26)
    beta = _nearby(1.0, op, lambda b: Softmax.from_scale(scale, b), estimate)
    w.operator("SOFTMAX", node.inputs, node.outputs[0], Table("SoftmaxOptions", {"Beta": beta}))


def leaky_relu(w: TfliteWriter, node: Node) -> None:
    """LEAKY_RELU with the alpha that gives its multipliers."""
    op = node.op
    assert isinstance(op, LeakyRelu)
    x, y = (_quantization(w.type(n)) for n in (node.inputs[0], node.outputs[0]))
    plain = replace(op, low=FULL[0], high=FULL[1])
    positive, negative = (mult * 2.0 ** (shift - 31) for mult, shift in (op.positive, op.negative))
    estimate = negative / positive
    alpha = _nearby(estimate, plain, lambda a: multipliers.leaky_relu(a, x, y), estimate)
    _then_limits(w, node, "LEAKY_RELU", Table("LeakyReluOptions", {"Alpha": alpha}), op)


def look_up(w: TfliteWriter, node: Node) -> None:
    """The operator whose table this is."""
    op = node.op
    assert isinstance(op, Lookup)
    x, y = w.type(node.inputs[0]), w.type(node.outputs[0])
    if op.function not in LOOKUPS or lookup(op.function, x, y).table != op.table:
        raise UnsupportedError(
            f"node {node.name!r} is a table of {op.function} that no operator of .tflite computes; "
            "export it as .onnx"
        )
    name, options = LOOKUPS[op.function]
    w.operator(name, node.inputs, node.outputs[0], options)


def rescale(w: TfliteWriter, node: Node) -> None:
    """QUANTIZE, RELU, RELU6 or RELU_N1_TO_1: whichever has these multipliers and limits."""
    op = node.op
    assert isinstance(op, Rescale)
    x, y = (_quantization(w.type(n)) for n in (node.inputs[0], node.outputs[0]))
    for kind in ("relu", "relu6", "relu_n1_to_1"):
        if op != multipliers.requantize(x, y) and op == multipliers.activation_rescale(kind, x, y):
            w.operator(kind.upper(), node.inputs, node.outputs[0])
            return
    _then_limits(w, node, "QUANTIZE", Table("QuantizeOptions"), op)


def _then_limits(
    w: TfliteWriter, node: Node, name: str, options: Table, op: Rescale | LeakyRelu
) -> None:
    """An operator that cannot fuse an activation, and its limits behind it."""
    y = node.outputs[0]
    is_full = (op.low, op.high) == FULL
    written = y if is_full else w.intermediate(f"{y}/unclamped", w.type(y))
    w.operator(name, node.inputs, written, options)
    w.finish_limits(written, node, op.low, op.high)


def _nearby(first: float, wanted: Made, make: Callable[[float], Made], estimate: float) -> float:
    """A single-precision attribute that makes the wanted operator; `first` if it does.

    An attribute that is not found is left to the check of the whole file, which names the node.
    """
    candidates = [np.float32(first)]
    for direction in (math.inf, -math.inf):
        value = np.float32(estimate)
        for _ in range(NEIGHBOURS):
            candidates.append(value)
            value = np.nextafter(value, np.float32(direction))
    found = next((c for c in candidates if make(float(c)) == wanted), candidates[0])
    return float(found)


def _quantization(kind: TensorType) -> Quantization:
    return kind.scale, kind.zero_point


EMITTERS: dict[type[Any], Callable[[TfliteWriter, Node], None]] = {
    Add: add,
    AddChannels: add,
    AveragePool2D: average_pool_2d,
    Concatenation: concatenation,
    Conv2D: conv_2d,
    DepthwiseConv2D: depthwise_conv_2d,
    LeakyRelu: leaky_relu,
    Lookup: look_up,
    MaxPool2D: max_pool_2d,
    Mean: mean,
    Mul: mul,
    Pad: pad,
    Rescale: rescale,
    Reshape: reshape,
    Softmax: softmax,
    Transpose: transpose,
}

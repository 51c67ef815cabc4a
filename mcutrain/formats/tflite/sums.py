"""Sums of products: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.layers import output_stage, weight_scales
from mcutrain.formats.tflite.entry import Entry, FloatRule, Int8Rule
from mcutrain.formats.tflite.file import FileTensor
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.float_operator import FloatOperator, batched
from mcutrain.formats.tflite.int8_operator import Int8Operator, quantization
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.windows import padding_of, window_of
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node, TensorType
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers
from mcutrain.quant.float_shapes import FloatReshape
from mcutrain.quant.float_sums import Conv, DepthwiseConv, Sums

Array = npt.NDArray[Any]

UNITS, CONV_CHANNELS, DEPTHWISE_CHANNELS = 0, 0, 3
"""The axis of the output channels in each operator's weight."""


def _dense_options(o: Operands) -> Any:
    options = o.options(tflite.FullyConnectedOptions)
    if options.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise UnsupportedError(f"{o.where} has shuffled weights; supported is the plain order")
    return options


def _dilation(options: Any) -> tuple[int, int]:
    return options.DilationHFactor(), options.DilationWFactor()


# -------------------------------------------------------------------------------------------- int8


def _int8_weight(o: Int8Operator, rank: int, axis: int) -> tuple[FileTensor, Array]:
    """The constant int8 weight: symmetric, with one scale or one per output channel."""
    t = o.file_tensor(1)
    if t.dtype != "int8" or t.data is None:
        raise UnsupportedError(f"{o.where}: weight {t.name!r} must be constant and int8")
    if len(t.shape) != rank or 0 in t.shape:
        raise ModelError(f"{o.where}: weight {t.name!r} has the impossible shape {t.shape}")
    if not t.scales or (len(t.scales) > 1 and t.axis != axis):
        raise UnsupportedError(
            f"{o.where}: weight {t.name!r} needs one scale, or one per output channel (axis {axis})"
        )
    if any(t.zero_points):
        raise UnsupportedError(f"{o.where}: weight {t.name!r} must have zero point 0")
    return t, t.data


def _emit_weighted(
    o: Int8Operator,
    op: Conv2D | DepthwiseConv2D,
    x: str,
    weight: tuple[FileTensor, Array, int],
    y: str,
) -> None:
    """A convolution with its weight (file tensor, data, axis of the output channels) and bias."""
    t, data, axis = weight
    assert op.requantize is not None
    channels = data.shape[axis]
    bias = multipliers.bias_without_overflow(data, axis, _int8_bias(o, channels), op.requantize)
    if bias is None:
        raise ModelError(f"{o.where}: its sums overflow 32 bits; are the scales damaged?")
    w_name = o.converter.constant(t.name, TensorType(data.shape, "int8", t.scales, 0, axis), data)
    x_scale = o.x().type.scale
    scales = tuple(x_scale * s for s in t.scales)
    fallback = f"{o.y().name}/bias"
    name = o.file_tensor(2).name if o.has(2) else o.converter.names.take(fallback)
    b_name = o.converter.constant(name, TensorType((channels,), "int32", scales, 0, 0), bias)
    o.converter.node(op, (x, w_name, b_name), y)


def _int8_bias(o: Int8Operator, channels: int) -> Array:
    """The constant int32 bias, or zeros."""
    if not o.has(2):
        return np.zeros(channels, np.int32)
    t = o.file_tensor(2)
    if t.dtype != "int32" or t.data is None:
        raise UnsupportedError(f"{o.where}: bias {t.name!r} must be constant and int32")
    if t.data.size != channels:
        raise ModelError(f"{o.where}: bias {t.name!r} has {t.data.size} elements, not {channels}")
    return t.data.reshape(channels)


def _int8_convolution(
    table: type[Any], kind: type[Conv2D] | type[DepthwiseConv2D], axis: int
) -> Int8Rule:
    def convert(o: Int8Operator) -> None:
        options = o.options(table)
        t, data = _int8_weight(o, 4, axis)
        x, y = o.image(), o.y()
        if kind is Conv2D and t.shape[3] != x.type.shape[3]:
            raise UnsupportedError(
                f"{o.where} is a grouped convolution ({x.type.shape[3]} input channels, "
                f"{t.shape[3]} per filter); supported are CONV_2D with one group and "
                "DEPTHWISE_CONV_2D"
            )
        kernel = (t.shape[1], t.shape[2])
        window = window_of(o, options, x.type.shape, kernel, _dilation(options))
        stage = multipliers.conv_requantize(x.type.scale, t.scales, *quantization(y.type))
        low, high = o.limits(options)
        op = kind(window, x.type.zero_point, replace(stage, low=low, high=high))
        _emit_weighted(o, op, x.name, (t, data, axis), y.name)

    return convert


def _int8_fully_connected(o: Int8Operator) -> None:
    """A 1x1 convolution over an image of one row, one column per row of the input."""
    options = _dense_options(o)
    t, data = _int8_weight(o, 2, UNITS)
    units, features = t.shape
    x, y = o.x(), o.y()
    rows = x.type.elements // features
    if rows == 0 or rows * features != x.type.elements:
        raise ModelError(f"{o.where}: input {x.type.shape} does not fit weight {t.shape}")
    stage = multipliers.fully_connected_requantize(x.type.scale, t.scales, *quantization(y.type))
    low, high = o.limits(options)
    op = Conv2D(Window((1, 1)), x.type.zero_point, replace(stage, low=low, high=high))
    image = o.inner(Reshape((1, 1, rows, features)), x.name, like=x.type)
    kernels = data.reshape(units, 1, 1, features)
    sums = o.converter.intermediate(f"{y.name}/conv", replace(y.type, shape=(1, 1, rows, units)))
    _emit_weighted(o, op, image, (t, kernels, UNITS), sums)
    o.emit(Reshape(y.type.shape), sums)


# ------------------------------------------------------------------------------------------- float


def _float_weight(o: FloatOperator, rank: int, axis: int) -> tuple[Array, Array]:
    """Weight and bias."""
    w = o.real(1)
    if w.ndim != rank or w.size == 0:
        raise ModelError(f"{o.where}: its weight has the impossible shape {w.shape}")
    b = o.real(2).ravel() if o.has(2) else np.zeros(w.shape[axis], np.float32)
    if len(b) != w.shape[axis]:
        raise ModelError(f"{o.where}: {len(b)} biases for {w.shape[axis]} channels")
    return w, b.astype(np.float64)


def _float_convolution(table: type[Any], kind: type[Sums], axis: int) -> FloatRule:
    def convert(o: FloatOperator) -> None:
        options = o.options(table)
        w, b = _float_weight(o, 4, axis)
        window = window_of(o, options, o.shape(), (w.shape[1], w.shape[2]), _dilation(options))
        o.emit(kind(window, w, b), o.x(), limits=o.limits(options))

    return convert


def _float_fully_connected(o: FloatOperator) -> None:
    options = _dense_options(o)
    w, b = _float_weight(o, 2, UNITS)
    units, features = w.shape
    rows = math.prod(o.shape()) // features
    image = o.inner(FloatReshape((1, 1, rows, features)), "image", o.x())
    dense = Conv(Window((1, 1)), w.reshape(units, 1, 1, features), b)
    sums = o.inner(dense.clamped(*o.limits(options)) or dense, "sums", image)
    o.emit(FloatReshape(batched(o.y.shape)), sums)


# ----------------------------------------------------------------------------------------- written


def _write_conv(w: TfliteWriter, node: Node) -> None:
    """CONV_2D, or FULLY_CONNECTED."""
    op = node.op
    assert isinstance(op, Conv2D)
    if node.name in w.rows:
        _write_fully_connected(w, node, output_stage(node, op.requantize))
    else:
        _write_convolution(w, node, op, ("CONV_2D", "Conv2DOptions"), CONV_CHANNELS, {})


def _write_depthwise(w: TfliteWriter, node: Node) -> None:
    op = node.op
    assert isinstance(op, DepthwiseConv2D)
    if len(set(op.window.stride)) != 1:
        raise UnsupportedError(
            f"node {node.name!r} is a depthwise convolution with the strides {op.window.stride}; "
            "those of .tflite must be equal, export it as .onnx"
        )
    x, weight, _ = (w.type(name).shape for name in node.inputs)
    names = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions")
    extra = {"DepthMultiplier": weight[3] // x[3]}
    _write_convolution(w, node, op, names, DEPTHWISE_CHANNELS, extra)


def _write_convolution(
    w: TfliteWriter,
    node: Node,
    op: Conv2D | DepthwiseConv2D,
    names: tuple[str, str],
    axis: int,
    extra: dict[str, int],
) -> None:
    """names: of the operator and of its options, of which `extra` are its own."""
    stage = output_stage(node, op.requantize)
    x, padding = _padded(w, node, op.window, op.x_zero_point)
    scales = weight_scales(w.graph, node, stage, multipliers.conv_requantize)
    written, code = w.limited(node, stage.low, stage.high)
    fields = {
        "Padding": padding,
        "StrideH": op.window.stride[0],
        "StrideW": op.window.stride[1],
        "DilationHFactor": op.window.dilation[0],
        "DilationWFactor": op.window.dilation[1],
        **extra,
        "FusedActivationFunction": code,
    }
    parameters = _parameters(w, node, scales, w.type(node.inputs[1]).shape, axis)
    w.operator(names[0], [x, *parameters], written, Table(names[1], fields))
    w.finish_limits(written, node, stage.low, stage.high)


def _write_fully_connected(w: TfliteWriter, node: Node, stage: Requantize) -> None:
    row = w.rows[node.name]
    if row.y != node.outputs[0]:
        w.left_out.add(row.y)
    shape = w.type(node.inputs[1]).shape
    scales = weight_scales(w.graph, node, stage, multipliers.fully_connected_requantize)
    as_node = replace(node, outputs=(row.y,))
    written, code = w.limited(as_node, stage.low, stage.high)
    fields = {"FusedActivationFunction": code, "KeepNumDims": row.keeps_dims}
    parameters = _parameters(w, node, scales, (shape[0], shape[3]), UNITS)
    options = Table("FullyConnectedOptions", fields)
    w.operator("FULLY_CONNECTED", [row.x, *parameters], written, options)
    w.finish_limits(written, as_node, stage.low, stage.high)


def _padded(w: TfliteWriter, node: Node, window: Window, zero_point: int) -> tuple[str, int]:
    """What a convolution reads and its padding; any but SAME and VALID is a PAD before it."""
    x = node.inputs[0]
    padding = padding_of(window, w.type(x).shape)
    if padding is None:
        return w.padded(node, x, window.padding, zero_point), int(tflite.Padding.VALID)
    return x, padding


def _parameters(
    w: TfliteWriter, node: Node, scales: Sequence[float], shape: tuple[int, ...], axis: int
) -> list[int]:
    """The numbers of weight and bias. shape, axis: of the weight in the file."""
    x, weight, bias = node.inputs
    data, values = w.graph.tensors[weight].data, w.graph.tensors[bias].data
    if data is None or values is None:
        raise UnsupportedError(f"node {node.name!r} computes its weight or bias; .tflite cannot")
    kind = TensorType(shape, "int8", tuple(scales), 0, axis)
    sums = tuple(w.type(x).scale * s for s in scales)
    bias_kind = TensorType(values.shape, "int32", sums, 0, 0)
    return [
        w.parameter(weight, data.reshape(shape), kind),
        w.parameter(bias, values, bias_kind),
    ]


OPERATORS = (
    Entry(
        "CONV_2D",
        int8=_int8_convolution(tflite.Conv2DOptions, Conv2D, CONV_CHANNELS),
        real=_float_convolution(tflite.Conv2DOptions, Conv, CONV_CHANNELS),
        writes={Conv2D: _write_conv},
        version=3,
    ),
    Entry(
        "DEPTHWISE_CONV_2D",
        int8=_int8_convolution(tflite.DepthwiseConv2DOptions, DepthwiseConv2D, DEPTHWISE_CHANNELS),
        real=_float_convolution(tflite.DepthwiseConv2DOptions, DepthwiseConv, DEPTHWISE_CHANNELS),
        writes={DepthwiseConv2D: _write_depthwise},
        version=3,
    ),
    Entry(
        "FULLY_CONNECTED",
        int8=_int8_fully_connected,
        real=_float_fully_connected,
        writes={Conv2D: _write_conv},
        version=4,
    ),
)
WEIGHTED = tuple(one.name for one in OPERATORS)
"""The operators whose second input is a weight and the third a bias."""

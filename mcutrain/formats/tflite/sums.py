"""Sums of products: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.layers import output_stage, weight_scales
from mcutrain.formats.tflite.entry import Entry, Rule
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.windows import left_out, padding_of, window_of
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node, TensorType
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.grouped_conv_2d import GroupedConv2D, check_groups
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_sums import Conv, DepthwiseConv, GroupedConv, Sums
from mcutrain.quant.transposed import Transposed

GROUPED_VERSION = 6
"""The first CONV_2D with groups, as op_version.cc of TFLite has it."""

Array = npt.NDArray[Any]


def _dense_options(o: Operands) -> Any:
    options = o.options(tflite.FullyConnectedOptions)
    if options.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise UnsupportedError(f"{o.where} has shuffled weights; supported is the plain order")
    return options


def _dilation(options: Any) -> tuple[int, int]:
    return options.DilationHFactor(), options.DilationWFactor()


def _weight(o: Operands, rank: int, kind: type[Sums]) -> Shape:
    """The shape of the weight."""
    t = o.file_tensor(1)
    if len(t.shape) != rank or 0 in t.shape:
        raise ModelError(f"{o.where}: weight {t.name!r} has the impossible shape {t.shape}")
    o.check_weight(kind.channel_axis)
    return t.shape


def _convolution(table: type[Any], kind: type[Sums]) -> Rule:
    def convert(o: Operands) -> None:
        options = o.options(table)
        weight, image = _weight(o, 4, kind), o.image()
        window = window_of(o, options, image, (weight[1], weight[2]), _dilation(options))
        is_grouped = kind is Conv and weight[3] != image[3]
        if is_grouped:
            check_groups(image[3], weight)
        o.emit_sums(
            GroupedConv if is_grouped else kind, window, o.x(), weight, o.activation(options)
        )

    return convert


def _transpose_conv(o: Operands) -> None:
    """A convolution of more channels, which then become pixels."""
    options = o.options(tflite.TransposeConvOptions)
    weight, image, y = _weight(o, 4, Conv), o.shape(2), o.y_shape
    if len(image) != 4 or len(y) != 4 or image[3] != weight[3] or y[3] != weight[0] or 0 in image:
        raise ModelError(f"{o.where}: input {image}, weight {weight} and output {y} do not fit")
    if o.file_tensor(0).data is not None and tuple(o.integers(0)) != y:
        raise ModelError(f"{o.where} makes {y}, but is told to make {tuple(o.integers(0))}")
    kernel, stride = (weight[1], weight[2]), (options.StrideH(), options.StrideW())
    before = left_out(o, options, y, kernel)
    shape = Transposed.of((image[1], image[2]), kernel, stride, before, (y[1], y[2]))
    x = o.transposed_sums(shape, o.x(2), o.activation(options))
    *moves, last = shape.moves(weight[0])
    for move in moves:
        x = o.moved(x, move)
    o.emit(last, x)


def _fully_connected(o: Operands) -> None:
    """A 1x1 convolution over an image of one row, one column per row of the input."""
    options = _dense_options(o)
    units, features = _weight(o, 2, Conv)
    elements = math.prod(o.shape())
    rows = elements // features
    if rows == 0 or rows * features != elements:
        raise ModelError(f"{o.where}: input {o.shape()} does not fit weight {(units, features)}")
    image = o.view(o.x(), (1, 1, rows, features))
    o.emit_sums(Conv, Window((1, 1)), image, (units, 1, 1, features), o.activation(options))


# ----------------------------------------------------------------------------------------- written


def _write_conv(w: TfliteWriter, node: Node) -> None:
    """CONV_2D, or FULLY_CONNECTED."""
    op = node.op
    assert isinstance(op, Conv2D)
    if node.name in w.rows:
        _write_fully_connected(w, node, output_stage(node, op.requantize))
    else:
        _write_convolution(w, node, op, ("CONV_2D", "Conv2DOptions"), Conv.channel_axis, {})


def _write_grouped(w: TfliteWriter, node: Node) -> None:
    """CONV_2D, whose filter says how many groups there are."""
    op = node.op
    assert isinstance(op, GroupedConv2D)
    names = ("CONV_2D", "Conv2DOptions")
    _write_convolution(w, node, op, names, GroupedConv.channel_axis, {})


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
    _write_convolution(w, node, op, names, DepthwiseConv.channel_axis, extra)


def _write_convolution(
    w: TfliteWriter,
    node: Node,
    op: Conv2D | DepthwiseConv2D | GroupedConv2D,
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
    version = GROUPED_VERSION if isinstance(op, GroupedConv2D) else 0
    w.operator(names[0], [x, *parameters], written, Table(names[1], fields), version)
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
    parameters = _parameters(w, node, scales, (shape[0], shape[3]), Conv.channel_axis)
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
        _convolution(tflite.Conv2DOptions, Conv),
        writes={Conv2D: _write_conv, GroupedConv2D: _write_grouped},
        version=3,
    ),
    Entry(
        "DEPTHWISE_CONV_2D",
        _convolution(tflite.DepthwiseConv2DOptions, DepthwiseConv),
        writes={DepthwiseConv2D: _write_depthwise},
        version=3,
    ),
    Entry("TRANSPOSE_CONV", _transpose_conv),
    Entry("FULLY_CONNECTED", _fully_connected, writes={Conv2D: _write_conv}, version=4),
)
WEIGHT_AXES = {
    "CONV_2D": Conv.channel_axis,
    "DEPTHWISE_CONV_2D": DepthwiseConv.channel_axis,
    "FULLY_CONNECTED": Conv.channel_axis,
}
"""The operators whose second input is a weight, with the axis of its output channels, and the
third a bias."""

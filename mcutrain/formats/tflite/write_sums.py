"""Convolutions and fully connected layers as TFLite's operators, with their weights and biases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tflite

from mcutrain.errors import UnsupportedError
from mcutrain.formats.layers import output_stage, weight_scales
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node, TensorType
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers


def padding_of(window: Window, shape: tuple[int, ...]) -> int | None:
    """VALID, SAME, or None if the window's padding of an image [1, h, w, c] is neither."""
    if not any(window.padding):
        return int(tflite.Padding.VALID)
    sides: list[int] = []
    axes = (shape[1:3], window.kernel, window.stride, window.dilation)
    for n, k, stride, dilation in zip(*axes, strict=True):
        total = max((-(-n // stride) - 1) * stride + (k - 1) * dilation + 1 - n, 0)
        sides += [total // 2, total - total // 2]
    return int(tflite.Padding.SAME) if tuple(sides) == window.padding else None


def conv_2d(w: TfliteWriter, node: Node) -> None:
    """CONV_2D, or FULLY_CONNECTED."""
    op = node.op
    assert isinstance(op, Conv2D)
    stage = output_stage(node, op.requantize)
    if node.name in w.rows:
        _fully_connected(w, node, stage)
        return
    x, padding = _padded(w, node, op.window, op.x_zero_point)
    scales = weight_scales(w.graph, node, stage, multipliers.conv_requantize)
    written, code = w.limited(node, stage.low, stage.high)
    fields = {"Padding": padding, **_strides(op.window), "FusedActivationFunction": code}
    parameters = _parameters(w, node, scales, w.type(node.inputs[1]).shape, 0)
    w.operator("CONV_2D", [x, *parameters], written, Table("Conv2DOptions", fields))
    w.finish_limits(written, node, stage.low, stage.high)


def depthwise_conv_2d(w: TfliteWriter, node: Node) -> None:
    """DEPTHWISE_CONV_2D."""
    op = node.op
    assert isinstance(op, DepthwiseConv2D)
    if len(set(op.window.stride)) != 1:
        raise UnsupportedError(
            f"node {node.name!r} is a depthwise convolution with the strides {op.window.stride}; "
            "those of .tflite must be equal, export it as .onnx"
        )
    stage = output_stage(node, op.requantize)
    shape = w.type(node.inputs[1]).shape
    x, padding = _padded(w, node, op.window, op.x_zero_point)
    scales = weight_scales(w.graph, node, stage, multipliers.conv_requantize)
    written, code = w.limited(node, stage.low, stage.high)
    fields = {
        "Padding": padding,
        **_strides(op.window),
        "DepthMultiplier": shape[3] // w.type(node.inputs[0]).shape[3],
        "FusedActivationFunction": code,
    }
    parameters = _parameters(w, node, scales, shape, 3)
    options = Table("DepthwiseConv2DOptions", fields)
    w.operator("DEPTHWISE_CONV_2D", [x, *parameters], written, options)
    w.finish_limits(written, node, stage.low, stage.high)


def _fully_connected(w: TfliteWriter, node: Node, stage: Requantize) -> None:
    row = w.rows[node.name]
    if row.y != node.outputs[0]:
        w.left_out.add(row.y)
    shape = w.type(node.inputs[1]).shape
    scales = weight_scales(w.graph, node, stage, multipliers.fully_connected_requantize)
    as_node = replace(node, outputs=(row.y,))
    written, code = w.limited(as_node, stage.low, stage.high)
    fields = {"FusedActivationFunction": code, "KeepNumDims": row.keeps_dims}
    parameters = _parameters(w, node, scales, (shape[0], shape[3]), 0)
    options = Table("FullyConnectedOptions", fields)
    w.operator("FULLY_CONNECTED", [row.x, *parameters], written, options)
    w.finish_limits(written, as_node, stage.low, stage.high)


def _strides(window: Window) -> dict[str, int]:
    return {
        "StrideH": window.stride[0],
        "StrideW": window.stride[1],
        "DilationHFactor": window.dilation[0],
        "DilationWFactor": window.dilation[1],
    }


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

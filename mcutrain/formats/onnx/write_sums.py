"""Convolutions and fully connected layers as ONNX' operators, with their weights and biases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import UnsupportedError
from mcutrain.formats.layers import output_stage, sole_reader, weight_scales
from mcutrain.formats.onnx.writer import OnnxWriter, channels_first
from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.grouped_conv_2d import GroupedConv2D, groups_of
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers

Array = npt.NDArray[Any]


def strides_of(window: Window) -> dict[str, Sequence[int]]:
    """Attributes of a window but for its size."""
    top, bottom, left, right = window.padding
    return {
        "strides": window.stride,
        "dilations": window.dilation,
        "pads": (top, left, bottom, right),
    }


def conv_2d(w: OnnxWriter, node: Node) -> None:
    """Conv, or Gemm where the layer rounds once and has one row."""
    op = node.op
    assert isinstance(op, Conv2D)
    stage = output_stage(node, op.requantize)
    if is_one_row(w.graph, node):
        _gemm(w, node, stage)
        return
    _conv(w, node, op.window, stage, (0, 3, 1, 2), 1)


def depthwise_conv_2d(w: OnnxWriter, node: Node) -> None:
    """Conv with a group for each input channel."""
    op = node.op
    assert isinstance(op, DepthwiseConv2D)
    groups = w.type(node.inputs[0]).shape[3]
    _conv(w, node, op.window, op.requantize, (3, 0, 1, 2), groups)


def grouped_conv_2d(w: OnnxWriter, node: Node) -> None:
    """Conv with groups."""
    op = node.op
    assert isinstance(op, GroupedConv2D)
    groups = groups_of(*(w.type(name).shape for name in node.inputs[:2]))
    _conv(w, node, op.window, op.requantize, (0, 3, 1, 2), groups)


def _conv(
    w: OnnxWriter,
    node: Node,
    window: Window,
    stage: Requantize,
    order: tuple[int, ...],
    group: int,
) -> None:
    """order: of the weight's axes, so that they are [out, in / group, h, w]."""
    weight = _data(w.graph, node, 1).transpose(order)
    rule = multipliers.conv_requantize
    if stage.rounds_once:
        rule = multipliers.fully_connected_requantize
    scales = weight_scales(w.graph, node, stage, rule)
    inputs = [w.real(node.inputs[0]), *_parameters(w, node, weight, scales)]
    attributes = {"kernel_shape": window.kernel, **strides_of(window), "group": group}
    w.finish(w.layer(node, "Conv", inputs, **attributes), node.outputs[0], (stage.low, stage.high))


def _gemm(w: OnnxWriter, node: Node, stage: Requantize) -> None:
    """Gemm of one row; an image before it is flattened channels first, and the weight with it."""
    y = node.outputs[0]
    units, _, _, features = w.type(node.inputs[1]).shape
    source = source_of_row(w.graph, node)
    shape = w.type(source).shape
    matrix = columns_channels_first(_data(w.graph, node, 1).reshape(units, features), shape)
    scales = weight_scales(w.graph, node, stage, multipliers.fully_connected_requantize)
    real = w.real(source)
    if len(shape) != 2:
        real = w.op("Flatten", [real], f"{y}/row", axis=1)
    real = w.layer(node, "Gemm", [real, *_parameters(w, node, matrix, scales)], transB=1)
    after = w.following_reshape(y)
    if after is not None and w.type(after.outputs[0]).shape == (1, units):
        y = after.outputs[0]
        w.left_out.add(y)
    else:
        target = np.array(channels_first(w.type(y).shape), np.int64)
        real = w.op("Reshape", [real, w.constant(f"{y}/shape", target)], f"{y}/image")
    w.finish(real, y, (stage.low, stage.high))


def is_one_row(graph: Graph, node: Node) -> bool:
    """Whether it is a fully connected layer of one row; several rows are a 1x1 convolution."""
    op = node.op
    if not isinstance(op, Conv2D) or op.requantize is None or not op.requantize.rounds_once:
        return False
    return (
        graph.tensors[node.inputs[0]].type.elements == graph.tensors[node.inputs[1]].type.shape[3]
    )


def source_of_row(graph: Graph, node: Node) -> str:
    """Return what a fully connected layer of one row reads, before it is flattened for it."""
    before = graph.producer(node.inputs[0])
    if before is None or not isinstance(before.op, Reshape):
        return node.inputs[0]
    return before.inputs[0] if sole_reader(graph, node.inputs[0]) else node.inputs[0]


def columns_channels_first(matrix: Array, shape: Sequence[int]) -> Array:
    """A matrix [units, …·c] for an image [1, …, c], for the image as [1, c, …]."""
    if len(shape) < 3:
        return matrix
    units = len(matrix)
    spatial = tuple(shape[1:-1])
    return np.moveaxis(matrix.reshape(units, *spatial, shape[-1]), -1, 1).reshape(units, -1)


def _parameters(
    w: OnnxWriter, node: Node, weight: Array, scales: tuple[float, ...]
) -> tuple[str, str]:
    """The real weight and bias."""
    x, weight_name, bias_name = node.inputs
    kind = TensorType(weight.shape, "int8", scales, 0, 0)
    sums = tuple(w.type(x).scale * s for s in scales)
    bias = replace(w.type(bias_name), scales=sums, axis=0)
    return (
        w.parameter(weight_name, weight, kind),
        w.parameter(bias_name, _data(w.graph, node, 2), bias),
    )


def _data(graph: Graph, node: Node, position: int) -> Array:
    data = graph.tensors[node.inputs[position]].data
    if data is None:
        raise UnsupportedError(f"node {node.name!r} computes its weight or bias; .onnx cannot")
    return data

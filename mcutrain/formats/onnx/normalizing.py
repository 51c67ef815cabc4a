"""ONNX' normalizations: over layers, groups of channels, and single channels; around 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mcutrain.formats.onnx.arithmetic import affine
from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import Array, GraphNode, OnnxNode, V
from mcutrain.formats.onnx.shaping import channels_last, transposed
from mcutrain.formats.onnx.values import Value
from mcutrain.formats.onnx.writer import OnnxWriter, axis_order
from mcutrain.ir.graph import Node
from mcutrain.ops.layer_norm import Factors, LayerNorm
from mcutrain.quant.float_affine import Affine
from mcutrain.quant.float_norm import FloatLayerNorm

MEAN_AXES_OPSET = 18  # from which on a ReduceMean has its axes as an input
OF_MEAN_SQUARES = ("RMSNormalization", "SimplifiedLayerNormalization")
OF_CHANNELS_SINCE = 21  # a GroupNormalization has factors of channels; of groups before
AXES, AROUND_ZERO, BY_LENGTH = "axes", "around_zero", "by_length"
"""Attributes that only nodes have which `parts.py` makes."""


def layer_norm(node: GraphNode[V]) -> V:
    """Over the last axes, or those that the parts of one name; moves data if others lie between."""
    x, attributes = node.real(), node.attributes
    if any(node.outputs[1:]):
        raise node.unsupported("one whose mean or deviation is an output is not; y alone is")
    attributes.integer("stash_type", 1)
    (first,) = node.axes([attributes.integer("axis", -1)], len(x.shape))
    named = attributes.integers(AXES)
    axes = node.axes(named, len(x.shape)) if named else list(range(first, len(x.shape)))
    if 0 in axes and x.shape[0] > 1:
        raise node.unsupported(f"normalizing {x.shape} over axis 0 is not; over others it is")
    is_length = attributes.integer(BY_LENGTH, 0)
    count = math.prod(x.shape[i] for i in axes) if is_length else 1

    def parameter(index: int, order: list[int]) -> Array:
        return _parameter(node, index, x, axes, order) / (math.sqrt(count) if index == 1 else 1)

    return _over(node, x, axes, parameter, count, has_shift=node.has(2))


def float_group_norm(node: FloatOnnx) -> FloatValue:
    """InstanceNormalization and GroupNormalization: rows are normalized, then channels scaled.

    Factor and shift of a channel are those of a 1x1 depthwise convolution, or of what follows.
    """
    gamma, beta = (_of_channels(node, i) for i in (1, 2))
    found = _normalized_groups(node)
    if (gamma == 1).all() and not beta.any():
        return found
    return affine(node, found, Affine(gamma, beta), 1)


def int8_group_norm(node: Int8Node) -> Value:
    """Likewise, of one factor and one shift for all channels."""
    gamma, beta = (_of_channels(node, i) for i in (1, 2))
    if np.ptp(gamma) or np.ptp(beta):
        raise node.unsupported(
            "factors of their own for channels are not; the float model, which `mcutrain quantize` "
            "reads, is"
        )
    return _normalized_groups(node, float(gamma[0]), float(beta[0]))


def _of_channels(node: OnnxNode[Any], index: int) -> Array:
    """Factors or shifts, one for each channel; before opset 21 also one for each group."""
    data, (_, channels, *_) = node.numbers(index).ravel(), node.x().shape
    groups = node.attributes.integer("num_groups", channels)
    counts = (channels,) if node.opset >= OF_CHANNELS_SINCE else (channels, groups)
    if data.size not in counts or channels % max(data.size, 1):
        fitting = " or ".join(map(str, dict.fromkeys(counts)))
        raise node.wrong(f"input {index} has {data.size} numbers, but {fitting} are needed")
    return np.repeat(data, channels // data.size)


def _normalized_groups(node: GraphNode[V], gamma: float = 1.0, beta: float = 0.0) -> V:
    """Each group of channels over the whole image; of an InstanceNormalization, each channel."""
    x = node.real()
    if len(x.shape) < 3 or x.shape[0] != 1:
        raise node.unsupported(f"{x.shape} is not; [1, c, …] is")
    _, channels, *spatial = x.shape
    groups = node.attributes.integer("num_groups", channels)
    node.attributes.integer("stash_type", 1)
    if groups < 1 or channels % groups:
        raise node.wrong(f"{groups} groups do not fit {channels} channels")
    shape = (1, groups, channels // groups, *spatial)
    seen = node.seen(x, replace(x.layout, shape=shape))
    axes = list(range(2, len(shape)))
    numbers = [np.full(math.prod(shape[2:]), number) for number in (gamma, beta)]
    found = _over(node.reading(seen), seen, axes, lambda i, order: numbers[i - 1])
    return node.seen(found, replace(found.layout, shape=x.shape))


def _over(
    node: GraphNode[V],
    x: V,
    axes: list[int],
    parameter: Callable[[int, list[int]], Array],
    summed: int = 1,
    has_shift: bool = False,
) -> V:
    """Over these axes of the value. parameter: gamma (1) or beta (2) in the order of a row.

    summed: how many numbers epsilon belongs to the sum of, instead of to their mean. has_shift:
    beta is the node's own. Without it, and without a gamma that varies, there are no parameters.
    """
    kept = [i for i in x.layout.order if i not in axes]
    order = [*kept, *(i for i in x.layout.order if i in axes)]
    rows = node.arranged(0, x.shape, order, "rows")
    count = math.prod(x.shape[i] for i in axes)
    one = () if kept and x.shape[kept[0]] == 1 else (1,)
    rows = node.view(rows, (*one, *(x.shape[i] for i in kept), count), "flat_rows")
    gamma, beta = (parameter(i, order) for i in (1, 2))
    epsilon = node.attributes.real("epsilon", 1e-5) / summed
    if not 0 <= epsilon < math.inf:
        raise node.wrong(f"its epsilon is {epsilon}, not a number from 0 on")
    is_centred = not (node.op_type in OF_MEAN_SQUARES or node.attributes.integer(AROUND_ZERO, 0))
    op = FloatLayerNorm(gamma, beta, epsilon, is_centred, has_shift or bool(np.ptp(gamma)))
    return node.computed(op, (rows,), Layout.of_order(x.shape, order))


def _parameter(node: GraphNode[V], index: int, x: V, axes: list[int], order: list[int]) -> Array:
    """Gamma or beta in the order in which a row is stored."""
    lengths = tuple(d if i in axes else 1 for i, d in enumerate(x.shape))
    if not node.has(index):
        return np.full(math.prod(lengths), 2.0 - index)
    data = node.numbers(index)
    try:
        whole = np.broadcast_to(data, lengths)
    except ValueError as error:
        raise node.unsupported(
            f"input {index} of {data.shape} is not; one number for each that is normalized is"
        ) from error
    return whole.transpose(order).ravel()


def _mean_of_rows(w: OnnxWriter, real: str, name: str) -> str:
    """Write a mean over the last axis."""
    if w.opset < MEAN_AXES_OPSET:
        return w.op("ReduceMean", [real], name, axes=[-1], keepdims=1)
    axes = w.constant(f"{name}/axes", np.array([-1], np.int64))
    return w.op("ReduceMean", [real, axes], name, keepdims=1)


def write_layer_norm(w: OnnxWriter, node: Node) -> None:
    """LayerNormalization, between Transposes of what has its channels elsewhere.

    Around 0 it is in parts, as opsets before 23 have no operator for it. Without parameters it has
    no beta, if that is 0.
    """
    op, y = node.op, node.outputs[0]
    assert isinstance(op, LayerNorm)
    x = w.type(node.inputs[0])
    gamma, beta = (w.graph.tensors[name].data for name in node.inputs[1:])
    assert gamma is not None, node.name
    assert beta is not None, node.name
    factors = Factors(gamma, beta)
    epsilon = op.real_epsilon(x.shape[-1], x.scale)
    has_beta = op.is_affine or bool(factors.beta.any())
    names = [
        w.constant(f"{y}/{name}", values.astype(np.float32))
        for name, values in zip(("gamma", "beta"), factors.real(w.type(y).scale), strict=True)
        if name == "gamma" or has_beta
    ]
    real = channels_last(w, w.real(node.inputs[0]), len(x.shape), f"{y}/channels_last")
    if op.origin is None:
        real = w.layer(node, "LayerNormalization", [real, *names], axis=-1, epsilon=epsilon)
    else:
        square = w.op("Mul", [real, real], f"{y}/square")
        mean = _mean_of_rows(w, square, f"{y}/mean")
        small = w.constant(f"{y}/epsilon", np.array(epsilon, np.float32))
        root = w.op("Sqrt", [w.op("Add", [mean, small], f"{y}/above_0")], f"{y}/root")
        rows = w.op("Div", [real, root], f"{y}/rows")
        if has_beta:
            rows = w.op("Mul", [rows, names[0]], f"{y}/scaled")
        real = w.layer(node, "Add" if has_beta else "Mul", [rows, names[-1]])
    real = transposed(w, real, axis_order(len(x.shape)), f"{y}/channels_first")
    w.finish(real, y, (op.low, op.high))

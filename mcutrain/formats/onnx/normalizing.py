"""ONNX' LayerNormalization."""

from __future__ import annotations

import math

import numpy as np

from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import Array, GraphNode, V
from mcutrain.formats.onnx.shaping import channels_last, transposed
from mcutrain.formats.onnx.writer import OnnxWriter, axis_order
from mcutrain.ir.graph import Node
from mcutrain.ops.layer_norm import LayerNorm
from mcutrain.quant.float_norm import FloatLayerNorm

AXES = "axes"
"""An attribute that only nodes have which `parts.py` makes."""


def layer_norm(node: GraphNode[V]) -> V:
    """Over the last axes, or those that the parts of one name; moves data if others lie between."""
    x, attributes = node.real(), node.attributes
    if any(node.outputs[1:]):
        raise node.unsupported("one whose mean or deviation is an output is not; y alone is")
    attributes.integer("stash_type", 1)
    if x.shape[0] != 1 and 1 not in x.shape:
        raise node.unsupported(
            f"{x.shape[0]} parts of a sample as a batch, {x.shape}, are not; parts "
            "along a later axis, behind a batch of 1, are"
        )
    (first,) = node.axes([attributes.integer("axis", -1)], len(x.shape))
    named = attributes.integers(AXES)
    axes = node.axes(named, len(x.shape)) if named else list(range(first, len(x.shape)))
    if 0 in axes:
        raise node.unsupported(f"normalizing {x.shape} over axis 0 is not; over others it is")
    return _over(node, x, axes)


def _over(node: GraphNode[V], x: V, axes: list[int]) -> V:
    """Over these axes of the value."""
    kept = [i for i in x.layout.order if i not in axes]
    order = [*kept, *(i for i in x.layout.order if i in axes)]
    rows = node.arranged(0, x.shape, order, "rows")
    count = math.prod(x.shape[i] for i in axes)
    rows = node.view(rows, (*(x.shape[i] for i in kept), count), "flat_rows")
    gamma, beta = (_parameter(node, i, x, axes, order) for i in (1, 2))
    epsilon = node.attributes.real("epsilon", 1e-5)
    if not 0 <= epsilon < math.inf:
        raise node.wrong(f"its epsilon is {epsilon}, not a number from 0 on")
    op = FloatLayerNorm(gamma, beta, epsilon)
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


def write_layer_norm(w: OnnxWriter, node: Node) -> None:
    """LayerNormalization, between Transposes of what has its channels elsewhere."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, LayerNorm)
    x = w.type(node.inputs[0])
    gamma, beta, epsilon = op.real(x.scale, w.type(y).scale)
    names = [
        w.constant(f"{y}/{name}", values.astype(np.float32))
        for name, values in (("gamma", gamma), ("beta", beta))
    ]
    real = channels_last(w, w.real(node.inputs[0]), len(x.shape), f"{y}/channels_last")
    real = w.layer(node, "LayerNormalization", [real, *names], axis=-1, epsilon=epsilon)
    real = transposed(w, real, axis_order(len(x.shape)), f"{y}/channels_first")
    w.finish(real, y, (op.low, op.high))

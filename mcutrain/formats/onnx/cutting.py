"""ONNX operators that take parts of a tensor: Slice, and Split, which is several of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import Constant, GraphNode, OnnxNode, V
from mcutrain.formats.onnx.views import slices
from mcutrain.formats.onnx.writer import OnnxWriter, axis_order
from mcutrain.ir.graph import Node
from mcutrain.ops.slice import MOST_AXES, Part, Slice
from mcutrain.quant.float_shapes import FloatSlice


def slice_of(node: GraphNode[V]) -> V:
    """Of any axis but the batch."""
    x = node.real()
    shape = x.shape
    places = [
        range(*one.indices(size)) for one, size in zip(slices(node, shape), shape, strict=True)
    ]
    if any(one.step < 0 for one in places):
        raise node.unsupported("a negative step is not; a positive one is")
    if not all(places):
        raise node.wrong(f"nothing is left of {shape}")
    sizes = tuple(map(len, places))
    if sizes == shape:
        return node.x()
    if shape[0] != 1 or not 2 <= len(shape) <= MOST_AXES:
        raise node.unsupported(f"a part of {shape} is not; of 2 to {MOST_AXES} axes [1, …] is")
    order = x.layout.order
    whole = node.arranged(0, shape, order, "whole")
    op = FloatSlice(Part.of([places[axis] for axis in order]), shape[order[-1]])
    return node.computed(op, (whole,), Layout.of_order(sizes, order))


def split_up(node: OnnxNode[Any]) -> Sequence[OnnxNode[Any]]:
    """A Split as one Slice for each output that has a name; any other node as it is."""
    if node.op_type != "Split":
        return (node,)
    x = node.input(0)
    (axis,) = node.axes([node.attributes.integer("axis", 0)], len(x.shape))
    sizes = _sizes(node, x.shape[axis])
    ends = list(itertools.accumulate(sizes, initial=0))
    return [
        replace(node, inputs=(x, *(_number(n) for n in (*span, axis))), outputs=(name,))
        for name, span in zip(node.outputs, itertools.pairwise(ends), strict=True)
        if name
    ]


def _sizes(node: OnnxNode[Any], length: int) -> tuple[int, ...]:
    """How long each part is; without a word, all alike but for the last one."""
    count = len(node.outputs)
    each = -(-length // count)
    sizes = tuple(min(each, length - i * each) for i in range(count))
    if node.has(1):
        sizes = node.integers(1)
    if node.attributes.integer("num_outputs", count) != count:
        raise node.wrong(f"it has {count} outputs and says otherwise")
    if len(sizes) != count or min(sizes) < 1 or sum(sizes) != length:
        raise node.wrong(f"{length} cannot be split into {count} parts of {sizes}")
    return sizes


def _number(number: int) -> Constant:
    return Constant(str(number), np.array([number], np.int64))


# ------------------------------------------------------------------------------------------ writing


def write_slice(w: OnnxWriter, node: Node) -> None:
    """Slice, along the axes that are cut."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, Slice)
    shape = w.type(x).shape
    order = axis_order(len(shape))
    cut = [i for i, axis in enumerate(order) if not op.part.keeps_axis(axis, shape)]
    places = [op.part.places[order[i]] for i in cut]
    numbers = {
        "starts": [one[0] for one in places],
        "ends": [one[-1] + 1 for one in places],
        "axes": cut,
        "steps": [one.step for one in places],
    }
    given = [w.constant(f"{y}/{name}", np.array(n, np.int64)) for name, n in numbers.items()]
    w.finish(w.layer(node, "Slice", [w.real(x), *given]), y)

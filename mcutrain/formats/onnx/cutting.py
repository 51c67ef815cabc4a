"""ONNX operators that take parts of a tensor: Slice, and Split, which is several of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import Constant, GraphNode, OnnxNode, V
from mcutrain.formats.onnx.views import slices
from mcutrain.formats.onnx.writer import OnnxWriter, axis_order
from mcutrain.ir.graph import Node
from mcutrain.ops.slice import MOST_AXES, Part, Shape, Slice
from mcutrain.quant.float_shapes import FloatConcat, FloatSlice

MOST_RUNS = 64
"""Runs of places that a Gather takes, each of which is a Slice."""


def slice_of(node: GraphNode[V]) -> V:
    """Read a Slice along any axis but the batch."""
    shape = node.real().shape
    places = [
        range(*one.indices(size)) for one, size in zip(slices(node, shape), shape, strict=True)
    ]
    if any(one.step < 0 for one in places):
        raise node.unsupported("a negative step is not; a positive one is")
    if not all(places):
        raise node.wrong(f"nothing is left of {shape}")
    return _cut(node, places)


def gather(node: GraphNode[V]) -> V:
    """Read a Gather of known places along an axis, or of a table's rows by token ids.

    Places are evenly spaced ones, or runs of such.
    """
    if node.is_constant(0):
        return _embedding(node)
    shape = node.real().shape
    (axis,) = node.axes([node.attributes.integer("axis", 0)], len(shape))
    indices = node.constant(1).data
    if indices.dtype.kind not in "iu":
        raise node.wrong(f"its indices are {indices.dtype}")
    found = np.where(indices < 0, indices + shape[axis], indices).ravel().tolist()
    if not found or min(found) < 0 or max(found) >= shape[axis]:
        raise node.wrong(f"indices {indices.ravel().tolist()[:8]} of {shape[axis]} places")
    runs = _runs(found)
    if len(runs) > MOST_RUNS:
        raise node.unsupported(f"{len(runs)} runs of places are not; up to {MOST_RUNS} are")
    parts = [_cut(node, _along(shape, axis, run)) for run in runs]
    value = parts[0] if len(parts) == 1 else _joined(node, parts, axis)
    seen = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    return node.seen(value, replace(value.layout, shape=seen))


def _embedding(node: GraphNode[V]) -> V:
    table, ids = node.constant(0), node.x(1)
    if node.attributes.integer("axis", 0) % max(len(table.shape), 1):
        raise node.unsupported("token ids of columns are not; those of rows, axis 0, are")
    shape = ids.shape
    stored = node.arranged(1, shape, range(len(shape)), "ids")
    return node.embedded(table, stored, Layout.of_rows((*shape, *table.shape[1:])))


def _runs(places: Sequence[int]) -> list[range]:
    """Ascending, evenly spaced places one after another."""
    runs: list[range] = []
    for place in places:
        last = runs[-1] if runs else None
        if last is not None and len(last) == 1 and place > last[0]:
            runs[-1] = range(last[0], place + 1, place - last[0])
        elif last is not None and len(last) > 1 and place == last[-1] + last.step:
            runs[-1] = range(last[0], place + 1, last.step)
        else:
            runs.append(range(place, place + 1))
    return runs


def _along(shape: Shape, axis: int, places: range) -> list[range]:
    return [places if i == axis else range(d) for i, d in enumerate(shape)]


def _joined(node: GraphNode[V], parts: Sequence[V], axis: int) -> V:
    """Parts beside each other along an axis, which is stored after a batch of 1."""
    order = (axis, *(i for i in range(len(parts[0].shape)) if i != axis))
    read = node.reading(*parts)
    names = [read.arranged(i, p.shape, order, f"part{i}") for i, p in enumerate(parts)]
    rows = [
        node.view(name, (1, part.shape[axis], math.prod(part.shape) // part.shape[axis]), f"run{i}")
        for i, (name, part) in enumerate(zip(names, parts, strict=True))
    ]
    length = sum(part.shape[axis] for part in parts)
    shape = tuple(length if i == axis else d for i, d in enumerate(parts[0].shape))
    return node.computed(FloatConcat(1), tuple(rows), Layout.of_order(shape, order))


def _cut(node: GraphNode[V], places: Sequence[range]) -> V:
    """Some places of each ONNX axis."""
    x = node.real()
    sizes = tuple(map(len, places))
    if sizes == x.shape:
        return node.x()
    order = x.layout.order
    whole = node.arranged(0, x.shape, order, "whole")
    stored = node.stored_shape(whole)
    parts = [places[axis] for axis in order]
    parts[:0] = [range(1)] * (len(stored) - len(parts))
    if len(stored) > MOST_AXES:
        parts, stored = _merged(parts, stored)
        whole = node.view(whole, stored, "merged")
    op = FloatSlice(Part.of(parts), stored[-1])
    return node.computed(op, (whole,), Layout.of_order(sizes, order))


def _merged(parts: Sequence[range], lengths: Shape) -> tuple[list[range], Shape]:
    """Merge neighbouring axes of which all places are taken, but not the batch."""
    places, merged = list(parts[:1]), list(lengths[:1])
    for part, length in zip(parts[1:], lengths[1:], strict=True):
        is_whole = len(places) > 1 and len(places[-1]) == merged[-1]
        if is_whole and len(part) == length:
            merged[-1] *= length
            places[-1] = range(merged[-1])
        else:
            merged.append(length)
            places.append(part)
    return places, tuple(merged)


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
    """Return how long each part is; without a word, all alike but for the last one."""
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


def write_embedding(w: OnnxWriter, node: Node) -> None:
    """Gather, and a Transpose to channels first."""
    (ids, table), y = node.inputs, node.outputs[0]
    real = w.layer(node, "Gather", [w.real(table), w.real(ids)], axis=0)
    order = axis_order(len(w.type(y).shape))
    if list(order) != sorted(order):
        real = w.op("Transpose", [real], f"{y}/channels_first", perm=list(order))
    w.finish(real, y)


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

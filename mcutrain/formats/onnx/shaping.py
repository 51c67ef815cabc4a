"""ONNX operators that leave the numbers alone: Identity, Cast, Dropout, reshapes, Transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import TensorProto

from mcutrain.formats.onnx.file import HALVES, type_name
from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import GraphNode, OnnxNode, V
from mcutrain.formats.onnx.values import Value
from mcutrain.formats.onnx.views import new_shape, transposed_order
from mcutrain.formats.onnx.writer import OnnxWriter, axis_order, channels_first
from mcutrain.ir.graph import Node
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.transpose import Transpose

REALS = (TensorProto.FLOAT, TensorProto.DOUBLE, *HALVES)
INTEGERS = (TensorProto.INT16, TensorProto.INT32, TensorProto.INT64)


def identity(node: OnnxNode[V]) -> V:
    """Identity, Cast of reals, and Dropout when nothing is trained."""
    attributes = node.attributes
    if node.op_type == "Dropout":
        attributes.integer("seed", 0)
        if node.has(2) and node.number(2, 0.0):
            raise node.unsupported("training_mode is not; an exported inference model is")
    if node.op_type == "Cast":
        attributes.integer("saturate", 1)
        to = attributes.integer("to", TensorProto.FLOAT)
        if to not in REALS:
            kind = type_name(to)
            raise node.unsupported(f"a cast of an activation to {kind} is not; to float is")
    return node.x()


# --------------------------------------------------------------------------------------------- int8


def int8_cast(node: Int8Node) -> Value:
    """Read a Cast of real numbers, or of token ids to other integers."""
    if node.x().integer_type == "ids" and node.attributes.integer("to", 0) in INTEGERS:
        return node.x()
    node.real()
    return identity(node)


def float_cast(node: FloatOnnx) -> FloatValue:
    """Read a Cast of real numbers, or of the input to integers and back, which are token ids."""
    x = node.x()
    to = node.attributes.integer("to", TensorProto.FLOAT)
    computed = {made.output for made in node.nodes.nodes}
    if to in INTEGERS and x.tensor not in computed:
        node.nodes.integers.add(x.tensor)
        return x
    return identity(node)


def reshape(node: GraphNode[V]) -> V:
    """Reshape, Flatten, Squeeze, Unsqueeze: another view."""
    x = node.x()
    return node.seen(x, replace(x.layout, shape=new_shape(node, x.shape)))


def transpose(node: GraphNode[V]) -> V:
    """Another view; data moves only if its axes do not fit those that are stored."""
    x = node.x()
    return in_order(node, x, transposed_order(node, len(x.shape)))


def in_order(node: GraphNode[V], x: V, order: Sequence[int]) -> V:
    """A value with its axes in another order; data moves only if they do not fit what is stored."""
    found = x.layout.turned(order)
    if found is None:
        node = node.reading(x)
        rows = node.arranged(0, x.shape, range(len(x.shape)), "rows")
        x, found = node.stored(rows, x), Layout.of_rows(x.shape).turned(order)
    assert found is not None
    return node.seen(x, found)


def between_depth_and_space(node: GraphNode[V]) -> V:
    """DepthToSpace and SpaceToDepth: axes split, in another order, and joined."""
    x, size = node.real(), node.attributes.integer("blocksize", 1)
    if len(x.shape) != 4 or size < 1:
        raise node.wrong(f"blocks of {size} do not fit {x.shape}")
    _, channels, height, width = x.shape
    if node.op_type == "SpaceToDepth":
        split: tuple[int, ...] = (1, channels, height // size, size, width // size, size)
        order = (0, 3, 5, 1, 2, 4)
        shape = (1, channels * size * size, height // size, width // size)
    else:
        rest = channels // (size * size)
        is_crd = node.attributes.text("mode", "DCR") == "CRD"
        split = (1, rest, size, size) if is_crd else (1, size, size, rest)
        split = (*split, height, width)
        order = (0, 1, 4, 2, 5, 3) if is_crd else (0, 3, 4, 1, 5, 2)
        shape = (1, rest, height * size, width * size)
    if math.prod(split) != math.prod(x.shape):
        raise node.wrong(f"blocks of {size} do not fit {x.shape}")
    turned = in_order(node, node.seen(x, replace(x.layout, shape=split)), order)
    return node.seen(turned, replace(turned.layout, shape=shape))


def expand(node: GraphNode[V]) -> V:
    """Expand, and Tile, which repeats axes beside each of the tensor's."""
    x, counts = node.real(), node.integers(1)
    if node.op_type == "Expand":
        return _repeated(node, x, tuple(np.broadcast_shapes(x.shape, counts)))
    if len(counts) != len(x.shape) or min(counts, default=1) < 1:
        raise node.wrong(f"repeats {counts} do not fit {x.shape}")
    pairs = list(zip(counts, x.shape, strict=True))
    beside = replace(x.layout, shape=tuple(n for _, d in pairs for n in (1, d)))
    tiles = _repeated(node, node.seen(x, beside), tuple(n for pair in pairs for n in pair))
    return node.seen(tiles, replace(tiles.layout, shape=tuple(n * d for n, d in pairs)))


def _repeated(node: GraphNode[V], x: V, shape: Sequence[int]) -> V:
    """A value under the shape that it is broadcast to."""
    if x.shape == shape:
        return x
    if shape[:1] != (1,):
        raise node.unsupported(f"repeating along the batch, {shape}, is not; later axes are")
    more = len(shape) - len(x.shape)
    order = (*range(more), *(more + axis for axis in x.layout.order))
    found = node.stored(node.reading(x).expanded(0, tuple(shape), order), x)
    return node.seen(found, Layout.of_order(tuple(shape), order))


# ------------------------------------------------------------------------------------------ writing


def write_reshape(w: OnnxWriter, node: Node) -> None:
    """Reshape, between Transposes where the channels are not last in both orders."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Reshape)
    if y in w.left_out:
        return
    shape = w.type(node.inputs[0]).shape
    real = w.real(node.inputs[0])
    if w.type(y).dtype == "int16":
        w.name_ids(y, reshaped(w, real, op.shape, f"{y}/ids"))
        return
    if keeps_order(shape, op.shape):
        w.finish(reshaped(w, real, channels_first(op.shape), f"{y}/real"), y)
        return
    real = channels_last(w, real, len(shape), f"{y}/channels_last")
    real = reshaped(w, real, op.shape, f"{y}/reshaped")
    w.finish(transposed(w, real, axis_order(len(op.shape)), f"{y}/real"), y)


def keeps_order(a: Sequence[int], b: Sequence[int]) -> bool:
    """Return whether a Reshape between two shapes [1, …, c] is one between [1, c, …], too."""

    def is_linear(shape: Sequence[int]) -> bool:
        return len(shape) < 3 or shape[-1] == 1 or math.prod(shape[:-1]) == 1

    are_images = len(a) > 2 and len(b) > 2
    same_ends = (a[0], a[-1]) == (b[0], b[-1])
    return (is_linear(a) and is_linear(b)) or (are_images and same_ends)


def channels_last(w: OnnxWriter, real: str, rank: int, name: str) -> str:
    """[1, c, …] as [1, …, c]."""
    order = tuple(int(i) for i in np.argsort(axis_order(rank)))
    return transposed(w, real, order, name)


def transposed(w: OnnxWriter, real: str, order: Sequence[int], name: str) -> str:
    """Real numbers with their axes in another order."""
    if list(order) == sorted(order):
        return real
    return w.op("Transpose", [real], name, perm=list(order))


def reshaped(w: OnnxWriter, real: str, shape: Sequence[int], name: str) -> str:
    """Real numbers under another shape."""
    return w.op("Reshape", [real, w.constant(f"{name}/shape", np.array(shape, np.int64))], name)


def write_transpose(w: OnnxWriter, node: Node) -> None:
    """Transpose, of the axes in ONNX' order."""
    op = node.op
    assert isinstance(op, Transpose)
    order = axis_order(len(op.perm))
    places = [order.index(op.perm[axis]) for axis in order]
    w.finish(w.layer(node, "Transpose", [w.real(node.inputs[0])], perm=places), node.outputs[0])

"""ONNX MatMul of two computed tensors, as attention has it; that with a constant is in sums.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import GraphNode, V
from mcutrain.formats.onnx.shaping import transposed
from mcutrain.formats.onnx.writer import OnnxWriter, axis_order
from mcutrain.ir.graph import Node
from mcutrain.ops.batch_matmul import BatchMatMul
from mcutrain.quant.float_matmul import FloatBatchMatMul
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_shapes import FloatTranspose


def of_two(node: GraphNode[V]) -> V:
    """Read a product of matrices [1, …, m, k] and [1, …, k, n], each in the order that it has."""
    a, b = node.real(0), node.real(1)
    if len(a.shape) < 3 or a.shape[:-2] != b.shape[:-2]:
        raise node.unsupported(
            f"a product of {a.shape} and {b.shape} is not; of computed tensors […, m, k] and "
            "[…, k, n] with equal axes before the last two are"
        )
    if a.shape[0] != 1:  # parts of a sample, such as windows
        behind_one = [node.seen(x, replace(x.layout, shape=(1, *x.shape))) for x in (a, b)]
        found = of_two(node.reading(*behind_one))
        return node.seen(found, replace(found.layout, shape=found.shape[1:]))
    if a.shape[-1] != b.shape[-2]:
        raise node.wrong(f"{a.shape} and {b.shape} do not fit each other")
    *before, rows, columns = range(len(a.shape))
    straight, turned = (*before, rows, columns), (*before, columns, rows)
    orders = (
        _first_that_moves_nothing(a.layout, (straight, turned)),
        _first_that_moves_nothing(b.layout, (turned, straight)),
    )
    names = [
        node.arranged(i, x.shape, order, part)
        for i, (x, order, part) in enumerate(zip((a, b), orders, "ab", strict=True))
    ]
    op = FloatBatchMatMul(*(order == turned for order in orders))
    layout = Layout.of_rows((*a.shape[:-1], b.shape[-1]))
    return node.computed(op, (names[0], names[1]), layout)


def _first_that_moves_nothing(layout: Layout, orders: Sequence[Shape]) -> Shape:
    """The axes as they are stored; where they must be moved in any case, the first order."""

    def moves(order: Shape) -> bool:
        return any(isinstance(op, FloatTranspose) for op in layout.steps(layout.shape, order))

    return min(orders, key=moves)


# ------------------------------------------------------------------------------------------ writing


def write_product(w: OnnxWriter, node: Node) -> None:
    """MatMul, between Transposes to the last two axes and back."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, BatchMatMul)
    order = axis_order(len(w.type(y).shape))
    *before, rows, columns = (order.index(axis) for axis in range(len(order)))
    operands = []
    for x, is_turned in zip(node.inputs, (op.transposed_a, op.transposed_b), strict=True):
        last = (columns, rows) if is_turned else (rows, columns)
        operands.append(transposed(w, w.real(x), (*before, *last), f"{y}/operand"))
    real = w.layer(node, "MatMul", operands)
    w.finish(transposed(w, real, order, f"{y}/channels_first"), y, (op.low, op.high))

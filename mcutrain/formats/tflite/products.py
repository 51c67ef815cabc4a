"""BATCH_MATMUL, the product of two computed tensors."""

from __future__ import annotations

import tflite

from mcutrain.formats.tflite.entry import Entry
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node
from mcutrain.ops.batch_matmul import BatchMatMul
from mcutrain.quant.float_matmul import FloatBatchMatMul


def _product(o: Operands) -> None:
    options = o.options(tflite.BatchMatMulOptions)
    op = FloatBatchMatMul(bool(options.AdjX()), bool(options.AdjY()))
    o.emit(op, o.x(0), o.x(1))


def _write(w: TfliteWriter, node: Node) -> None:
    op = node.op
    assert isinstance(op, BatchMatMul)
    fields = {"AdjX": op.transposed_a, "AdjY": op.transposed_b}
    options = Table("BatchMatMulOptions", fields)
    w.then_limits(node, "BATCH_MATMUL", node.inputs, options, (op.low, op.high))


OPERATORS = (Entry("BATCH_MATMUL", _product, writes={BatchMatMul: _write}, version=2),)

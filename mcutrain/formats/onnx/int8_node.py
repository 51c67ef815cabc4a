"""One ONNX node of an int8 model: its inputs as tensors of the graph under construction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import Constant, GraphNode
from mcutrain.formats.onnx.values import Builder, ChosenRows, Computed, Stored, Value
from mcutrain.quant.float_embedding import FloatEmbedding
from mcutrain.quant.float_op import FloatOp, Quantization, Shape


@dataclass(frozen=True)
class Int8Node(GraphNode[Value]):
    """builder: what the rule for the operator adds to."""

    builder: Builder

    def real(self, index: int = 0) -> Value:
        """An activation in real numbers."""
        found = self.x(index)
        if found.integer_type:
            raise self.unsupported(
                f"integers as input {index} are not; the output of a DequantizeLinear is"
            )
        return found

    def tensor(self, index: int = 0) -> tuple[str, Quantization]:
        """The int8 tensor of an activation, in the order in which it is stored."""
        value = self.x(index)
        quantization = value.source.quantization
        if quantization is None:
            raise self.unsupported(
                f"a float input {index} is not; a QuantizeLinear and DequantizeLinear before it is"
            )
        return self.builder.emit(value, f"{self.name}.input{index}", quantization), quantization

    def as_stored(self, index: int = 0) -> str:
        """Return the input's tensor in its own quantization."""
        return self.tensor(index)[0]

    def arranged(self, index: int, shape: Shape, order: Sequence[int], part: str) -> str:
        """Arrange the input in its own quantization."""
        name = f"{self.name}.{part}"
        layout = self.x(index).layout
        return self.builder.arrange(self.as_stored(index), layout, shape, order, name)

    def quantization(self, tensor: str) -> Quantization:
        """Quantization of an int8 tensor."""
        return Quantization.of(self.builder.tensors[tensor].type)

    def stored_shape(self, tensor: str) -> Shape:
        """Stored shape of an int8 tensor."""
        return self.builder.tensors[tensor].type.shape

    def inner(self, op: FloatOp, x: str, part: str) -> str:
        """A node before the one that waits for its quantization."""
        kind, like = self.builder.tensors[x].type, self.quantization(x)
        made = op.int8((kind,), like)
        name = f"{self.name}.{type(made).__name__.lower()}"
        return self.builder.node(name, made, (x,), f"{self.output}.{part}", like)

    def computed(self, op: FloatOp, inputs: tuple[str, ...], layout: Layout) -> Value:
        """It waits for a QuantizeLinear."""
        own = op.output_quantization
        if op.shares_quantization:
            own = self.quantization(inputs[0])
        return Value(Computed(self.name, op, inputs, own), layout)

    def embedded(self, table: Constant, ids: str, layout: Layout) -> Value:
        """It has the table's scale."""
        rows, scales = table.data, table.scales
        if scales is None or scales.size != 1 or rows.dtype.kind not in "iu":
            raise self.unsupported("a table without one scale is not; int8 with one scale is")
        made = FloatEmbedding(table.real().astype(np.float32))
        low, high = int(rows.min()), int(rows.max())
        if high - low > 255:
            raise self.wrong(f"the numbers of the table go from {low} to {high}, beyond 8 bits")
        zero_point = max(0, -128 - low) if low < -128 else min(0, 127 - high)
        own = Quantization(float(scales.ravel()[0]), zero_point)
        return Value(ChosenRows(self.name, made, ids, table.name, rows, own), layout)

    def view(self, x: str, shape: Shape, part: str) -> str:
        """Named after the node."""
        return self.builder.reshape(x, shape, f"{self.name}.{part}")

    def stored(self, tensor: str, like: Value) -> Value:
        """Return a stored tensor as a value of the same kind; its limits are in the tensor."""
        source = Stored(tensor, self.quantization(tensor))
        layout = Layout.of_rows(self.stored_shape(tensor))
        return Value(source, layout, integer_type=like.integer_type)

    def seen(self, value: Value, layout: Layout) -> Value:
        """Limits stay."""
        return replace(value, layout=layout)

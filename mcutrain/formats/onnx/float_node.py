"""One ONNX node of a float model: its inputs as tensors of the float graph under construction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.onnx.layout import Layout, Mover
from mcutrain.formats.onnx.node import Constant, GraphNode
from mcutrain.ir.names import Names
from mcutrain.quant.float_embedding import FloatEmbedding
from mcutrain.quant.float_graph import FloatNode
from mcutrain.quant.float_op import FloatOp, Shape
from mcutrain.quant.float_shapes import FloatMove, FloatReshape

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class FloatValue:
    """An activation: the tensor that holds it, and how."""

    tensor: str
    layout: Layout

    @property
    def shape(self) -> Shape:
        """As ONNX sees it."""
        return self.layout.shape


class Nodes(Mover):
    """The float nodes that an import has made so far."""

    def __init__(self) -> None:
        self.nodes: list[FloatNode] = []
        self.shapes: dict[str, Shape] = {}
        self.names = Names()
        self.integers: set[str] = set()  # tensors that are token ids, or have been cast to them
        self._moved: dict[tuple[Any, ...], str] = {}

    def add(self, op: FloatOp, inputs: Sequence[str], stem: str) -> str:
        """Append a node. Its name is `stem`, its output's is like it."""
        try:
            shape = op.shape(*(self.shapes[n] for n in inputs))
        except ValueError as error:
            raise ModelError(f"node {stem!r}: {error}") from error
        output = self.names.take(stem)
        self.shapes[output] = shape
        self.nodes.append(FloatNode(stem, op, tuple(inputs), output))
        return output

    def move(self, x: str, op: FloatMove, stem: str) -> str:
        """A view, or a transpose; made once for all who ask."""
        is_view = isinstance(op, FloatReshape)
        if isinstance(op, FloatReshape) and op.to[:1] != (1,):
            raise UnsupportedError(
                f"node {stem!r} computes parts of a sample as a batch, {op.to}; a batch of 1 is "
                "supported, with the parts along a later axis"
            )
        if isinstance(op, FloatReshape) and op.to == self.shapes[x]:
            return x
        key = (x, type(op), *vars(op).values())
        if key not in self._moved:
            self._moved[key] = self.add(op, (x,), f"{stem}/{'view' if is_view else 'transpose'}")
        return self._moved[key]


@dataclass(frozen=True)
class FloatOnnx(GraphNode[FloatValue]):
    """nodes: what the rule for the operator adds to. The tensor that it computes last has the
    name of the output.
    """

    nodes: Nodes

    def as_stored(self, index: int = 0) -> str:
        """The tensor."""
        return self.x(index).tensor

    def arranged(self, index: int, shape: Shape, order: Sequence[int], part: str) -> str:
        """Named after the output."""
        x = self.x(index)
        return self.nodes.arrange(x.tensor, x.layout, shape, order, self.output)

    def stored_shape(self, tensor: str) -> Shape:
        """Stored shape of a float tensor."""
        return self.nodes.shapes[tensor]

    def inner(self, op: FloatOp, x: str, part: str) -> str:
        """A node."""
        return self.nodes.add(op, (x,), self.output)

    def computed(self, op: FloatOp, inputs: tuple[str, ...], layout: Layout) -> FloatValue:
        """A node."""
        return FloatValue(self.nodes.add(op, inputs, self.output), layout)

    def embedded(self, table: Constant, ids: str, layout: Layout) -> FloatValue:
        """A node with the table in it."""
        rows = table.real().astype(np.float32)
        return self.computed(FloatEmbedding(rows), (ids,), layout)

    def view(self, x: str, shape: Shape, part: str) -> str:
        """Named after the output."""
        return self.nodes.move(x, FloatReshape(shape), self.output)

    def stored(self, tensor: str, like: FloatValue) -> FloatValue:
        """The tensor."""
        return FloatValue(tensor, Layout.of_rows(self.nodes.shapes[tensor]))

    def seen(self, value: FloatValue, layout: Layout) -> FloatValue:
        """Return the tensor as another layout sees it."""
        return FloatValue(value.tensor, layout)

    def elementwise(self, op: FloatOp, x: FloatValue) -> FloatValue:
        """An operator that treats all elements alike."""
        return self.computed(op, (x.tensor,), x.layout)

    def with_last(self, x: FloatValue, axis: int) -> FloatValue:
        """The value with the ONNX axis stored last."""
        order = (*(i for i in x.layout.order if i != axis), axis)
        tensor = self.nodes.arrange(x.tensor, x.layout, x.shape, order, self.output)
        return FloatValue(tensor, Layout.of_order(x.shape, order))

"""A front, or a stem, with more nodes behind its one output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy.typing as npt

from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.names import Names
from mcutrain.ir.op import Op
from mcutrain.ir.verify import proven
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.pooling import AveragePool2D
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.spatial import Window
from mcutrain.quant.multipliers import conv_requantize

Array = npt.NDArray[Any]


class Behind:
    """Appends nodes, each of which reads the one before. y: the name of the last one's output."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        (self.y,) = graph.outputs
        self._names = Names((*graph.tensors, *(node.name for node in graph.nodes)))

    @property
    def type(self) -> TensorType:
        """Type of the output."""
        return self.graph.tensors[self.y].type

    def result(self) -> Graph:
        """The verified graph."""
        return proven(self.graph)

    def mean(self, name: str) -> None:
        """The mean of each channel, over all positions."""
        _, rows, columns, _ = self.type.shape
        op = AveragePool2D(Window((rows, columns), (rows, columns)))
        self._append(name, op, self.type.scale, self.type.zero_point)

    def reshape(self, name: str, shape: tuple[int, ...]) -> None:
        """Give the numbers another shape."""
        self._append(name, Reshape(shape), self.type.scale, self.type.zero_point)

    def dense(
        self, name: str, w: Array, w_scale: float, bias: Array, scale: float, zero_point: int
    ) -> None:
        """A layer on the channels of each position.

        w: int8 [out, in]. bias: int32 [out]. scale, zero_point: of what it makes.
        """
        x = self.type
        stage = conv_requantize(x.scale, (w_scale,), scale, zero_point)
        weight = TensorType((len(w), 1, 1, w.shape[1]), "int8", (w_scale,), 0, 0)
        constants = (
            self._constant(f"{name}/weight", weight, w.reshape(weight.shape)),
            self._constant(
                f"{name}/bias",
                TensorType(bias.shape, "int32", (x.scale * w_scale,), 0, 0),
                bias,
            ),
        )
        op = Conv2D(Window((1, 1)), x.zero_point, stage)
        self._append(name, op, scale, zero_point, constants)

    def _constant(self, name: str, kind: TensorType, data: Array) -> str:
        taken = self._names.take(name)
        self._add(Tensor(taken, kind, data))
        return taken

    def _append(
        self, name: str, op: Op, scale: float, zero_point: int, constants: tuple[str, ...] = ()
    ) -> None:
        read, y = (self.y, *constants), self._names.take(name)
        (found,) = op.infer(*(self.graph.tensors[n].type for n in read))
        self._add(Tensor(y, replace(found, scales=(scale,), zero_point=zero_point)))
        nodes = (*self.graph.nodes, Node(y, op, read, (y,)))
        self.graph = replace(self.graph, nodes=nodes, outputs=(y,))
        self.y = y

    def _add(self, tensor: Tensor) -> None:
        tensors = {**self.graph.tensors, tensor.name: tensor}
        self.graph = replace(self.graph, tensors=tensors)

"""An int8 graph in the making: its tensors and nodes, and an operator with its operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.file import MISSING, UINT8_OFFSET, FileModel, FileOperator
from mcutrain.formats.tflite.operands import Operands, apply
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.names import Names
from mcutrain.ir.op import Op
from mcutrain.ops.reshape import Reshape
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import Quantization

Array = npt.NDArray[Any]


class Converter:
    """One graph in the making. Operators emit their nodes through it."""

    def __init__(self, model: FileModel, rules: Mapping[str, Rule]) -> None:
        self.model = model
        self.rules = rules
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.activations: dict[int, Tensor] = {}
        self.node_names, self.names = Names(), Names()
        for t in model.tensors:
            self.names.take(t.name)
        self.int8_of: dict[int, int] = {}  # float tensors at the edges → the int8 ones inside

    def graph(self, name: str) -> Graph:
        """Convert every operator in order."""
        for op in self.model.operators:
            apply(self.rules, Int8Operator(self, op))
        inputs = tuple(self.edge(i, "input") for i in self.model.inputs)
        outputs = tuple(self.edge(i, "output") for i in self.model.outputs)
        if not inputs or not outputs:
            raise ModelError("the model has no input or no output")
        return Graph(name, self.tensors, tuple(self.nodes), inputs, outputs)

    def edge(self, index: int, what: str) -> str:
        """The graph's input or output for a model's one."""
        if index == MISSING:
            raise ModelError(f"the file is corrupt: a model {what} is missing")
        index = self.int8_of.get(index, index)
        t = self.model.tensors[index]
        tensor = self.activation(index, f"the model's {what} {t.name!r}")
        if what == "input" and (not t.shape or t.shape[0] != 1):
            raise UnsupportedError(
                f"the model's input {t.name!r} has shape {t.shape}; supported is batch 1"
            )
        return tensor.name

    def activation(self, index: int, where: str) -> Tensor:
        """The int8 tensor of the file, with its scale; an uint8 one at the edge as int8."""
        t = self.model.tensors[index]
        if index in self.activations:
            return self.activations[index]
        is_edge = index in (*self.model.inputs, *self.model.outputs)
        if t.dtype != "int8" and not (t.dtype == "uint8" and is_edge):
            raise UnsupportedError(f"{where}: tensor {t.name!r} is {t.dtype}; supported is int8")
        if len(t.scales) != 1:
            raise UnsupportedError(
                f"{where}: tensor {t.name!r} has {len(t.scales)} scales; an activation needs one"
            )
        zero_point = t.zero_points[0] - (UINT8_OFFSET if t.dtype == "uint8" else 0)
        if not -128 <= zero_point <= 127:
            raise ModelError(f"tensor {t.name!r} has the impossible zero point {t.zero_points[0]}")
        kind = TensorType(t.shape, "int8", t.scales, zero_point)
        tensor = Tensor(t.name, kind, t.data)
        self.activations[index] = tensor
        return self.add(tensor)

    def constant(self, name: str, kind: TensorType, data: Array) -> str:
        """A constant of its own for one operator: files share equal weights and biases."""
        name = self.names.take(name) if name in self.tensors else name
        return self.add(Tensor(name, kind, np.ascontiguousarray(data))).name

    def intermediate(self, name: str, kind: TensorType) -> str:
        """A tensor that the file does not have."""
        return self.add(Tensor(self.names.take(name), kind)).name

    def add(self, tensor: Tensor) -> Tensor:
        """Keep the tensor under its name."""
        if tensor.name in self.tensors:
            raise ModelError(f"tensor {tensor.name!r} is both a parameter and an activation")
        self.tensors[tensor.name] = tensor
        return tensor

    def node(self, op: Op, inputs: tuple[str, ...], output: str) -> None:
        """Append; named as the first of the layers that were fused into the output."""
        name = self.node_names.take(output.split(";")[0] or output)
        self.nodes.append(Node(name, op, inputs, (output,)))


class Int8Operator(Operands):
    """One operator of an int8 model."""

    def __init__(self, converter: Converter, op: FileOperator) -> None:
        super().__init__(converter.model, op)
        self.converter = converter

    def x(self, position: int = 0) -> Tensor:
        """An int8 input."""
        return self.converter.activation(self.input_index(position), self.where)

    def image(self) -> Tensor:
        """The int8 input, of shape [1, h, w, c]."""
        x = self.x()
        if len(x.type.shape) != 4 or x.type.shape[0] != 1 or 0 in x.type.shape:
            raise UnsupportedError(f"{self.where} has input {x.type.shape}; supported is [1,h,w,c]")
        return x

    def y(self) -> Tensor:
        """The int8 output."""
        y = self.converter.activation(self.output_index(), self.where)
        if y.is_constant:
            raise ModelError(f"{self.where} writes to a constant")
        return y

    def limits(self, options: Any) -> tuple[int, int]:
        """The int8 limits of the fused activation."""
        y = self.y().type
        return multipliers.activation_limits(self.activation(options), y.scale, y.zero_point)

    def emit(self, op: Op, *inputs: str) -> None:
        """The node that writes the operator's output."""
        self.converter.node(op, inputs, self.y().name)

    def emit_as(self, op: Op, *inputs: str) -> None:
        """The same, with a Reshape behind it if the output has axes of length 1 more or less."""
        y = self.y().type
        if self._shape(op, inputs) == y.shape:
            self.emit(op, *inputs)
        else:
            self.emit(Reshape(y.shape), self.inner(op, *inputs))

    def inner(self, op: Op, *inputs: str, like: TensorType | None = None) -> str:
        """A node before the last one; its output is quantized as `like`, or as the operator's."""
        name = f"{self.y().name}/{type(op).__name__.lower()}"
        kind = replace(like or self.y().type, shape=self._shape(op, inputs))
        y = self.converter.intermediate(name, kind)
        self.converter.node(op, inputs, y)
        return y

    def _shape(self, op: Op, inputs: tuple[str, ...]) -> tuple[int, ...]:
        (kind,) = op.infer(*(self.converter.tensors[name].type for name in inputs))
        return kind.shape


Rule = Callable[[Int8Operator], None]


def quantization(kind: TensorType) -> Quantization:
    """Of a tensor with one scale."""
    return Quantization(kind.scale, kind.zero_point)

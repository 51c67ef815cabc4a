"""One .tflite graph in the making: its tensors and nodes, and an operator with its operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.file import (
    MISSING,
    OPERATOR_NAMES,
    FileModel,
    FileOperator,
    FileTensor,
)
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.names import Names
from mcutrain.ir.op import Op
from mcutrain.ops.reshape import Reshape
from mcutrain.quant import multipliers

Array = npt.NDArray[Any]

UINT8_OFFSET = 128  # an uint8 tensor is kept as int8: the stored integers minus this

ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: "none",
    tflite.ActivationFunctionType.RELU: "relu",
    tflite.ActivationFunctionType.RELU6: "relu6",
    tflite.ActivationFunctionType.RELU_N1_TO_1: "relu_n1_to_1",
}


class Converter:
    """One graph in the making. Operators emit their nodes through it."""

    def __init__(self, model: FileModel, emitters: Emitters) -> None:
        self.model = model
        self.emitters = emitters
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
            emit = self.emitters.get(op.code)
            if emit is None:
                supported = sorted(OPERATOR_NAMES[code] for code in self.emitters)
                raise UnsupportedError(
                    f"{self.where(op)} is not supported; supported are {', '.join(supported)}"
                )
            try:
                emit(Operands(self, op))
            except ModelError:
                raise
            except ValueError as error:
                raise ModelError(f"{self.where(op)}: {error}") from error
        inputs = tuple(self.edge(i, "input") for i in self.model.inputs)
        outputs = tuple(self.edge(i, "output") for i in self.model.outputs)
        if not inputs or not outputs:
            raise ModelError("the model has no input or no output")
        return Graph(name, self.tensors, tuple(self.nodes), inputs, outputs)

    def where(self, op: FileOperator) -> str:
        """Such as operator CONV_2D (node 'conv_1/Relu')."""
        known = [self.model.tensors[i].name for i in op.outputs if i != MISSING]
        return f"operator {op.name} (node {known[0] if known else '?'!r})"

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


class Operands:
    """One operator of the file with what it reads and writes."""

    def __init__(self, converter: Converter, op: FileOperator) -> None:
        self.converter = converter
        self.op = op
        self.where = converter.where(op)

    def file_tensor(self, position: int) -> FileTensor:
        """The file's tensor of a required input."""
        return self.converter.model.tensors[self.input_index(position)]

    def input_index(self, position: int) -> int:
        """The index of a required input."""
        if position >= len(self.op.inputs) or self.op.inputs[position] == MISSING:
            raise ModelError(f"{self.where} has no input {position}")
        return self.op.inputs[position]

    def output_index(self) -> int:
        """The index of the one output."""
        if len(self.op.outputs) != 1 or self.op.outputs[0] == MISSING:
            raise ModelError(f"{self.where} has {len(self.op.outputs)} outputs instead of one")
        return self.op.outputs[0]

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

    def integers(self, position: int) -> Array:
        """A constant input of int32 or int64."""
        t = self.file_tensor(position)
        if t.data is None or t.dtype not in ("int32", "int64"):
            raise UnsupportedError(f"{self.where}: {t.name!r} must be a constant of integers")
        return t.data

    def options(self, table: type[Any]) -> Any:
        """The operator's options, whose type is told by the name of its table."""
        return self.op.table(table, self.where)

    def limits(self, options: Any) -> tuple[int, int]:
        """The int8 limits of the fused activation."""
        code = options.FusedActivationFunction()
        if code not in ACTIVATIONS:
            raise UnsupportedError(
                f"{self.where} has the fused activation {code}; supported are "
                "NONE, RELU, RELU6, RELU_N1_TO_1"
            )
        y = self.y().type
        return multipliers.activation_limits(ACTIVATIONS[code], y.scale, y.zero_point)

    def emit(self, op: Op, *inputs: str) -> None:
        """The node that writes the operator's output."""
        self.converter.node(op, inputs, self.y().name)

    def emit_as(self, op: Op, *inputs: str) -> None:
        """The same, with a Reshape behind it if the output has axes of length 1 more or less."""
        y = self.y().type
        (kind,) = op.infer(*(self.converter.tensors[name].type for name in inputs))
        if kind.shape == y.shape:
            self.emit(op, *inputs)
        else:
            self.emit(Reshape(y.shape), self.joined(op, *inputs))

    def joined(self, op: Op, *inputs: str) -> str:
        """A node before the last one; its output is quantized as the operator's."""
        (kind,) = op.infer(*(self.converter.tensors[name].type for name in inputs))
        name = f"{self.y().name}/{type(op).__name__.lower()}"
        y = self.converter.intermediate(name, replace(self.y().type, shape=kind.shape))
        self.converter.node(op, inputs, y)
        return y

    def intermediate(self, op: Op, x: str, like: TensorType, shape: tuple[int, ...]) -> str:
        """A node before the last one; its output is quantized as `like`."""
        name = f"{self.y().name}/{type(op).__name__.lower()}"
        y = self.converter.intermediate(name, replace(like, shape=shape))
        self.converter.node(op, (x,), y)
        return y


Emitters = Mapping[int, Callable[[Operands], None]]
"""The rule of each supported operator, by its code."""


def quantization(t: Tensor) -> tuple[float, int]:
    """Scale and zero point."""
    return t.type.scale, t.type.zero_point

"""An int8 graph in the making: its tensors and nodes, and an operator with its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.file import MISSING, FileModel, FileOperator
from mcutrain.formats.tflite.float_operator import ID_TYPES
from mcutrain.formats.tflite.operands import Conversion, Operands
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.names import Names
from mcutrain.ir.op import Op
from mcutrain.ops.concatenation import Concatenation
from mcutrain.ops.embedding import Embedding
from mcutrain.ops.lookup import negative
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import IDS, FloatOp, Quantization, Shape
from mcutrain.quant.float_sums import Conv, Sums
from mcutrain.quant.transposed import Transposed

Array = npt.NDArray[Any]

ANEW = "convert the float model by TFLite's full integer quantization, or by `mcutrain quantize`"
"""What to do about a file that another quantization wrote."""


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
        operators = [Int8Operator(self, op) for op in self.model.operators]
        conversion = Conversion(self.rules, operators)
        with conversion.refusing(self.model):
            conversion.run()
            inputs = tuple(self.edge(i, "input") for i in self.model.inputs)
            kept = [i for i in self.model.outputs if i not in conversion.lost]
            outputs = tuple(self.edge(i, "output") for i in kept)
        if not inputs or not outputs:
            raise ModelError("the model has no input or no output")
        graph = Graph(name, self.tensors, tuple(self.nodes), inputs, outputs)
        for x in graph.inputs:
            if graph.tensors[x].type.dtype == IDS.dtype and not graph.vocabulary(x):
                raise UnsupportedError(
                    f"the model's input {x!r} is of integers that are no int8; only a GATHER of a "
                    "constant table may read them, as token ids"
                )
        return graph

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
        """The int8 tensor of the file, with its scale."""
        t = self.model.tensors[index]
        if index in self.activations:
            return self.activations[index]
        if t.dtype in ID_TYPES and t.data is None and not t.scales:
            kind = TensorType(t.shape, IDS.dtype, (IDS.scale,))
            self.activations[index] = Tensor(t.name, kind)
            return self.add(self.activations[index])
        if t.dtype != "int8":
            raise UnsupportedError(f"{where}: tensor {t.name!r} is {t.dtype}; supported is int8")
        if len(t.scales) != 1:
            raise UnsupportedError(
                f"{where}: tensor {t.name!r} has {len(t.scales)} scales; an activation needs "
                f"one: {ANEW}"
            )
        (zero_point,) = t.zero_points
        if not -128 <= zero_point <= 127:
            raise ModelError(f"tensor {t.name!r} has the impossible zero point {zero_point}")
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

    def tensor(self, position: int = 0) -> Tensor:
        """An int8 input."""
        return self.converter.activation(self.input_index(position), self.where)

    def x(self, position: int = 0) -> str:
        """An int8 input, which may be a constant."""
        return self.tensor(position).name

    def shape(self, position: int = 0) -> Shape:
        """Return the shape of an int8 input."""
        return self.tensor(position).type.shape

    def y(self) -> Tensor:
        """The int8 output."""
        y = self.converter.activation(self.output_index(), self.where)
        if y.is_constant:
            raise ModelError(f"{self.where} writes to a constant")
        return y

    @property
    def y_shape(self) -> Shape:
        """As the file has it."""
        return self.y().type.shape

    @property
    def quantization(self) -> Quantization:
        """Quantization of the output."""
        return Quantization.of(self.y().type)

    def assume(self, index: int) -> bool:
        """An int8 tensor with its scale."""
        t = self.model.tensors[index]
        return t.dtype == "int8" and len(t.scales) == 1

    def number(self, position: int) -> float:
        """A constant int8, which must be quantized as the output."""
        t, y = self.file_tensor(position), self.quantization
        if t.data is None or t.data.size != 1 or t.dtype != "int8":
            raise UnsupportedError(f"{self.where}: its value {t.name!r} must be one constant int8")
        if t.scales and (t.scales[0], t.zero_points[0]) != y:
            raise ModelError(f"{self.where}: its value must be quantized as its output")
        return (int(t.data.ravel()[0]) - y.zero_point) * y.scale

    def check_alike(self, what: str, tolerance: float = 0.0, inputs: int | None = None) -> None:
        """tolerance: how far the scales may differ."""
        y = self.quantization
        for position in range(len(self.op.inputs) if inputs is None else inputs):
            x = Quantization.of(self.tensor(position).type)
            if abs(x.scale - y.scale) > tolerance or x.zero_point != y.zero_point:
                raise ModelError(
                    f"{self.where}: inputs and output of a {what} must be quantized alike"
                )

    def node(self, op: Op, *inputs: str) -> None:
        """The node that writes the operator's output."""
        self.converter.node(op, inputs, self.y().name)

    def emit(self, op: FloatOp, *inputs: str, activation: str = "none") -> None:
        """Emit an operator of float networks, and a Reshape if the file has another shape."""
        made, inputs = self._int8(op, inputs, activation)
        shape = self._shape(made, inputs)
        if shape != self.y_shape and math.prod(shape) == math.prod(self.y_shape):
            part = type(made).__name__.lower()
            inputs = (self._inner(made, inputs, part, self.y().type),)
            made = Reshape(self.y_shape)
        self.node(made, *inputs)

    def inner(self, op: FloatOp, part: str, *inputs: str, quantized: Quantization) -> str:
        """A tensor that the file does not have, computed by an int8 operator of float networks."""
        types = [self.converter.tensors[name].type for name in inputs]
        order = op.order(*(kind.shape for kind in types))
        like = TensorType((), "int8", (quantized.scale,), quantized.zero_point)
        operands = tuple(inputs[i] for i in order)
        return self._inner(op.int8(types, quantized), operands, part, like)

    def emit_ids(self) -> None:
        """Integers of another size."""
        if self.tensor().type.dtype != IDS.dtype:
            raise UnsupportedError(f"{self.where} casts what is quantized; supported are token ids")
        super().emit_ids()

    def emit_rows(self, table: int, ids: str) -> None:
        """TFLite's kernel copies."""
        rows, y = self.tensor(table), self.quantization
        if not rows.is_constant or Quantization.of(rows.type) != y:
            raise UnsupportedError(
                f"{self.where}: the table {rows.name!r} must be constant int8, and quantized as "
                "the output"
            )
        ids_type = self.converter.tensors[ids].type
        if ids_type.dtype != IDS.dtype:
            raise UnsupportedError(
                f"{self.where}: the token ids {ids!r} are {ids_type.dtype}: give the float model, "
                "or convert it with an integer input (int32)"
            )
        self.node(Embedding(), ids, rows.name)

    def check_weight(self, axis: int) -> None:
        """It is constant, int8, symmetric, and has one scale or one per output channel."""
        t = self.file_tensor(1)
        if t.dtype != "int8" or t.data is None:
            raise UnsupportedError(
                f"{self.where}: weight {t.name!r} must be constant and int8: {ANEW}"
            )
        if not t.scales or (len(t.scales) > 1 and t.axis != axis):
            raise UnsupportedError(
                f"{self.where}: weight {t.name!r} needs one scale, or one per output channel "
                f"(axis {axis}): {ANEW}"
            )
        if any(t.zero_points):
            raise UnsupportedError(
                f"{self.where}: weight {t.name!r} must have zero point 0: {ANEW}"
            )

    def emit_sums(
        self, kind: type[Sums], window: Window, x: str, w: Shape, activation: str
    ) -> None:
        """The file's own integers."""
        data, bias = self._weight().reshape(w), self._bias(2, w[kind.channel_axis])
        op, operands = self._layer(kind, window, x, data, bias, activation)
        if self.is_dense:
            y = self.y().type
            self.node(Reshape(y.shape), self._inner(op, operands, "conv", y))
        else:
            self.node(op, *operands)

    def transposed_sums(self, shape: Transposed, x: str, activation: str) -> str:
        """The file's own integers, in the order of the convolution."""
        data = self._weight()
        name, values = self._bias(3, len(data))
        bias = name, np.tile(values, shape.copies)
        made = self._layer(Conv, shape.window, x, shape.weight(data), bias, activation)
        return self._inner(*made, "sums", self.y().type)

    def _layer(
        self,
        kind: type[Sums],
        window: Window,
        x: str,
        data: Array,
        bias: tuple[str, Array],
        activation: str,
    ) -> tuple[Op, tuple[str, ...]]:
        """A layer and its operands. data, bias: with the file's channels once, or in turns.

        bias: its name and numbers.
        """
        t, axis = self.file_tensor(1), kind.channel_axis
        image, (b_name, values) = self.converter.tensors[x].type, bias
        rule = multipliers.conv_requantize
        if self.is_dense:
            rule = multipliers.fully_connected_requantize
        w_scales = t.scales if len(t.scales) == 1 else t.scales * (len(values) // len(t.scales))
        low, high = multipliers.activation_limits(activation, *self.quantization)
        stage = replace(rule(image.scale, w_scales, *self.quantization), low=low, high=high)
        op = kind.int8_type(window, image.zero_point, stage)
        fitting = multipliers.bias_without_overflow(data, axis, values, stage)
        if fitting is None:
            raise ModelError(f"{self.where}: its sums overflow 32 bits; are the scales damaged?")
        scales = tuple(image.scale * s for s in w_scales)
        w_kind = TensorType(data.shape, "int8", w_scales, 0, axis)
        b_kind = TensorType(values.shape, "int32", scales, 0, 0)
        weight = self.converter.constant(t.name, w_kind, data)
        return op, (x, weight, self.converter.constant(b_name, b_kind, fitting))

    def _weight(self) -> Array:
        """The integers of the constant at input 1."""
        data = self.file_tensor(1).data
        assert data is not None
        return data

    def moved(self, x: str, op: FloatOp) -> str:
        """Move the integers of x, unchanged."""
        kind = self.converter.tensors[x].type
        made = op.int8((kind,), Quantization.of(kind))
        return self._inner(made, (x,), type(made).__name__.lower(), kind)

    def joined(self, names: Sequence[str], axis: int) -> str:
        """A node before the last one."""
        kind = self.converter.tensors[names[0]].type
        return self._inner(Concatenation(axis), tuple(names), "joined", kind)

    def negative(self, x: str) -> str:
        """The negatives of a tensor, whose integers are -1 - q."""
        kind = self.converter.tensors[x].type
        like = replace(kind, zero_point=Quantization.of(kind).negative.zero_point)
        return self._inner(negative(), (x,), "negative", like)

    def _bias(self, position: int, channels: int) -> tuple[str, Array]:
        """The constant int32 bias and its name, or zeros."""
        if not self.has(position):
            name = self.converter.names.take(f"{self.y().name}/bias")
            return name, np.zeros(channels, np.int32)
        t = self.file_tensor(position)
        if t.dtype != "int32" or t.data is None:
            raise UnsupportedError(
                f"{self.where}: bias {t.name!r} must be constant and int32: {ANEW}"
            )
        if t.data.size != channels:
            raise ModelError(
                f"{self.where}: bias {t.name!r} has {t.data.size} elements, not {channels}"
            )
        return t.name, t.data.reshape(channels)

    def _int8(
        self, op: FloatOp, inputs: Sequence[str], activation: str
    ) -> tuple[Op, tuple[str, ...]]:
        """The int8 operator of the output, and its operands in its order."""
        y = self.quantization
        while len(inputs) > op.most_inputs:
            first, rest = self._int8(op, inputs[: op.most_inputs], "none"), inputs[op.most_inputs :]
            inputs = (self._inner(*first, "concatenation", self.y().type), *rest)
        types = [self.converter.tensors[name].type for name in inputs]
        made = op.int8(types, y)
        limits = multipliers.activation_limits(activation, *y)
        if limits != multipliers.INT8:
            made = made.with_channel_limits(*limits)
        order = op.order(*(kind.shape for kind in types))
        return made, tuple(inputs[i] for i in order)

    def _inner(self, op: Op, inputs: tuple[str, ...], part: str, like: TensorType) -> str:
        """A node before the last one; its output is quantized as `like`."""
        kind = replace(like, shape=self._shape(op, inputs))
        y = self.converter.intermediate(f"{self.y().name}/{part}", kind)
        self.converter.node(op, inputs, y)
        return y

    def _shape(self, op: Op, inputs: tuple[str, ...]) -> Shape:
        (kind,) = op.infer(*(self.converter.tensors[name].type for name in inputs))
        return kind.shape


Rule = Callable[[Int8Operator], None]

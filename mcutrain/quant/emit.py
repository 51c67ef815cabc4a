"""A simplified float graph and the quantization of its tensors become the int8 graph.

The nodes are those that the readers of int8 files make, with the same multipliers. So the graph is
one that a .tflite file of the same network would give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import ModelError
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.names import Names
from mcutrain.ir.op import Op
from mcutrain.ops.concatenation import MOST_INPUTS, Concatenation
from mcutrain.quant import multipliers
from mcutrain.quant.canonical import canonical
from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_op import Quantization, Shape
from mcutrain.quant.float_sums import Sums

Array = npt.NDArray[Any]


def emit(graph: FloatGraph, quantizations: Mapping[str, Quantization]) -> Graph:
    """The int8 graph, in canonical form. Raises ModelError with the node it cannot express."""
    emitter = Emitter(graph, quantizations)
    for node in graph.nodes:
        try:
            node.op.emit(emitter, node)
        except ValueError as error:
            raise ModelError(f"node {node.name!r}: {error}") from error
    return canonical(emitter.result())


class Emitter:
    """One graph in the making. Operators emit their nodes through it."""

    def __init__(self, graph: FloatGraph, quantizations: Mapping[str, Quantization]) -> None:
        self.graph, self.quantizations = graph, quantizations
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.names, self.node_names = Names(), Names()
        self.rescaled: dict[tuple[str, Quantization], str] = {}
        for name in graph.shapes:
            self.names.take(name)
        self._add(graph.input, self._type(graph.input))

    def result(self) -> Graph:
        """Return what was emitted."""
        return Graph(
            self.graph.name,
            self.tensors,
            tuple(self.nodes),
            (self.graph.input,),
            self.graph.outputs,
        )

    def shape(self, name: str) -> Shape:
        """Shape of a tensor of the float graph."""
        return self.graph.shapes[name]

    def quantization(self, name: str) -> Quantization:
        """Quantization of a tensor of the float graph."""
        return self.quantizations[name]

    def tensor(self, name: str) -> str:
        """The int8 tensor that holds a tensor of the float graph: that of the same name."""
        return self.tensors[name].name

    def read(self, name: str, wanted: Quantization) -> str:
        """The int8 tensor under another quantization: a Rescale where it differs."""
        given = self.quantization(name)
        if given.is_like(wanted):
            return self.tensor(name)
        if (name, wanted) not in self.rescaled:
            output = self.names.take(f"{name}/rescaled")
            self._add(output, _activation(self.shape(name), wanted))
            op = multipliers.requantize(given, wanted)
            self._node(output, op, (self.tensor(name),), output)
            self.rescaled[name, wanted] = output
        return self.rescaled[name, wanted]

    def types(self, *names: str) -> list[TensorType]:
        """Types of int8 tensors."""
        return [self.tensors[name].type for name in names]

    def constant(self, name: str, data: Array, quantization: Quantization) -> str:
        """An int8 tensor of known numbers."""
        kind = _activation(data.shape, quantization)
        return self._constant(name, kind, quantization.codes(data))

    def limits(self, node: FloatNode) -> tuple[int, int]:
        """The int8 limits of the node's activation."""
        low, high = node.op.limits
        y = self.quantization(node.output)
        codes = np.rint(np.clip([low / y.scale, high / y.scale], -512, 512)) + y.zero_point
        return max(-128, int(codes[0])), min(127, int(codes[1]))

    def node(self, node: FloatNode, op: Op, inputs: tuple[str, ...]) -> None:
        """The int8 node that computes the output of a float node."""
        self._add(node.output, self._type(node.output))
        self._node(node.name, op, inputs, node.output)

    def computed(self, node: FloatNode, limits: tuple[int, int] = multipliers.INT8) -> None:
        """One int8 node. limits: of its activation."""
        y, shares = self.quantization(node.output), node.op.shares_quantization
        names = [self.read(n, y) if shares else self.tensor(n) for n in node.inputs]
        types = self.types(*names)
        op = node.op.int8(types, y)
        if limits != multipliers.INT8:
            op = op.with_channel_limits(*limits)
        order = node.op.order(*(kind.shape for kind in types))
        constants = [
            self._constant(f"{node.name}/{name}", kind, data)
            for name, kind, data in node.op.parameters(types, y)
        ]
        self.node(node, op, (*(names[i] for i in order), *constants))

    def sums(self, node: FloatNode, op: Sums) -> None:
        """A layer with its weight and bias."""
        x, y = self.quantization(node.inputs[0]), self.quantization(node.output)
        w, b, w_scales = op.integers(x.scale)
        scales = tuple(float(s) for s in w_scales)
        low, high = self.limits(node)
        stage = replace(multipliers.conv_requantize(x.scale, scales, *y), low=low, high=high)
        bias = multipliers.bias_without_overflow(w, op.channel_axis, b, stage)
        if bias is None:
            raise ModelError(
                f"the sums of node {node.name!r} overflow 32 bits; calibrate with samples that "
                "are like what the model was trained on"
            )
        axis = op.channel_axis
        w_name = self._constant(
            f"{node.name}/weight", TensorType(w.shape, "int8", scales, 0, axis), w
        )
        b_scales = tuple(x.scale * s for s in scales)
        b_name = self._constant(
            f"{node.name}/bias", TensorType(bias.shape, "int32", b_scales, 0, 0), bias
        )
        made = op.int8_type(op.window, x.zero_point, stage)
        self.node(node, made, (self.tensor(node.inputs[0]), w_name, b_name))

    def join(self, node: FloatNode, axis: int, constants: Sequence[tuple[int, Array]] = ()) -> None:
        """Concatenations of at most MOST_INPUTS tensors. constants: by their places among them."""
        y = self.quantization(node.output)
        names = [self.read(name, y) for name in node.inputs]
        for place, data in constants:
            names.insert(place, self.constant(f"{node.name}/constant", data, y))
        while len(names) > MOST_INPUTS:
            shapes = [self.tensors[n].type.shape for n in names[:MOST_INPUTS]]
            length = sum(s[axis] for s in shapes)
            shape = (*shapes[0][:axis], length, *shapes[0][axis + 1 :])
            part = self.names.take(f"{node.output}/part")
            self._add(part, _activation(shape, y))
            self._node(part, Concatenation(axis), tuple(names[:MOST_INPUTS]), part)
            names = [part, *names[MOST_INPUTS:]]
        if len(names) > 1:
            self.node(node, Concatenation(axis), tuple(names))
        else:
            self.node(node, multipliers.requantize(y, y), tuple(names))

    def _type(self, name: str) -> TensorType:
        return _activation(self.shape(name), self.quantization(name))

    def _add(self, name: str, kind: TensorType) -> None:
        self.tensors[name] = Tensor(name, kind)

    def _constant(self, name: str, kind: TensorType, data: Array) -> str:
        name = self.names.take(name)
        self.tensors[name] = Tensor(name, kind, np.ascontiguousarray(data))
        return name

    def _node(self, name: str, op: Op, inputs: tuple[str, ...], output: str) -> None:
        unique = self.node_names.take(name.split(";")[0] or output)
        self.nodes.append(Node(unique, op, inputs, (output,)))


def _activation(shape: Shape, quantization: Quantization) -> TensorType:
    return TensorType(shape, quantization.dtype, (quantization.scale,), quantization.zero_point)

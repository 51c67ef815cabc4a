"""A QDQ .onnx file under construction.

Every tensor of the graph is there twice: as integers after a QuantizeLinear, and as real numbers
after the DequantizeLinear behind it, which operators read. Images are [1, c, h, w]; the input has
the order of the .onnx file that the graph was read from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from mcutrain.formats.input_order import file_axes_of_input
from mcutrain.formats.layers import activation_of, following_reshape
from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.ir.names import Names
from mcutrain.quant.multipliers import INT8

Array = npt.NDArray[Any]

OPSET = 17
GELU_OPSET = 20  # the first with Gelu
IR_VERSIONS = {OPSET: 8, GELU_OPSET: 9}
EDGES = {"int8": TensorProto.FLOAT, "int16": TensorProto.INT64}
"""Types of inputs in the file, by those of the graph; int16 are token ids."""


def channels_first(shape: Sequence[int]) -> tuple[int, ...]:
    """[1, h, w, c] as [1, c, h, w]; vectors and matrices as they are."""
    return tuple(shape[i] for i in axis_order(len(shape)))


def axis_order(rank: int) -> tuple[int, ...]:
    """Place k of ONNX' shape is axis order[k] of ours."""
    return tuple(range(rank)) if rank < 3 else (0, rank - 1, *range(1, rank - 1))


def input_axes(graph: Graph, name: str) -> tuple[int, ...]:
    """The axes of an input in the order in which the file has them.

    That of the .onnx file that the graph was read from, if there is one; else channels first.
    """
    return file_axes_of_input(graph) or axis_order(len(graph.tensors[name].type.shape))


class OnnxWriter:
    """Collects what a graph needs."""

    def __init__(self, graph: Graph, opset: int) -> None:
        self.graph = graph
        self.left_out: set[str] = set()
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.names = Names()
        self.node_names = Names()
        for name in graph.tensors:
            self.names.take(name)
        for node in graph.nodes:
            self.node_names.take(node.name)
        self._real: dict[str, str] = {}
        self._real.update({name: self._begin(name) for name in graph.inputs})

    def name_ids(self, name: str, ids: str) -> None:
        """Note where token ids of the graph are."""
        self._real[name] = ids

    def type(self, name: str) -> TensorType:
        """The type of a tensor of the graph."""
        return self.graph.tensors[name].type

    def following_reshape(self, y: str) -> Node | None:
        """The Reshape that alone reads the tensor."""
        return following_reshape(self.graph, y)

    # ------------------------------------------------------------------ operators

    def real(self, name: str) -> str:
        """The real numbers of a tensor of the graph."""
        if name not in self._real:
            tensor = self.graph.tensors[name]
            assert tensor.data is not None, name
            order = axis_order(len(tensor.type.shape))
            kind = replace(tensor.type, shape=channels_first(tensor.type.shape))
            self._real[name] = self.parameter(name, tensor.data.transpose(order), kind)
        return self._real[name]

    def op(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Append an operator on real numbers; the final name of its output."""
        output = self.names.take(output)
        name = self.node_names.take(output)
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))
        return output

    def layer(self, node: Node, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Append the operator that a node of the graph is, under its name."""
        output = self.names.take(f"{node.outputs[0]}/real")
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=node.name, **attributes))
        return output

    def finish(self, real: str, y: str, limits: tuple[int, int] = INT8) -> None:
        """Clamp the real numbers, and make them the graph's tensor y."""
        kind = self.type(y)
        name = activation_of(kind, *limits)
        if name == "relu":
            real = self.op("Relu", [real], f"{y}/relu")
        elif name != "none":
            low, high = (
                self._limit(f"{y}/{end}", kind, limit) if limit != full else ""
                for end, limit, full in zip(("low", "high"), limits, INT8, strict=True)
            )
            given = [real, low, high] if high else [real, low]
            real = self.op("Clip", given, f"{y}/clip")
        is_output = y in self.graph.outputs
        stored = self.names.take(f"{y}/quantized") if is_output else y
        parameters = self._quantization(y, kind)
        self._append("QuantizeLinear", [real, *parameters], stored)
        read = y if is_output else self.names.take(f"{y}/dequantized")
        self._append("DequantizeLinear", [stored, *parameters], read)
        self._real[y] = read

    def _begin(self, name: str) -> str:
        """The input in real numbers, rounded to what its integers mean, channels first; or ids."""
        if self.type(name).dtype == "int16":
            return name
        parameters = self._quantization(name, self.type(name))
        stored = self.names.take(f"{name}/quantized")
        self._append("QuantizeLinear", [name, *parameters], stored)
        read = self.names.take(f"{name}/dequantized")
        self._append("DequantizeLinear", [stored, *parameters], read)
        there = input_axes(self.graph, name)
        perm = [there.index(axis) for axis in axis_order(len(there))]
        if perm == sorted(perm):
            return read
        return self.op("Transpose", [read], f"{name}/channels_first", perm=perm)

    def _append(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        """Append a node whose output's name is taken already."""
        name = self.node_names.take(output)
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attributes))

    # ------------------------------------------------------------------ constants

    def constant(self, name: str, data: Array) -> str:
        """Numbers that the graph does not have; their final name."""
        name = self.names.take(name)
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(data), name))
        return name

    def parameter(self, name: str, data: Array, kind: TensorType) -> str:
        """A weight, bias or other constant of the graph, dequantized; the real numbers' name."""
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(data), name))
        per_channel = len(kind.scales) > 1
        scales = np.array(kind.scales, np.float32)
        zero_points = np.full(len(scales), kind.zero_point, data.dtype)
        pair = [scales, zero_points] if per_channel else [scales[0], zero_points[0]]
        texts = ("scale", "zero_point")
        given = [
            self.constant(f"{name}/{text}", np.asarray(values))
            for text, values in zip(texts, pair, strict=True)
        ]
        axis = {"axis": kind.axis % len(kind.shape)} if per_channel else {}
        read = self.names.take(f"{name}/dequantized")
        self._append("DequantizeLinear", [name, *given], read, **axis)
        return read

    def _quantization(self, name: str, kind: TensorType) -> list[str]:
        scale = self.constant(f"{name}/scale", np.array(kind.scale, np.float32))
        return [scale, self.constant(f"{name}/zero_point", np.array(kind.zero_point, np.int8))]

    def _limit(self, name: str, kind: TensorType, stored: int) -> str:
        real = np.float32((stored - kind.zero_point) * np.float64(kind.scale))
        return self.constant(name, np.asarray(real))

    # ------------------------------------------------------------------ the file

    def model(self, description: str) -> ModelProto:
        """All of it; real numbers in and out."""
        value = helper.make_tensor_value_info
        inputs = [
            value(n, EDGES[kind.dtype], [kind.shape[i] for i in input_axes(self.graph, n)])
            for n in self.graph.inputs
            for kind in [self.type(n)]
        ]
        outputs = [
            value(n, TensorProto.FLOAT, channels_first(self.type(n).shape))
            for n in self.graph.outputs
        ]
        graph = helper.make_graph(self.nodes, self.graph.name, inputs, outputs, self.initializers)
        opset = helper.make_opsetid("", self.opset)
        model = helper.make_model(
            graph,
            opset_imports=[opset],
            ir_version=IR_VERSIONS[self.opset],
            producer_name="mcutrain",
            producer_version=version("mcutrain"),
            doc_string=description,
        )
        onnx.checker.check_model(model)
        return model

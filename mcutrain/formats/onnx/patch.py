"""The original .onnx file with other parameters: all the rest survives as it is.

A file in operator form comes out in QDQ form.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from mcutrain.formats.onnx.external import has_data_beside
from mcutrain.formats.onnx.file import read_model, tensor_to_array
from mcutrain.formats.onnx.patch_head import resize_outputs
from mcutrain.formats.onnx.qoperator import with_qdq
from mcutrain.formats.onnx.write_sums import columns_channels_first
from mcutrain.ir.difference import changed, is_rescaled
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.names import Names
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.reshape import Reshape
from mcutrain.sparse import find_head

Array = npt.NDArray[Any]

WEIGHT, BIAS = 1, 2
WEIGHTED = ("Conv", "Gemm", "MatMul")
NORMALIZATION = "LayerNormalization"


@dataclass(frozen=True)
class Parameter:
    """What a layer reads, as the file holds it: integers, their scales along axis, a name.

    scales: of the integers, of one length with the axis or 1.
    """

    name: str
    data: Array
    scales: Array
    axis: int


def patched(path: Path, original: Graph, trained: Graph) -> bytes | None:
    """The file with the trained graph's parameters; None if it is not known where they go."""
    names = changed(original, trained)
    if not names:
        content = path.read_bytes()
        return read_model(path).SerializeToString() if has_data_beside(content) else content
    file = _File(with_qdq(read_model(path)))
    resized = is_rescaled(original, trained)
    for name in names:
        node, *others = (n for n in trained.nodes if name in n.inputs)
        layer = file.layers.get(node.name)
        position = node.inputs.index(name)
        if others or layer is None or position not in (WEIGHT, BIAS):
            return None
        if position in node.op.factors:
            if layer.op_type != NORMALIZATION or not file.set_factor(
                layer, trained, node, position
            ):
                return None
            continue
        before = original.tensors.get(name)
        is_resized = before is None or before.type != trained.tensors[name].type
        resized = resized or is_resized
        if position == WEIGHT:
            file.set_weight(layer, _weight(trained, node, layer), is_resized)
        else:
            file.set_bias(layer, _bias(trained, node, layer), is_resized)
    if resized:
        heads = find_head(original), find_head(trained)
        classes = [
            g.tensors[h.bias].type.elements for g, h in zip((original, trained), heads, strict=True)
        ]
        last = trained.logits_node(heads[1].node)
        kinds = [trained.tensors[n.outputs[0]].type for n in dict.fromkeys((heads[1].node, last))]
        resize_outputs(file.model, file.layers[heads[0].name], (classes[0], classes[1]), kinds)
    file.drop_unused()
    return bytes(file.model.SerializeToString(deterministic=True))


# --------------------------------------------------------------------------------------- as stored


def _weight(graph: Graph, node: Node, layer: NodeProto) -> Parameter:
    """The weight in the layout of the ONNX operator."""
    tensor = graph.tensors[node.inputs[WEIGHT]]
    assert tensor.data is not None
    scales = np.array(tensor.type.scales, np.float32)
    if layer.op_type == "Conv":
        order = (3, 0, 1, 2) if isinstance(node.op, DepthwiseConv2D) else (0, 3, 1, 2)
        return Parameter(tensor.name, tensor.data.transpose(order), scales, 0)
    matrix = tensor.data.reshape(len(tensor.data), -1)
    before = graph.producer(node.inputs[0])
    if before is not None and isinstance(before.op, Reshape):
        matrix = columns_channels_first(matrix, graph.tensors[before.inputs[0]].type.shape)
    is_transposed = layer.op_type == "Gemm" and _attribute(layer, "transB", 0)
    if is_transposed:
        return Parameter(tensor.name, matrix, scales, 0)
    return Parameter(tensor.name, matrix.T, scales, 1)


def _bias(graph: Graph, node: Node, layer: NodeProto) -> Parameter:
    """The bias; Gemm's beta is taken out of its scale."""
    tensor = graph.tensors[node.inputs[BIAS]]
    assert tensor.data is not None
    beta = float(_attribute(layer, "beta", 1.0)) if layer.op_type == "Gemm" else 1.0
    return Parameter(tensor.name, tensor.data, np.array(tensor.type.scales) / beta, 0)


def _attribute(node: NodeProto, name: str, default: float) -> float:
    for attribute in node.attribute:
        if attribute.name == name:
            return float(helper.get_attribute_value(attribute))
    return default


# --------------------------------------------------------------------------------------- the file


class _File:
    """A model's nodes and initializers by name, changed in place."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.graph = model.graph
        self.initializers: dict[str, TensorProto] = {t.name: t for t in self.graph.initializer}
        self.layers = {
            n.name or n.output[0]: n
            for n in self.graph.node
            if n.op_type in (*WEIGHTED, NORMALIZATION)
        }
        self.names = Names()
        for name in sorted(self.names_given()):
            self.names.take(name)
        self.unused = self.names_given() - self._read()

    def readers(self, name: str) -> list[NodeProto]:
        """The nodes that read a tensor."""
        return [n for n in self.graph.node if name in n.input]

    def producer(self, name: str) -> NodeProto | None:
        """The node that computes a tensor."""
        return next((n for n in self.graph.node if name in n.output), None)

    def set_weight(self, layer: NodeProto, weight: Parameter, is_resized: bool) -> None:
        """Give a layer its weight."""
        if is_resized or not self._replaced(layer, WEIGHT, weight):
            self._rewire(layer, WEIGHT, weight)

    def set_bias(self, layer: NodeProto, bias: Parameter, is_resized: bool) -> None:
        """Give a layer its bias: its third input, or what an Add after a MatMul adds."""
        reader, position = layer, BIAS
        if layer.op_type == "MatMul" or len(layer.input) <= BIAS or not layer.input[BIAS]:
            found = self._addition(layer)
            if found is not None:
                reader, position = found
            elif layer.op_type == "MatMul":
                reader, position = self._added(layer, bias), 1
        if is_resized or not self._replaced(reader, position, bias):
            self._rewire(reader, position, bias)

    def set_factor(self, layer: NodeProto, graph: Graph, node: Node, position: int) -> bool:
        """Give a normalization its gamma or beta, if the file has it in float, along one axis."""
        name = layer.input[position] if position < len(layer.input) else ""
        old = self.initializers.get(name)
        if old is None or old.data_type != TensorProto.FLOAT or len(old.dims) != 1:
            return False
        tensor = graph.tensors[node.inputs[position]]
        assert tensor.data is not None
        scales = np.array(tensor.type.scales)
        return self._replaced(layer, position, Parameter(tensor.name, tensor.data, scales, 0))

    def drop_unused(self) -> None:
        """Without the constants that nothing reads any more, and the nodes on them."""
        kept = self._read() | self.unused
        while dead := [n for n in self.graph.node if not kept.intersection(n.output)]:
            for node in dead:
                self.graph.node.remove(node)
            kept = self._read() | self.unused
        for tensor in [t for t in self.graph.initializer if t.name not in kept]:
            self.graph.initializer.remove(tensor)

    def names_given(self) -> set[str]:
        """The names of constants and of what nodes compute."""
        return {*self.initializers, *(name for n in self.graph.node for name in n.output)}

    def _read(self) -> set[str]:
        """The names that nodes read, and the outputs."""
        names = {name for n in self.graph.node for name in n.input}
        return names | {o.name for o in self.graph.output}

    def _replaced(self, reader: NodeProto, position: int, parameter: Parameter) -> bool:
        """Overwrite the initializer where the layer alone reads it, in its own type."""
        if position >= len(reader.input) or not reader.input[position]:
            return False
        name = reader.input[position]
        source = self.producer(name)
        if source is not None:
            if source.op_type != "DequantizeLinear" or len(self.readers(name)) != 1:
                return False
            name = source.input[0]
        if name not in self.initializers or len(self.readers(name)) != 1:
            return False
        old = tensor_to_array(self.initializers[name])
        new = _in_type(old, parameter, self._zero_point(source))
        if new is None:
            return False
        self.initializers[name].CopyFrom(numpy_helper.from_array(new.reshape(old.shape), name))
        return True

    def _zero_point(self, source: NodeProto | None) -> Array:
        if source is None or len(source.input) < 3 or source.input[2] not in self.initializers:
            return np.zeros(1, np.int64)
        return tensor_to_array(self.initializers[source.input[2]]).astype(np.int64)

    def _rewire(self, reader: NodeProto, position: int, parameter: Parameter) -> None:
        """Read a new initializer through a DequantizeLinear of its own."""
        scales = parameter.scales.astype(np.float32)
        per_channel = scales.size > 1
        values = [parameter.data, scales if per_channel else scales.reshape(())]
        texts = ("", "/scale")
        names = [self.names.take(parameter.name + text) for text in texts]
        for name, value in zip(names, values, strict=True):
            stored = numpy_helper.from_array(np.ascontiguousarray(value), name)
            self.graph.initializer.append(stored)
            self.initializers[name] = self.graph.initializer[-1]
        output = self.names.take(f"{parameter.name}/dequantized")
        attributes: dict[str, Any] = {"axis": parameter.axis} if per_channel else {}
        node = helper.make_node("DequantizeLinear", names, [output], name=output, **attributes)
        place = next(i for i, n in enumerate(self.graph.node) if n is reader or n == reader)
        while len(reader.input) <= position:
            reader.input.append("")
        reader.input[position] = output
        self.graph.node.insert(place, node)

    def _addition(self, layer: NodeProto) -> tuple[NodeProto, int] | None:
        """The Add of a constant after a layer, and which of its inputs is the constant."""
        readers = self.readers(layer.output[0])
        if len(readers) != 1 or readers[0].op_type != "Add":
            return None
        other = 1 - list(readers[0].input).index(layer.output[0])
        name = readers[0].input[other]
        source = self.producer(name)
        is_constant = name in self.initializers or (
            source is not None and all(n in self.initializers for n in source.input)
        )
        return (readers[0], other) if is_constant else None

    def _added(self, layer: NodeProto, bias: Parameter) -> NodeProto:
        """A new Add after a layer that has none."""
        output = layer.output[0]
        layer.output[0] = self.names.take(f"{output}/products")
        node = helper.make_node(
            "Add", [layer.output[0], ""], [output], name=self.names.take(f"{bias.name}/add")
        )
        place = next(i for i, n in enumerate(self.graph.node) if n == layer)
        self.graph.node.insert(place + 1, node)
        added: NodeProto = self.graph.node[place + 1]
        return added


def _in_type(old: Array, parameter: Parameter, zero_point: Array) -> Array | None:
    """The parameter in the element type that the file has for it; None if that loses something."""
    if old.size != parameter.data.size:
        return None
    if old.dtype == np.float32:
        real = (parameter.data * parameter.scales).astype(np.float32)
        is_exact = np.array_equal(np.rint(real / parameter.scales), parameter.data)
        return real if is_exact and parameter.data.dtype == np.int32 else None
    if zero_point.size != 1:
        return (
            parameter.data if old.dtype == parameter.data.dtype and not zero_point.any() else None
        )
    limits = np.iinfo(old.dtype)
    shifted = parameter.data.astype(np.int64) + zero_point.ravel()[0]
    fits = limits.min <= shifted.min(initial=0) and shifted.max(initial=0) <= limits.max
    return shifted.astype(old.dtype) if fits else None

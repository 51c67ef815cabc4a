"""int8 .onnx models in QDQ form become graphs.

Every operator of the file stands between DequantizeLinear and QuantizeLinear; we take the integers
they speak of and compute in integers, by TFLite's rules. onnxruntime computes the same in float, so
single outputs may differ by a step.

Differences to the file: activations are [1, h, w, c] instead of [1, c, h, w]; uint8 activations are
int8, smaller by 128; the QuantizeLinear of the input and the DequantizeLinear of the output are
gone, so the graph takes and gives int8; an input that the file transposes from [1, h, w, c]
stays as it is. A pool, Pad or Softmax whose QuantizeLinear has another
scale than its operator gives is followed by a Rescale: first the operator on the input's
integers, then the new scale, then activations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.onnx import constants
from mcutrain.formats.onnx.file import Attributes, opsets, read_model, tensor_to_array
from mcutrain.formats.onnx.node import OnnxNode
from mcutrain.formats.onnx.old import with_attributes
from mcutrain.formats.onnx.operators import apply
from mcutrain.formats.onnx.values import (
    MAX_ELEMENTS,
    Builder,
    Constant,
    GraphInput,
    Value,
    as_image,
    is_linear,
    same_order,
)
from mcutrain.ir.graph import Graph
from mcutrain.quant.canonical import canonical

INPUT_TYPES = {TensorProto.FLOAT: "", TensorProto.INT8: "int8", TensorProto.UINT8: "uint8"}
MAX_OUTPUTS = 64
OLDEST_QDQ_OPSET = 10
OTHER_FORMS = ("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger")


def load_onnx(path: str | Path) -> Graph:
    """The int8 graph of a QDQ model in canonical form.

    The graph's input is int8 [1, h, w, c] (or [1, n]) with the quantization of the model's first
    QuantizeLinear; an image output is [1, h, w, c], a vector [1, n]. Raises UnsupportedError
    for what is valid but unknown, ModelError for what is broken.
    """
    model = read_model(path)
    (opset,) = opsets(model)
    _check_form(model.graph, opset)
    reader = _Reader(Builder(), opset)
    name = _declare(reader, model.graph)
    if len(model.graph.output) > MAX_OUTPUTS:
        raise UnsupportedError(f"more than {MAX_OUTPUTS} outputs are not supported")
    for index, proto in enumerate(model.graph.node):
        reader.visit(proto, index)
    outputs = tuple(reader.output(info.name) for info in model.graph.output)
    if name not in reader.builder.tensors or not outputs:
        raise ModelError(f"the model {str(path)!r} computes nothing from its input {name!r}")
    if len(set(outputs)) != len(outputs):
        raise UnsupportedError("two outputs of the model are the same; leave one")
    builder = reader.builder
    graph = Graph(Path(path).stem, builder.tensors, tuple(builder.nodes), (name,), outputs)
    return canonical(graph.with_nodes(graph.nodes))


def _check_form(graph: GraphProto, opset: int) -> None:
    found = {node.op_type for node in graph.node}
    if found.intersection(OTHER_FORMS):
        raise UnsupportedError(
            "the model is quantized in operator form (QLinearConv …); export it in QDQ form, with "
            "QuantizeLinear and DequantizeLinear"
        )
    if "QuantizeLinear" not in found and "DequantizeLinear" not in found:
        raise UnsupportedError(
            "the model is float: it has no QuantizeLinear or DequantizeLinear; quantize it to int8 "
            "first: `mcutrain quantize` does it"
        )
    if opset < OLDEST_QDQ_OPSET:
        raise ModelError(
            f"the model is of opset {opset}, but QuantizeLinear is of opset {OLDEST_QDQ_OPSET} and "
            "later: export it anew"
        )


@dataclass
class _Reader:
    """The values of the ONNX tensors seen so far."""

    builder: Builder
    opset: int
    values: dict[str, Value | Constant] = field(default_factory=dict)

    def define(self, name: str, value: Value | Constant) -> None:
        """Note a value. Raises ModelError if the name has one."""
        if name in self.values:
            raise ModelError(f"the tensor {name!r} is defined twice")
        self.values[name] = value

    def visit(self, proto: NodeProto, index: int) -> None:
        """Apply the rule for a node."""
        node = self._node(proto, index)
        on_constants = all(not isinstance(v, Value) for v in node.inputs)
        rule = constants.RULES.get(node.op_type)
        if rule and (on_constants or node.op_type == "Shape"):
            try:
                result: Value | Constant = rule(self.builder, node)
            except (ValueError, IndexError, OverflowError) as error:
                raise node.wrong(str(error)) from error
        else:
            result = apply(self.builder, node)
        if node.attributes.unread:
            unread = node.attributes.unread[0]
            raise node.unsupported(f"the attribute {unread} is not; leave it out: the others are")
        if isinstance(result, Value) and math.prod(result.shape) > MAX_ELEMENTS:
            raise node.wrong(f"the output {result.shape} has more than {MAX_ELEMENTS} numbers")
        self.define(node.outputs[0], result)

    def _node(self, proto: NodeProto, index: int) -> OnnxNode:
        outputs = tuple(proto.output)
        name = proto.name or (outputs[0] if outputs and outputs[0] else f"node {index}")
        if not outputs or not outputs[0]:
            raise ModelError(f"{proto.op_type} (node {name!r}) has no output")
        if proto.domain not in ("", "ai.onnx"):
            raise UnsupportedError(
                f"{proto.op_type} (node {name!r}) is of the domain {proto.domain!r}; only ONNX's "
                "own operators are supported"
            )
        where = f"{proto.op_type} (node {name!r})"
        found = tuple(self._lookup(n, where) if n else None for n in proto.input)
        attributes = Attributes(where, {a.name: a for a in proto.attribute})
        inputs = with_attributes(proto.op_type, self.opset, found, attributes)
        return OnnxNode(name, proto.op_type, self.opset, inputs, outputs, attributes)

    def _lookup(self, name: str, where: str) -> Value | Constant:
        if name not in self.values:
            raise ModelError(
                f"{where} reads {name!r}, which nothing before it computes: it is missing, or "
                "the nodes form a cycle"
            )
        return self.values[name]

    def output(self, name: str) -> str:
        """The int8 tensor of a graph output, in the shape a user expects."""
        value = self.values.get(name)
        if not isinstance(value, Value):
            raise ModelError(f"the output {name!r} is not computed from the input")
        quantization = value.source.quantization
        if quantization is None:
            raise UnsupportedError(
                f"the output {name!r} is float; a QuantizeLinear (and DequantizeLinear) before it "
                "is supported"
            )
        image = as_image(f"the output {name!r}", value.shape)
        tensor = self.builder.emit(value, name, quantization)
        if same_order(value.image, image):
            channels, *spatial = value.shape[1:]
            return self.builder.reshape(tensor, (1, *spatial, channels), name)
        if is_linear(value.image):
            return self.builder.reshape(tensor, value.shape, name)
        raise UnsupportedError(
            f"the output {name!r} flattens an image channels first; outputs [1, c, h, w], "
            "[1, h, w, c] and flattened [1, c, 1, 1] are supported"
        )


def _declare(reader: _Reader, graph: GraphProto) -> str:
    """Note the initializers and the one input; its name."""
    for tensor in graph.initializer:
        data = tensor_to_array(tensor)
        reader.builder.spend(data.nbytes)
        reader.define(tensor.name, Constant(tensor.name, data))
    inputs = [info for info in graph.input if info.name not in reader.values]
    if len(inputs) != 1:
        names = ", ".join(repr(info.name) for info in inputs[:8])
        raise UnsupportedError(f"the model has {len(inputs)} inputs ({names}); one is supported")
    (info,) = inputs
    if info.type.tensor_type.elem_type not in INPUT_TYPES:
        raise UnsupportedError(f"input {info.name!r} is not float, int8 or uint8, as supported")
    shape = _input_shape(info)
    image = as_image(f"the input {info.name!r}", shape)
    ours = (1, *shape[2:], shape[1])
    if _is_channels_last(graph, str(info.name), len(shape)):
        image, ours = (1, 1, math.prod(shape)), shape
    value = Value(GraphInput(info.name, ours, image), image, shape)
    integer_type = INPUT_TYPES[info.type.tensor_type.elem_type]
    name = str(info.name)
    reader.builder.reserved.add(name)
    reader.define(name, replace(value, integer_type=integer_type))
    return name


def _is_channels_last(graph: GraphProto, name: str, rank: int) -> bool:
    """Whether all that the model does with its input is to move the last axis to the front.

    So do files that were converted from TensorFlow; the input is [1, h, w, c] for their users.
    """
    names, transposes = {name}, 0
    for node in graph.node:
        if not names.intersection(node.input):
            continue
        if node.op_type in ("QuantizeLinear", "DequantizeLinear", "Identity"):
            names.update(node.output)
        elif node.op_type == "Transpose":
            order = [tuple(a.ints) for a in node.attribute if a.name == "perm"]
            if order != [(0, rank - 1, *range(1, rank - 1))]:
                return False
            transposes += 1
        else:
            return False
    return transposes > 0 and rank > 2


def _input_shape(info: ValueInfoProto) -> tuple[int, ...]:
    """The shape; only the batch may be left open, and is 1."""
    dims = info.type.tensor_type.shape.dim
    shape = tuple(d.dim_value if d.HasField("dim_value") else None for d in dims)
    if not shape or None in shape[1:]:
        raise UnsupportedError(
            f"input {info.name!r} has an open shape {shape}; all but the batch must be fixed"
        )
    fixed = tuple(d for d in (1 if shape[0] is None else shape[0], *shape[1:]) if d is not None)
    if min(fixed) < 1 or math.prod(fixed) > MAX_ELEMENTS:
        raise ModelError(f"input {info.name!r} has the impossible shape {fixed}")
    if fixed[0] != 1:
        raise UnsupportedError(f"input {info.name!r} has a batch of {fixed[0]}; 1 is supported")
    return fixed

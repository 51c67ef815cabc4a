"""Float .onnx models become float graphs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.onnx.file import (
    Attributes,
    opsets,
    read_model,
    tensor_to_array,
    type_name,
)
from mcutrain.formats.onnx.float_constants import RULES as CONSTANT_RULES
from mcutrain.formats.onnx.float_layout import Nodes, Placed
from mcutrain.formats.onnx.float_node import FloatOnnx
from mcutrain.formats.onnx.float_rules import RULES
from mcutrain.formats.onnx.node import OnnxNode
from mcutrain.formats.onnx.old import with_attributes
from mcutrain.formats.onnx.values import Builder, Constant
from mcutrain.quant.float_graph import MAX_ELEMENTS, FloatGraph, FloatNode
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_shapes import FloatReshape

MAX_OUTPUTS = 16
WALK = 16  # operators between the input and a Transpose that tells its layout
ELEMENTWISE = {"Add", "Cast", "Div", "Identity", "Mul", "Pad", "Sub", "Squeeze", "Unsqueeze"}
"""What may lie between the input and a Transpose that tells its layout."""


def read_onnx(path: Path) -> FloatGraph:
    """The float graph of an .onnx file. Raises ModelError with a sentence.

    An input [1, c, h, w] becomes [1, h, w, c], unless the model itself begins with a Transpose from
    channels last, as converters from TensorFlow write it.
    """
    try:
        model = read_model(path)
        found = {node.op_type for node in model.graph.node}
        if "QuantizeLinear" in found:
            raise UnsupportedError("the model is quantized already; give the float model")
        return _Reader(opsets(model)[0]).graph(model.graph, path.stem)
    except ModelError as error:
        text = str(error)
        raise type(error)(text if str(path) in text else f"{path}: {text}") from error
    except (ArithmeticError, LookupError, MemoryError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"{path} is corrupt: {reason}") from error


class _Reader:
    """The values of the ONNX tensors seen so far."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes = Nodes()
        self.budget = Builder()
        self.values: dict[str, Placed | Constant] = {}
        self.axes: dict[str, tuple[int, ...]] = {}

    def graph(self, graph: GraphProto, name: str) -> FloatGraph:
        """Convert every node in order."""
        tensor, shape = self._declare(graph)
        if not 0 < len(graph.output) <= MAX_OUTPUTS:
            raise UnsupportedError(f"{len(graph.output)} outputs are not supported; 1 to 16 are")
        for index, proto in enumerate(graph.node):
            self._visit(proto, index)
        outputs = [self._output(info.name, info.name) for info in graph.output]
        if len(set(outputs)) != len(outputs):
            raise UnsupportedError("two outputs of the model are the same; leave one")
        axes = {name: self.axes[name] for name in (tensor, *outputs)}
        return FloatGraph(name, tensor, shape, tuple(self.nodes.nodes), tuple(outputs), axes)

    def _define(self, name: str, value: Placed | Constant) -> None:
        if name in self.values:
            raise ModelError(f"the tensor {name!r} is defined twice")
        self.values[name] = value

    def _declare(self, graph: GraphProto) -> tuple[str, Shape]:
        """Note the initializers and the one input; its stored tensor and shape."""
        for initializer in graph.initializer:
            data = tensor_to_array(initializer)
            self.budget.spend(data.nbytes)
            self._define(initializer.name, Constant(initializer.name, data))
        inputs = [info for info in graph.input if info.name not in self.values]
        if len(inputs) != 1:
            names = ", ".join(repr(info.name) for info in inputs[:8])
            raise UnsupportedError(
                f"the model has {len(inputs)} inputs ({names}); one is supported: export it with "
                "one, the others as constants"
            )
        (info,) = inputs
        if info.type.tensor_type.elem_type != TensorProto.FLOAT:
            kind = type_name(info.type.tensor_type.elem_type)
            raise UnsupportedError(
                f"input {info.name!r} is {kind}; float (32 bits) is supported: export the model "
                "with a float input"
            )
        shape = _input_shape(info)
        order = [0, *range(2, len(shape)), 1]
        if _is_channels_last(graph, info.name):
            order = list(range(len(shape)))
        for name in (info.name, *(o.name for o in graph.output)):
            self.nodes.names.take(name)
        stored = tuple(shape[i] for i in order)
        self.nodes.shapes[info.name] = stored
        perm = tuple(order.index(i) for i in range(len(shape)))
        self.axes[info.name] = perm
        self._define(info.name, Placed(info.name, stored, perm, shape))
        return info.name, stored

    def _visit(self, proto: NodeProto, index: int) -> None:
        """Apply the rule for a node."""
        node = self._node(proto, index)
        front = node.front
        try:
            if all(v is None for v in node.values) and front.op_type in CONSTANT_RULES:
                self._define(node.name, CONSTANT_RULES[front.op_type](self.budget, front))
            elif front.op_type == "Shape":
                self._define(node.name, self._shape_of(node))
            elif front.op_type in RULES:
                self._define(node.name, RULES[front.op_type](node))
            else:
                raise front.unknown(RULES)
        except (ValueError, IndexError, OverflowError) as error:
            raise front.wrong(str(error)) from error
        if front.attributes.unread:
            raise front.unsupported(
                f"the attribute {front.attributes.unread[0]} is not; leave it out: the others are"
            )

    def _shape_of(self, node: FloatOnnx) -> Constant:
        """Shape of a tensor that is computed: known, as all shapes are."""
        shape = node.x().shape
        first = node.front.attributes.integer("start", 0)
        last = node.front.attributes.integer("end", len(shape))
        return Constant(node.name, np.array(shape[first:last], np.int64))

    def _node(self, proto: NodeProto, index: int) -> FloatOnnx:
        outputs = tuple(proto.output)
        name = proto.name or (outputs[0] if outputs and outputs[0] else f"node {index}")
        where = f"{proto.op_type} (node {name!r})"
        if not outputs or not outputs[0]:
            raise ModelError(f"{where} has no output")
        if proto.domain not in ("", "ai.onnx"):
            raise UnsupportedError(
                f"{where} is of the domain {proto.domain!r}; only ONNX's own operators are "
                "supported"
            )
        looked_up = tuple(self._lookup(n, where) if n else None for n in proto.input)
        attributes = Attributes(where, {a.name: a for a in proto.attribute})
        found = with_attributes(proto.op_type, self.opset, looked_up, attributes)
        constants = tuple(v if isinstance(v, Constant) else None for v in found)
        values = tuple(v if isinstance(v, Placed) else None for v in found)
        front = OnnxNode(name, proto.op_type, self.opset, constants, outputs, attributes)
        return FloatOnnx(front, values, self.nodes)

    def _lookup(self, name: str, where: str) -> Placed | Constant:
        if name not in self.values:
            raise ModelError(
                f"{where} reads {name!r}, which nothing before it computes: it is missing, or "
                "the nodes form a cycle"
            )
        return self.values[name]

    def _output(self, name: str, stem: str) -> str:
        """The stored tensor of an output, under the output's name, channels last."""
        value = self.values.get(name)
        if not isinstance(value, Placed):
            raise ModelError(f"the output {name!r} is not computed from the input")
        if value.tensor == name:
            raise UnsupportedError(f"the output {name!r} is the model's input")
        found = self.nodes.direct(value, stem)
        self.nodes.shapes[name], self.axes[name] = found.stored, found.perm
        self.nodes.nodes.append(
            FloatNode(f"{stem}/output", FloatReshape(found.stored), (found.tensor,), name)
        )
        return name


def _is_channels_last(graph: GraphProto, name: str) -> bool:
    """Whether the first operators on the input end in a Transpose from channels last."""
    for _ in range(WALK):
        readers = [node for node in graph.node if name in node.input]
        if len(readers) != 1 or not readers[0].output:
            return False
        (node,) = readers
        if node.op_type == "Transpose":
            perm = next((tuple(a.ints) for a in node.attribute if a.name == "perm"), ())
            return len(perm) >= 3 and perm[1] == len(perm) - 1
        if node.op_type not in ELEMENTWISE:
            return False
        name = node.output[0]
    return False


def _input_shape(info: ValueInfoProto) -> Shape:
    """The shape; only the batch may be left open, and is 1."""
    dims = info.type.tensor_type.shape.dim
    shape = tuple(d.dim_value if d.dim_value > 0 else None for d in dims)
    if len(shape) < 2:
        raise UnsupportedError(
            f"input {info.name!r} has the shape {shape}; at least two axes are supported, of which "
            "the first is the batch"
        )
    if None in shape[1:]:
        open_axes = [i for i, length in enumerate(shape) if length is None and i > 0]
        raise UnsupportedError(
            f"input {info.name!r} has open lengths on the axes {open_axes}; all but the batch must "
            "be fixed: export the model without dynamic axes for them"
        )
    fixed = tuple(d for d in (1 if shape[0] is None else shape[0], *shape[1:]) if d is not None)
    if fixed[0] == 0 or min(fixed) < 1 or math.prod(fixed) > MAX_ELEMENTS or len(fixed) > 4:
        raise ModelError(f"input {info.name!r} has the impossible shape {fixed}")
    if fixed[0] != 1:
        raise UnsupportedError(
            f"input {info.name!r} has a batch of {fixed[0]}; 1 is supported: export the model with "
            "a batch of 1, or a dynamic one"
        )
    return fixed

"""A simplified float graph as an .onnx model, so that onnxruntime's quantizer can take it."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from mcutrain.quant.float_elementwise import Clamp, FloatAdd, FloatLeakyRelu, FloatMul, Function
from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_op import FloatOp, Shape
from mcutrain.quant.float_shapes import (
    FloatConcat,
    FloatMean,
    FloatPad,
    FloatPool,
    FloatReshape,
    FloatSoftmax,
)
from mcutrain.quant.float_sums import DepthwiseConv, Sums

Array = npt.NDArray[Any]

OPSET, IR_VERSION = 17, 8
ONNX_FUNCTIONS = {
    "elu": "Elu",
    "hard_swish": "HardSwish",
    "logistic": "Sigmoid",
    "tanh": "Tanh",
}


def to_onnx(graph: FloatGraph) -> onnx.ModelProto:
    """The model: images are [n, c, h, w] in it, other tensors as they are."""
    writer = Writer(graph)
    for node in graph.nodes:
        write(node.op, writer, node)
    value = helper.make_tensor_value_info
    made = helper.make_graph(
        writer.nodes,
        "model",
        [value(graph.input, TensorProto.FLOAT, _there(graph.input_shape))],
        [value(n, TensorProto.FLOAT, _there(graph.shapes[n])) for n in graph.outputs],
        writer.initializers,
    )
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(made, opset_imports=[opset], ir_version=IR_VERSION)


def channels_first(x: Array) -> Array:
    """Samples [n, …] as the model takes them."""
    return np.ascontiguousarray(np.moveaxis(x, -1, 1)) if x.ndim == 4 else x


def _there(shape: Shape) -> list[int | str]:
    rest = (shape[3], shape[1], shape[2]) if len(shape) == 4 else shape[1:]
    return ["n", *rest]


class Writer:
    """Nodes and constants of the model in the making."""

    def __init__(self, graph: FloatGraph) -> None:
        self.graph = graph
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def constant(self, data: Array, name: str) -> str:
        """An initializer."""
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(data), name))
        return name

    def add(self, op_type: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """A node."""
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=output, **attributes))
        return output

    def clamp(self, op: FloatOp, output: str) -> str:
        """The name for what comes before the activation, after the activation was added."""
        low, high = op.limits
        if (low, high) == (-np.inf, np.inf):
            return output
        before = f"{output}/before"
        self.add_clip(before, output, low, high)
        return before

    def add_clip(self, x: str, y: str, low: float, high: float) -> None:
        """Relu or Clip, put behind whatever computes x."""
        if (low, high) == (0, np.inf):
            self.pending = helper.make_node("Relu", [x], [y], name=y)
            return
        ends = [
            self.constant(np.float32(v), f"{y}/{end}") if np.isfinite(v) else ""
            for v, end in ((low, "low"), (high, "high"))
        ]
        self.pending = helper.make_node("Clip", [x, *ends], [y], name=y)

    pending: Any = None

    def flush(self) -> None:
        """Write the activation that waits."""
        if self.pending is not None:
            self.nodes.append(self.pending)
            self.pending = None


@singledispatch
def write(op: FloatOp, writer: Writer, node: FloatNode) -> None:
    """Add the ONNX nodes for a float node."""
    raise NotImplementedError(type(op).__name__)


@write.register
def _sums(op: Sums, writer: Writer, node: FloatNode) -> None:
    depthwise = isinstance(op, DepthwiseConv)
    order = (3, 0, 1, 2) if depthwise else (0, 3, 1, 2)
    w = writer.constant(op.w.transpose(order).astype(np.float32), f"{node.name}/w")
    b = writer.constant(op.b.astype(np.float32), f"{node.name}/b")
    top, bottom, left, right = op.window.padding
    channels = writer.graph.shapes[node.inputs[0]][3]
    output = writer.clamp(op, node.output)
    writer.add(
        "Conv",
        [node.inputs[0], w, b],
        output,
        strides=op.window.stride,
        dilations=op.window.dilation,
        pads=[top, left, bottom, right],
        group=channels if depthwise else 1,
    )
    writer.flush()


@write.register
def _add(op: FloatAdd, writer: Writer, node: FloatNode) -> None:
    output = writer.clamp(op, node.output)
    writer.add("Add" if op.sign > 0 else "Sub", list(node.inputs), output)
    writer.flush()


@write.register
def _clamp(op: Clamp, writer: Writer, node: FloatNode) -> None:
    writer.add_clip(node.inputs[0], node.output, *op.limits)
    writer.flush()


@write.register
def _mul(op: FloatMul, writer: Writer, node: FloatNode) -> None:
    writer.add("Mul", list(node.inputs), node.output)


@write.register
def _leaky(op: FloatLeakyRelu, writer: Writer, node: FloatNode) -> None:
    writer.add("LeakyRelu", list(node.inputs), node.output, alpha=op.alpha)


@write.register
def _function(op: Function, writer: Writer, node: FloatNode) -> None:
    writer.add(ONNX_FUNCTIONS[op.name], list(node.inputs), node.output)


@write.register
def _pool(op: FloatPool, writer: Writer, node: FloatNode) -> None:
    top, bottom, left, right = op.window.padding
    writer.add(
        "MaxPool" if op.largest else "AveragePool",
        list(node.inputs),
        node.output,
        kernel_shape=op.window.kernel,
        strides=op.window.stride,
        pads=[top, left, bottom, right],
    )


@write.register
def _mean(op: FloatMean, writer: Writer, node: FloatNode) -> None:
    writer.add("GlobalAveragePool", list(node.inputs), node.output)


@write.register
def _pad(op: FloatPad, writer: Writer, node: FloatNode) -> None:
    (top, bottom, left, right), (first, last) = op.padding, op.channels
    numbers = np.array([0, first, top, left, 0, last, bottom, right])
    pads = writer.constant(numbers, f"{node.name}/pads")
    value = writer.constant(np.float32(op.value), f"{node.name}/value")
    writer.add("Pad", [node.inputs[0], pads, value], node.output)


@write.register
def _softmax(op: FloatSoftmax, writer: Writer, node: FloatNode) -> None:
    axis = 1 if len(writer.graph.shapes[node.output]) == 4 else -1
    writer.add("Softmax", list(node.inputs), node.output, axis=axis)


@write.register
def _concat(op: FloatConcat, writer: Writer, node: FloatNode) -> None:
    image = len(writer.graph.shapes[node.output]) == 4
    axis = (0, 2, 3, 1)[op.axis] if image else op.axis
    writer.add("Concat", list(node.inputs), node.output, axis=axis)


@write.register
def _reshape(op: FloatReshape, writer: Writer, node: FloatNode) -> None:
    shape, name = writer.graph.shapes[node.inputs[0]], node.inputs[0]
    if len(shape) == 4:
        name = writer.add("Transpose", [name], f"{node.output}/last", perm=[0, 2, 3, 1])
    to = writer.constant(np.array([-1, *op.to[1:]], np.int64), f"{node.output}/shape")
    if len(op.to) != 4:
        writer.add("Reshape", [name, to], node.output)
        return
    name = writer.add("Reshape", [name, to], f"{node.output}/image")
    writer.add("Transpose", [name], node.output, perm=[0, 3, 1, 2])

"""One rule per operator of a graph: the operators of ONNX that mean the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mcutrain.errors import UnsupportedError
from mcutrain.formats.layers import minuend_first
from mcutrain.formats.onnx.write_sums import conv_2d, depthwise_conv_2d, strides_of
from mcutrain.formats.onnx.writer import GELU_OPSET, OnnxWriter, axis_order, channels_first
from mcutrain.ir.graph import Node
from mcutrain.ops.add import Add
from mcutrain.ops.add_channels import AddChannels
from mcutrain.ops.concatenation import Concatenation
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.leaky_relu import LeakyRelu
from mcutrain.ops.lookup import Lookup
from mcutrain.ops.mul import Mul
from mcutrain.ops.pad import Pad
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D, Mean
from mcutrain.ops.rescale import Rescale
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.softmax import Softmax
from mcutrain.ops.transpose import Transpose

AXES_OPSET = 18  # from which on ReduceMean reads its axes as an input

LOOKUPS: dict[str, tuple[str, dict[str, float]]] = {
    "elu": ("Elu", {}),
    "gelu": ("Gelu", {}),
    "hard_sigmoid": ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "hard_swish": ("HardSwish", {}),
    "logistic": ("Sigmoid", {}),
    "tanh": ("Tanh", {}),
}


def add(w: OnnxWriter, node: Node) -> None:
    """Add, or Sub where a factor is negative."""
    op = node.op
    assert isinstance(op, Add)
    real = dict(zip(node.inputs, _broadcast(w, node), strict=True))
    is_subtraction, operands = minuend_first(op, node.inputs)
    name = "Sub" if is_subtraction else "Add"
    sums = w.layer(node, name, [real[n] for n in operands])
    w.finish(sums, node.outputs[0], (op.low, op.high))


def mul(w: OnnxWriter, node: Node) -> None:
    """Mul."""
    op = node.op
    assert isinstance(op, Mul)
    w.finish(w.layer(node, "Mul", _broadcast(w, node)), node.outputs[0], (op.low, op.high))


def _broadcast(w: OnnxWriter, node: Node) -> list[str]:
    """Both operands; one with a number per channel gets as many axes as the other."""
    first, second = (w.type(n).shape for n in node.inputs)
    a, b = (w.real(n) for n in node.inputs)
    if len(first) == len(second):
        return [a, b]
    shape = channels_first((*(1 for _ in first[1:]), second[-1]))
    return [a, _reshaped(w, b, shape, f"{node.inputs[1]}/channels")]


def concatenation(w: OnnxWriter, node: Node) -> None:
    """Concat."""
    op = node.op
    assert isinstance(op, Concatenation)
    axis = axis_order(len(w.type(node.outputs[0]).shape)).index(op.axis)
    real = w.layer(node, "Concat", [w.real(n) for n in node.inputs], axis=axis)
    w.finish(real, node.outputs[0])


def pool(w: OnnxWriter, node: Node) -> None:
    """MaxPool, or AveragePool that does not count its padding."""
    op = node.op
    assert isinstance(op, (AveragePool2D, MaxPool2D))
    name = "MaxPool" if isinstance(op, MaxPool2D) else "AveragePool"
    attributes = {"kernel_shape": op.window.kernel, **strides_of(op.window)}
    if op.window.dilation == (1, 1):
        del attributes["dilations"]
    elif name == "AveragePool":
        raise UnsupportedError(f"node {node.name!r} averages with a dilation; .onnx has none")
    real = w.layer(node, name, [w.real(node.inputs[0])], **attributes)
    w.finish(real, node.outputs[0], (op.low, op.high))


def mean(w: OnnxWriter, node: Node) -> None:
    """ReduceMean over height and width."""
    op = node.op
    assert isinstance(op, Mean)
    x, y = node.inputs[0], node.outputs[0]
    if w.opset < AXES_OPSET:
        real = w.layer(node, "ReduceMean", [w.real(x)], axes=[2, 3], keepdims=1)
    else:
        axes = w.constant(f"{y}/axes", np.array([2, 3], np.int64))
        real = w.layer(node, "ReduceMean", [w.real(x), axes], keepdims=1)
    w.finish(real, y, (op.low, op.high))


def pad(w: OnnxWriter, node: Node) -> None:
    """Pad with the real number that the stored one means."""
    op = node.op
    assert isinstance(op, Pad)
    x, y = node.inputs[0], node.outputs[0]
    top, bottom, left, right = op.padding
    kind = w.type(x)
    real_value = np.float32((op.value - kind.zero_point) * kind.scale)
    widths = w.constant(f"{y}/pads", np.array([0, 0, top, left, 0, 0, bottom, right], np.int64))
    value = w.constant(f"{y}/value", np.asarray(real_value))
    w.finish(w.layer(node, "Pad", [w.real(x), widths, value], mode="constant"), y)


def reshape(w: OnnxWriter, node: Node) -> None:
    """Reshape, between Transposes where the channels are not last in both orders."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Reshape)
    if y in w.left_out:
        return
    shape = w.type(node.inputs[0]).shape
    real = w.real(node.inputs[0])
    if keeps_order(shape, op.shape):
        w.finish(_reshaped(w, real, channels_first(op.shape), f"{y}/real"), y)
        return
    real = channels_last(w, real, len(shape), f"{y}/channels_last")
    real = _reshaped(w, real, op.shape, f"{y}/reshaped")
    w.finish(_transposed(w, real, axis_order(len(op.shape)), f"{y}/real"), y)


def keeps_order(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether a Reshape between two shapes [1, …, c] is one between [1, c, …], too."""

    def is_linear(shape: Sequence[int]) -> bool:
        return len(shape) < 3 or shape[-1] == 1 or math.prod(shape[:-1]) == 1

    are_images = len(a) > 2 and len(b) > 2
    same_ends = (a[0], a[-1]) == (b[0], b[-1])
    return (is_linear(a) and is_linear(b)) or (are_images and same_ends)


def channels_last(w: OnnxWriter, real: str, rank: int, name: str) -> str:
    """[1, c, …] as [1, …, c]."""
    order = tuple(int(i) for i in np.argsort(axis_order(rank)))
    return _transposed(w, real, order, name)


def _transposed(w: OnnxWriter, real: str, order: Sequence[int], name: str) -> str:
    if list(order) == sorted(order):
        return real
    return w.op("Transpose", [real], name, perm=list(order))


def _reshaped(w: OnnxWriter, real: str, shape: Sequence[int], name: str) -> str:
    return w.op("Reshape", [real, w.constant(f"{name}/shape", np.array(shape, np.int64))], name)


def transpose(w: OnnxWriter, node: Node) -> None:
    """Transpose, of the axes in ONNX' order."""
    op = node.op
    assert isinstance(op, Transpose)
    order = axis_order(len(op.perm))
    places = [order.index(op.perm[axis]) for axis in order]
    w.finish(w.layer(node, "Transpose", [w.real(node.inputs[0])], perm=places), node.outputs[0])


def softmax(w: OnnxWriter, node: Node) -> None:
    """Softmax over the channels; a beta is a factor before it."""
    op = node.op
    assert isinstance(op, Softmax)
    x, y = node.inputs[0], node.outputs[0]
    kind, real = w.type(x), w.real(x)
    if op != Softmax.from_scale(kind.scale):
        beta = op.mult_q31 * 2.0 ** (op.left_shift - 31) / (kind.scale * 2.0**26)
        factor = w.constant(f"{y}/beta", np.array(beta, np.float32))
        real = w.op("Mul", [real, factor], f"{y}/scaled")
    axis = min(1, len(kind.shape) - 1)
    w.finish(w.layer(node, "Softmax", [real], axis=axis), y)


def leaky_relu(w: OnnxWriter, node: Node) -> None:
    """LeakyRelu."""
    op = node.op
    assert isinstance(op, LeakyRelu)
    positive, negative = (mult * 2.0**shift for mult, shift in (op.positive, op.negative))
    real = w.layer(node, "LeakyRelu", [w.real(node.inputs[0])], alpha=negative / positive)
    w.finish(real, node.outputs[0], (op.low, op.high))


def look_up(w: OnnxWriter, node: Node) -> None:
    """The function whose values the table holds."""
    op = node.op
    assert isinstance(op, Lookup)
    real = w.real(node.inputs[0])
    if op.function == "swish":
        share = w.op("Sigmoid", [real], f"{node.outputs[0]}/sigmoid")
        w.finish(w.layer(node, "Mul", [real, share]), node.outputs[0])
        return
    if op.function not in LOOKUPS:
        raise UnsupportedError(
            f"node {node.name!r} is a table of {op.function}, which is no operator of .onnx"
        )
    name, attributes = LOOKUPS[op.function]
    w.finish(w.layer(node, name, [real], **attributes), node.outputs[0])


def rescale(w: OnnxWriter, node: Node) -> None:
    """Nothing but another QuantizeLinear, and the limits before it."""
    op = node.op
    assert isinstance(op, Rescale)
    w.finish(w.real(node.inputs[0]), node.outputs[0], (op.low, op.high))


def opset_for(nodes: Sequence[Node], default: int) -> int:
    """The oldest opset that has all operators."""
    needs_gelu = any(isinstance(n.op, Lookup) and n.op.function == "gelu" for n in nodes)
    return GELU_OPSET if needs_gelu else default


EMITTERS: dict[type[Any], Callable[[OnnxWriter, Node], None]] = {
    Add: add,
    AddChannels: add,
    AveragePool2D: pool,
    Concatenation: concatenation,
    Conv2D: conv_2d,
    DepthwiseConv2D: depthwise_conv_2d,
    LeakyRelu: leaky_relu,
    Lookup: look_up,
    MaxPool2D: pool,
    Mean: mean,
    Mul: mul,
    Pad: pad,
    Rescale: rescale,
    Reshape: reshape,
    Softmax: softmax,
    Transpose: transpose,
}

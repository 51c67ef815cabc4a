"""Int8 .tflite models become graphs whose outputs equal TFLite's reference kernels bit for bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.frontends import multipliers
from mcutrain.frontends._tflite_file import (
    MISSING,
    OPERATOR_NAMES,
    FileModel,
    FileOperator,
    FileTensor,
    Names,
    read_file,
)
from mcutrain.frontends.canonical import canonical
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.add import Add
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.pad import Pad
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D, Mean
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.softmax import Softmax
from mcutrain.ops.spatial import Window

Array = npt.NDArray[Any]

LARGEST_PADDING = 1024
UINT8_OFFSET = 128  # an uint8 tensor is kept as int8: the stored integers minus this
POOL_SCALE_TOLERANCE = 1e-6  # pooling.cc: how far the scales of input and output may differ

ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: "none",
    tflite.ActivationFunctionType.RELU: "relu",
    tflite.ActivationFunctionType.RELU6: "relu6",
    tflite.ActivationFunctionType.RELU_N1_TO_1: "relu_n1_to_1",
}

# What the bindings and numpy raise when a damaged file leads them astray.
BINDING_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


def load_tflite(path: str | Path) -> Graph:
    """The int8 graph of a .tflite file, in canonical form. Raises ModelError with a sentence.

    Inputs and outputs are the int8 tensors: QUANTIZE and DEQUANTIZE at the edges are dropped, and
    an uint8 tensor there stands for its integers minus 128.
    """
    path = Path(path)
    try:
        model = read_file(path)
        _refuse_float(model)
        return canonical(_Converter(model).graph(path.stem))
    except ModelError as error:
        raise type(error)(f"{path}: {error}") from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    except BINDING_ERRORS as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"{path} is corrupt or truncated: {reason}") from error


def _refuse_float(model: FileModel) -> None:
    """A model without any int8 activation was never quantized."""
    computed = [model.tensors[i] for op in model.operators for i in op.outputs if i != MISSING]
    if computed and all(t.dtype in ("float32", "float16") for t in computed):
        raise UnsupportedError(
            "this is a float model; quantize it to int8 first: weights and activations "
            "(TensorFlow Lite calls it full integer quantization)"
        )


class _Converter:
    """One graph in the making. Operators emit their nodes through it."""

    def __init__(self, model: FileModel) -> None:
        self.model = model
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
            emit = EMITTERS.get(op.code)
            if emit is None:
                raise UnsupportedError(
                    f"{self.where(op)} is not supported; supported are "
                    f"{', '.join(sorted(SUPPORTED))}"
                )
            try:
                emit(_Operands(self, op))
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


class _Operands:
    """One operator of the file with what it reads and writes."""

    def __init__(self, converter: _Converter, op: FileOperator) -> None:
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
        expected = getattr(tflite.BuiltinOptions, table.__name__)
        if self.op.options is None or self.op.options_type != expected:
            raise ModelError(f"{self.where} lacks its {table.__name__}")
        options = table()
        options.Init(self.op.options.Bytes, self.op.options.Pos)
        return options

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

    def intermediate(self, op: Op, x: str, like: TensorType, shape: tuple[int, ...]) -> str:
        """A node before the last one; its output is quantized as `like`."""
        name = f"{self.y().name}/{type(op).__name__.lower()}"
        y = self.converter.intermediate(name, replace(like, shape=shape))
        self.converter.node(op, (x,), y)
        return y


# ------------------------------------------------------------------------------------------ shared


def _padding(
    o: _Operands, options: Any, size: tuple[int, ...], kernel: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Top, bottom, left, right for SAME or VALID; the odd element goes to the end.

    size, kernel: height and width; the kernel's is its span with dilation.
    """
    if options.Padding() == tflite.Padding.VALID:
        return (0, 0, 0, 0)
    if options.Padding() != tflite.Padding.SAME:
        raise ModelError(f"{o.where} has the unknown padding {options.Padding()}")
    strides = (options.StrideH(), options.StrideW())
    sides = []
    for n, k, stride in zip(size, kernel, strides, strict=True):
        steps = (n + stride - 1) // stride
        total = max((steps - 1) * stride + k - n, 0)
        sides += [total // 2, total - total // 2]
    _check_padding(o, sides)
    top, bottom, left, right = sides
    return top, bottom, left, right


def _check_padding(o: _Operands, sides: list[int]) -> None:
    if not all(0 <= side <= LARGEST_PADDING for side in sides):
        raise UnsupportedError(
            f"{o.where} pads by {sides}; supported are 0 to {LARGEST_PADDING} on each side"
        )


def _window(
    o: _Operands, options: Any, kernel: tuple[int, int], dilation: tuple[int, int] = (1, 1)
) -> Window:
    """The window of a convolution or pool over its input."""
    stride = (options.StrideH(), options.StrideW())
    if min(*kernel, *stride, *dilation) <= 0:
        raise ModelError(
            f"{o.where} has kernel {kernel}, stride {stride}, dilation {dilation}; "
            "all must be positive"
        )
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = _padding(o, options, o.image().type.shape[1:3], (spans[0], spans[1]))
    return Window(kernel, stride, dilation, padding)


def _weight(o: _Operands, rank: int, axis: int) -> FileTensor:
    """The constant int8 weight: symmetric, with one scale or one per output channel."""
    t = o.file_tensor(1)
    if t.dtype != "int8" or t.data is None:
        raise UnsupportedError(f"{o.where}: weight {t.name!r} must be constant and int8")
    if len(t.shape) != rank or 0 in t.shape:
        raise ModelError(f"{o.where}: weight {t.name!r} has the impossible shape {t.shape}")
    if not t.scales or (len(t.scales) > 1 and t.axis != axis):
        raise UnsupportedError(
            f"{o.where}: weight {t.name!r} needs one scale, or one per output channel (axis {axis})"
        )
    if any(t.zero_points):
        raise UnsupportedError(f"{o.where}: weight {t.name!r} must have zero point 0")
    return t


def _emit_weighted(
    o: _Operands,
    op: Conv2D | DepthwiseConv2D,
    x: str,
    weight: tuple[FileTensor, Array, int],
    y: str,
) -> None:
    """A convolution with its weight (file tensor, data, axis of the output channels) and bias."""
    t, data, axis = weight
    assert op.requantize is not None
    channels = data.shape[axis]
    bias = multipliers.bias_without_overflow(data, axis, _bias(o, channels), op.requantize)
    if bias is None:
        raise ModelError(f"{o.where}: its sums overflow 32 bits; are the scales damaged?")
    w_name = o.converter.constant(t.name, TensorType(data.shape, "int8", t.scales, 0, axis), data)
    x_scale = o.x().type.scale
    scales = tuple(x_scale * s for s in t.scales)
    fallback = f"{o.y().name}/bias"
    name = o.file_tensor(2).name if _has_bias(o) else o.converter.names.take(fallback)
    b_name = o.converter.constant(name, TensorType((channels,), "int32", scales, 0, 0), bias)
    o.converter.node(op, (x, w_name, b_name), y)


def _has_bias(o: _Operands) -> bool:
    return len(o.op.inputs) > 2 and o.op.inputs[2] != MISSING


def _bias(o: _Operands, channels: int) -> Array:
    """The constant int32 bias, or zeros."""
    if not _has_bias(o):
        return np.zeros(channels, np.int32)
    t = o.file_tensor(2)
    if t.dtype != "int32" or t.data is None:
        raise UnsupportedError(f"{o.where}: bias {t.name!r} must be constant and int32")
    if t.data.size != channels:
        raise ModelError(f"{o.where}: bias {t.name!r} has {t.data.size} elements, not {channels}")
    return t.data.reshape(channels)


def _quantization(t: Tensor) -> tuple[float, int]:
    return t.type.scale, t.type.zero_point


def _check_rescale(o: _Operands, shift: int) -> None:
    """255 shifted to the left must fit 32 bits."""
    if shift > 22:
        raise ModelError(f"{o.where}: its scales are too far apart; are they damaged?")


# --------------------------------------------------------------------------------------- operators


def _conv_2d(o: _Operands) -> None:
    options = o.options(tflite.Conv2DOptions)
    weight = _weight(o, rank=4, axis=0)
    assert weight.data is not None
    x, y = o.image(), o.y()
    if weight.shape[3] != x.type.shape[3]:
        raise UnsupportedError(
            f"{o.where} is a grouped convolution ({x.type.shape[3]} input channels, "
            f"{weight.shape[3]} per filter); supported are CONV_2D with one group and "
            "DEPTHWISE_CONV_2D"
        )
    dilation = (options.DilationHFactor(), options.DilationWFactor())
    window = _window(o, options, (weight.shape[1], weight.shape[2]), dilation)
    stage = multipliers.conv_requantize(x.type.scale, weight.scales, *_quantization(y))
    low, high = o.limits(options)
    op = Conv2D(window, x.type.zero_point, replace(stage, low=low, high=high))
    _emit_weighted(o, op, x.name, (weight, weight.data, 0), y.name)


def _depthwise_conv_2d(o: _Operands) -> None:
    options = o.options(tflite.DepthwiseConv2DOptions)
    weight = _weight(o, rank=4, axis=3)
    assert weight.data is not None
    x, y = o.image(), o.y()
    dilation = (options.DilationHFactor(), options.DilationWFactor())
    window = _window(o, options, (weight.shape[1], weight.shape[2]), dilation)
    stage = multipliers.conv_requantize(x.type.scale, weight.scales, *_quantization(y))
    low, high = o.limits(options)
    op = DepthwiseConv2D(window, x.type.zero_point, replace(stage, low=low, high=high))
    _emit_weighted(o, op, x.name, (weight, weight.data, 3), y.name)


def _fully_connected(o: _Operands) -> None:
    """A 1x1 convolution over an image of one row, one column per row of the input."""
    options = o.options(tflite.FullyConnectedOptions)
    if options.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise UnsupportedError(f"{o.where} has shuffled weights; supported is the plain order")
    weight = _weight(o, rank=2, axis=0)
    assert weight.data is not None
    units, features = weight.shape
    x, y = o.x(), o.y()
    rows = x.type.elements // features
    if rows == 0 or rows * features != x.type.elements:
        raise ModelError(f"{o.where}: input {x.type.shape} does not fit weight {weight.shape}")
    stage = multipliers.fully_connected_requantize(x.type.scale, weight.scales, *_quantization(y))
    low, high = o.limits(options)
    op = Conv2D(Window((1, 1)), x.type.zero_point, replace(stage, low=low, high=high))
    image = (1, 1, rows, features)
    x_name = o.intermediate(Reshape(image), x.name, x.type, image)
    data = weight.data.reshape(units, 1, 1, features)
    sums = o.converter.intermediate(f"{y.name}/conv", replace(y.type, shape=(1, 1, rows, units)))
    _emit_weighted(o, op, x_name, (weight, data, 0), sums)
    o.emit(Reshape(y.type.shape), sums)


def _add(o: _Operands) -> None:
    options = o.options(tflite.AddOptions)
    a, b, y = o.x(0), o.x(1), o.y()
    if a.type.shape != b.type.shape:
        raise UnsupportedError(
            f"{o.where} adds shapes {a.type.shape} and {b.type.shape}; supported are equal shapes"
        )
    scaled = multipliers.add_scales(_quantization(a), _quantization(b), _quantization(y))
    if scaled[2].shift > 0:
        raise ModelError(f"{o.where}: its scales are too far apart; are they damaged?")
    low, high = o.limits(options)
    o.emit(Add(*scaled, multipliers.ADD_LEFT_SHIFT, low, high), a.name, b.name)


def _pool(o: _Operands, kind: type[AveragePool2D] | type[MaxPool2D]) -> None:
    options = o.options(tflite.Pool2DOptions)
    x, y = o.image(), o.y()
    same_scale = abs(x.type.scale - y.type.scale) <= POOL_SCALE_TOLERANCE
    if not same_scale or x.type.zero_point != y.type.zero_point:
        raise ModelError(f"{o.where}: input and output of a pool must be quantized alike")
    window = _window(o, options, (options.FilterHeight(), options.FilterWidth()))
    low, high = o.limits(options)
    o.emit(kind(window, low, high), x.name)


def _average_pool_2d(o: _Operands) -> None:
    _pool(o, AveragePool2D)


def _max_pool_2d(o: _Operands) -> None:
    _pool(o, MaxPool2D)


def _mean(o: _Operands) -> None:
    o.options(tflite.ReducerOptions)
    x, y = o.image(), o.y()
    _, height, width, channels = x.type.shape
    axes = {int(a) + 4 if a < 0 else int(a) for a in o.integers(1).ravel()}
    needed = {axis for axis, n in ((1, height), (2, width)) if n > 1}
    if not needed <= axes <= {1, 2}:
        raise UnsupportedError(
            f"{o.where} averages over the axes {sorted(axes)}; supported are height and width"
        )
    mult, shift = multipliers.mean_multiplier(x.type.scale, y.type.scale, height * width)
    if height * width * 255 << max(shift, 0) >= 2**31:
        raise ModelError(f"{o.where}: its sums overflow 32 bits; are the scales damaged?")
    op = Mean(x.type.zero_point, y.type.zero_point, mult, shift)
    pixel = (1, 1, 1, channels)
    if y.type.shape == pixel:
        o.emit(op, x.name)
    else:
        o.emit(Reshape(y.type.shape), o.intermediate(op, x.name, y.type, pixel))


def _pad(o: _Operands) -> None:
    _emit_pad(o, o.y().type.zero_point)


def _pad_v2(o: _Operands) -> None:
    t = o.file_tensor(2)
    if t.data is None or t.data.size != 1 or t.dtype != "int8":
        raise UnsupportedError(f"{o.where}: its value {t.name!r} must be one constant int8")
    y = o.y().type
    if t.scales and (t.scales[0], t.zero_points[0]) != (y.scale, y.zero_point):
        raise ModelError(f"{o.where}: its value must be quantized as its output")
    _emit_pad(o, int(t.data.ravel()[0]))


def _emit_pad(o: _Operands, value: int) -> None:
    x = o.image()
    table = o.integers(1)
    if table.shape != (4, 2) or table[[0, 3]].any():
        raise UnsupportedError(
            f"{o.where} pads by {table.tolist()}; supported are height and width of [1,h,w,c]"
        )
    sides = [int(n) for n in table[1:3].ravel()]
    _check_padding(o, sides)
    top, bottom, left, right = sides
    o.emit(Pad((top, bottom, left, right), value), x.name)


def _reshape(o: _Operands) -> None:
    o.emit(Reshape(o.y().type.shape), o.x().name)


def _softmax(o: _Operands) -> None:
    beta = float(o.options(tflite.SoftmaxOptions).Beta())
    x, y = o.x(), o.y()
    if y.type.scale != 1 / 256 or y.type.zero_point != -128:
        raise ModelError(f"{o.where}: the output of a softmax has scale 1/256 and zero point -128")
    if not (beta > 0 and math.isfinite(beta)) or x.type.scale * beta * 2**26 <= 1:
        raise ModelError(f"{o.where}: beta {beta} times scale {x.type.scale} is out of range")
    if not x.type.shape or x.type.shape[-1] == 0:
        raise ModelError(f"{o.where}: there is nothing in input {x.type.shape}")
    o.emit(Softmax.from_scale(x.type.scale, beta), x.name)


def _activation(kind: str) -> Callable[[_Operands], None]:
    def emit(o: _Operands) -> None:
        x, y = o.x(), o.y()
        op = multipliers.activation_rescale(kind, _quantization(x), _quantization(y))
        _check_rescale(o, op.shift)
        o.emit(op, x.name)

    return emit


def _leaky_relu(o: _Operands) -> None:
    alpha = float(o.options(tflite.LeakyReluOptions).Alpha())
    x, y = o.x(), o.y()
    if not 0 <= alpha <= 1:
        raise UnsupportedError(f"{o.where} has the slope {alpha}; supported are 0 to 1")
    op = multipliers.leaky_relu(alpha, _quantization(x), _quantization(y))
    _check_rescale(o, op.positive[1])
    o.emit(op, x.name)


def _is_edge(o: _Operands, index: int, edges: tuple[int, ...]) -> bool:
    """Whether a float tensor is the model's own input or output."""
    return index in edges and index not in o.converter.int8_of


def _quantize(o: _Operands) -> None:
    source, target = o.input_index(0), o.output_index()
    model = o.converter.model
    if model.tensors[source].dtype == "float32":
        if not _is_edge(o, source, model.inputs):
            raise UnsupportedError(f"{o.where} quantizes in the middle; supported are the edges")
        o.y()
        o.converter.int8_of[source] = target
        return
    x, y = o.x(), o.y()
    op = multipliers.requantize(_quantization(x), _quantization(y))
    _check_rescale(o, op.shift)
    o.emit(op, x.name)


def _dequantize(o: _Operands) -> None:
    source, target = o.input_index(0), o.output_index()
    model = o.converter.model
    if model.tensors[target].dtype != "float32" or not _is_edge(o, target, model.outputs):
        raise UnsupportedError(f"{o.where} dequantizes in the middle; supported are the edges")
    o.x()
    o.converter.int8_of[target] = source


EMITTERS: dict[int, Callable[[_Operands], None]] = {
    tflite.BuiltinOperator.ADD: _add,
    tflite.BuiltinOperator.AVERAGE_POOL_2D: _average_pool_2d,
    tflite.BuiltinOperator.CONV_2D: _conv_2d,
    tflite.BuiltinOperator.DEPTHWISE_CONV_2D: _depthwise_conv_2d,
    tflite.BuiltinOperator.DEQUANTIZE: _dequantize,
    tflite.BuiltinOperator.EXPAND_DIMS: _reshape,
    tflite.BuiltinOperator.FULLY_CONNECTED: _fully_connected,
    tflite.BuiltinOperator.LEAKY_RELU: _leaky_relu,
    tflite.BuiltinOperator.MAX_POOL_2D: _max_pool_2d,
    tflite.BuiltinOperator.MEAN: _mean,
    tflite.BuiltinOperator.PAD: _pad,
    tflite.BuiltinOperator.PADV2: _pad_v2,
    tflite.BuiltinOperator.QUANTIZE: _quantize,
    tflite.BuiltinOperator.RELU: _activation("relu"),
    tflite.BuiltinOperator.RELU6: _activation("relu6"),
    tflite.BuiltinOperator.RELU_N1_TO_1: _activation("relu_n1_to_1"),
    tflite.BuiltinOperator.RESHAPE: _reshape,
    tflite.BuiltinOperator.SOFTMAX: _softmax,
    tflite.BuiltinOperator.SQUEEZE: _reshape,
}

SUPPORTED = tuple(OPERATOR_NAMES[code] for code in EMITTERS)

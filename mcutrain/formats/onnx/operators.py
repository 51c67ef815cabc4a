"""One rule per ONNX operator on activations: what value its output is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import ModelError
from mcutrain.formats.onnx import curves, elementwise, layout
from mcutrain.formats.onnx.file import MAX_RANK
from mcutrain.formats.onnx.node import OnnxNode, normalized_axes
from mcutrain.formats.onnx.old import softmax_axis
from mcutrain.formats.onnx.sums import conv, gemm, matmul
from mcutrain.formats.onnx.values import (
    MAX_CHANNELS,
    Builder,
    Fixed,
    Image,
    Quantization,
    Scaling,
    Stored,
    Value,
    as_image,
    check_factor,
)
from mcutrain.formats.onnx.window import MAX_WINDOW, pool_window
from mcutrain.ir.op import Op
from mcutrain.ops.pad import Pad
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D, Mean
from mcutrain.ops.softmax import Softmax
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers

Array = npt.NDArray[Any]

MIN_SCALE, MAX_SCALE = 2.0**-126, 2.0**64  # beyond lie denormal numbers and broken files
CHANNELS_SINCE = 13  # the opset that gave QuantizeLinear and DequantizeLinear an axis
SOFTMAX_OUTPUT = Quantization(1 / 256, -128)  # TFLite's, the only one its kernel has


def quantization_of(node: OnnxNode, integer_type: str | None) -> tuple[Quantization, str]:
    """Scale and zero point of a QuantizeLinear or DequantizeLinear of an activation, as int8.

    integer_type: what is read, None for a QuantizeLinear, whose zero point tells. uint8 is the
    int8 that is smaller by 128, zero point too. Also returns the type.
    """
    scale = scales_of(node)
    if scale.size != 1:
        raise node.unsupported("an activation with several scales is not; one scale is")
    zero_point, found = 0, integer_type or "uint8"
    if node.has(2):
        constant = node.constant(2)
        if constant.data.size != 1:
            raise node.wrong(f"there are {constant.data.size} zero points for one scale")
        zero_point, found = int(constant.data.ravel()[0]), str(constant.data.dtype)
    if found not in ("int8", "uint8"):
        raise node.unsupported(f"{found} activations are not; int8 and uint8 are")
    if integer_type and found != integer_type:
        raise node.wrong(f"reads {integer_type} with a zero point of {found}")
    shift = 128 if found == "uint8" else 0
    return Quantization(float(scale.ravel()[0]), zero_point - shift), found


def scales_of(node: OnnxNode) -> Array:
    """The scale input: positive, finite."""
    data = node.constant(1).data
    if data.dtype != np.float32 or not 0 < data.size <= MAX_CHANNELS or data.ndim > 1:
        raise node.unsupported(f"scales of {data.dtype}{list(data.shape)} are not; float32 is")
    if data.size > 1 and node.opset < CHANNELS_SINCE:
        raise node.unsupported(
            f"{data.size} scales in opset {node.opset} are not; one is, and one per channel from "
            f"opset {CHANNELS_SINCE} on"
        )
    if not ((data >= MIN_SCALE) & (data <= MAX_SCALE)).all():
        raise node.wrong(f"the scale {node.constant(1).name!r} must be positive and finite")
    return np.asarray(data, np.float64)


def check_plain(node: OnnxNode) -> None:
    """Refuse blocked and otherwise unusual quantization."""
    attributes = node.attributes
    attributes.integer("axis", 1)
    attributes.integer("saturate", 1)
    attributes.integer("precision", 0)
    if attributes.integer("block_size", 0):
        raise node.unsupported("block_size is not; one scale, or one per channel is")
    if attributes.integer("output_dtype", 0) and not node.has(2):
        raise node.unsupported("output_dtype without a zero point is not; a zero point input is")


def quantize(builder: Builder, node: OnnxNode) -> Value:
    """QuantizeLinear: the value's integers are computed now."""
    check_plain(node)
    value = node.real(0)
    quantization, integer_type = quantization_of(node, None)
    tensor = builder.emit(value, node.outputs[0], quantization)
    return Value(Stored(tensor, quantization), value.image, value.shape, integer_type=integer_type)


def dequantize(builder: Builder, node: OnnxNode) -> Value:
    """DequantizeLinear of an activation: the same integers, now read as real numbers."""
    check_plain(node)
    value = node.value(0)
    if not value.integer_type:
        raise node.wrong("reads real numbers")
    quantization, _ = quantization_of(node, value.integer_type)
    if value.source.quantization not in (None, quantization):
        raise node.unsupported(
            "another scale or zero point than the QuantizeLinear's is not; the same is"
        )
    tensor = builder.emit(value, node.outputs[0], quantization)
    return Value(Stored(tensor, quantization), value.image, value.shape)


def max_pool(builder: Builder, node: OnnxNode) -> Value:
    """MaxPool of images and sequences."""
    node.attributes.integer("storage_order", 0)
    return _pool(builder, node, MaxPool2D)


def average_pool(builder: Builder, node: OnnxNode) -> Value:
    """AveragePool; padding is not counted."""
    counted = node.attributes.integer("count_include_pad", 0)
    value = _pool(builder, node, AveragePool2D)
    source = value.source
    assert isinstance(source, Fixed)
    assert isinstance(source.op, AveragePool2D)
    if counted and any(source.op.window.padding):
        raise node.unsupported("count_include_pad with padding is not; count_include_pad 0 is")
    return value


def _pool(builder: Builder, node: OnnxNode, op_type: Callable[[Window], Op]) -> Value:
    rank = len(node.real(0).shape)
    if rank not in (3, 4):
        raise node.unsupported("only pools of [1, c, h, w] and [1, c, l] are")
    x, quantization = node.image(builder, 0)
    _, height, width, channels = builder.tensors[x].type.shape
    window = pool_window(node, (height, width), rank - 2)
    rows, columns = window.output_size(height, width)
    source = Fixed(node.name, op_type(window), (x,), quantization)
    shape = (1, channels, *(rows, columns)[4 - rank :])
    return Value(source, (rows, columns, channels), shape)


def global_average_pool(builder: Builder, node: OnnxNode) -> Value:
    """AveragePool2D over the image if the scale stays, as TFLite has it; else Mean."""
    x, quantization = node.image(builder, 0)
    height, width, channels = builder.tensors[x].type.shape[1:]
    mean = _mean(node, quantization, (height, width, channels))

    def make(wanted: Quantization) -> Op:
        whole = Window((height, width))
        return AveragePool2D(whole) if wanted == quantization else mean(wanted)

    shape = (1, channels, *(1 for _ in node.real(0).shape[2:]))
    return Value(Scaling(node.name, make, (x,)), (1, 1, channels), shape)


def reduce_mean(builder: Builder, node: OnnxNode) -> Value:
    """ReduceMean over height and width, as TFLite's MEAN."""
    shape = node.real(0).shape
    axes = node.attributes.integers("axes")
    if node.has(1):
        axes = node.integers(1)
    does_nothing = bool(node.attributes.integer("noop_with_empty_axes", 0))
    if does_nothing and not axes:
        return node.real(0)
    over = normalized_axes(node, axes or range(len(shape)), len(shape))
    if any(d > 1 for i, d in enumerate(shape) if (i in over) != (i >= 2)):
        raise node.unsupported(
            f"the mean of {shape} over axes {over} is not; over height and width it is"
        )
    x, quantization = node.image(builder, 0)
    height, width, channels = builder.tensors[x].type.shape[1:]
    kept = node.attributes.integer("keepdims", 1)
    reduced = tuple(1 if i in over else d for i, d in enumerate(shape) if kept or i not in over)
    make = _mean(node, quantization, (height, width, channels))
    return Value(Scaling(node.name, make, (x,)), (1, 1, channels), reduced)


def _mean(node: OnnxNode, x: Quantization, image: Image) -> Callable[[Quantization], Op]:
    def make(wanted: Quantization) -> Op:
        check_factor(node.name, x.scale / wanted.scale)
        count = image[0] * image[1]
        mult_q31, shift = multipliers.mean_multiplier(x.scale, wanted.scale, count)
        if count * 255 << max(shift, 0) >= 2**31:
            raise node.wrong("its sums overflow int32; its scales are wrong")
        return Mean(x.zero_point, wanted.zero_point, mult_q31, shift)

    return make


def relu(builder: Builder, node: OnnxNode) -> Value:
    """Relu: a limit of the value."""
    return node.real(0).clipped(0.0, math.inf)


def pad(builder: Builder, node: OnnxNode) -> Value:
    """Pad of height and width with a constant."""
    mode = node.attributes.text("mode", "constant")
    shape = node.real(0).shape
    if mode != "constant" or len(shape) != 4:
        raise node.unsupported(f"mode {mode!r} of {shape} is not; 'constant' of [1, c, h, w] is")
    axes = list(node.integers(3)) if node.has(3) else [0, 1, 2, 3]
    normalized_axes(node, axes, 4)
    amounts = node.integers(1)
    if len(amounts) != 2 * len(axes) or max(map(abs, amounts), default=0) > MAX_WINDOW:
        raise node.wrong(f"pads {amounts} do not fit the axes {axes}")
    begin, end = [0] * 4, [0] * 4
    for i, axis in enumerate(axes):
        begin[axis], end[axis] = amounts[i], amounts[i + len(axes)]
    if any((*begin[:2], *end[:2])) or min(*begin, *end) < 0:
        raise node.unsupported(f"pads {amounts} are not; height and width may grow")
    x, quantization = node.image(builder, 0)
    value = node.number(2, 0.0)
    if not math.isfinite(value):
        raise node.unsupported(f"the value {value} is not; a finite one is")
    op = Pad((begin[2], end[2], begin[3], end[3]), quantization.stored(value))
    height, width = shape[2] + begin[2] + end[2], shape[3] + begin[3] + end[3]
    source = Fixed(node.name, op, (x,), quantization)
    return Value(source, (height, width, shape[1]), (1, shape[1], height, width))


def softmax(builder: Builder, node: OnnxNode) -> Value:
    """Softmax over the channels; without a QuantizeLinear its scale is 1/256 from -128 on."""
    value = node.real(0)
    axis = softmax_axis(node, value.shape)
    elements = math.prod(value.shape)
    if value.shape[axis] != elements and axis != 1:
        raise node.unsupported(f"axis {axis} of {value.shape} is not; channels (axis 1) are")
    x, quantization = node.image(builder, 0)
    image = as_image(node.name, value.shape)
    if value.shape[axis] == elements:
        image = (1, 1, elements)
        x = builder.reshape(x, (1, *image), f"{node.name}.row")
    op = Softmax.from_scale(quantization.scale)
    return Value(Fixed(node.name, op, (x,), SOFTMAX_OUTPUT), image, value.shape)


def identity(builder: Builder, node: OnnxNode) -> Value:
    """Identity, and Dropout when nothing is trained."""
    if node.has(2) and node.number(2, 0.0):
        raise node.unsupported("training_mode is not; an exported inference model is")
    node.attributes.integer("seed", 0)
    return node.value(0)


def reshape(builder: Builder, node: OnnxNode) -> Value:
    """Reshape, Flatten, Squeeze, Unsqueeze: only the ONNX shape changes."""
    value = node.value(0)
    shape = new_shape(node, value.shape)
    if math.prod(shape) != math.prod(value.shape):
        raise node.wrong(f"{value.shape} cannot become {shape}")
    return replace(value, shape=shape)


def new_shape(node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    """What Reshape, Flatten, Squeeze or Unsqueeze make of a shape."""
    result = _new_shape(node, shape)
    if len(result) > MAX_RANK:
        raise node.wrong(f"the output has {len(result)} dimensions; the limit is {MAX_RANK}")
    return result


def _new_shape(node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    if node.op_type == "Flatten":
        axis = node.attributes.integer("axis", 1)
        if not -len(shape) <= axis <= len(shape):
            raise node.wrong(f"axis {axis} does not fit {shape}")
        axis += len(shape) if axis < 0 else 0
        return math.prod(shape[:axis]), math.prod(shape[axis:])
    if node.op_type == "Reshape":
        return _reshaped(node, shape)
    axes = node.integers(1) if node.has(1) else None
    if node.op_type == "Squeeze":
        ones = [i for i, d in enumerate(shape) if d == 1]
        gone = ones if axes is None else normalized_axes(node, axes, len(shape))
        if not set(gone) <= set(ones):
            raise node.wrong(f"axes {gone} of {shape} are not all 1")
        return tuple(d for i, d in enumerate(shape) if i not in gone)
    new_axes = normalized_axes(node, axes or (), len(shape) + len(axes or ()))
    rest = iter(shape)
    rank = len(shape) + len(new_axes)
    return tuple(1 if i in new_axes else next(rest) for i in range(rank))


def _reshaped(node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The target with its 0 (copy) and -1 (whatever is left) filled in."""
    target = list(node.integers(1))
    if not node.attributes.integer("allowzero", 0):
        if any(d == 0 and i >= len(shape) for i, d in enumerate(target)):
            raise node.wrong(f"shape {target} copies a dimension that {shape} lacks")
        target = [shape[i] if d == 0 else d for i, d in enumerate(target)]
    known = math.prod(d for d in target if d != -1)
    if target.count(-1) > 1 or min(target, default=1) < -1 or (-1 in target and known == 0):
        raise node.wrong(f"shape {target} is impossible")
    total = math.prod(shape)
    return tuple(total // known if d == -1 else d for d in target)


Rule = Callable[[Builder, OnnxNode], Value]

RULES: dict[str, Rule] = {
    "Add": elementwise.add,
    "AveragePool": average_pool,
    "Clip": curves.clip,
    "Concat": layout.concat,
    "Conv": conv,
    "DequantizeLinear": dequantize,
    "Div": elementwise.binary,
    "Dropout": identity,
    "Elu": curves.unary,
    "Flatten": reshape,
    "Gelu": curves.unary,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "HardSigmoid": curves.unary,
    "HardSwish": curves.unary,
    "Identity": identity,
    "LeakyRelu": curves.leaky_relu,
    "MatMul": matmul,
    "MaxPool": max_pool,
    "Mul": elementwise.binary,
    "Pad": pad,
    "QuantizeLinear": quantize,
    "ReduceMean": reduce_mean,
    "Relu": relu,
    "Reshape": reshape,
    "Sigmoid": curves.unary,
    "Softmax": softmax,
    "Squeeze": reshape,
    "Sub": elementwise.binary,
    "Tanh": curves.unary,
    "Transpose": layout.transpose,
    "Unsqueeze": reshape,
}


def apply(builder: Builder, node: OnnxNode) -> Value:
    """The output of a node. Raises UnsupportedError, ModelError."""
    rule = RULES.get(node.op_type)
    if rule is None:
        raise node.unknown(RULES)
    try:
        return rule(builder, node)
    except (ValueError, OverflowError) as error:
        raise ModelError(f"{node.op_type} (node {node.name!r}): {error}") from error

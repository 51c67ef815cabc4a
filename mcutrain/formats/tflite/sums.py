"""TFLite operators that sum products: convolutions and fully connected layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.convert import Operands, quantization
from mcutrain.formats.tflite.file import MISSING, FileTensor
from mcutrain.formats.tflite.window import window_of
from mcutrain.ir.graph import TensorType
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers

Array = npt.NDArray[Any]


def _weight(o: Operands, rank: int, axis: int) -> FileTensor:
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
    o: Operands,
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


def _has_bias(o: Operands) -> bool:
    return len(o.op.inputs) > 2 and o.op.inputs[2] != MISSING


def _bias(o: Operands, channels: int) -> Array:
    """The constant int32 bias, or zeros."""
    if not _has_bias(o):
        return np.zeros(channels, np.int32)
    t = o.file_tensor(2)
    if t.dtype != "int32" or t.data is None:
        raise UnsupportedError(f"{o.where}: bias {t.name!r} must be constant and int32")
    if t.data.size != channels:
        raise ModelError(f"{o.where}: bias {t.name!r} has {t.data.size} elements, not {channels}")
    return t.data.reshape(channels)


def conv_2d(o: Operands) -> None:
    """CONV_2D."""
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
    window = window_of(o, options, (weight.shape[1], weight.shape[2]), dilation)
    stage = multipliers.conv_requantize(x.type.scale, weight.scales, *quantization(y))
    low, high = o.limits(options)
    op = Conv2D(window, x.type.zero_point, replace(stage, low=low, high=high))
    _emit_weighted(o, op, x.name, (weight, weight.data, 0), y.name)


def depthwise_conv_2d(o: Operands) -> None:
    """DEPTHWISE_CONV_2D."""
    options = o.options(tflite.DepthwiseConv2DOptions)
    weight = _weight(o, rank=4, axis=3)
    assert weight.data is not None
    x, y = o.image(), o.y()
    dilation = (options.DilationHFactor(), options.DilationWFactor())
    window = window_of(o, options, (weight.shape[1], weight.shape[2]), dilation)
    stage = multipliers.conv_requantize(x.type.scale, weight.scales, *quantization(y))
    low, high = o.limits(options)
    op = DepthwiseConv2D(window, x.type.zero_point, replace(stage, low=low, high=high))
    _emit_weighted(o, op, x.name, (weight, weight.data, 3), y.name)


def fully_connected(o: Operands) -> None:
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
    stage = multipliers.fully_connected_requantize(x.type.scale, weight.scales, *quantization(y))
    low, high = o.limits(options)
    op = Conv2D(Window((1, 1)), x.type.zero_point, replace(stage, low=low, high=high))
    image = (1, 1, rows, features)
    x_name = o.intermediate(Reshape(image), x.name, x.type, image)
    data = weight.data.reshape(units, 1, 1, features)
    sums = o.converter.intermediate(f"{y.name}/conv", replace(y.type, shape=(1, 1, rows, units)))
    _emit_weighted(o, op, x_name, (weight, data, 0), sums)
    o.emit(Reshape(y.type.shape), sums)

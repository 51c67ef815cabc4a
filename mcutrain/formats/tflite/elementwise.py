"""TFLite operators that compute element by element, and the edges of the graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.convert import Operands, quantization
from mcutrain.ir.graph import Tensor
from mcutrain.ops.add import Add, Scaled
from mcutrain.ops.add_channels import AddChannels
from mcutrain.ops.lookup import lookup
from mcutrain.ops.mul import is_per_channel
from mcutrain.ops.softmax import Softmax
from mcutrain.quant import multipliers

MOST_WRITTEN_OUT = 2**22  # elements of a constant that is broadcast


def _check_rescale(o: Operands, shift: int) -> None:
    """255 shifted to the left must fit 32 bits."""
    if shift > 22:
        raise ModelError(f"{o.where}: its scales are too far apart; are they damaged?")


def add(o: Operands) -> None:
    """ADD."""
    _sum(o, o.options(tflite.AddOptions), multipliers.add_scales)


def sub(o: Operands) -> None:
    """SUB: an Add with a negative factor."""
    _sum(o, o.options(tflite.SubOptions), multipliers.sub_scales)


def _sum(o: Operands, options: Any, scales: Callable[..., tuple[Scaled, Scaled, Scaled]]) -> None:
    a, b = _operands(o)
    scaled = scales(quantization(a), quantization(b), quantization(o.y()))
    if scaled[2].shift > 0:
        raise ModelError(f"{o.where}: its scales are too far apart; are they damaged?")
    if _is_wider(b, a):
        a, b, scaled = b, a, (scaled[1], scaled[0], scaled[2])
    kind = Add if a.type.shape == b.type.shape else AddChannels
    o.emit_as(kind(*scaled, multipliers.ADD_LEFT_SHIFT, *o.limits(options)), a.name, b.name)


def mul(o: Operands) -> None:
    """MUL."""
    options = o.options(tflite.MulOptions)
    a, b = _operands(o)
    if _is_wider(b, a):
        a, b = b, a
    op = multipliers.multiply(quantization(a), quantization(b), quantization(o.y()))
    low, high = o.limits(options)
    o.emit_as(replace(op, low=low, high=high), a.name, b.name)


def _is_wider(a: Tensor, b: Tensor) -> bool:
    return a.type.elements > b.type.elements


def _operands(o: Operands) -> tuple[Tensor, Tensor]:
    """Two operands of one shape, or one of them with a number per channel of the other."""
    a, b = o.x(0), o.x(1)
    shapes = f"{o.where} takes shapes {a.type.shape} and {b.type.shape}"
    try:
        shape = np.broadcast_shapes(a.type.shape, b.type.shape)
    except ValueError as error:
        raise ModelError(f"{shapes}, which do not fit each other") from error
    a, b = (_spread(o, x, shape) for x in (a, b))
    narrow, wide = sorted((a.type, b.type), key=lambda t: t.elements)
    if narrow.shape != wide.shape and not is_per_channel(narrow, wide):
        raise UnsupportedError(
            f"{shapes}; supported are equal shapes and one number per channel, [1,1,1,c]"
        )
    return a, b


def _spread(o: Operands, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A constant of fewer numbers than channels, or that varies otherwise, is written out."""
    if x.data is None or x.type.shape == shape or 0 in shape:
        return x
    narrow = (1,) * (len(shape) - 1) + shape[-1:]
    varies = x.type.elements > (x.type.shape[-1] if x.type.shape else 1)
    data = np.broadcast_to(x.data, shape if varies else narrow)
    if data.size > MOST_WRITTEN_OUT:
        raise UnsupportedError(f"{o.where}: constant {x.name!r} would fill {data.size} elements")
    name = o.converter.constant(x.name, replace(x.type, shape=data.shape), data)
    return o.converter.tensors[name]


def table(function: str) -> Callable[[Operands], None]:
    """An activation that is a table."""

    def emit(o: Operands) -> None:
        x, y = o.x(), o.y()
        o.emit(lookup(function, x.type, y.type), x.name)

    return emit


def gelu(o: Operands) -> None:
    """GELU, if it is the exact one."""
    if o.options(tflite.GeluOptions).Approximate():
        raise UnsupportedError(f"{o.where} is the approximate GELU; supported is the exact one")
    table("gelu")(o)


def softmax(o: Operands) -> None:
    """SOFTMAX."""
    beta = float(o.options(tflite.SoftmaxOptions).Beta())
    x, y = o.x(), o.y()
    if y.type.scale != 1 / 256 or y.type.zero_point != -128:
        raise ModelError(f"{o.where}: the output of a softmax has scale 1/256 and zero point -128")
    if not (beta > 0 and math.isfinite(beta)) or x.type.scale * beta * 2**26 <= 1:
        raise ModelError(f"{o.where}: beta {beta} times scale {x.type.scale} is out of range")
    if not x.type.shape or x.type.shape[-1] == 0:
        raise ModelError(f"{o.where}: there is nothing in input {x.type.shape}")
    o.emit(Softmax.from_scale(x.type.scale, beta), x.name)


def activation(kind: str) -> Callable[[Operands], None]:
    """A free-standing RELU or one like it."""

    def emit(o: Operands) -> None:
        x, y = o.x(), o.y()
        op = multipliers.activation_rescale(kind, quantization(x), quantization(y))
        _check_rescale(o, op.shift)
        o.emit(op, x.name)

    return emit


def leaky_relu(o: Operands) -> None:
    """LEAKY_RELU with a slope from 0 to 1."""
    alpha = float(o.options(tflite.LeakyReluOptions).Alpha())
    x, y = o.x(), o.y()
    if not 0 <= alpha <= 1:
        raise UnsupportedError(f"{o.where} has the slope {alpha}; supported are 0 to 1")
    op = multipliers.leaky_relu(alpha, quantization(x), quantization(y))
    _check_rescale(o, op.positive[1])
    o.emit(op, x.name)


def _is_edge(o: Operands, index: int, edges: tuple[int, ...]) -> bool:
    """Whether a float tensor is the model's own input or output."""
    return index in edges and index not in o.converter.int8_of


def quantize(o: Operands) -> None:
    """QUANTIZE: dropped at the model's input, else a Rescale."""
    source, target = o.input_index(0), o.output_index()
    model = o.converter.model
    if model.tensors[source].dtype == "float32":
        if not _is_edge(o, source, model.inputs):
            raise UnsupportedError(f"{o.where} quantizes in the middle; supported are the edges")
        o.y()
        o.converter.int8_of[source] = target
        return
    x, y = o.x(), o.y()
    op = multipliers.requantize(quantization(x), quantization(y))
    _check_rescale(o, op.shift)
    o.emit(op, x.name)


def dequantize(o: Operands) -> None:
    """DEQUANTIZE at the model's output: dropped."""
    source, target = o.input_index(0), o.output_index()
    model = o.converter.model
    if model.tensors[target].dtype != "float32" or not _is_edge(o, target, model.outputs):
        raise UnsupportedError(f"{o.where} dequantizes in the middle; supported are the edges")
    o.x()
    o.converter.int8_of[target] = source

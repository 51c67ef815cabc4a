"""One rule per operator of a float .tflite file: the float nodes for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.file import (
    OPERATOR_NAMES,
)
from mcutrain.formats.tflite.float_operator import Operator
from mcutrain.ops.spatial import Window
from mcutrain.quant.float_affine import (
    Affine,
    divided_by_constant,
    minus_constant,
    plus_constant,
    times_constant,
)
from mcutrain.quant.float_elementwise import Clamp, FloatAdd, FloatLeakyRelu, FloatMul, Function
from mcutrain.quant.float_op import FloatOp, Shape
from mcutrain.quant.float_shapes import (
    FloatConcat,
    FloatMean,
    FloatPad,
    FloatPool,
    FloatReshape,
    FloatSoftmax,
    FloatTranspose,
)
from mcutrain.quant.float_sums import Conv, DepthwiseConv, Sums
from mcutrain.quant.multipliers import ACTIVATION_RANGE

Array = npt.NDArray[Any]
Option = tflite.BuiltinOperator


def _window(
    o: Operator, options: Any, kernel: tuple[int, int], dilation: tuple[int, int] = (1, 1)
) -> Window:
    """The window of a convolution or pool over its input."""
    image = o.shape()
    stride = (options.StrideH(), options.StrideW())
    if min(*kernel, *stride, *dilation) <= 0 or len(image) != 4:
        raise ModelError(f"{o.where} has kernel {kernel}, stride {stride} over {image}")
    if options.Padding() == tflite.Padding.VALID:
        return Window(kernel, stride, dilation)
    if options.Padding() != tflite.Padding.SAME:
        raise ModelError(f"{o.where} has the unknown padding {options.Padding()}")
    sides = []
    for n, k, s, d in zip(image[1:3], kernel, stride, dilation, strict=True):
        total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        sides += [total // 2, total - total // 2]
    return Window(kernel, stride, dilation, (sides[0], sides[1], sides[2], sides[3]))


def _weights(o: Operator, rank: int, axis: int) -> tuple[Array, Array]:
    """Weight and bias."""
    w = o.real(1)
    if w.ndim != rank or w.size == 0:
        raise ModelError(f"{o.where}: its weight has the impossible shape {w.shape}")
    b = o.real(2).ravel() if o.has(2) else np.zeros(w.shape[axis], np.float32)
    if len(b) != w.shape[axis]:
        raise ModelError(f"{o.where}: {len(b)} biases for {w.shape[axis]} channels")
    return w, b.astype(np.float64)


def _convolution(table: type[Any], kind: type[Sums], axis: int) -> Callable[[Operator], None]:
    def convert(o: Operator) -> None:
        options = o.options(table)
        w, b = _weights(o, 4, axis)
        dilation = (options.DilationHFactor(), options.DilationWFactor())
        window = _window(o, options, (w.shape[1], w.shape[2]), dilation)
        o.emit(kind(window, w, b), o.x(), limits=o.limits(options))

    return convert


def _fully_connected(o: Operator) -> None:
    options = o.options(tflite.FullyConnectedOptions)
    if options.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise UnsupportedError(f"{o.where} has shuffled weights; supported is the plain order")
    w, b = _weights(o, 2, 0)
    units, features = w.shape
    rows = math.prod(o.shape()) // features
    image = o.inner(FloatReshape((1, 1, rows, features)), "image", o.x())
    dense = Conv(Window((1, 1)), w.reshape(units, 1, 1, features), b)
    low, high = o.limits(options)
    sums = o.inner(dense.clamped(low, high) or dense, "sums", image)
    o.emit(FloatReshape(_batched(o.y.shape)), sums)


def _batched(shape: Shape) -> Shape:
    """With a batch axis in front if there is none."""
    return shape if shape[:1] == (1,) else (1, *shape)


def _constant_operand(o: Operator) -> tuple[int, Array] | None:
    """Which operand is computed, and the other one if it is one constant, or one per channel."""
    constants = [i for i in (0, 1) if o.tensor(i).data is not None]
    if len(constants) != 1:
        return None
    value, x = o.real(constants[0]), 1 - constants[0]
    channels = o.shape(x)[-1]
    if value.size != 1 and (value.size != channels or value.shape[-1] != channels):
        raise UnsupportedError(
            f"{o.where} has a constant of shape {value.shape}; supported are one number, and one "
            "per channel"
        )
    return x, np.broadcast_to(value.astype(np.float64).ravel(), (channels,))


def _arithmetic(
    table: type[Any],
    with_constant: Callable[[Array, bool], Affine | None],
    of_tensors: Callable[[Operator], tuple[FloatOp, tuple[str, ...]]],
) -> Callable[[Operator], None]:
    """with_constant: an Affine of the constant, and of whether it is the first operand."""

    def convert(o: Operator) -> None:
        limits = o.limits(o.options(table))
        found = _constant_operand(o)
        if found is None:
            op, inputs = of_tensors(o)
            o.emit(op, *inputs, limits=limits)
            return
        affine = with_constant(found[1], found[0] == 1)
        if affine is None:
            raise UnsupportedError(f"{o.where}: a constant divided by a tensor is not supported")
        o.emit(affine, o.x(found[0]), limits=limits)

    return convert


def _no_quotient(o: Operator) -> tuple[FloatOp, tuple[str, ...]]:
    raise UnsupportedError(f"{o.where} divides by a tensor; supported is by a constant")


def _pool(largest: bool) -> Callable[[Operator], None]:
    def convert(o: Operator) -> None:
        options = o.options(tflite.Pool2DOptions)
        window = _window(o, options, (options.FilterHeight(), options.FilterWidth()))
        whole = not largest and window.kernel == o.shape()[1:3] and not any(window.padding)
        op = FloatMean() if whole else FloatPool(window, largest)
        o.emit(op, o.x(), limits=o.limits(options))

    return convert


def _mean(o: Operator) -> None:
    shape = o.shape()
    axes = {a + len(shape) if a < 0 else a for a in o.integers(1)}
    needed = {i for i in range(1, len(shape) - 1) if shape[i] > 1}
    if len(shape) not in (3, 4) or not needed <= axes <= set(range(1, len(shape) - 1)):
        raise UnsupportedError(
            f"{o.where} averages {shape} over the axes {sorted(axes)}; supported are all but the "
            "channels"
        )
    image = (1, *shape[1:-1], shape[-1]) if len(shape) == 4 else (1, 1, *shape[1:])
    x = o.inner(FloatReshape(image), "image", o.x())
    o.emit(FloatReshape(_batched(o.y.shape)), o.inner(FloatMean(), "mean", x))


def _pad(o: Operator) -> None:
    shape, table = o.shape(), o.integers(1)
    value = float(o.real(2).ravel()[0]) if o.has(2) and o.real(2).size == 1 else 0.0
    image = shape
    if len(shape) == 3:  # of a 1-D convolution, before its ExpandDims
        table, image = [*table[:2], 0, 0, *table[2:]], (1, 1, *shape[1:])
    if (
        len(table) != 8
        or any(table[:2])
        or any(table[6:])
        or not 0 <= min(table) <= max(table) <= 1024
    ):
        raise UnsupportedError(f"{o.where} pads {shape} by {table}; supported are height and width")
    x = o.inner(FloatReshape(image), "image", o.x()) if image != shape else o.x()
    pad = FloatPad((table[2], table[3], table[4], table[5]), value)
    if image == shape:
        o.emit(pad, x)
    else:
        o.emit(FloatReshape(_batched(o.y.shape)), o.inner(pad, "padded", x))


def _reshape(o: Operator) -> None:
    o.emit(FloatReshape(_batched(o.y.shape)), o.x())


def _transpose(o: Operator) -> None:
    perm, shape = o.integers(1), o.shape()
    if sorted(perm) != list(range(len(shape))) or perm[0] != 0:
        raise UnsupportedError(f"{o.where} orders the axes of {shape} as {perm}")
    longer = [i for i in perm if shape[i] > 1]
    if longer == sorted(longer):
        o.emit(FloatReshape(tuple(shape[i] for i in perm)), o.x())
    else:
        o.emit(FloatTranspose(tuple(perm)), o.x())


def _concat(o: Operator) -> None:
    options = o.options(tflite.ConcatenationOptions)
    rank = len(o.shape())
    axis = options.Axis() + (rank if options.Axis() < 0 else 0)
    inputs = tuple(o.x(i) for i in range(len(o.op.inputs)))
    o.emit(FloatConcat(axis), *inputs, limits=o.limits(options))


def _softmax(o: Operator) -> None:
    beta = float(o.options(tflite.SoftmaxOptions).Beta())
    if not (beta > 0 and math.isfinite(beta)):
        raise ModelError(f"{o.where} has the impossible beta {beta}")
    o.emit(FloatSoftmax(beta), o.x())


def _leaky_relu(o: Operator) -> None:
    alpha = float(o.options(tflite.LeakyReluOptions).Alpha())
    if not 0 <= alpha <= 1:
        raise UnsupportedError(f"{o.where} has the slope {alpha}; supported are 0 to 1")
    o.emit(FloatLeakyRelu(alpha), o.x())


def _activation(kind: str) -> Callable[[Operator], None]:
    return lambda o: o.emit(Clamp(*ACTIVATION_RANGE[kind]), o.x())


def _function(name: str) -> Callable[[Operator], None]:
    return lambda o: o.emit(Function(name), o.x())


def _gelu(o: Operator) -> None:
    if o.options(tflite.GeluOptions).Approximate():
        raise UnsupportedError(f"{o.where} is the approximate GELU; supported is the exact one")
    _function("gelu")(o)


SHAPED_BY_OUTPUT = (Option.RESHAPE, Option.SQUEEZE, Option.EXPAND_DIMS)
"""Views whose other inputs need not be known: the file says the output's shape."""

CONVERTERS: dict[int, Callable[[Operator], None]] = {
    Option.ADD: _arithmetic(
        tflite.AddOptions, plus_constant, lambda o: (FloatAdd(), (o.x(0), o.x(1)))
    ),
    Option.AVERAGE_POOL_2D: _pool(largest=False),
    Option.CONCATENATION: _concat,
    Option.CONV_2D: _convolution(tflite.Conv2DOptions, Conv, 0),
    Option.DEPTHWISE_CONV_2D: _convolution(tflite.DepthwiseConv2DOptions, DepthwiseConv, 3),
    Option.DIV: _arithmetic(tflite.DivOptions, divided_by_constant, _no_quotient),
    Option.ELU: _function("elu"),
    Option.EXPAND_DIMS: _reshape,
    Option.FULLY_CONNECTED: _fully_connected,
    Option.GELU: _gelu,
    Option.HARD_SWISH: _function("hard_swish"),
    Option.LEAKY_RELU: _leaky_relu,
    Option.LOGISTIC: _function("logistic"),
    Option.MAX_POOL_2D: _pool(largest=True),
    Option.MEAN: _mean,
    Option.MUL: _arithmetic(
        tflite.MulOptions, times_constant, lambda o: (FloatMul(), (o.x(0), o.x(1)))
    ),
    Option.PAD: _pad,
    Option.PADV2: _pad,
    Option.RELU: _activation("relu"),
    Option.RELU6: _activation("relu6"),
    Option.RELU_N1_TO_1: _activation("relu_n1_to_1"),
    Option.RESHAPE: _reshape,
    Option.SOFTMAX: _softmax,
    Option.SQUEEZE: _reshape,
    Option.SUB: _arithmetic(
        tflite.SubOptions, minus_constant, lambda o: (FloatAdd(-1), (o.x(0), o.x(1)))
    ),
    Option.TANH: _function("tanh"),
    Option.TRANSPOSE: _transpose,
}


SUPPORTED = tuple(OPERATOR_NAMES[code] for code in CONVERTERS)

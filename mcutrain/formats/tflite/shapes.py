"""TFLite operators that pool, pad, join and rearrange."""

from __future__ import annotations

import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.convert import Operands, quantization
from mcutrain.formats.tflite.window import check_padding, window_of
from mcutrain.ops.concatenation import MOST_INPUTS, Concatenation
from mcutrain.ops.pad import Pad
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D, Mean
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.transpose import Transpose
from mcutrain.quant import multipliers

POOL_SCALE_TOLERANCE = 1e-6  # pooling.cc: how far the scales of input and output may differ


def _pool(o: Operands, kind: type[AveragePool2D] | type[MaxPool2D]) -> None:
    options = o.options(tflite.Pool2DOptions)
    x, y = o.image(), o.y()
    same_scale = abs(x.type.scale - y.type.scale) <= POOL_SCALE_TOLERANCE
    if not same_scale or x.type.zero_point != y.type.zero_point:
        raise ModelError(f"{o.where}: input and output of a pool must be quantized alike")
    window = window_of(o, options, (options.FilterHeight(), options.FilterWidth()))
    low, high = o.limits(options)
    o.emit(kind(window, low, high), x.name)


def average_pool_2d(o: Operands) -> None:
    """AVERAGE_POOL_2D."""
    _pool(o, AveragePool2D)


def max_pool_2d(o: Operands) -> None:
    """MAX_POOL_2D."""
    _pool(o, MaxPool2D)


def mean(o: Operands) -> None:
    """MEAN over height and width, or over a sequence."""
    o.options(tflite.ReducerOptions)
    x, y = o.x(), o.y()
    rank = len(x.type.shape)
    axes = {int(a) + rank if a < 0 else int(a) for a in o.integers(1).ravel()}
    if rank == 3:  # the mean over a sequence: an image of one row
        image = (x.type.shape[0], 1, *x.type.shape[1:])
        source, axes = o.intermediate(Reshape(image), x.name, x.type, image), {a + 1 for a in axes}
    else:
        source, image = o.image().name, x.type.shape
    _, height, width, channels = image
    needed = {axis for axis, n in ((1, height), (2, width)) if n > 1}
    if image[0] != 1 or not needed <= axes <= {1, 2}:
        raise UnsupportedError(
            f"{o.where} averages over the axes {sorted(axes)}; supported are height and width"
        )
    mult, shift = multipliers.mean_multiplier(x.type.scale, y.type.scale, height * width)
    if height * width * 255 << max(shift, 0) >= 2**31:
        raise ModelError(f"{o.where}: its sums overflow 32 bits; are the scales damaged?")
    op = Mean(x.type.zero_point, y.type.zero_point, mult, shift)
    pixel = (1, 1, 1, channels)
    if y.type.shape == pixel:
        o.emit(op, source)
    else:
        o.emit(Reshape(y.type.shape), o.intermediate(op, source, y.type, pixel))


def pad(o: Operands) -> None:
    """PAD with the zero point."""
    _emit_pad(o, o.y().type.zero_point)


def pad_v2(o: Operands) -> None:
    """PADV2 with a value."""
    t = o.file_tensor(2)
    if t.data is None or t.data.size != 1 or t.dtype != "int8":
        raise UnsupportedError(f"{o.where}: its value {t.name!r} must be one constant int8")
    y = o.y().type
    if t.scales and (t.scales[0], t.zero_points[0]) != (y.scale, y.zero_point):
        raise ModelError(f"{o.where}: its value must be quantized as its output")
    _emit_pad(o, int(t.data.ravel()[0]))


def _emit_pad(o: Operands, value: int) -> None:
    x = o.image()
    table = o.integers(1)
    if table.shape != (4, 2) or table[[0, 3]].any():
        raise UnsupportedError(
            f"{o.where} pads by {table.tolist()}; supported are height and width of [1,h,w,c]"
        )
    sides = [int(n) for n in table[1:3].ravel()]
    check_padding(o, sides)
    top, bottom, left, right = sides
    o.emit(Pad((top, bottom, left, right), value), x.name)


def reshape(o: Operands) -> None:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the file says what shape comes out."""
    o.emit(Reshape(o.y().type.shape), o.x().name)


def transpose(o: Operands) -> None:
    """TRANSPOSE: a view if only axes of length 1 move."""
    x, shape = o.x(), o.x().type.shape
    perm = tuple(int(i) for i in o.integers(1).ravel())
    if sorted(perm) != list(range(len(shape))):
        raise ModelError(f"{o.where}: the axes of {shape} cannot be in the order {perm}")
    moved = [axis for axis in perm if shape[axis] > 1]
    o.emit(Reshape(o.y().type.shape) if moved == sorted(moved) else Transpose(perm), x.name)


def concatenation(o: Operands) -> None:
    """CONCATENATION of tensors that are quantized alike, as its kernel wants them."""
    options = o.options(tflite.ConcatenationOptions)
    y = o.y()
    xs = [o.x(i) for i in range(len(o.op.inputs))]
    if options.FusedActivationFunction() != tflite.ActivationFunctionType.NONE:
        raise UnsupportedError(f"{o.where} has a fused activation; supported is none")
    if any(quantization(x) != quantization(y) for x in xs):
        raise ModelError(f"{o.where}: inputs and output of a concatenation must be quantized alike")
    axis = options.Axis() + (len(y.type.shape) if options.Axis() < 0 else 0)
    names = [x.name for x in xs if x.type.elements > 0]
    if len(names) == 1:
        o.emit(Reshape(y.type.shape), names[0])
        return
    while len(names) > MOST_INPUTS:
        first = names[:MOST_INPUTS]
        names = [o.joined(Concatenation(axis), *first), *names[MOST_INPUTS:]]
    o.emit(Concatenation(axis), *names)


def shape_arithmetic(o: Operands) -> None:
    """SHAPE, STRIDED_SLICE, PACK before a RESHAPE: the file says the resulting shape, too."""
    t = o.converter.model.tensors[o.output_index()]
    if t.dtype not in ("int32", "int64"):
        raise UnsupportedError(f"{o.where} computes {t.dtype}; supported are integers of shapes")

"""Pools, means and sums: AVERAGE_POOL_2D, MAX_POOL_2D, MEAN, SUM."""

from __future__ import annotations

import numpy as np
import tflite

from mcutrain.errors import UnsupportedError
from mcutrain.formats.tflite.entry import Entry, Rule
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.float_operator import FloatOperator
from mcutrain.formats.tflite.int8_operator import Int8Operator
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.windows import padding_of, window_of
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node
from mcutrain.ops.lookup import negative
from mcutrain.ops.pooling import AveragePool2D, ImageSum, MaxPool2D, Mean
from mcutrain.ops.spatial import Window
from mcutrain.quant import multipliers
from mcutrain.quant.float_affine import Affine
from mcutrain.quant.float_op import Quantization, Shape
from mcutrain.quant.float_shapes import (
    FloatMean,
    FloatPool,
    FloatReshape,
    FloatSum,
    image_to_average,
)

SCALE_TOLERANCE = 1e-6  # pooling.cc: how far the scales of input and output may differ

# ------------------------------------------------------------------------------------------- pools


def _pool(largest: bool) -> Rule:
    def convert(o: Operands) -> None:
        options = o.options(tflite.Pool2DOptions)
        o.check_alike("pool", SCALE_TOLERANCE)
        kernel = (options.FilterHeight(), options.FilterWidth())
        window = window_of(o, options, o.image(), kernel)
        o.emit(FloatPool(window, largest), o.x(), activation=o.activation(options))

    return convert


def _write_max_pool(w: TfliteWriter, node: Node) -> None:
    """Padding that is neither SAME nor VALID is a PADV2 with the least number."""
    op = node.op
    assert isinstance(op, MaxPool2D)
    x = node.inputs[0]
    padding = padding_of(op.window, w.type(x).shape)
    if padding is None:
        x = w.padded(node, x, op.window.padding, multipliers.INT8[0])
        padding = tflite.Padding.VALID
    _write_pool(w, node, op, "MAX_POOL_2D", (x, padding))


def _write_average_pool(w: TfliteWriter, node: Node) -> None:
    op = node.op
    assert isinstance(op, AveragePool2D)
    padding = padding_of(op.window, w.type(node.inputs[0]).shape)
    if padding is None:
        raise UnsupportedError(
            f"node {node.name!r} averages with the padding {op.window.padding}; .tflite has only "
            "SAME and VALID, export it as .onnx"
        )
    _write_pool(w, node, op, "AVERAGE_POOL_2D", (node.inputs[0], padding))


def _write_pool(
    w: TfliteWriter, node: Node, op: AveragePool2D | MaxPool2D, name: str, source: tuple[str, int]
) -> None:
    """source: what is pooled, and the number of its padding."""
    if op.window.dilation != (1, 1):
        raise UnsupportedError(
            f"node {node.name!r} pools with the dilation {op.window.dilation}; .tflite has none, "
            "export it as .onnx"
        )
    written, code = w.limited(node, op.low, op.high)
    fields = {
        "Padding": source[1],
        "StrideH": op.window.stride[0],
        "StrideW": op.window.stride[1],
        "FilterHeight": op.window.kernel[0],
        "FilterWidth": op.window.kernel[1],
        "FusedActivationFunction": code,
    }
    w.operator(name, [source[0]], written, Table("Pool2DOptions", fields))
    w.finish_limits(written, node, op.low, op.high)


# ------------------------------------------------------------------------------------ mean and sum


def _axes(o: Operands, shape: Shape) -> set[int]:
    """The axes that MEAN averages or SUM sums, counted from the front."""
    rank = len(shape)
    axes = {a + rank if a < 0 else a for a in o.integers(1)}
    if shape[:1] != (1,) or 0 in shape or not axes <= set(range(1, rank)):
        raise UnsupportedError(
            f"{o.where} reduces {shape} over the axes {sorted(axes)}; supported are all but the "
            "first, of [1,…]"
        )
    return axes


def _reduced(reduction: FloatMean) -> Rule:
    """Over any axes but the batch; the others are channels to the operator."""

    def convert(o: Operands) -> None:
        o.options(tflite.ReducerOptions)
        x, shape = o.x(), o.shape()
        for op in image_to_average(shape, _axes(o, shape)):
            x = o.moved(x, op)
        o.emit(reduction, x)

    return convert


def _extreme(o: Operands) -> str:
    """The largest over any axes but the batch, of the integers as they are."""
    o.options(tflite.ReducerOptions)
    o.check_alike("reduction", inputs=1)
    return _largest(o, o.x(), o.shape())


def _largest(o: Operands, x: str, shape: Shape) -> str:
    image = shape
    for op in image_to_average(shape, _axes(o, shape)):
        x, image = o.moved(x, op), op.shape(image)
    return o.moved(x, FloatPool(Window((image[1], image[2])), largest=True))


def _reduce_max(o: Operands) -> None:
    o.emit(FloatReshape(o.y_shape), _extreme(o))


def _int8_reduce_min(o: Int8Operator) -> None:
    """The negative of the largest negative one."""
    o.options(tflite.ReducerOptions)
    o.check_alike("reduction", inputs=1)
    o.node(negative(), o.view(_largest(o, o.negative(o.x()), o.shape()), o.y_shape))


def _float_reduce_min(o: FloatOperator) -> None:
    o.options(tflite.ReducerOptions)
    channels = o.shape()[-1]
    x = o.inner(Affine(np.full(channels, -1.0), np.zeros(channels)), "negative", o.x())
    y = _largest(o, x, o.shape())
    channels = o.importer.shapes[y][-1]
    o.emit(Affine(np.full(channels, -1.0), np.zeros(channels)), y)


def _float_sum(o: FloatOperator) -> None:
    """The mean times their number, which goes where a factor can."""
    o.options(tflite.ReducerOptions)
    x, shape = o.x(), o.shape()
    for op in image_to_average(shape, _axes(o, shape)):
        x = o.moved(x, op)
    _, height, width, channels = o.importer.shapes[x]
    mean = o.inner(FloatMean(), "mean", x)
    o.emit(Affine(np.full(channels, float(height * width)), np.zeros(channels)), mean)


def _int8_sum(o: Int8Operator) -> None:
    """Read a SUM. With equal quantization TFLite adds modulo 256, which is refused."""
    if Quantization.of(o.tensor().type) == o.quantization:
        raise UnsupportedError(
            f"{o.where} has an output that is quantized as its input, of which TFLite adds the "
            "integers modulo 256; supported is another quantization"
        )
    _reduced(FloatSum())(o)


def _write_mean(w: TfliteWriter, node: Node) -> None:
    _write_reduced(w, node, "MEAN")


def _write_sum(w: TfliteWriter, node: Node) -> None:
    x, y = (Quantization.of(w.type(name)) for name in (node.inputs[0], node.outputs[0]))
    if x == y:
        raise UnsupportedError(
            f"node {node.name!r} sums to the quantization of its input, of which TFLite adds the "
            "integers modulo 256; export it as .onnx"
        )
    _write_reduced(w, node, "SUM")


def _write_reduced(w: TfliteWriter, node: Node, name: str) -> None:
    """Over height and width, which it drops if a Reshape to [1, c] alone reads it."""
    op = node.op
    assert isinstance(op, Mean)
    y, limits = node.outputs[0], (op.low, op.high)
    reader = w.following_reshape(y) if limits == multipliers.INT8 else None
    drops = reader is not None and w.type(reader.outputs[0]).shape == (1, w.type(y).shape[3])
    inputs = (node.inputs[0], w.helper(f"{y}/axes", np.array([1, 2], np.int32)))
    options = Table("ReducerOptions", {"KeepDims": not drops})
    if drops:
        assert reader is not None
        w.left_out.add(reader.outputs[0])
        w.operator(name, inputs, reader.outputs[0], options)
    else:
        w.then_limits(node, name, inputs, options, limits)


OPERATORS = (
    Entry("REDUCE_MAX", _reduce_max, version=2),
    Entry("REDUCE_MIN", int8=_int8_reduce_min, real=_float_reduce_min, version=2),
    Entry(
        "AVERAGE_POOL_2D",
        _pool(largest=False),
        writes={AveragePool2D: _write_average_pool},
        version=2,
    ),
    Entry("MAX_POOL_2D", _pool(largest=True), writes={MaxPool2D: _write_max_pool}, version=2),
    Entry("MEAN", _reduced(FloatMean()), writes={Mean: _write_mean}, version=2),
    Entry(
        "SUM",
        int8=_int8_sum,
        real=_float_sum,
        writes={ImageSum: _write_sum},
        version=2,
    ),
)

"""Operators that move numbers and compute none: pads, joins, views, orders of axes."""

from __future__ import annotations

import numpy as np
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.entry import Entry
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.float_operator import FloatOperator, batched
from mcutrain.formats.tflite.int8_operator import Int8Operator, quantization
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.windows import check_padding
from mcutrain.formats.tflite.writer import FUSED, TfliteWriter
from mcutrain.ir.graph import Node
from mcutrain.ops.concatenation import MOST_INPUTS, Concatenation
from mcutrain.ops.pad import Pad
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.transpose import Transpose
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_shapes import FloatConcat, FloatPad, FloatReshape, FloatTranspose

Sides = tuple[int, int, int, int]

# -------------------------------------------------------------------------------------------- pads


def _padded(o: Operands, shape: Shape) -> tuple[Shape, Sides]:
    """The image [1, h, w, c] and its padding; a sequence [1, n, c] is one row."""
    table, image = o.integers(1), shape
    if len(shape) == 3:  # of a 1-D convolution, before its ExpandDims
        table, image = [*table[:2], 0, 0, *table[2:]], (1, *shape)
    is_image = len(image) == 4 and image[0] == 1 and 0 not in image
    if not is_image or len(table) != 8 or any(table[:2] + table[6:]):
        raise UnsupportedError(
            f"{o.where} pads {shape} by {table}; supported are height and width of [1,h,w,c], and "
            "the sequence of [1,n,c]"
        )
    top, bottom, left, right = table[2:6]
    check_padding(o, table[2:6])
    return image, (top, bottom, left, right)


def _int8_pad(o: Int8Operator) -> None:
    """PAD with the zero point."""
    _emit_pad(o, o.y().type.zero_point)


def _int8_pad_v2(o: Int8Operator) -> None:
    """PADV2 with a value."""
    t = o.file_tensor(2)
    if t.data is None or t.data.size != 1 or t.dtype != "int8":
        raise UnsupportedError(f"{o.where}: its value {t.name!r} must be one constant int8")
    y = o.y().type
    if t.scales and (t.scales[0], t.zero_points[0]) != (y.scale, y.zero_point):
        raise ModelError(f"{o.where}: its value must be quantized as its output")
    _emit_pad(o, int(t.data.ravel()[0]))


def _emit_pad(o: Int8Operator, value: int) -> None:
    x = o.x()
    image, sides = _padded(o, x.type.shape)
    if image == x.type.shape:
        o.emit(Pad(sides, value), x.name)
    else:
        o.emit_as(Pad(sides, value), o.inner(Reshape(image), x.name, like=x.type))


def _float_pad(o: FloatOperator) -> None:
    shape = o.shape()
    image, sides = _padded(o, shape)
    value = float(o.real(2).ravel()[0]) if o.has(2) and o.real(2).size == 1 else 0.0
    pad = FloatPad(sides, value)
    if image == shape:
        o.emit(pad, o.x())
    else:
        x = o.inner(FloatReshape(image), "image", o.x())
        o.emit(FloatReshape(batched(o.y.shape)), o.inner(pad, "padded", x))


def _write_pad(w: TfliteWriter, node: Node) -> None:
    """PAD with the zero point, else PADV2."""
    op = node.op
    assert isinstance(op, Pad)
    w.pad(node.inputs[0], node.outputs[0], op.padding, op.value)


# ------------------------------------------------------------------------------------------- joins


def _axis(options: tflite.ConcatenationOptions, rank: int) -> int:
    return int(options.Axis()) + (rank if options.Axis() < 0 else 0)


def _int8_concatenation(o: Int8Operator) -> None:
    """Of tensors that are quantized alike, as its kernel wants them."""
    options = o.options(tflite.ConcatenationOptions)
    y = o.y()
    xs = [o.x(i) for i in range(len(o.op.inputs))]
    if o.activation(options) != "none":
        raise UnsupportedError(f"{o.where} has a fused activation; supported is none")
    if any(quantization(x.type) != quantization(y.type) for x in xs):
        raise ModelError(f"{o.where}: inputs and output of a concatenation must be quantized alike")
    axis = _axis(options, len(y.type.shape))
    names = [x.name for x in xs if x.type.elements > 0]
    if len(names) == 1:
        o.emit(Reshape(y.type.shape), names[0])
        return
    while len(names) > MOST_INPUTS:
        first = names[:MOST_INPUTS]
        names = [o.inner(Concatenation(axis), *first), *names[MOST_INPUTS:]]
    o.emit(Concatenation(axis), *names)


def _float_concatenation(o: FloatOperator) -> None:
    options = o.options(tflite.ConcatenationOptions)
    op = FloatConcat(_axis(options, len(o.shape())))
    inputs = tuple(o.x(i) for i in range(len(o.op.inputs)))
    o.emit(op, *inputs, limits=o.limits(options))


def _write_concatenation(w: TfliteWriter, node: Node) -> None:
    op = node.op
    assert isinstance(op, Concatenation)
    fields = {"Axis": op.axis, "FusedActivationFunction": FUSED["none"]}
    w.operator("CONCATENATION", node.inputs, node.outputs[0], Table("ConcatenationOptions", fields))


# ------------------------------------------------------------------------------------------- views


def _int8_view(o: Int8Operator) -> None:
    o.emit(Reshape(o.y().type.shape), o.x().name)


def _float_view(o: FloatOperator) -> None:
    o.emit(FloatReshape(batched(o.y.shape)), o.x())


def _write_reshape(w: TfliteWriter, node: Node) -> None:
    """RESHAPE, unless the operator before or behind it is already written without it."""
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Reshape)
    if y in w.left_out:
        return
    shape = np.array(op.shape, np.int32)
    numbers = w.helper(f"{y}/shape", shape)
    w.operator(
        "RESHAPE", [node.inputs[0], numbers], y, Table("ReshapeOptions", {"NewShape": shape})
    )


def _shape_arithmetic(o: Operands) -> None:
    """Before a RESHAPE: the file says the resulting shape, too."""
    t = o.model.tensors[o.output_index()]
    if t.dtype not in ("int32", "int64"):
        raise UnsupportedError(f"{o.where} computes {t.dtype}; supported are integers of shapes")


# ---------------------------------------------------------------------------------- orders of axes


def _order(o: Operands, shape: Shape) -> tuple[tuple[int, ...], bool]:
    """The order of the axes, and whether only axes of length 1 move, so that it is a view."""
    perm = tuple(o.integers(1))
    if sorted(perm) != list(range(len(shape))):
        raise ModelError(f"{o.where}: the axes of {shape} cannot be in the order {perm}")
    moved = [axis for axis in perm if shape[axis] > 1]
    return perm, moved == sorted(moved)


def _int8_transpose(o: Int8Operator) -> None:
    x = o.x()
    perm, is_view = _order(o, x.type.shape)
    o.emit(Reshape(o.y().type.shape) if is_view else Transpose(perm), x.name)


def _float_transpose(o: FloatOperator) -> None:
    shape = o.shape()
    perm, is_view = _order(o, shape)
    if perm[0] != 0:
        raise UnsupportedError(f"{o.where} orders the axes of {shape} as {perm}")
    o.emit(FloatReshape(tuple(shape[i] for i in perm)) if is_view else FloatTranspose(perm), o.x())


def _write_transpose(w: TfliteWriter, node: Node) -> None:
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Transpose)
    order = w.helper(f"{y}/perm", np.array(op.perm, np.int32))
    w.operator("TRANSPOSE", [node.inputs[0], order], y, Table("TransposeOptions"))


VIEWS = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")
"""Operators whose other inputs need not be known: the file says the output's shape."""

ARITHMETIC = ("PACK", "SHAPE", "STRIDED_SLICE")

OPERATORS = (
    Entry(
        "CONCATENATION",
        int8=_int8_concatenation,
        real=_float_concatenation,
        writes={Concatenation: _write_concatenation},
        version=2,
    ),
    *(Entry(name, _shape_arithmetic, _shape_arithmetic) for name in ARITHMETIC),
    Entry("PAD", int8=_int8_pad, real=_float_pad, writes={Pad: _write_pad}, version=2),
    Entry("PADV2", int8=_int8_pad_v2, real=_float_pad, writes={Pad: _write_pad}, version=2),
    *(
        Entry(name, int8=_int8_view, real=_float_view, writes={Reshape: _write_reshape})
        for name in VIEWS
    ),
    Entry(
        "TRANSPOSE",
        int8=_int8_transpose,
        real=_float_transpose,
        writes={Transpose: _write_transpose},
        version=2,
    ),
)

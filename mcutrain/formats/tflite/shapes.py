"""Operators that move numbers and compute none: pads, joins, views, orders of axes."""

from __future__ import annotations

import numpy as np
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.entry import Entry
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.float_operator import ID_TYPES, FloatOperator
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.windows import check_padding
from mcutrain.formats.tflite.writer import FUSED, TfliteWriter
from mcutrain.ir.graph import Node
from mcutrain.ops.concatenation import Concatenation
from mcutrain.ops.pad import Pad
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.transpose import Transpose
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_shapes import FloatConcat, FloatPad, FloatReshape, FloatTranspose

Sides = tuple[int, int, int, int]

# -------------------------------------------------------------------------------------------- pads


def _padded(o: Operands, shape: Shape) -> tuple[Shape, Sides, tuple[int, int]]:
    """The image [1, h, w, c], its padding and that of channels; a sequence [1, n, c] is one row."""
    table, image = o.integers(1), shape
    if len(shape) == 3:  # of a 1-D convolution, before its ExpandDims
        table, image = [*table[:2], 0, 0, *table[2:]], (1, *shape)
    is_image = len(image) == 4 and image[0] == 1 and 0 not in image
    if not is_image or len(table) != 8 or any(table[:2]):
        raise UnsupportedError(
            f"{o.where} pads {shape} by {table}; supported are height, width and channels of "
            "[1,h,w,c], and [1,n,c]"
        )
    top, bottom, left, right, first, last = table[2:]
    check_padding(o, table[2:])
    return image, (top, bottom, left, right), (first, last)


def _pad(o: Operands) -> None:
    """PAD with 0, PADV2 with a value."""
    image, sides, channels = _padded(o, o.shape())
    value = o.number(2) if o.has(2) else 0.0
    x = o.x() if image == o.shape() else o.view(o.x(), image)
    o.emit(FloatPad(sides, value, channels), x)


def _write_pad(w: TfliteWriter, node: Node) -> None:
    """PAD with the zero point, else PADV2."""
    op = node.op
    assert isinstance(op, Pad)
    w.pad(node.inputs[0], node.outputs[0], op.padding, op.value, op.channels)


# ------------------------------------------------------------------------------------------- joins


def _concatenation(o: Operands) -> None:
    options = o.options(tflite.ConcatenationOptions)
    o.check_alike("concatenation")
    axis = int(options.Axis()) + (len(o.shape()) if options.Axis() < 0 else 0)
    places = [i for i in range(len(o.op.inputs)) if 0 not in o.shape(i)]
    op = FloatConcat(axis) if len(places) > 1 else FloatReshape(o.y_shape)
    o.emit(op, *map(o.x, places), activation=o.activation(options))


def _float_concatenation(o: FloatOperator) -> None:
    """Constants beside what is computed are part of the operator."""
    options = o.options(tflite.ConcatenationOptions)
    known = {i: o.real(i) for i in range(len(o.op.inputs)) if o.file_tensor(i).data is not None}
    if not known:
        _concatenation(o)
        return
    computed = [i for i in range(len(o.op.inputs)) if i not in known]
    if not computed:
        raise UnsupportedError(f"{o.where} joins constants alone")
    axis = int(options.Axis()) + (len(o.shape(computed[0])) if options.Axis() < 0 else 0)
    op = FloatConcat(axis, tuple(known.items()))
    o.emit(op, *map(o.x, computed), activation=o.activation(options))


def _write_concatenation(w: TfliteWriter, node: Node) -> None:
    op = node.op
    assert isinstance(op, Concatenation)
    fields = {"Axis": op.axis, "FusedActivationFunction": FUSED["none"]}
    w.operator("CONCATENATION", node.inputs, node.outputs[0], Table("ConcatenationOptions", fields))


# ------------------------------------------------------------------------------------------- views


def _view(o: Operands) -> None:
    o.emit(FloatReshape(o.y_shape), o.x())


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


def is_shape_arithmetic(o: Operands) -> bool:
    """Whether it computes integers, before a RESHAPE: the file says the resulting shape, too."""
    return o.model.tensors[o.output_index()].dtype in ("int32", "int64")


def _shape_arithmetic(o: Operands) -> None:
    if not is_shape_arithmetic(o):
        computed = o.model.tensors[o.output_index()].dtype
        raise UnsupportedError(f"{o.where} computes {computed}; supported are integers of shapes")


def _cast(o: Operands) -> None:
    """Token ids as integers of another size; of float models also an input of whole numbers."""
    made = o.model.tensors[o.output_index()].dtype
    given = o.input_index(0)
    if made not in ID_TYPES or not (given in o.model.inputs or o.file_tensor(0).dtype in ID_TYPES):
        raise UnsupportedError(
            f"{o.where} casts {o.file_tensor(0).dtype} to {made}; supported are token ids, of the "
            "model's input"
        )
    o.emit_ids()


# ---------------------------------------------------------------------------------- orders of axes


def _transpose(o: Operands) -> None:
    """A view where only axes of length 1 move."""
    perm, shape = tuple(o.integers(1)), o.shape()
    if sorted(perm) != list(range(len(shape))):
        raise ModelError(f"{o.where}: the axes of {shape} cannot be in the order {perm}")
    moved = [axis for axis in perm if shape[axis] > 1]
    is_view = moved == sorted(moved)
    o.emit(FloatReshape(o.y_shape) if is_view else FloatTranspose(perm), o.x())


def _float_transpose(o: FloatOperator) -> None:
    perm = o.integers(1)
    if perm[:1] != [0]:
        raise UnsupportedError(
            f"{o.where} orders the axes of {o.shape()} as {tuple(perm)}; supported is what leaves "
            "the batch first"
        )
    _transpose(o)


def _write_transpose(w: TfliteWriter, node: Node) -> None:
    op, y = node.op, node.outputs[0]
    assert isinstance(op, Transpose)
    order = w.helper(f"{y}/perm", np.array(op.perm, np.int32))
    w.operator("TRANSPOSE", [node.inputs[0], order], y, Table("TransposeOptions"))


# ------------------------------------------------------------------------------ blocks, repeats


def _blocks(o: Operands) -> None:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH: axes split, in another order, and joined."""
    o.check_alike("rearrangement")
    _, height, width, channels = o.image()
    to_depth = o.op.name == "SPACE_TO_DEPTH"
    size = o.options(tflite.SpaceToDepthOptions if to_depth else tflite.DepthToSpaceOptions)
    size = int(size.BlockSize())
    if size < 1 or (height % size or width % size if to_depth else channels % size**2):
        raise ModelError(f"{o.where}: blocks of {size} do not fit {o.image()}")
    if to_depth:
        split: Shape = (1, height // size, size, width // size, size * channels)
    else:
        split = (1, height, width, size, channels // size)
    moved = o.moved(o.view(o.x(), split), FloatTranspose((0, 1, 3, 2, 4)))
    o.emit(FloatReshape(o.y_shape), moved)


def _tile(o: Operands) -> None:
    """Repeat along any axes but the batch."""
    o.check_alike("repetition", inputs=1)
    shape, counts = o.shape(), o.integers(1)
    if len(counts) != len(shape) or min(counts) < 1 or counts[0] != 1:
        raise UnsupportedError(
            f"{o.where} repeats {shape} {tuple(counts)} times; supported are axes but the first"
        )
    o.emit(FloatReshape(o.y_shape), o.tiled(o.x(), shape, counts))


VIEWS = ("EXPAND_DIMS", "RESHAPE", "SQUEEZE")
"""Operators whose other inputs need not be known: the file says the output's shape."""

ARITHMETIC = ("PACK", "SHAPE")

OPERATORS = (
    Entry(
        "CONCATENATION",
        _concatenation,
        real=_float_concatenation,
        writes={Concatenation: _write_concatenation},
        version=2,
    ),
    *(Entry(name, _shape_arithmetic) for name in ARITHMETIC),
    Entry("CAST", _cast),
    *(Entry(name, _blocks) for name in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")),
    Entry("TILE", _tile),
    Entry("PAD", _pad, writes={Pad: _write_pad}, version=2),
    Entry("PADV2", _pad, writes={Pad: _write_pad}, version=2),
    *(Entry(name, _view, writes={Reshape: _write_reshape}) for name in VIEWS),
    Entry(
        "TRANSPOSE",
        _transpose,
        real=_float_transpose,
        writes={Transpose: _write_transpose},
        version=2,
    ),
)

"""Parts of tensors: SLICE, STRIDED_SLICE, SPLIT, SPLIT_V."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.outputs import needed
from mcutrain.formats.tflite.entry import Entry
from mcutrain.formats.tflite.file import FileModel
from mcutrain.formats.tflite.flatbuffer import Table
from mcutrain.formats.tflite.float_operator import ID_TYPES
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.shapes import is_shape_arithmetic
from mcutrain.formats.tflite.writer import TfliteWriter
from mcutrain.ir.graph import Node
from mcutrain.ops.embedding import Embedding
from mcutrain.ops.slice import Part, Slice
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_shapes import FloatReshape, FloatSlice


def _emit(o: Operands, places: Sequence[range]) -> None:
    """The places along each axis of the first input, under the file's shape."""
    o.check_alike("part", inputs=1)
    shape = o.shape()
    if not all(places):
        raise ModelError(f"{o.where} leaves nothing of {shape}")
    part = Part.of(places)
    is_whole = part.sizes == shape
    o.emit(FloatReshape(o.y_shape) if is_whole else FloatSlice(part, shape[-1]), o.x())


def _slice(o: Operands) -> None:
    """Read a SLICE: so many from `begin` on; -1 is all that are left."""
    shape, begin, sizes = o.shape(), o.integers(1), o.integers(2)
    if not len(shape) == len(begin) == len(sizes):
        raise ModelError(f"{o.where} cuts {shape} from {begin} on by {sizes}")
    axes = zip(shape, begin, sizes, strict=True)
    places = [range(first, length if n == -1 else first + n) for length, first, n in axes]
    _emit(o, places)


def _strided_slice(o: Operands) -> None:
    """As numpy's indices; of shapes, arithmetic."""
    if is_shape_arithmetic(o):
        return
    options = o.options(tflite.StridedSliceOptions)
    if options.EllipsisMask() or options.NewAxisMask() or options.Offset():
        raise UnsupportedError(
            f"{o.where} has an ellipsis, a new axis or ends that count from the beginning; "
            "supported are a begin, an end and a stride for each axis, and axes that vanish"
        )
    shape, numbers = o.shape(), [o.integers(i) for i in (1, 2, 3)]
    if len({len(n) for n in numbers}) > 1 or len(numbers[0]) > len(shape) or 0 in numbers[2]:
        raise ModelError(f"{o.where}: {numbers} do not fit {shape}")
    if min(numbers[2]) < 0:
        raise UnsupportedError(f"{o.where} has the strides {numbers[2]}; supported are positive")
    places = [range(length) for length in shape]
    for axis, (begin, end, stride) in enumerate(zip(*numbers, strict=True)):
        bit, length = 1 << axis, shape[axis]
        first = None if options.BeginMask() & bit else begin
        last = None if options.EndMask() & bit else end
        places[axis] = range(*slice(first, last, stride).indices(length))
        if options.ShrinkAxisMask() & bit:
            places[axis] = range(length)[first or 0 :][:1]
    _emit(o, places)


def _axis(o: Operands, position: int, shape: Shape) -> int:
    """The axis that a constant says, counted from the front."""
    numbers = o.integers(position)
    if len(numbers) != 1 or not -len(shape) <= numbers[0] < len(shape):
        raise ModelError(f"{o.where} splits {shape} along {numbers}")
    return numbers[0] % len(shape)


def _parts(o: Operands, position: int, axis: int, sizes: Sequence[int]) -> None:
    """Each output a part of the input at the position."""
    shape = o.shape(position)
    if len(sizes) != len(o.op.outputs) or min(sizes) < 1 or sum(sizes) != shape[axis]:
        raise ModelError(f"{o.where} splits {shape[axis]} into {list(sizes)}")
    for place, span in enumerate(itertools.pairwise(itertools.accumulate(sizes, initial=0))):
        places = [range(n) for n in shape]
        places[axis] = range(*span)
        _emit(o.alone(position, place), places)


def _split(o: Operands) -> None:
    """As many equal parts as there are outputs."""
    shape, count = o.shape(1), max(len(o.op.outputs), 1)
    axis = _axis(o, 0, shape)
    _parts(o, 1, axis, [shape[axis] // count] * count)


def _split_v(o: Operands) -> None:
    """Parts of any length; -1 is what is left."""
    shape, sizes = o.shape(), o.integers(1)
    axis = _axis(o, 2, shape)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = shape[axis] - sum(sizes) - 1
    _parts(o, 0, axis, sizes)


def _gather(o: Operands, table: int = 0) -> None:
    """Rows of a constant table, chosen by token ids. table: the input that it is; ids: the other.

    An int8 model has it in the quantization of the output, as the kernels want it.
    """
    if o.op.name == "GATHER":
        options = o.options(tflite.GatherOptions)
        if options.Axis() or options.BatchDims():
            raise UnsupportedError(
                f"{o.where} gathers along axis {options.Axis()}; supported are rows of a constant "
                "table, axis 0, chosen by token ids"
            )
    o.emit_rows(table, o.x(1 - table))


def with_plain_ids(model: FileModel) -> FileModel:
    """The model without what lets ids below 0 count from a table's end: Keras' ids < 0 ? ids + n
    : ids. Data sets have none below 0.
    """
    made = {i: op for op in model.operators for i in op.outputs}
    plain: dict[int, int] = {}
    for op in model.operators:
        if op.name not in ("SELECT", "SELECT_V2") or len(op.inputs) != 3:
            continue
        condition, moved, ids = op.inputs
        less, added = made.get(condition), made.get(moved)
        if less is None or added is None or (less.name, added.name) != ("LESS", "ADD"):
            continue
        zero = model.tensors[less.inputs[1]].data
        is_below = less.inputs[0] == ids and zero is not None and not zero.any()
        if is_below and ids in added.inputs and model.tensors[ids].dtype in ID_TYPES:
            plain[op.outputs[0]] = ids
    if not plain:
        return model
    others = [op for op in model.operators if op.outputs[0] not in plain]
    joined = [replace(op, inputs=tuple(plain.get(i, i) for i in op.inputs)) for op in others]
    kept = needed(joined, model.outputs, lambda op: (op.inputs, op.outputs))
    return replace(model, operators=tuple(kept))


def _lookup(o: Operands) -> None:
    _gather(o, 1)


def _write_embedding(w: TfliteWriter, node: Node) -> None:
    ids, table = node.inputs
    w.operator("GATHER", [table, ids], node.outputs[0], Table("GatherOptions", {"Axis": 0}))


def _write_slice(w: TfliteWriter, node: Node) -> None:
    """SLICE, or STRIDED_SLICE where places are left out between others."""
    op, x, y = node.op, node.inputs[0], node.outputs[0]
    assert isinstance(op, Slice)
    part = op.part
    ends = [one[-1] + 1 for one in part.places]
    is_strided = max(part.steps) > 1
    names = {"begin": part.first, "end": ends, "strides": part.steps}
    if not is_strided:
        names = {"begin": part.first, "size": part.sizes}
    given = [w.helper(f"{y}/{name}", np.array(n, np.int32)) for name, n in names.items()]
    kind = "StridedSlice" if is_strided else "Slice"
    code = "STRIDED_SLICE" if is_strided else "SLICE"
    w.operator(code, [x, *given], y, Table(f"{kind}Options"))


OPERATORS = (
    Entry("EMBEDDING_LOOKUP", _lookup),
    Entry("GATHER", _gather, writes={Embedding: _write_embedding}, version=2),
    Entry("SLICE", _slice, writes={Slice: _write_slice}, version=2),
    Entry("SPLIT", _split, version=2),
    Entry("SPLIT_V", _split_v, version=2),
    Entry("STRIDED_SLICE", _strided_slice, writes={Slice: _write_slice}, version=2),
)

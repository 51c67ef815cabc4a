"""Images and sequences made larger by repeating, as Keras' UpSampling is converted since Keras 3.

A RESHAPE puts an axis of length 1 behind rows or columns, a TILE repeats along it, a RESHAPE joins
both axes. The reader lets such operators move the numbers 0, 1, 2 … to see what they do together.
If rows and columns are repeated whole, the last one is a resize to the nearest pixel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.formats.tflite.file import MISSING, FileModel, FileOperator
from mcutrain.formats.tflite.operands import Operands
from mcutrain.formats.tflite.shapes import VIEWS
from mcutrain.quant.float_resize import FloatResize, Places
from mcutrain.quant.float_shapes import FloatReshape

Array = npt.NDArray[Any]

NAME = "repeated rows and columns"
MOST_NUMBERS = 2**22
MOST_CHAIN = 8
"""Operators that are followed back: three views, two TILEs, and what is left between them."""


@dataclass(frozen=True)
class Repeats:
    """How often each row and each column is there; the image as [1, h, w, c]."""

    image: tuple[int, int, int, int]
    rows: int
    columns: int


def with_repeats(model: FileModel) -> FileModel:
    """The model with one operator for the views and TILEs that make an image larger."""
    if not any(op.name == "TILE" for op in model.operators):
        return model
    chains = _Chains(model)
    return replace(model, operators=tuple(chains.shortened(op) for op in model.operators))


def repeated(o: Operands) -> None:
    """A resize that copies."""
    repeats: Repeats = o.op.options
    o.check_alike("repetition", inputs=1)
    _, height, width, _ = repeats.image
    rows = Places.of(np.repeat(np.arange(height), repeats.rows), height)
    columns = Places.of(np.repeat(np.arange(width), repeats.columns), width)
    x = o.x()
    if o.shape() != repeats.image:
        x = o.moved(x, FloatReshape(repeats.image))
    o.emit(FloatResize(rows, columns), x)


class _Chains:
    """Views and TILEs, each alone in reading what the one before it writes."""

    def __init__(self, model: FileModel) -> None:
        self.model = model
        self.producers = {i: op for op in model.operators for i in op.outputs if i != MISSING}
        self.reads = model.reads
        self.reads.update(model.outputs)

    def shortened(self, op: FileOperator) -> FileOperator:
        """Return the operator, or the one that stands for the chain that it ends."""
        if op.name not in VIEWS or not self._moves(op):
            return op
        chain: list[FileOperator] = []
        for one in self._back(op):
            chain.insert(0, one)
            found = self._repeats(chain) if one.name in VIEWS else None
            if found is not None:
                return FileOperator(NAME, one.inputs[:1], op.outputs, 0, found)
        return op

    def _back(self, op: FileOperator) -> Iterator[FileOperator]:
        """The chain from its end to its begin."""
        for _ in range(MOST_CHAIN):
            yield op
            before = self.producers.get(op.inputs[0])
            if before is None or self.reads[op.inputs[0]] != 1 or not self._moves(before):
                return
            op = before

    def _moves(self, op: FileOperator) -> bool:
        """Return whether it is a view or a TILE by constants."""
        if len(op.outputs) != 1 or not op.inputs or MISSING in (*op.outputs, op.inputs[0]):
            return False
        if op.name != "TILE":
            return op.name in VIEWS
        return len(op.inputs) == 2 and self.model.tensors[op.inputs[1]].data is not None

    def _repeats(self, chain: list[FileOperator]) -> Repeats | None:
        """Return what the chain does, if it repeats whole rows and columns."""
        tensors = self.model.tensors
        start, end = (tensors[i].shape for i in (chain[0].inputs[0], chain[-1].outputs[0]))
        if len(start) != len(end) or len(start) not in (3, 4) or start[0] != 1 or 0 in start:
            return None
        image = (1, start[1], start[2] if len(start) == 4 else 1, start[-1])
        larger = (1, end[1], end[2] if len(end) == 4 else 1, end[-1])
        factors = [new // old for new, old in zip(larger, image, strict=True)]
        if factors[0] != 1 or factors[3] != 1 or max(factors) < 2:
            return None
        if math.prod(larger) > MOST_NUMBERS:
            return None
        moved = self._moved(chain, np.arange(math.prod(image)).reshape(start))
        wanted = np.arange(math.prod(image)).reshape(image)
        wanted = wanted.repeat(factors[1], axis=1).repeat(factors[2], axis=2)
        if moved is None or not np.array_equal(moved.ravel(), wanted.ravel()):
            return None
        return Repeats(image, factors[1], factors[2])

    def _moved(self, chain: list[FileOperator], numbers: Array) -> Array | None:
        """Return what becomes of the numbers; None where the file's shapes do not fit."""
        for op in chain:
            shape = self.model.tensors[op.outputs[0]].shape
            if op.name == "TILE":
                times = np.asarray(self.model.tensors[op.inputs[1]].data).ravel()
                if len(times) != numbers.ndim or (times < 1).any():
                    return None
                if numbers.size * math.prod(int(t) for t in times) > MOST_NUMBERS:
                    return None
                numbers = np.tile(numbers, times)
            if numbers.size != math.prod(shape):
                return None
            numbers = numbers.reshape(shape)
        return numbers

"""Where the numbers of an ONNX tensor lie in the channels-last tensors of our graphs.

ONNX is channels first and moves axes about; our graphs are channels last. A layout says how ONNX
sees the numbers of a stored tensor, so that Transpose, Reshape, Flatten and the like only change
the view. Data moves where an operator needs another order than is stored.
"""

from __future__ import annotations

import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ops.transpose import MOST_AXES
from mcutrain.quant.float_op import Shape
from mcutrain.quant.float_shapes import FloatMove, FloatReshape, FloatTranspose

Array = npt.NDArray[Any]
CHANNELS_LAST = (0, 2, 3, 1)
"""The ONNX axes of an image in the order in which they are stored."""
IMAGE_RANKS = (2, 3, 4)  # [1, c], [1, c, l] and [1, c, h, w]


@dataclass(frozen=True)
class Layout:
    """The ONNX array is stored.transpose(perm).reshape(shape).

    stored: the shape of the tensor, or of a view of it.
    """

    stored: Shape
    perm: tuple[int, ...]
    shape: Shape

    @staticmethod
    def of_order(shape: Shape, order: Sequence[int]) -> Layout:
        """Return the layout of ONNX axes that are stored in this order, behind a batch of 1."""
        perm = tuple(order.index(axis) for axis in range(len(shape)))
        stored = tuple(shape[axis] for axis in order)
        if stored[:1] != (1,):
            stored, perm = (1, *stored), (0, *(place + 1 for place in perm))
        return Layout(stored, perm, shape)

    @staticmethod
    def of_rows(shape: Shape) -> Layout:
        """Return the layout of an array that is stored as it is."""
        return Layout.of_order(shape, range(len(shape)))

    @staticmethod
    def of_image(stored: Shape, rank: int) -> Layout:
        """Return the layout of [1, h, w, c], seen as [1, c, h, w], [1, c, l] or [1, c]."""
        _, height, width, channels = stored
        shape = (1, channels, *(height, width)[4 - rank :])
        return Layout(stored, (0, 3, 1, 2), shape)

    @property
    def moving(self) -> list[int]:
        """The stored axes longer than 1 in the order in which ONNX has them."""
        return [a for a in self.perm if self.stored[a] > 1]

    @property
    def merged(self) -> Layout:
        """Return the layout with the fewest axes: what ONNX sees as neighbours is one axis."""
        longer = sorted(self.moving)
        groups: list[list[int]] = []
        for axis in self.moving:
            if groups and longer.index(axis) == longer.index(groups[-1][-1]) + 1:
                groups[-1].append(axis)
            else:
                groups.append([axis])
        stored = sorted(groups)
        lengths = (math.prod(self.stored[axis] for axis in group) for group in stored)
        return Layout((1, *lengths), (0, *(1 + stored.index(g) for g in groups)), self.shape)

    def split(self) -> StoredAxes | None:
        """What the ONNX axes are made of; None if their lengths do not fit into each other."""
        return self._split() or self.merged._split()

    def _split(self) -> StoredAxes | None:
        ours, theirs = (
            list(itertools.accumulate((1, *lengths), operator.mul))
            for lengths in ([self.stored[axis] for axis in self.moving], self.shape)
        )
        pieces = list(itertools.pairwise(sorted({*ours, *theirs})))
        if any(end % start for start, end in pieces):
            return None

        def within(start: int, end: int) -> list[tuple[int, int]]:
            return [piece for piece in pieces if start <= piece[0] and piece[1] <= end]

        spans = dict(zip(self.moving, itertools.pairwise(ours), strict=True))
        stored: list[int] = []
        places: dict[tuple[int, int], int] = {}
        for axis in range(len(self.stored)):
            if axis not in spans:
                stored.append(1)
                continue
            for start, end in within(*spans[axis]):
                places[start, end] = len(stored)
                stored.append(end // start)
        axes = [[places[piece] for piece in within(*span)] for span in itertools.pairwise(theirs)]
        return StoredAxes(tuple(stored), axes)

    def of_rank(self, rank: int) -> Layout:
        """Return the layout with at least so many stored axes."""
        more = max(rank - len(self.stored), 0)
        perm = (*range(more), *(axis + more for axis in self.perm))
        return Layout((*(1 for _ in range(more)), *self.stored), perm, self.shape)

    @property
    def is_row_major(self) -> bool:
        """Whether the numbers are stored in ONNX' order."""
        return self.moving == sorted(self.moving)

    @property
    def order(self) -> tuple[int, ...]:
        """The ONNX axes in the order in which they are stored, those of length 1 first.

        Of a shape whose axes do not fit the stored ones: ONNX' own order.
        """
        split = self.split()
        if split is None:
            return tuple(range(len(self.shape)))
        first = [min(parts, default=-1) for parts in split.axes]
        return tuple(sorted(range(len(self.shape)), key=first.__getitem__))

    @property
    def flat_places(self) -> Array:
        """Place of each number of the ONNX array, row by row, in the stored one."""
        count = math.prod(self.stored)
        places: Array = np.arange(count).reshape(self.stored).transpose(self.perm).ravel()
        return places

    def store(self, data: Array) -> Array:
        """An array of the ONNX shape as it would be stored."""
        seen = data.reshape([self.stored[axis] for axis in self.perm])
        return seen.transpose(np.argsort(self.perm))

    def is_stored_like(self, other: Layout) -> bool:
        """Return whether both have the same shape and the same places for its numbers."""
        if self.shape != other.shape:
            return False
        return (self.is_row_major and other.is_row_major) or (
            np.array_equal(self.flat_places, other.flat_places)
        )

    def steps(self, shape: Shape, order: Sequence[int]) -> tuple[FloatMove, ...]:
        """Return the moves from the stored tensor to the array as `shape`, in `order`."""
        split = replace(self, shape=shape).split()
        target = FloatReshape(Layout.of_order(shape, order).stored)
        if split is None:
            rows = _moved(self.stored, self.moving)
            return (*rows, *Layout.of_rows(shape).steps(shape, order))
        return (*_moved(split.stored, [a for i in order for a in split.axes[i]]), target)

    def turned(self, order: Sequence[int]) -> Layout | None:
        """Return the layout with ONNX axes in another order; None if data must move for that."""
        split = self.split()
        if split is None:
            return None
        perm = [a for i in order for a in split.axes[i]]
        rest = [a for a in range(len(split.stored)) if a not in perm]
        return Layout(split.stored, (*rest, *perm), tuple(self.shape[i] for i in order))


@dataclass(frozen=True)
class StoredAxes:
    """Stored axes, split as far as ONNX' axes need it.

    axes: for each ONNX axis the stored ones longer than 1 that it is made of.
    """

    stored: Shape
    axes: Sequence[Sequence[int]]


def _moved(stored: Shape, order: Sequence[int]) -> tuple[FloatMove, ...]:
    """Stored axes longer than 1 in another order; nothing if they are in that order.

    Of more neighbours than one Transpose moves, those that stay together are brought to their place
    one after another.
    """
    if list(order) == sorted(order):
        return ()
    rest = [a for a in range(len(stored)) if a not in order]
    if len(_runs(order, sorted(order))) <= MOST_AXES:
        return FloatReshape(stored), FloatTranspose((*rest, *order))
    steps: list[FloatMove] = []
    now = sorted(order)
    for run in _runs(order, now):
        done = order[: order.index(run[0])]
        then = [*done, *run, *(a for a in now if a not in (*done, *run))]
        if then != now:
            perm = (0, *(1 + now.index(axis) for axis in then))
            steps += [FloatReshape((1, *(stored[a] for a in now))), FloatTranspose(perm)]
        now = then
    return tuple(steps)


def _runs(order: Sequence[int], given: Sequence[int]) -> list[list[int]]:
    """The axes of an order in parts that are neighbours in the one that is given."""
    runs: list[list[int]] = []
    for axis in order:
        if runs and given.index(axis) == given.index(runs[-1][-1]) + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


class Mover(ABC):
    """A graph in the making whose tensors can be seen and stored otherwise."""

    @abstractmethod
    def move(self, x: str, op: FloatMove, stem: str) -> str:
        """The tensor after the operator; itself if that changes nothing. stem: of new names."""

    def arrange(self, x: str, layout: Layout, shape: Shape, order: Sequence[int], stem: str) -> str:
        """A stored tensor that is the ONNX array, reshaped to `shape`, with its axes in `order`."""
        for op in layout.steps(shape, order):
            x = self.move(x, op, stem)
        return x

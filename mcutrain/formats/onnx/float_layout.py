"""Where the numbers of an ONNX tensor lie in the channels-last tensors of the float graph.

ONNX is channels first and moves axes about; the float graph is channels last. A `Placed` value says
which stored tensor holds the numbers and how ONNX sees them, so that Transpose, Reshape, Flatten
and the like only change the view. Data moves where an operator needs another order than is stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import ModelError
from mcutrain.ir.names import Names
from mcutrain.quant.float_graph import FloatNode
from mcutrain.quant.float_op import FloatOp, Shape
from mcutrain.quant.float_shapes import FloatReshape, FloatTranspose

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Placed:
    """The ONNX array is stored.transpose(perm).reshape(shape).

    tensor: the name of the stored one; its shape is `stored`.
    """

    tensor: str
    stored: Shape
    perm: tuple[int, ...]
    shape: Shape

    @property
    def axes(self) -> dict[int, int] | None:
        """ONNX axis → stored axis, of axes longer than 1; None if the shape joins or splits any."""
        longer = [a for a in self.perm if self.stored[a] > 1]
        seen = [i for i, d in enumerate(self.shape) if d > 1]
        if [self.stored[a] for a in longer] != [self.shape[i] for i in seen]:
            return None
        return dict(zip(seen, longer, strict=True))

    @property
    def stored_order(self) -> tuple[int, ...] | None:
        """The ONNX axes in the order in which they are stored, those of length 1 first."""
        axes = self.axes
        if axes is None:
            return None
        return tuple(sorted(range(len(self.shape)), key=lambda i: axes.get(i, -1)))

    @property
    def flat_places(self) -> Array:
        """For each number of the ONNX array, row by row: its place in the stored one."""
        count = math.prod(self.stored)
        places: Array = np.arange(count).reshape(self.stored).transpose(self.perm).ravel()
        return places


class Nodes:
    """The float nodes that an import has made so far."""

    def __init__(self) -> None:
        self.nodes: list[FloatNode] = []
        self.shapes: dict[str, Shape] = {}
        self.names = Names()

    def add(self, op: FloatOp, inputs: Sequence[str], stem: str) -> str:
        """Append a node. Its name is `stem`, its output's is like it."""
        try:
            shape = op.shape(*(self.shapes[n] for n in inputs))
        except ValueError as error:
            raise ModelError(f"node {stem!r}: {error}") from error
        output = self.names.take(stem)
        self.shapes[output] = shape
        self.nodes.append(FloatNode(stem, op, tuple(inputs), output))
        return output

    def placed(self, tensor: str, perm: Sequence[int], shape: Shape) -> Placed:
        """A stored tensor as a value."""
        return Placed(tensor, self.shapes[tensor], tuple(perm), shape)

    def reshape(self, tensor: str, shape: Shape, stem: str) -> str:
        """The stored tensor under another shape."""
        if self.shapes[tensor] == shape:
            return tensor
        return self.add(FloatReshape(shape), (tensor,), f"{stem}/view")

    def arrange(self, value: Placed, shape: Shape, order: Sequence[int], stem: str) -> str:
        """A stored tensor that is the ONNX array, reshaped to `shape`, with its axes in `order`."""
        seen = replace(value, shape=shape)
        axes = seen.axes
        target = tuple(shape[i] for i in order)
        if axes is None:
            moved = self._moved(value, value.perm, stem)
            flat = self.reshape(moved, shape, stem)
            return self.arrange(self.placed(flat, range(len(shape)), shape), shape, order, stem)
        wanted = [axes[i] for i in order if shape[i] > 1]
        rest = [a for a in range(len(value.stored)) if a not in wanted]
        return self.reshape(self._moved(value, (*rest, *wanted), stem), target, stem)

    def _moved(self, value: Placed, perm: Sequence[int], stem: str) -> str:
        """The stored tensor transposed; a view where only axes of length 1 move."""
        longer = [a for a in perm if value.stored[a] > 1]
        if longer == sorted(longer):
            return self.reshape(value.tensor, tuple(value.stored[a] for a in perm), stem)
        return self.add(FloatTranspose(tuple(perm)), (value.tensor,), f"{stem}/transpose")

    def direct(self, value: Placed, stem: str) -> Placed:
        """The value with a stored tensor of the ONNX shape's own axes, in whatever order."""
        order = value.stored_order or tuple(range(len(value.shape)))
        tensor = self.arrange(value, value.shape, order, stem)
        return self.placed(tensor, tuple(order.index(i) for i in range(len(order))), value.shape)

    def with_last(self, value: Placed, axis: int, stem: str) -> Placed:
        """The value with the ONNX axis stored last."""
        found = self.direct(value, stem)
        order = found.stored_order
        assert order is not None
        if found.perm[axis] == len(found.shape) - 1:
            return found
        order = (*(i for i in order if i != axis), axis)
        tensor = self.arrange(found, found.shape, order, stem)
        return self.placed(tensor, tuple(order.index(i) for i in range(len(order))), value.shape)

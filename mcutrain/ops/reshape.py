"""Another shape for the same elements: no code, no memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    ChannelTie,
    Emit,
    Gradient,
    KernelCall,
    Op,
    channel_axis,
    inputs,
    outputs,
)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Reshape(Op):
    """y = x, row-major, as `shape`."""

    shape: tuple[int, ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The new shape, if it holds as many elements."""
        x = inputs[0]
        if int(np.prod(self.shape, dtype=np.int64)) != x.elements:
            raise ValueError(f"shape {x.shape} cannot become {self.shape}")
        return (TensorType(self.shape, x.dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Reshape."""
        return (inputs[0].reshape(self.shape),)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """The gradient under the input's shape."""
        if not emit.wants(inputs[0]):
            return (None,)
        return (replace(dy, name=emit.node(Reshape(inputs[0].type.shape), dy.name)),)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """There is none."""
        raise ValueError("a view has no kernel")

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """The last axes, where one holds the other a whole number of times.

        Flattening [1, h, w, c] repeats the order of c at each of the h * w positions.
        """
        x, y = types[0].shape, results[0].shape
        if not x or not y or max(x[-1], y[-1]) % min(x[-1], y[-1]):
            return ()
        (a,), (b,) = inputs(0), outputs(0)
        x_axis = channel_axis(a, types[0], max(x[-1] // y[-1], 1))
        y_axis = channel_axis(b, results[0], max(y[-1] // x[-1], 1))
        return ((x_axis, y_axis),)

    def resized(self, old: int, new: int) -> Op:
        """The last axis that holds all elements holds the new ones."""
        axes = [i for i, n in enumerate(self.shape) if n == old]
        if not axes or math.prod(self.shape) != old:
            raise ValueError(f"the outputs are reshaped to {self.shape}, which fits no new head")
        return Reshape(tuple(new if i == axes[-1] else n for i, n in enumerate(self.shape)))

    is_view: ClassVar[bool] = True

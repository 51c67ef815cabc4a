"""Axes in another order, where the data must move; a view of the same order is a Reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    Axis,
    ChannelTie,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Param,
    inputs,
    outputs,
)
from mcutrain.ops.gradients import SUFFIX

Array = npt.NDArray[Any]

MOST_AXES = 4
"""Longer than 1, of which neighbours that stay neighbours count as one."""


@dataclass(frozen=True)
class Transpose(Op):
    """y[i_perm[0], i_perm[1], …] = x[i_0, i_1, …]: axis k of y is axis perm[k] of x."""

    perm: tuple[int, ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape in the new order."""
        x = inputs[0]
        if sorted(self.perm) != list(range(len(x.shape))):
            raise ValueError(f"the axes of {x.shape} cannot be in the order {self.perm}")
        if len(_merged(self.perm, x.shape)[0]) > MOST_AXES:
            raise ValueError(f"{x.shape} in the order {self.perm} moves more than {MOST_AXES} axes")
        return (TensorType(tuple(x.shape[i] for i in self.perm), x.dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Transpose."""
        return (np.ascontiguousarray(inputs[0].transpose(self.perm)),)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """The gradient in the old order: the same integers, nothing is rounded."""
        if not emit.wants(inputs[0]):
            return (None,)
        back = Transpose(tuple(int(i) for i in np.argsort(self.perm)))
        return (replace(dy, name=emit.node(back, dy.name)),)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_transpose_<x>: y is written in order, x is read by strides."""
        lengths, perm = _merged(self.perm, types[0].shape)
        strides = [math.prod(lengths[i + 1 :]) for i in range(len(lengths))]
        missing = MOST_AXES - len(perm)
        params = []
        for k in range(MOST_AXES):
            axis = perm[k - missing] if k >= missing else None
            params.append(Param(f"length_{k}", 1 if axis is None else lengths[axis]))
            params.append(Param(f"stride_{k}", 0 if axis is None else strides[axis]))
        operands = (*inputs(0), *outputs(0))
        name = f"mct_transpose_{SUFFIX[types[0].dtype]}"
        return KernelCall("transpose", name, tuple(params), operands)

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """x's last axis, wherever it went."""
        (x,), (y,) = inputs(0), outputs(0)
        last = len(self.perm) - 1
        return ((Axis(x, last), Axis(y, self.perm.index(last))),)


def _merged(perm: tuple[int, ...], shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return the reordering with fewer axes: lengths of x's axes, and their order in y.

    Axes of length 1 are left out; axes that are neighbours before and after become one.
    """
    runs: list[list[int]] = []
    left = [axis for axis in perm if shape[axis] > 1]
    following = dict(zip(sorted(left), sorted(left)[1:], strict=False))
    for axis in left:
        if runs and following.get(runs[-1][-1]) == axis:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    order = sorted(range(len(runs)), key=lambda i: runs[i][0])
    lengths = [math.prod(shape[axis] for axis in runs[i]) for i in order]
    return lengths, [order.index(i) for i in range(len(runs))]

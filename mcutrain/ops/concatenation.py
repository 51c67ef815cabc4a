"""Tensors of equal quantization side by side along an axis; and the part of each in a gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    NULL,
    Axis,
    ChannelTie,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Operand,
    Param,
    Rows,
    inputs,
    outputs,
    rows_apart,
)
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage

Array = npt.NDArray[Any]

MOST_INPUTS = 8
"""Inputs of one kernel call; readers concatenate more of them in several steps."""
LETTERS = "abcdefgh"


@dataclass(frozen=True)
class Concatenation(Op):
    """y = the inputs one after another along `axis`: TFLite's CONCATENATION in int8.

    All inputs and y have one quantization, and shapes that differ along the axis only.
    """

    axis: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The sum of the inputs' lengths along the axis."""
        first = inputs[0].shape
        if not 2 <= len(inputs) <= MOST_INPUTS or not 0 <= self.axis < len(first):
            raise ValueError(f"{len(inputs)} inputs of {first} along axis {self.axis}")
        before, behind = first[: self.axis], first[self.axis + 1 :]
        for x in inputs:
            if (x.shape[: self.axis], x.shape[self.axis + 1 :]) != (before, behind):
                raise ValueError(f"{x.shape} and {first} differ not only along axis {self.axis}")
        length = sum(x.shape[self.axis] for x in inputs)
        return (TensorType((*before, length, *behind)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Concatenate."""
        return (np.concatenate(inputs, self.axis),)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Each input gets its part of dy."""
        found: list[Gradient | None] = []
        first = 0
        for x in inputs:
            if emit.wants(x):
                stage = OutputStage((dy.scale,), False, emit.gradient_dtype, emit.salt())
                op = ConcatenationGradInput(stage, x.type.shape, self.axis, first)
                found.append(emit.gradient(op, dy))
            else:
                found.append(None)
            first += x.type.shape[self.axis]
        return tuple(found)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Along width and channels."""
        return rows_apart(types, results, "outer") if self.axis >= 2 else None

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_concatenation_s8: NULL and length 0 for the inputs that are not there."""
        outer = math.prod(results[0].shape[: self.axis])
        counts = [t.elements // outer for t in types] + [0] * (MOST_INPUTS - len(types))
        params = (
            Param("outer", outer),
            *(Param(f"{x}_elements", n) for x, n in zip(LETTERS, counts, strict=True)),
        )
        absent = (NULL,) * (MOST_INPUTS - len(types))
        operands: tuple[Operand, ...] = (*inputs(*range(len(types))), *absent, *outputs(0))
        return KernelCall("concatenation", "mct_concatenation_s8", params, operands)

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """The last axes, unless it is they that are joined: then every channel keeps its place."""
        last = len(results[0].shape) - 1
        if self.axis == last:
            return ()
        operands = (*inputs(*range(len(types))), *outputs(0))
        return (tuple(Axis(operand, last) for operand in operands),)


@dataclass(frozen=True)
class ConcatenationGradInput(GradientOp):
    """dx = the part of dy along `axis` from place `first` on. dy is longer than dx there."""

    axis: int
    first: int

    def sums(self, dy: Array, *rest: Array) -> Array:
        """Cut out."""
        places = range(self.first, self.first + self.shape[self.axis])
        return np.take(dy, places, self.axis).astype(np.int64)

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_concatenation_grad_input_<dy>: scratch holds one position's numbers."""
        dy, channels = types[1], self.shape[-1]
        outer = math.prod(self.shape[: self.axis])
        behind = math.prod(self.shape[self.axis + 1 :])
        params = (
            Param("outer", outer),
            Param("dx_elements", self.shape[self.axis] * behind),
            Param("dy_elements", dy.elements // outer),
            Param("first", self.first * behind),
            Param("channels", channels),
        )
        scratch = channels * ACC_BYTES[dy.dtype]
        name = f"mct_concatenation_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("concatenation", name, params, (), scratch)

"""A part of a tensor, every number of it or each second, third …; and its gradient among zeros."""

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
    ChannelTie,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Param,
    Rows,
    channel_axis,
    inputs,
    outputs,
)
from mcutrain.ops.gradients import SUFFIX

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

MOST_AXES = 4


@dataclass(frozen=True)
class Part:
    """The places first, first + step, … of each axis, so many as `sizes` says. The batch is whole.

    steps: 1 or more; 1 where there is one place.
    """

    first: Shape
    sizes: Shape
    steps: Shape

    @staticmethod
    def of(places: Sequence[range]) -> Part:
        """Return the part with these places along each axis. No range is empty or has a negative
        step.
        """
        return Part(
            tuple(one.start for one in places),
            tuple(len(one) for one in places),
            tuple(one.step if len(one) > 1 else 1 for one in places),
        )

    @property
    def places(self) -> tuple[range, ...]:
        """Along each axis."""
        axes = zip(self.first, self.sizes, self.steps, strict=True)
        return tuple(range(first, first + size * step, step) for first, size, step in axes)

    @property
    def index(self) -> tuple[slice, ...]:
        """Index of the part for numpy; all samples of a batch."""
        return (slice(None), *(slice(one.start, one.stop, one.step) for one in self.places[1:]))

    def check(self, shape: Shape) -> None:
        """Raise ValueError unless it is a part of such a tensor."""
        rank = len(shape)
        if not 2 <= rank <= MOST_AXES:
            raise ValueError(f"{rank} axes, of {shape}, cannot be cut; 2 to {MOST_AXES} can")
        if {len(self.first), len(self.sizes), len(self.steps)} != {rank}:
            raise ValueError(f"{self} is no part of {shape}")
        if (self.first[0], self.sizes[0]) != (0, shape[0]):
            raise ValueError(f"the first axis of {shape}, the batch, cannot be cut")
        if min(self.sizes) < 1 or min(self.steps) < 1:
            raise ValueError(f"nothing of {shape}, or it backwards, is no part of it")
        ends = [(one[0], one[-1]) for one in self.places]
        if any(a < 0 or b >= size for (a, b), size in zip(ends, shape, strict=True)):
            raise ValueError(f"{self} reaches beyond {shape}")

    def keeps_axis(self, axis: int, shape: Shape) -> bool:
        """Return whether all places of an axis of such a tensor are there."""
        return self.sizes[axis] == shape[axis]

    def params(self, shape: Shape) -> tuple[Param, ...]:
        """The fields of `mct_slice_s8_params` for a tensor of the shape.

        Channels that are all there, of neighbouring columns, are one run.
        """
        missing = MOST_AXES - len(shape)
        _, first_row, first_column, first_channel = (0,) * missing + self.first
        _, rows, columns, channels = (1,) * missing + self.sizes
        _, row_step, column_step, channel_step = (1,) * missing + self.steps
        width, depth = ((1, 1, *shape)[-2:]) if len(shape) > 2 else (1, shape[-1])
        column_stride = column_step * depth
        if self.keeps_axis(-1, shape) and column_step == 1:
            columns, channels, column_stride = 1, columns * channels, 0
        return (
            Param("rows", rows),
            Param("columns", columns),
            Param("channels", channels),
            Param("row_stride", row_step * width * depth),
            Param("column_stride", column_stride),
            Param("channel_stride", channel_step),
            Param("row_elements", width * depth),
            Param("skipped_rows", first_row),
            Param("skipped", first_column * depth + first_channel),
        )


@dataclass(frozen=True)
class Slice(Op):
    """y = x[part]: TFLite's SLICE and STRIDED_SLICE in int8, the parts of a SPLIT."""

    part: Part

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The part's sizes."""
        self.part.check(inputs[0].shape)
        return (TensorType(self.part.sizes, inputs[0].dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Cut out."""
        return (np.ascontiguousarray(inputs[0][self.part.index]),)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Put the gradient's integers at their old places, zeros elsewhere: nothing is rounded."""
        x = inputs[0]
        if not emit.wants(x):
            return (None,)
        return (replace(dy, name=emit.node(SliceGradInput(x.type.shape, self.part), dy.name)),)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """A row of x; those before the first one are padding that is negative."""
        if len(types[0].shape) != 4:
            return None
        step, skipped = self.part.steps[1], self.part.first[1]
        return Rows((0,), stride=step, pad=-skipped, y="rows", pad_top="skipped_rows")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_slice_s8."""
        params = self.part.params(types[0].shape)
        return KernelCall("slice", "mct_slice_s8", params, (*inputs(0), *outputs(0)))

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """The last axes, unless it is they that are cut: then every channel keeps its place."""
        x, y = types[0], results[0]
        if not self.part.keeps_axis(-1, x.shape):
            return ()
        (a,), (b,) = inputs(0), outputs(0)
        return ((channel_axis(a, x), channel_axis(b, y)),)

    def after(self, before: Op) -> Op | None:
        """The part of a part."""
        if not isinstance(before, Slice):
            return None
        axes = zip(before.part.places, self.part.index, strict=True)
        return Slice(Part.of([places[index] for places, index in axes]))


@dataclass(frozen=True)
class SliceGradInput(Op):
    """dx[part] = dy, 0 elsewhere. shape: of dx."""

    shape: Shape
    part: Part

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """dx is of dy's type."""
        self.part.check(self.shape)
        if inputs[0].shape != self.part.sizes:
            raise ValueError(f"{inputs[0].shape} is not {self.part}")
        return (TensorType(self.shape, inputs[0].dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Into zeros."""
        dx = np.zeros(self.shape, inputs[0].dtype)
        dx[self.part.index] = inputs[0]
        return (dx,)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_slice_grad_input_<dy>."""
        params = (*self.part.params(self.shape), Param("elements", math.prod(self.shape)))
        name = f"mct_slice_grad_input_{SUFFIX[types[0].dtype]}"
        return KernelCall("slice", name, params, (*inputs(0), *outputs(0)))

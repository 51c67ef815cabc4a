"""A constant border around an image, where it could not be folded into a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    Border,
    ChannelTie,
    ChannelwiseOp,
    Emit,
    Gradient,
    KernelCall,
    Param,
    Rows,
    inputs,
    outputs,
)
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage
from mcutrain.ops.spatial import shape_params

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Pad(ChannelwiseOp):
    """y = x with `value` around it. padding: top, bottom, left, right. x: [1, h, w, c].

    channels: how many of them, all `value`, are before x's and behind.
    """

    padding: tuple[int, int, int, int]
    value: int
    channels: tuple[int, int] = (0, 0)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Height, width and channels grow."""
        if len(inputs[0].shape) != 4 or min(*self.padding, *self.channels) < 0:
            raise ValueError(f"cannot pad {inputs[0].shape} by {self.padding}, {self.channels}")
        top, bottom, left, right = self.padding
        _, h, w, c = inputs[0].shape
        return (TensorType((1, h + top + bottom, w + left + right, c + sum(self.channels))),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Pad with the constant."""
        top, bottom, left, right = self.padding
        widths = ((0, 0), (top, bottom), (left, right), self.channels)
        return (np.pad(inputs[0], widths, constant_values=self.value),)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """The inner part of dy."""
        x = inputs[0]
        if not emit.wants(x):
            return (None,)
        stage = OutputStage((dy.scale,), False, emit.gradient_dtype, emit.salt())
        op = PadGradInput(stage, x.type.shape, self.padding, self.channels[0])
        return (emit.gradient(op, dy),)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """A row of x, or none for the border."""
        return Rows((0,), pad=self.padding[0], x="x.h", y="y.h", pad_top="pad_top")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_pad_s8."""
        params = (
            *shape_params("x", types[0].shape),
            *shape_params("y", results[0].shape),
            Param("pad_top", self.padding[0]),
            Param("pad_left", self.padding[2]),
            Param("pad_channels", self.channels[0]),
            Param("value", self.value),
        )
        return KernelCall("pad", "mct_pad_s8", params, (*inputs(0), *outputs(0)))

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """The last axes, unless channels are added: then all keep their places."""
        return () if any(self.channels) else super().channel_ties(types, results)

    @property
    def border(self) -> Border | None:
        """All that it does, unless channels are added."""
        return None if any(self.channels) else Border(self.padding, self.value)


@dataclass(frozen=True)
class PadGradInput(GradientOp):
    """dx = the part of dy that is not border. dy: [1, rows, columns, c]  dx: [1, h, w, c]."""

    padding: tuple[int, int, int, int]
    channels_before: int = 0

    def sums(self, dy: Array, *rest: Array) -> Array:
        """Crop."""
        top, _, left, _ = self.padding
        _, h, w, c = self.shape
        first = self.channels_before
        return dy[:, top : top + h, left : left + w, first : first + c].astype(np.int64)

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_pad_grad_input_<dy>: scratch holds one pixel's sums."""
        dy = types[1]
        params = (
            *shape_params("dx", self.shape),
            *shape_params("dy", dy.shape),
            Param("pad_top", self.padding[0]),
            Param("pad_left", self.padding[2]),
            Param("pad_channels", self.channels_before),
        )
        name = f"mct_pad_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("pad", name, params, (), self.shape[3] * ACC_BYTES[dy.dtype])

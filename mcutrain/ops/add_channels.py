"""Addition or subtraction of a number per channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import Bound, Emit, Gradient, KernelCall, Param, Rows, rows_apart
from mcutrain.ops.add import Add
from mcutrain.ops.bounds import gradient_sums
from mcutrain.ops.clamp import clamped_types
from mcutrain.ops.gradient_sum import rescale
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage
from mcutrain.ops.mul import is_per_channel

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class AddChannels(Add):
    """As Add, with a number of b for each channel of a. a, y: [..., c]  b: [1, 1, 1, c] or [c]."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The first operand's shape."""
        a, b = inputs
        if not a.shape or not b.shape or not is_per_channel(b, a):
            raise ValueError(f"{b.shape} has not one number for each channel of {a.shape}")
        return clamped_types(TensorType(a.shape), self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """a gets the masked gradient, b its sum over the positions."""
        a, b = inputs
        if not (emit.wants(a) or emit.wants(b)):
            return None, None
        dz = rescale(emit, dy, y.type.shape, (1.0,), emit.mask(y))
        common = self.y.factor * 2.0**self.left_shift * dz.scale
        da = replace(dz, scale=common * self.a.factor) if emit.wants(a) else None
        if not emit.wants(b):
            return da, None
        stage = OutputStage((common * self.b.factor,), False, emit.gradient_dtype, emit.salt())
        return da, emit.gradient(AddChannelsGradInput(stage, b.type.shape), dz)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Elementwise."""
        return rows_apart(types, results, "positions")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_add_channels_s8."""
        call = super().kernel(types, results)
        channels = results[0].shape[-1]
        params = (
            Param("positions", results[0].elements // channels),
            Param("channels", channels),
            *(p for p in call.params if p.name != "elements"),
        )
        return replace(call, kernel="add_channels", function="mct_add_channels_s8", params=params)

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Elementwise: y may lie where a was."""
        return {0: (0,)}


@dataclass(frozen=True)
class AddChannelsGradInput(GradientOp):
    """db[c] = sum of dy over all positions. dy: [..., c]  db: [1, 1, 1, c] or [c]."""

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Every gradient of a channel, added up."""
        dy = inputs[1]
        positions = dy.type.elements // dy.type.shape[-1]
        what = f"sums of {positions:,} gradients"
        return gradient_sums(dy, positions, 1, what, "use a smaller input")

    def sums(self, dy: Array, *rest: Array) -> Array:
        """Sum over all axes but the last."""
        sums: Array = dy.astype(np.int64).reshape(-1, dy.shape[-1]).sum(axis=0)
        return sums.reshape(self.shape)

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_add_channels_grad_input_<dy>: scratch holds the sums."""
        dy = types[1]
        channels = dy.shape[-1]
        params = (Param("positions", dy.elements // channels), Param("channels", channels))
        scratch = channels * ACC_BYTES[dy.dtype]
        name = f"mct_add_channels_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("add_channels", name, params, (), scratch)

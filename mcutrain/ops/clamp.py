"""How forward operators clamp, and the bits they save of it for the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mcutrain import fixedpoint
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import NULL, ChannelwiseOp, KernelCall, Op, Operand, Param, outputs

Array = npt.NDArray[Any]


def clamped_types(y: TensorType, saves_mask: bool) -> tuple[TensorType, ...]:
    """The type of y, and of its mask: one bit per element in whole bytes."""
    mask = TensorType(((y.elements + 7) // 8,), "uint8")
    return (y, mask) if saves_mask else (y,)


def clamped(value: Array, low: int, high: int, saves_mask: bool) -> tuple[Array, ...]:
    """y = value held between low and high, and the mask of the elements that already were.

    The derivative of the clamp is 1 where the mask's bit is set and 0 elsewhere. The lowest bit of
    each byte comes first; the last byte is padded with 0.
    """
    y = fixedpoint.clip(value, low, high).astype(np.int8)
    if not saves_mask:
        return (y,)
    return y, np.packbits((value == y).ravel(), bitorder="little")


def mask_operand(saves_mask: bool) -> tuple[Operand, ...]:
    """The last operand of a kernel that clamps: where to save the mask, or NULL."""
    return outputs(1) if saves_mask else (NULL,)


class ClampingOp(ChannelwiseOp):
    """A channelwise operator whose dataclass has the limits of y and whether the mask is saved."""

    low: int
    high: int
    saves_mask: bool

    def with_mask(self) -> Op:
        """Return the operator that also saves where y did not clamp."""
        return self._with(saves_mask=True)

    def with_channel_limits(self, low: int, high: int) -> Op:
        """A fused activation narrows the clamp."""
        return self._with(low=max(low, self.low), high=min(high, self.high))

    def clamping_call(
        self, kernel: str, function: str, params: Sequence[Param], *operands: Operand
    ) -> KernelCall:
        """The call of a kernel: y's limits end its parameters, y and its mask its operands."""
        limits = (Param("low", self.low), Param("high", self.high))
        results = (*outputs(0), *mask_operand(self.saves_mask))
        return KernelCall(kernel, function, (*params, *limits), (*operands, *results))

    def _with(self, **changes: int) -> Op:
        return cast(Op, replace(cast(Any, self), **changes))

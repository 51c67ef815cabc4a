"""One bit per element: where an activation did not clamp, so that its gradient passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall, Op, Param, inputs, outputs

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ClampMask(Op):
    """Bit i is low < y[i] < high: the derivative of a clamp is 0 where its output is a limit.

    y: int8 of any shape. mask: uint8, the lowest bit of each byte first, padded with 0.
    """

    low: int
    high: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A bit per element, in whole bytes."""
        return (TensorType(((inputs[0].elements + 7) // 8,), "uint8"),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Compare and pack."""
        y = inputs[0].ravel()
        return (np.packbits((y > self.low) & (y < self.high), bitorder="little"),)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_clamp_mask_s8."""
        params = (
            Param("elements", types[0].elements),
            Param("low", self.low),
            Param("high", self.high),
        )
        operands = (*inputs(0), *outputs(0))
        return KernelCall("clamp_mask", "mct_clamp_mask_s8", ("clamp_mask_s8",), params, operands)

    @property
    def is_digest(self) -> bool:
        """An eighth of the activation."""
        return True

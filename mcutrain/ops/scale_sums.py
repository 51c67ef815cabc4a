"""A classifier's int32 sums as int8, their scale a power of two that training chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall, Op, Param, inputs, outputs
from mcutrain.ops.conv_2d import Requantize

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ScaleSums(Op):
    """y = requantize(sums * 2**-exponent): the layer's own output while the exponent is 0.

    Inputs: sums int32 [..., c], exponent [now, recent, older]. y: int8 [..., c]. exponent_limit: an
    exponent that is not in 0 to this one counts as the nearest that is.
    """

    requantize: Requantize
    exponent_limit: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape of the sums."""
        sums, _ = inputs
        if len(self.requantize.mult_q31) not in (1, sums.shape[-1]):
            raise ValueError(f"sums {sums.shape}, {len(self.requantize.mult_q31)} multipliers")
        return (TensorType(sums.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The requantization of another scale."""
        sums, exponent = inputs
        by = min(max(int(exponent[0]), 0), self.exponent_limit)
        return (self.requantize.scaled(by)(sums.astype(np.int64)),)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_scale_sums_s8."""
        channels = types[0].shape[-1]
        params = (
            Param("positions", types[0].elements // channels),
            Param("channels", channels),
            *self.requantize.params(),
            Param("exponent_limit", self.exponent_limit),
        )
        operands = (*inputs(0, 1), *outputs(0))
        return KernelCall("scale_sums", "mct_scale_sums_s8", params, operands)

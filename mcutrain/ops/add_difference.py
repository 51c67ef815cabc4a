"""A trained bias put together from the model's own, in flash, and a difference, in RAM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import Bound, Emit, Gradient, KernelCall, Op, Param, inputs, outputs
from mcutrain.ops.bounds import BIAS_LIMIT

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class AddDifference(Op):
    """b = clamp(frozen + difference * 2**shift, -BIAS_LIMIT, BIAS_LIMIT).

    frozen, b: [c] int32; frozen is constant, in ±BIAS_LIMIT. difference: [c] int16, state. The
    result lives only while a layer reads it.
    """

    shift: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The frozen bias' shape."""
        frozen, difference = inputs
        if frozen.shape != difference.shape:
            raise ValueError(f"difference {difference.shape} to a bias {frozen.shape}")
        return (TensorType(frozen.shape, "int32"),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Shift, add, clamp."""
        frozen, difference = inputs
        total = frozen.astype(np.int64) + (difference.astype(np.int64) << self.shift)
        return (np.clip(total, -BIAS_LIMIT, BIAS_LIMIT).astype(np.int32),)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Parameters are trained by the operator that reads them."""
        return None, None

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """The sum before the clamp, wherever training takes the difference."""
        largest = BIAS_LIMIT + (2**15 << self.shift)
        return (Bound("a bias and its difference", largest, "keep 32 bits of each bias"),)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_add_difference_s32."""
        params = (Param("channels", types[0].elements), Param("shift", self.shift))
        operands = (*inputs(0, 1), *outputs(0))
        return KernelCall("add_difference", "mct_add_difference_s32", params, operands)

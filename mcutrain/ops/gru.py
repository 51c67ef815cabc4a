"""A sequence through gated recurrent units, with the functions of the integer LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall
from mcutrain.ops.recurrent import (
    GATE_INTEGER_BITS,
    Recurrent,
    rounding_shift,
    saturated,
    scaled,
    sigmoid16,
    tanh16,
)

Array = npt.NDArray[Any]

GATES = 3
"""Update, reset and candidate, in this order."""
UPDATE, RESET, CANDIDATE = range(GATES)


@dataclass(frozen=True)
class Gru(Recurrent):
    """h = sigmoid(z) * h + (1 - sigmoid(z)) * tanh(n) for each step of x.

    The candidate n is the sum of products with x, and sigmoid(r) times that of products with h,
    to which a second bias is added: [d * units], int32. The state h is int16, Q0.15; products are
    with y, its eight bits. hidden: from Q0.15 to y.
    """

    gates: ClassVar[int] = GATES
    has_h_bias: ClassVar[bool] = True
    largest_state: ClassVar[int] = 2**15

    def steps(self, sums: Array, u: Array, h_bias: Array) -> list[Array]:
        """h of each step."""
        state, h = (np.zeros(u.shape[-1], np.int64) for _ in range(2))
        bias: Array = np.zeros((GATES, u.shape[-1]), np.int64)
        bias[CANDIDATE] = h_bias
        found = []
        for of_row in sums:
            of_x = saturated(scaled(of_row, self.of_x))
            of_h = self.part_of_h(u, h, bias)
            z, r = (sigmoid16(saturated(of_x[k] + of_h[k])) for k in (UPDATE, RESET))
            added = rounding_shift(r * saturated(of_h[CANDIDATE]), 15)
            n = tanh16(saturated(of_x[CANDIDATE] + added), GATE_INTEGER_BITS)
            state = rounding_shift(z * state + (2**15 - z) * n, 15)
            found.append(self.output(state))
            h = found[-1] - self.y_zero_point
        return found

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_gru_s8: scratch begins with the state."""
        return self.call("gru", types)

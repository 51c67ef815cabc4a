"""A sequence through gated recurrent units, with the functions of the integer LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall
from mcutrain.ops.recurrent import (
    GATE_FRACTION_BITS,
    GATE_INTEGER_BITS,
    BackwardSteps,
    Recurrent,
    RecurrentGradGates,
    back,
    limited,
    rounding_shift,
    saturated,
    sigmoid16,
    sigmoid_slope,
    tanh16,
    tanh_slope,
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
    parts_differ: ClassVar[bool] = True
    largest_state: ClassVar[int] = 2**15

    def steps(self, of_x: Array, u: Array, h_bias: Array) -> tuple[list[Array], list[Array]]:
        """y and the state of each step."""
        state, h = (np.zeros(u.shape[-1], np.int64) for _ in range(2))
        found: tuple[list[Array], list[Array]] = ([], [])
        for of_row in of_x:
            z, _, n, _ = self.activations(of_row, u, h, h_bias)
            state = rounding_shift(z * state + (2**15 - z) * n, 15)
            y = self.output(state)
            h = y - self.y_zero_point
            found[0].append(y)
            found[1].append(state)
        return found

    def activations(
        self, of_x: Array, u: Array, h: Array, h_bias: Array
    ) -> tuple[Array, Array, Array, Array]:
        """z, r, n, and the candidate's products with h, Q3.12. of_x: gates' products with x."""
        bias: Array = np.zeros((GATES, u.shape[-1]), np.int64)
        bias[CANDIDATE] = h_bias
        of_h = self.part_of_h(u, h, bias)
        z, r = (sigmoid16(saturated(of_x[k] + of_h[k])) for k in (UPDATE, RESET))
        of_candidate = saturated(of_h[CANDIDATE])
        added = rounding_shift(r * of_candidate, 15)
        n = tanh16(saturated(of_x[CANDIDATE] + added), GATE_INTEGER_BITS)
        return z, r, n, of_candidate

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_gru_s8: scratch begins with the state."""
        return self.call("gru", types)


@dataclass(frozen=True)
class GruGradGates(RecurrentGradGates):
    """Back through a GRU: dh of a step, and of the one behind it by way of z and of y."""

    layer: Gru

    name: ClassVar[str] = "gru"
    scratch_bytes: ClassVar[int] = 12

    def step(
        self, t: int, given: BackwardSteps, dh: Array, carried: Array
    ) -> tuple[Array, Array, Array]:
        """By sums of products with x, with h, and by the state before."""
        of_row, h, before = given.of_x[t], given.h_before[t], given.states_before[t]
        z, r, n, of_h = self.layer.activations(of_row, given.u, h, given.h_bias)
        passing = np.where(self.passing(given.states[t]), limited(dh), 0)
        dh = limited(passing + carried)
        dn = back(back(dh, 2**15 - z), tanh_slope(n))
        of_update = back(back(dh, before - n), sigmoid_slope(z))
        of_reset = limited((dn * of_h + (1 << (GATE_FRACTION_BITS - 1))) >> GATE_FRACTION_BITS)
        of_reset = back(of_reset, sigmoid_slope(r))
        of_x = np.stack([of_update, of_reset, dn])
        with_h = np.stack([of_update, of_reset, back(dn, r)])
        return of_x, with_h, back(dh, z)


Gru.gates_gradient = GruGradGates

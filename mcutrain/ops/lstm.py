"""A sequence through long short-term memory, with the integers of TFLite's full-integer LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.fixedpoint import clip
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall, Param
from mcutrain.ops.recurrent import (
    GATE_INTEGER_BITS,
    INT16,
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

GATES = 4
"""Input, forget, cell and output, in this order."""
INPUT, FORGET, CELL, OUTPUT = range(GATES)
NO_CELL_LIMIT = 2**15
"""Then the cell state takes all of int16; of 2**15 - 1 it is never -2**15."""
CELL_INTEGER_BITS = range(7)
"""Of the cell state: what tanh of int16 takes."""


@dataclass(frozen=True)
class Lstm(Recurrent):
    """h = sigmoid(o) * tanh(c), c = sigmoid(f) * c + sigmoid(i) * tanh(g), for each step of x.

    The cell state c is int16 with `cell_integer_bits` before the point, and is held within
    ±cell_limit. hidden: from Q0.30 to y.
    """

    cell_integer_bits: int = field(default=4, kw_only=True)
    cell_limit: int = field(default=NO_CELL_LIMIT, kw_only=True)

    gates: ClassVar[int] = GATES
    largest_state: ClassVar[int] = 2**30

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A row of units for each row of x, or one for all."""
        if self.cell_integer_bits not in CELL_INTEGER_BITS:
            raise ValueError(f"a cell state of {self.cell_integer_bits} integer bits")
        return super().infer(*inputs)

    def steps(self, of_x: Array, u: Array, h_bias: Array) -> tuple[list[Array], list[Array]]:
        """y and the cell state of each step."""
        c, h = (np.zeros(u.shape[-1], np.int64) for _ in range(2))
        found: tuple[list[Array], list[Array]] = ([], [])
        for of_row in of_x:
            i, f, g, o = self.activations(saturated(of_row + self.part_of_h(u, h)))
            c = clip(saturated(self.cell_sum(i, f, g, c)), *self.cell_ends)
            y = self.output(o * tanh16(c, self.cell_integer_bits))
            h = y - self.y_zero_point
            found[0].append(y)
            found[1].append(c)
        return found

    @staticmethod
    def activations(gates: Array) -> tuple[Array, Array, Array, Array]:
        """i, f, g, o of their sums."""
        i, f, o = (sigmoid16(gates[k]) for k in (INPUT, FORGET, OUTPUT))
        return i, f, tanh16(gates[CELL], GATE_INTEGER_BITS), o

    def cell_sum(self, i: Array, f: Array, g: Array, c: Array) -> Array:
        """The next cell state before it is limited."""
        return rounding_shift(f * c, 15) + rounding_shift(i * g, 15 + self.cell_integer_bits)

    @property
    def cell_ends(self) -> tuple[int, int]:
        """The limits of a cell state."""
        return -self.cell_limit, min(self.cell_limit, INT16[1])

    @property
    def own_params(self) -> tuple[Param, ...]:
        """How the cell state is read and written."""
        return (
            Param("cell_integer_bits", self.cell_integer_bits),
            Param("cell_limit", self.cell_limit),
        )

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_lstm_s8: scratch begins with the cell state."""
        return self.call("lstm", types)


@dataclass(frozen=True)
class LstmGradGates(RecurrentGradGates):
    """Back through an LSTM: dh and dc, each of a step and of the one behind it."""

    layer: Lstm

    name: ClassVar[str] = "lstm"

    def step(
        self, t: int, given: BackwardSteps, dh: Array, carried: Array
    ) -> tuple[Array, Array, Array]:
        """By the sums of gates, twice, and by the cell state before."""
        layer = self.layer
        gates = given.of_x[t] + layer.part_of_h(given.u, given.h_before[t])
        i, f, g, o = layer.activations(saturated(gates))
        before, bits = given.states_before[t], layer.cell_integer_bits
        tanh_c = tanh16(given.states[t], bits)
        dh = np.where(self.passing(o * tanh_c), limited(dh), 0)
        dc = limited(carried + back(back(dh, o), tanh_slope(tanh_c)))
        new = layer.cell_sum(i, f, g, before)
        low, high = layer.cell_ends
        dc = np.where((new >= low) & (new <= high), dc, 0)
        of_before = limited((dc * before + (1 << (14 - bits))) >> (15 - bits))
        found = np.stack(
            [
                back(back(dc, g), sigmoid_slope(i)),
                back(of_before, sigmoid_slope(f)),
                back(back(dc, i), tanh_slope(g)),
                back(back(dh, tanh_c), sigmoid_slope(o)),
            ]
        )
        return found, found, back(dc, f)


Lstm.gates_gradient = LstmGradGates

"""A sequence through long short-term memory, with the integers of TFLite's full-integer LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mcutrain.fixedpoint import clip
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall, Param
from mcutrain.ops.recurrent import (
    GATE_INTEGER_BITS,
    INT16,
    Recurrent,
    rounding_shift,
    saturated,
    scaled,
    sigmoid16,
    tanh16,
)

Array = npt.NDArray[Any]

GATES = 4
"""Input, forget, cell and output, in this order."""
INPUT, FORGET, CELL, OUTPUT = range(GATES)
CELL_INTEGER_BITS = range(7)
"""Of the cell state: what tanh of int16 takes."""


@dataclass(frozen=True)
class Lstm(Recurrent):
    """h = sigmoid(o) * tanh(c), c = sigmoid(f) * c + sigmoid(i) * tanh(g), for each step of x.

    The cell state c is int16 with `cell_integer_bits` before the point, and is held within
    ±cell_limit. hidden: from Q0.30 to y.
    """

    cell_integer_bits: int = field(default=4, kw_only=True)
    cell_limit: int = field(default=INT16[1], kw_only=True)

    gates: ClassVar[int] = GATES
    largest_state: ClassVar[int] = 2**30

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A row of units for each row of x, or one for all."""
        if self.cell_integer_bits not in CELL_INTEGER_BITS:
            raise ValueError(f"a cell state of {self.cell_integer_bits} integer bits")
        return super().infer(*inputs)

    def steps(self, sums: Array, u: Array, h_bias: Array) -> list[Array]:
        """h of each step."""
        c, h = (np.zeros(u.shape[-1], np.int64) for _ in range(2))
        found = []
        for of_row in sums:
            gates = saturated(scaled(of_row, self.of_x))
            c, o = self._cell(c, saturated(gates + self.part_of_h(u, h)))
            found.append(self.output(o * tanh16(c, self.cell_integer_bits)))
            h = found[-1] - self.y_zero_point
        return found

    def _cell(self, c: Array, gates: Array) -> tuple[Array, Array]:
        """The next cell state, and the output gate."""
        i, f, o = (sigmoid16(gates[k]) for k in (INPUT, FORGET, OUTPUT))
        g = tanh16(gates[CELL], GATE_INTEGER_BITS)
        kept, new = rounding_shift(f * c, 15), rounding_shift(i * g, 15 + self.cell_integer_bits)
        limit = self.cell_limit
        return clip(saturated(kept + new), -limit - (limit == INT16[1]), limit), o

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_lstm_s8: scratch begins with the cell state."""
        own = (
            Param("cell_integer_bits", self.cell_integer_bits),
            Param("cell_limit", self.cell_limit),
        )
        return self.call("lstm", types, own)

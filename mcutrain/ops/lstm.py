"""A sequence through long short-term memory, with the integers of TFLite's full-integer LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain import fixedpoint
from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    INT32_MAX,
    SCRATCH,
    Bound,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Param,
    inputs,
    outputs,
)
from mcutrain.ops.bounds import DIFFERENCE, WEIGHT, requantized
from mcutrain.ops.recurrent import (
    GATE_INTEGER_BITS,
    INT16,
    rounding_shift,
    saturated,
    sigmoid16,
    tanh16,
)

Array = npt.NDArray[Any]

GATES = 4
"""Input, forget, cell and output, in this order."""
INPUT, FORGET, CELL, OUTPUT = range(GATES)
CELL_INTEGER_BITS = range(7)
"""Of the cell state: what tanh of int16 takes."""
ADVICE = "give the layer fewer inputs or units"
Multipliers = tuple[tuple[int, ...], tuple[int, ...]]
"""mult_q31 and shift, of each gate."""


@dataclass(frozen=True)
class Lstm(Op):
    """h = sigmoid(o) * tanh(c), c = sigmoid(f) * c + sigmoid(i) * tanh(g), for each step of x.

    x: [..., n], a row for each step, from a state of zeros. w: [4 * units, n], u: [4 * units,
    units], int8, and b: [4 * units], int32: rows of input gate, forget gate, cell, output gate.
    y: [..., units], h of each step. of_x, of_h: what makes a gate's sums Q3.12, of the products
    with x and with h. The cell state c is int16 with `cell_integer_bits` before the point, and is
    held within ±cell_limit. hidden: mult_q31 and shift from Q0.30 to y.
    """

    x_zero_point: int
    of_x: Multipliers
    of_h: Multipliers
    cell_integer_bits: int
    cell_limit: int
    hidden: tuple[int, int]
    y_zero_point: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A row of units for each row of x."""
        x, w, u, b = inputs
        units = u.shape[-1]
        wanted = ((GATES * units, x.shape[-1]), (GATES * units, units), (GATES * units,))
        if (w.shape, u.shape, b.shape) != wanted:
            raise ValueError(f"weights {w.shape}, {u.shape}, {b.shape} for an input {x.shape}")
        if self.cell_integer_bits not in CELL_INTEGER_BITS:
            raise ValueError(f"a cell state of {self.cell_integer_bits} integer bits")
        return (TensorType((*x.shape[:-1], units)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Step by step."""
        x, w, u, b = (np.asarray(v, np.int64) for v in inputs)
        units = u.shape[-1]
        rows = x.reshape(-1, x.shape[-1])
        sums = (rows - self.x_zero_point) @ w.T + b
        h, c = np.zeros(units, np.int64), np.zeros(units, np.int64)
        found = []
        for of_row in sums.reshape(-1, GATES, units):
            gates = saturated(_scaled(of_row, self.of_x))
            of_h = (u @ h).reshape(GATES, units)
            c, o = self._cell(c, saturated(gates + _scaled(of_h, self.of_h)))
            product = o * tanh16(c, self.cell_integer_bits)
            y = fixedpoint.multiply_by_quantized_multiplier(product, *self.hidden)
            found.append(fixedpoint.clip(y + self.y_zero_point, -128, 127))
            h = found[-1] - self.y_zero_point
        return (np.array(found, np.int8).reshape(*x.shape[:-1], units),)

    def _cell(self, c: Array, gates: Array) -> tuple[Array, Array]:
        """The next cell state, and the output gate."""
        i, f, o = (sigmoid16(gates[k]) for k in (INPUT, FORGET, OUTPUT))
        g = tanh16(gates[CELL], GATE_INTEGER_BITS)
        kept, new = rounding_shift(f * c, 15), rounding_shift(i * g, 15 + self.cell_integer_bits)
        limit = self.cell_limit
        return fixedpoint.clip(saturated(kept + new), -limit - (limit == INT16[1]), limit), o

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """None: what is trained lies behind it. Raises ValueError if something lies before."""
        if emit.wants(inputs[0]):
            raise ValueError(
                "a recurrent layer is not trained through; train layers behind it alone, "
                "--scheme head, or last:N with fewer layers"
            )
        return (None,) * len(inputs)

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Sums of both products, before and after they are scaled."""
        found = [requantized("products of a gate and a cell state", 2**30, *self.hidden)]
        for data, bias, stage in ((inputs[1], inputs[3], self.of_x), (inputs[2], None, self.of_h)):
            total: Array = np.array([DIFFERENCE * WEIGHT * data.type.shape[-1]])
            if data.data is not None:
                total = DIFFERENCE * np.abs(data.data.astype(np.int64)).sum(axis=1)
            if bias is not None:
                data_of = np.array(INT32_MAX // 2) if bias.data is None else bias.data
                total = total + np.abs(data_of.astype(np.int64))
            what = f"sums of {data.type.shape[-1]:,} products"
            found.append(Bound(what, int(total.max()), ADVICE))
            for k, part in enumerate(np.split(total, GATES) if len(total) > 1 else [total] * GATES):
                found.append(requantized(what, int(part.max()), stage[0][k], stage[1][k]))
        return tuple(found)

    def macs(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> int:
        """A product for each weight in each step."""
        x, w, u, _ = inputs
        return x.elements // x.shape[-1] * (w.elements + u.elements)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_lstm_s8: scratch holds the cell state."""
        x, units = types[0], results[0].shape[-1]
        params = (
            Param("steps", x.elements // x.shape[-1]),
            Param("inputs", x.shape[-1]),
            Param("units", units),
            Param("x_zero_point", self.x_zero_point),
            Param("x_mult_q31", self.of_x[0], "const int32_t *"),
            Param("x_shift", self.of_x[1], "const int8_t *"),
            Param("h_mult_q31", self.of_h[0], "const int32_t *"),
            Param("h_shift", self.of_h[1], "const int8_t *"),
            Param("cell_integer_bits", self.cell_integer_bits),
            Param("cell_limit", self.cell_limit),
            Param("hidden_mult_q31", self.hidden[0]),
            Param("hidden_shift", self.hidden[1]),
            Param("y_zero_point", self.y_zero_point),
        )
        operands = (*inputs(0, 1, 2, 3), *outputs(0), SCRATCH)
        return KernelCall("lstm", "mct_lstm_s8", params, operands, 2 * units)


def _scaled(sums: Array, stage: Multipliers) -> Array:
    """A gate's sums as Q3.12."""
    mult, shift = (np.array(v)[:, None] for v in stage)
    return fixedpoint.multiply_by_quantized_multiplier(sums, mult, shift)

"""What recurrent operators share: sigmoid and tanh of int16, products, and their gates' sums.

gemmlowp's fixed-point functions with 16 bits, as TFLite's integer LSTM calls them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mcutrain import fixedpoint
from mcutrain.fixedpoint import clip
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

Array = npt.NDArray[Any]

INT16 = (-(2**15), 2**15 - 1)
GATE_INTEGER_BITS = 3
"""Of a gate's sum, which is Q3.12."""
# exp(-2**k) for k = -2 … 4 in Q0.15
EXP_OF_POWERS = (25520, 19875, 12055, 4435, 600, 11, 0)
EXP_EIGHTH, THIRD = 28918, 10923
"""exp(-1/8) and 1/3, Q0.15."""
GUESS = (23130, 15420)
"""48/17 and 32/17, Q2.13: Newton's first guess."""
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each part of the units runs from the last step to the first."""
ADVICE = "give the layer fewer inputs or units"
Multipliers = tuple[tuple[int, ...], tuple[int, ...]]
"""mult_q31 and shift, of each gate."""


def saturated(x: Array) -> Array:
    """x within int16."""
    return clip(x, *INT16)


def high_mul16(a: Array, b: Array | int) -> Array:
    """a * b / 2**15, rounded half up."""
    product: Array = (np.multiply(a, b, dtype=np.int64) + (1 << 14)) >> 15
    return product


def rounding_shift(x: Array, bits: int) -> Array:
    """x / 2**bits, halves away from zero. bits >= 1."""
    shifted: Array = (x + (1 << (bits - 1)) - (x < 0)) >> bits
    return shifted


def _exp_near_zero(a: Array) -> Array:
    """exp(a) for -1/4 <= a < 0, both Q0.15: a polynomial around -1/8."""
    x = a + (1 << 12)
    x2 = high_mul16(x, x)
    x3 = high_mul16(x2, x)
    x4 = high_mul16(x2, x2)
    tail = rounding_shift(high_mul16(rounding_shift(x4, 2) + x3, THIRD) + x2, 1)
    return saturated(EXP_EIGHTH + high_mul16(x + tail, EXP_EIGHTH))


def exp_negative16(a: Array, integer_bits: int) -> Array:
    """exp(a) in Q0.15 for a <= 0 with so many integer bits, 0 to 7."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    reduced = (a & (quarter - 1)) - quarter
    result = _exp_near_zero(reduced << integer_bits)
    remainder = reduced - a
    for k, factor in enumerate(EXP_OF_POWERS, -2):
        if k < integer_bits:
            is_set = (remainder >> (fraction + k)) & 1
            result = np.where(is_set == 1, high_mul16(result, factor), result)
    if integer_bits > 5:
        result = np.where(a < -(32 << fraction), 0, result)
    return np.where(a == 0, INT16[1], result)


def _reciprocal(a: Array) -> Array:
    """2 / (1 + a) in Q2.13 for a in Q0.15, 0 <= a < 1: three steps of Newton's method."""
    half = (a + INT16[1] + 1) >> 1
    x = GUESS[0] + high_mul16(half, -GUESS[1])
    for _ in range(3):
        x = x + saturated(high_mul16(x, (1 << 13) - high_mul16(half, x)) << 2)
    return x


def sigmoid16(a: Array) -> Array:
    """1 / (1 + exp(-a)) in Q0.15 for a in Q3.12."""
    a = np.asarray(a, np.int64)
    positive = saturated(_reciprocal(exp_negative16(-np.abs(a), GATE_INTEGER_BITS)) << 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, INT16[1] - positive))


def tanh16(a: Array, integer_bits: int) -> Array:
    """tanh(a) in Q0.15 for int16 with so many integer bits, 0 to 6."""
    a = np.asarray(a, np.int64)
    e = exp_negative16(-np.abs(a), integer_bits + 1)
    t = saturated((_reciprocal(e) - (1 << 13)) << 2)
    return np.where(a == 0, 0, np.where(a < 0, -t, t))


@dataclass(frozen=True)
class Recurrent(Op):
    """A layer whose state h, and gates, follow from a step of x and from h before it.

    x: [..., n], a row for each step, from a state of zeros. w: [d * gates * units, n], u: [d *
    gates * units, units], int8, b: [d * gates * units], int32: rows of each gate, in each of d
    directions. y: [..., d * units], h of each step; is_last: [1, d * units], h of the last one
    alone, which of the reverse direction is the first row's. of_x, of_h: what makes a gate's sums
    Q3.12, of the products with x and with h. hidden: mult_q31 and shift from the state to y.
    """

    x_zero_point: int
    of_x: Multipliers
    of_h: Multipliers
    hidden: tuple[int, int]
    y_zero_point: int
    direction: str = field(default="forward", kw_only=True)
    is_last: bool = field(default=False, kw_only=True)

    gates: ClassVar[int]
    has_h_bias: ClassVar[bool] = False
    """Whether a second bias, [d * units], is added to the last gate's products with h."""
    largest_state: ClassVar[int]
    """Of what `hidden` makes y of."""

    @abstractmethod
    def steps(self, sums: Array, u: Array, h_bias: Array) -> list[Array]:
        """h of each step. sums: [steps, gates, units], of products with x."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A row of units for each row of x, or one for all."""
        x, w, u, *biases = inputs
        units, ways = u.shape[-1], len(DIRECTIONS[self.direction])
        rows = ways * self.gates * units
        wanted = [(rows, x.shape[-1]), (rows, units), (rows,)]
        wanted += [(ways * units,)] * self.has_h_bias
        if [w.shape, u.shape, *(b.shape for b in biases)] != wanted:
            raise ValueError(f"weights {w.shape}, {u.shape} and biases for an input {x.shape}")
        rest = (1,) if self.is_last else x.shape[:-1]
        return (TensorType((*rest, ways * units)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Direction by direction, step by step."""
        x, w, u, b, *rest = (np.asarray(v, np.int64) for v in inputs)
        units, ways = u.shape[-1], DIRECTIONS[self.direction]
        rows = x.reshape(-1, x.shape[-1]) - self.x_zero_point
        of_h = np.split(rest[0] if rest else np.zeros(len(ways) * units, np.int64), len(ways))
        parts = []
        for k, (is_reverse, *own) in enumerate(
            zip(ways, *(np.split(v, len(ways)) for v in (w, u, b)), strict=True)
        ):
            sums = (rows[::-1] if is_reverse else rows) @ own[0].T + own[2]
            found = self.steps(sums.reshape(-1, self.gates, units), own[1], of_h[k])
            found = found[-1:] if self.is_last else found
            parts.append(np.array(found[::-1] if is_reverse else found, np.int8))
        shape = (1,) if self.is_last else x.shape[:-1]
        return (np.concatenate(parts, axis=-1).reshape(*shape, -1),)

    def part_of_h(self, u: Array, h: Array, bias: Array | int = 0) -> Array:
        """A gate's products with h, as Q3.12. bias: added to them."""
        return scaled((u @ h).reshape(self.gates, -1) + bias, self.of_h)

    def output(self, state: Array) -> Array:
        """y of a state."""
        y = fixedpoint.multiply_by_quantized_multiplier(state, *self.hidden)
        return clip(y + self.y_zero_point, -128, 127)

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
        found = [requantized("the state of a step", self.largest_state, *self.hidden)]
        _, w, u, b, *rest = inputs
        for data, bias, stage in ((w, b, self.of_x), (u, None, self.of_h)):
            rows, count = data.type.shape
            total: Array = np.full(rows, DIFFERENCE * WEIGHT * count)
            if data.data is not None:
                total = DIFFERENCE * np.abs(data.data.astype(np.int64)).sum(axis=1)
            gates = total.reshape(-1, self.gates, u.type.shape[-1])
            if bias is not None:
                gates = gates + _sizes(bias).reshape(gates.shape)
            elif rest:
                gates[:, -1] += _sizes(rest[0]).reshape(gates[:, -1].shape)
            what = f"sums of {count:,} products"
            found.append(Bound(what, int(gates.max()), ADVICE))
            for k, pair in enumerate(zip(*stage, strict=True)):
                found.append(requantized(what, int(gates[:, k].max()), *pair))
        return tuple(found)

    def macs(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> int:
        """A product for each weight in each step."""
        x, w, u, *_ = inputs
        return x.elements // x.shape[-1] * (w.elements + u.elements)

    def call(self, name: str, types: Sequence[TensorType], own: Sequence[Param] = ()) -> KernelCall:
        """The kernel of mct_<name>_s8; its scratch holds the state, and h of two steps."""
        x, units = types[0], types[2].shape[-1]
        params = (
            Param("steps", x.elements // x.shape[-1]),
            Param("inputs", x.shape[-1]),
            Param("units", units),
            Param("directions", len(DIRECTIONS[self.direction])),
            Param("is_reverse", int(self.direction == "reverse")),
            Param("is_last", int(self.is_last)),
            Param("x_zero_point", self.x_zero_point),
            Param("x_mult_q31", self.of_x[0], "const int32_t *"),
            Param("x_shift", self.of_x[1], "const int8_t *"),
            Param("h_mult_q31", self.of_h[0], "const int32_t *"),
            Param("h_shift", self.of_h[1], "const int8_t *"),
            *own,
            Param("hidden_mult_q31", self.hidden[0]),
            Param("hidden_shift", self.hidden[1]),
            Param("y_zero_point", self.y_zero_point),
        )
        operands = (*inputs(*range(len(types))), *outputs(0), SCRATCH)
        scratch_bytes = (4 if self.is_last else 2) * units
        return KernelCall(name, f"mct_{name}_s8", params, operands, scratch_bytes)


def scaled(sums: Array, stage: Multipliers) -> Array:
    """Sums of each gate as Q3.12."""
    mult, shift = (np.array(v)[:, None] for v in stage)
    return fixedpoint.multiply_by_quantized_multiplier(sums, mult, shift)


def _sizes(bias: Tensor) -> Array:
    """How large each number of a bias may be."""
    if bias.data is None:
        return np.full(bias.type.shape, INT32_MAX // 2, np.int64)
    return np.abs(bias.data.astype(np.int64))

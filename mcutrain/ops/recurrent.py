"""What recurrent operators share: sigmoid and tanh of int16, products, and their gates' sums.

gemmlowp's fixed-point functions with 16 bits, as TFLite's integer LSTM calls them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.fixedpoint import clip
from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    INT32_MAX,
    NULL,
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
from mcutrain.ops.bounds import BIAS_LIMIT, DIFFERENCE, WEIGHT, requantized
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage
from mcutrain.ops.steps import ADVICE, StepsGradInput, before_each, len_of_steps, train_steps
from mcutrain.ops.training import train_bias

Array = npt.NDArray[Any]

INT16 = (-(2**15), 2**15 - 1)
GATE_INTEGER_BITS, GATE_FRACTION_BITS = 3, 12
"""Of a gate's sum, which is Q3.12."""
FRACTION_BITS = {"int8": 15, "int16": 8}
"""Of derivatives on their way back through the steps, behind the last bit of dy."""
BACK_LIMIT = 2**30
"""Where they saturate."""
MOST_BACK_BITS = 24
# exp(-2**k) for k = -2 … 4 in Q0.15
EXP_OF_POWERS = (25520, 19875, 12055, 4435, 600, 11, 0)
EXP_EIGHTH, THIRD = 28918, 10923
"""exp(-1/8) and 1/3, Q0.15."""
GUESS = (23130, 15420)
"""48/17 and 32/17, Q2.13: Newton's first guess."""
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each part of the units runs from the last step to the first."""
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
    saves_history: more outputs for each row of x: the int16 state, and with is_last y.
    """

    x_zero_point: int
    of_x: Multipliers
    of_h: Multipliers
    hidden: tuple[int, int]
    y_zero_point: int
    direction: str = field(default="forward", kw_only=True)
    is_last: bool = field(default=False, kw_only=True)
    saves_history: bool = field(default=False, kw_only=True)

    gates: ClassVar[int]
    gates_gradient: ClassVar[type[RecurrentGradGates]]
    parts_differ: ClassVar[bool] = False
    """Whether a gate's derivative by its products with h is not that by its products with x."""
    has_h_bias: ClassVar[bool] = False
    """Whether a second bias, [d * units], is added to the last gate's products with h."""
    largest_state: ClassVar[int]
    """Of what `hidden` makes y of."""

    @abstractmethod
    def steps(self, of_x: Array, u: Array, h_bias: Array) -> tuple[list[Array], list[Array]]:
        """y and the state of each step. of_x: [steps, gates, units], of products with x, Q3.12."""

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
        y = TensorType((*rest, ways * units))
        if not self.saves_history:
            return (y,)
        each = (x.elements // x.shape[-1], ways * units)
        return y, TensorType(each, "int16"), *[TensorType(each)] * self.is_last

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Direction by direction, step by step."""
        x, w, u, b, *rest = (np.asarray(v, np.int64) for v in inputs)
        units, ways = u.shape[-1], DIRECTIONS[self.direction]
        rows = x.reshape(-1, x.shape[-1]) - self.x_zero_point
        of_h = np.split(rest[0] if rest else np.zeros(len(ways) * units, np.int64), len(ways))
        each, last, states = [], [], []
        for k, (is_reverse, *own) in enumerate(
            zip(ways, *(np.split(v, len(ways)) for v in (w, u, b)), strict=True)
        ):
            order = slice(None, None, -1 if is_reverse else 1)
            found = self.steps(self.part_of_x(rows[order], own[0], own[2]), own[1], of_h[k])
            each.append(np.array(found[0][order], np.int8))
            last.append(np.array(found[0][-1:], np.int8))
            states.append(np.array(found[1][order], np.int16))
        y, kept, sequence = (np.concatenate(v, axis=-1) for v in (last, states, each))
        if not self.is_last:
            y = sequence.reshape(*x.shape[:-1], -1)
        if not self.saves_history:
            return (y,)
        return (y, kept, sequence) if self.is_last else (y, kept)

    def part_of_x(self, rows: Array, w: Array, b: Array) -> Array:
        """Gates' products with x, as Q3.12 in int16: [steps, gates, units]."""
        sums = (rows @ w.T + b).reshape(len(rows), self.gates, -1)
        return saturated(scaled(sums, self.of_x))

    def part_of_h(self, u: Array, h: Array, bias: Array | int = 0) -> Array:
        """A gate's products with h, as Q3.12. bias: added to them."""
        return scaled((u @ h).reshape(self.gates, -1) + bias, self.of_h)

    def output(self, state: Array) -> Array:
        """y of a state."""
        y = fixedpoint.multiply_by_quantized_multiplier(state, *self.hidden)
        return clip(y + self.y_zero_point, -128, 127)

    def with_history(self) -> Op:
        """Return the operator that also gives the states, and y, of each step."""
        return replace(self, saves_history=True)

    @property
    def layer_inputs(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Both weights and all biases, where it is trained: in one direction."""
        if len(DIRECTIONS[self.direction]) > 1:
            return (), ()
        return (1, 2), (3, 4)[: 1 + self.has_h_bias]

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Back through all steps, then each parameter's update. Gates are computed again.

        Raises ValueError for both directions, if something before the layer is trained.
        """
        x, w, u, b, *biases = inputs
        if any(map(emit.update, biases)):
            raise ValueError("its bias of products with the state stays as it is; train the others")
        of_x, of_h = bool(emit.update(w) or emit.update(b)), bool(emit.update(u))
        nothing = (None,) * len(inputs)
        if not (of_x or of_h or emit.wants(x)):
            return nothing
        if len(DIRECTIONS[self.direction]) > 1:
            raise ValueError(
                "a recurrent layer of both directions is not trained through; train layers behind "
                "it alone, --scheme head, or last:N with fewer layers"
            )
        states, *sequence = emit.history(y)
        h = (*sequence, y.name)[0]
        read = (x.name, *(emit.value(one) for one in inputs[1:]), states, h)
        factors: tuple[float, ...] = (1.0,)
        dz = dz_of_h = dx = None
        if of_x or emit.wants(x) or not self.parts_differ:
            dz = self._of_gates(emit, dy, x, u, read, of_h=False)
        if of_h and self.parts_differ:
            dz_of_h = self._of_gates(emit, dy, x, u, read, of_h=True)
        elif of_h:
            dz_of_h, factors = dz, self._of_h_by_of_x(u.type.shape[-1])
        if dz is not None and emit.wants(x):
            stage = OutputStage((dz.scale,), False, emit.gradient_dtype, emit.salt())
            dx = emit.gradient(StepsGradInput(stage, x.type.shape), dz, emit.value(w))
        if dz is not None:
            train_steps(emit, dz, w, x, self.x_zero_point)
            train_bias(emit, dz, b)
        if dz_of_h is not None:
            before = -1 if self.direction == "reverse" else 1
            train_steps(emit, dz_of_h, u, replace(y, name=h), self.y_zero_point, before, factors)
        return (dx, *nothing[1:])

    def _of_h_by_of_x(self, units: int) -> tuple[float, ...]:
        """Return how much more a row's sum of products with h counts than that with x."""
        if 0 in real(self.of_x):
            raise ValueError(
                "the scale of a gate's weights is so small that its products with the input are "
                "all 0; quantize the model anew, or train layers behind it alone"
            )
        both = zip(real(self.of_h), real(self.of_x), strict=True)
        return tuple(b / a for b, a in both for _ in range(units))

    def _of_gates(
        self, emit: Emit, dy: Gradient, x: Tensor, u: Tensor, read: Sequence[str], *, of_h: bool
    ) -> Gradient:
        """The derivative by the gates' sums of products with x, or with h."""
        dtype, units = emit.gradient_dtype, u.type.shape[-1]
        unit = dy.scale * self.y_of_h * 2.0 ** -(FRACTION_BITS[dtype] + GATE_FRACTION_BITS)
        stage = self.of_h if of_h else self.of_x
        scale = tuple(unit * factor for factor in real(stage) for _ in range(units))
        output = OutputStage(scale, False, dtype, emit.salt())
        shape = (*x.type.shape[:-1], self.gates * units)
        op = self.gates_gradient(output, shape, replace(self, saves_history=False), of_h)
        return emit.gradient(op, dy, *read)

    @property
    def y_of_h(self) -> float:
        """y of a state of 1."""
        return fixedpoint.multiplier_value(*self.hidden) * self.largest_state

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Sums of both products. What is scaled of them saturates first."""
        found = [requantized("the state of a step", self.largest_state, *self.hidden)]
        _, w, u, b, *rest = inputs
        for data, bias in ((w, b), (u, None)):
            rows, count = data.type.shape
            total: Array = np.full(rows, DIFFERENCE * WEIGHT * count)
            if data.data is not None:
                total = DIFFERENCE * np.abs(data.data.astype(np.int64)).sum(axis=1)
            gates = total.reshape(-1, self.gates, u.type.shape[-1])
            if bias is not None:
                gates = gates + _sizes(bias).reshape(gates.shape)
            elif rest:
                gates[:, -1] += _sizes(rest[0]).reshape(gates[:, -1].shape)
            found.append(Bound(f"sums of {count:,} products", int(gates.max()), ADVICE))
        return tuple(found)

    def macs(self, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> int:
        """A product for each weight in each step."""
        x, w, u, *_ = inputs
        return x.elements // x.shape[-1] * (w.elements + u.elements)

    def params(self, types: Sequence[TensorType]) -> tuple[Param, ...]:
        """The fields of the kernel's struct."""
        x = types[0]
        return (
            Param("steps", len_of_steps(x)),
            Param("inputs", x.shape[-1]),
            Param("units", types[2].shape[-1]),
            Param("directions", len(DIRECTIONS[self.direction])),
            Param("is_reverse", int(self.direction == "reverse")),
            Param("is_last", int(self.is_last)),
            Param("x_zero_point", self.x_zero_point),
            Param("x_mult_q31", self.of_x[0], "const int32_t *"),
            Param("x_shift", self.of_x[1], "const int8_t *"),
            Param("h_mult_q31", self.of_h[0], "const int32_t *"),
            Param("h_shift", self.of_h[1], "const int8_t *"),
            *self.own_params,
            Param("hidden_mult_q31", self.hidden[0]),
            Param("hidden_shift", self.hidden[1]),
            Param("y_zero_point", self.y_zero_point),
        )

    @property
    def own_params(self) -> tuple[Param, ...]:
        """Parameters of one kind of layer."""
        return ()

    def call(self, name: str, types: Sequence[TensorType]) -> KernelCall:
        """The kernel of mct_<name>_s8; its scratch holds the state, and h of two steps."""
        saved = NULL, NULL
        if self.saves_history:
            saved = outputs(1)[0], outputs(2)[0] if self.is_last else NULL
        operands = (*inputs(*range(len(types))), *outputs(0), *saved, SCRATCH)
        scratch_bytes = (4 if self.is_last else 2) * types[2].shape[-1]
        return KernelCall(name, f"mct_{name}_s8", self.params(types), operands, scratch_bytes)


def real(stage: Multipliers) -> tuple[float, ...]:
    """The factor of each gate."""
    return tuple(fixedpoint.multiplier_value(*pair) for pair in zip(*stage, strict=True))


def scaled(sums: Array, stage: Multipliers) -> Array:
    """Sums of each gate as Q3.12."""
    mult, shift = (np.array(v)[:, None] for v in stage)
    return fixedpoint.multiply_by_quantized_multiplier(sums, mult, shift)


def _sizes(bias: Tensor) -> Array:
    """Return how large each number of a bias may be."""
    if bias.data is None:
        return np.full(bias.type.shape, BIAS_LIMIT, np.int64)
    return np.abs(bias.data.astype(np.int64))


# ---------------------------------------------------------------------------------------- gradients


def back(d: Array, factor: Array) -> Array:
    """A derivative times a factor in Q0.15, |factor| <= 2**16."""
    product: Array = (d * factor + (1 << 14)) >> 15
    return product


def limited(d: Array) -> Array:
    """A derivative within its limit."""
    return clip(d, -BACK_LIMIT, BACK_LIMIT)


def sigmoid_slope(s: Array) -> Array:
    """The derivative of a sigmoid, Q0.15, from its value."""
    slope: Array = (s * (2**15 - s)) >> 15
    return slope


def tanh_slope(t: Array) -> Array:
    """The derivative of a tanh, Q0.15, from its value."""
    slope: Array = 2**15 - ((t * t) >> 15)
    return slope


@dataclass(frozen=True)
class BackwardSteps:
    """What the way back reads of all steps, in the order of time.

    of_x: [steps, gates, units], int16. h: y less its zero point, states: both of the step before,
    and the states of the steps themselves. dh: the derivative by y, FRACTION_BITS behind the point.
    """

    of_x: Array
    u: Array
    h_bias: Array
    h_before: Array
    states_before: Array
    states: Array
    dh: Array


@dataclass(frozen=True)
class RecurrentGradGates(GradientOp):
    """dz: the derivative by the sums of products of all gates, [..., gates * units].

    Own inputs: x, w, u, the biases, the states and y of each step. Gates are computed again from
    these, step by step from the last one. What goes back from a step to the one before is int32
    and saturates at BACK_LIMIT. of_h: dz is that by products with h, where they differ.
    """

    layer: Recurrent
    of_h: bool = False

    name: ClassVar[str]
    scratch_bytes: ClassVar[int] = 8
    """Besides, for each unit."""

    @abstractmethod
    def step(
        self, t: int, given: BackwardSteps, dh: Array, carried: Array
    ) -> tuple[Array, Array, Array]:
        """Derivatives of a step: by gates' sums, by those with h, by the state before."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The types of a gradient."""
        if len(DIRECTIONS[self.layer.direction]) > 1:
            raise ValueError("both directions have no gradient")
        return super().infer(*inputs)

    def sums(self, dy: Array, *rest: Array) -> Array:
        """Step by step, from the last to the first."""
        layer = self.layer
        x, w, u, b, *h_bias, states, h = (np.asarray(v, np.int64) for v in rest)
        units = u.shape[-1]
        order = slice(None, None, -1 if layer.direction == "reverse" else 1)
        rows = (x.reshape(-1, x.shape[-1]) - layer.x_zero_point)[order]
        states, h = (v.reshape(-1, units)[order] for v in (states, h))
        dh = np.zeros(h.shape, np.int64)
        own = dy.astype(np.int64).reshape(-1, units) << FRACTION_BITS[str(dy.dtype)]
        dh[len(dh) - len(own) :] = own if layer.is_last else own[order]
        given = BackwardSteps(
            layer.part_of_x(rows, w, b),
            u,
            h_bias[0] if h_bias else np.zeros(units, np.int64),
            before_each(h - layer.y_zero_point),
            before_each(states),
            states,
            dh,
        )
        found = np.zeros((len(rows), layer.gates * units), np.int64)
        mult, shift = (np.array(v)[:, None] for v in self.back_multipliers)
        of_next, carried = (np.zeros(units, np.int64) for _ in range(2))
        for t in reversed(range(len(rows))):
            of_gates, with_h, carried = self.step(t, given, dh[t] + of_next, carried)
            found[t] = (with_h if self.of_h else of_gates).ravel()
            ends = INT32_MAX >> np.maximum(shift, 0)
            scaled_back = fixedpoint.multiply_by_quantized_multiplier(
                clip(with_h, -ends, ends), mult, shift
            )
            total = scaled_back.ravel() @ u
            of_next = limited((total + (1 << self.back_bits >> 1)) >> self.back_bits)
        return found[order].reshape(self.shape)

    def passing(self, state: Array) -> Array:
        """Return where y of a state does not clamp."""
        layer = self.layer
        y = fixedpoint.multiply_by_quantized_multiplier(state, *layer.hidden) + layer.y_zero_point
        passing: Array = (y >= -128) & (y <= 127)
        return passing

    @property
    def _back_factors(self) -> tuple[float, ...]:
        """The derivative of y by y of the step before is that of a gate's sum, u and this."""
        unit = self.layer.y_of_h * 2.0**-GATE_FRACTION_BITS
        return tuple(unit * factor for factor in real(self.layer.of_h))

    @property
    def back_bits(self) -> int:
        """Bits behind the point of derivatives that are multiplied by u; they fit 30 bits."""
        return max(0, min(-math.frexp(max(self._back_factors))[1] - 1, MOST_BACK_BITS))

    @property
    def back_multipliers(self) -> Multipliers:
        """mult_q31 and shift of each gate to these."""
        unit = 2.0**self.back_bits
        pairs = [fixedpoint.quantize_multiplier(unit * one) for one in self._back_factors]
        mult, shift = zip(*pairs, strict=True)
        return mult, shift

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_<name>_grad_gates_<dy>: scratch holds all gates' derivatives and two states'."""
        dy, own, units = types[1], types[3:], types[5].shape[-1]
        params = [replace(p, name=f"layer.{p.name}") for p in self.layer.params(own)]
        params += [
            *([Param("of_h", int(self.of_h))] if self.layer.parts_differ else []),
            Param("back_mult_q31", self.back_multipliers[0], "const int32_t *"),
            Param("back_shift", self.back_multipliers[1], "const int8_t *"),
            Param("back_bits", self.back_bits),
        ]
        scratch = units * (self.layer.gates * ACC_BYTES[dy.dtype] + self.scratch_bytes)
        name = f"mct_{self.name}_grad_gates_{SUFFIX[dy.dtype]}"
        return KernelCall(self.name, name, tuple(params), (), scratch)

    def macs(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> int:
        """Those of the layer, and back through u."""
        x, w, u = types[3:6]
        return len_of_steps(x) * (w.elements + 2 * u.elements)

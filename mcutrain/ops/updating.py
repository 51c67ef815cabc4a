"""The rule of an update: what it does with a gradient's sums, its limits, residual bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import FunctionName, Operand, Param
from mcutrain.ops.bounds import BIAS_LIMIT, DIFFERENCE_LIMIT
from mcutrain.ops.gradients import ACC_DROPPED_BITS, FittedSums
from mcutrain.update_rules.base import FOLDER, AdaptingRule, ChannelGradients, Directions

Array = npt.NDArray[Any]
STEP_LIMIT = 8
"""Steps of an int8 weight that one update moves it by at most. Without a limit an absurd learning
rate drives weights and biases to their ends within a few updates: outputs clamp, have then
no gradient, and nothing is learnt ever after."""
BIAS_STEP_LIMIT = 128 * STEP_LIMIT  # what STEP_LIMIT of a weight is where its input is largest
ADAPTED_FINER = 16
"""How many more bits than usual a rule's directions may be shifted to the right: they are larger
than sums of gradients, in smaller units."""


@dataclass(frozen=True)
class UpdateRule:
    """w -= learning_rate * rate * direction on integers, stochastically rounded, saturated.

    The direction is the derivative: this is SGD. One update moves a weight by STEP_LIMIT, a bias by
    BIAS_STEP_LIMIT at most.

    rate: one real factor per output channel, or one for all; it holds quantization-aware scaling,
    the gradient's constant scale and 2**residual_bits. A weight is w + residual / 2**residual_bits,
    0 <= residual < 2**residual_bits, starting at the middle so that w is the nearest int8. The
    difference of a bias counts in units of 2**-residual_bits, which is 0 or less then.
    """

    rate: tuple[float, ...]
    residual_bits: int
    salt: int

    @property
    def slots(self) -> int:
        """How many tensors of the state a rule keeps of a trained one."""
        return 0

    @property
    def action(self) -> str:
        """The verb in names of kernels."""
        return "update"

    @property
    def sources(self) -> tuple[str, ...]:
        """Its C files besides the kernels'."""
        return ()

    def multipliers(self) -> tuple[Array, Array]:
        """mult_q31 and shift, per output channel or of length one."""
        return fixedpoint.signed_multipliers(self.rate)

    def delta(self, sums: FittedSums, exponent: int, step: Array, channel: Array) -> Array:
        """What to subtract, in units of the residual's last bit. channel: index into rate."""
        mult, shift = self.multipliers()
        pick = channel if len(mult) > 1 else np.zeros_like(channel)
        combined = (mult * int(step[3]) + (1 << 30)) >> 31
        acc, kept_bits = sums
        total_shift = shift[pick] + int(step[4]) + exponent - kept_bits
        fraction = fixedpoint.scale_to_fraction(acc, combined[pick], total_shift, kept_bits)
        key = fixedpoint.node_key(int(step[0]) & 0xFFFFFFFF, self.salt)
        index = np.arange(acc.size).reshape(acc.shape)
        return fixedpoint.round_stochastic(fraction, key, index)

    def ends(self, dtype: np.dtype[Any]) -> tuple[int, int]:
        """Return where numbers of this type saturate, residual bits included."""
        if dtype == np.int8:  # -128 stays unused: weights are symmetric
            return -127 << self.residual_bits, (128 << self.residual_bits) - 1
        if dtype == np.int16:
            return -DIFFERENCE_LIMIT, DIFFERENCE_LIMIT
        return -BIAS_LIMIT, BIAS_LIMIT

    def apply(self, w: Array, residual: Array | None, delta: Array) -> tuple[Array, Array]:
        """The new weights and residuals; w and residual as int64 of delta's shape."""
        low, high = self.ends(w.dtype)
        if w.dtype == np.int8:
            most = STEP_LIMIT << self.residual_bits
        elif w.dtype == np.int16:
            most = BIAS_STEP_LIMIT >> -self.residual_bits
        else:
            most = BIAS_STEP_LIMIT
        bits = max(self.residual_bits, 0)
        master = w.astype(np.int64) << bits
        if residual is not None:
            master = master + residual
        master = fixedpoint.clip(master - fixedpoint.clip(delta, -most, most), low, high)
        return (master >> bits).astype(w.dtype), master & ((1 << bits) - 1)

    def params(self, state: Sequence[Operand]) -> tuple[Param, ...]:
        """The fields of `mct_parameter` in firmware/runtime/mct_update.h.

        state: where the values lie, and the residuals if there are some.
        """
        mult, shift = self.multipliers()
        values, residual = state[0], state[1] if self.residual_bits > 0 else None
        return (
            Param("parameter.values", values, "void *"),
            Param("parameter.residual", residual, "uint8_t *"),
            Param("parameter.mult_q31", tuple(mult.tolist()), "const int32_t *"),
            Param("parameter.shift", tuple(shift.tolist()), "const int8_t *"),
            Param("parameter.per_channel", int(len(mult) > 1)),
            Param("parameter.residual_bits", self.residual_bits),
            Param("parameter.salt", self.salt),
        )

    def updated(
        self, step: Array, sums: FittedSums, exponent: int, rate_axis: int, slots: Sequence[Array]
    ) -> tuple[Array, tuple[Array, ...]]:
        """What to subtract, and the slots after the update. rate_axis: that of output channels."""
        shape = sums.value.shape
        index_shape = [-1 if i == rate_axis % len(shape) else 1 for i in range(len(shape))]
        channel = np.arange(shape[rate_axis]).reshape(index_shape)
        return self.delta(sums, exponent, step, np.broadcast_to(channel, shape)), ()


@dataclass(frozen=True)
class AdaptedUpdate(UpdateRule):
    """As UpdateRule, but a rule of mcutrain.update_rules makes directions of derivatives.

    It is given the whole gradient of an output channel at once, of int8 gradients.
    """

    by: AdaptingRule

    @property
    def slots(self) -> int:
        """How many tensors of the state the rule keeps of a trained one."""
        return len(self.by.slots(1, 1))

    @property
    def action(self) -> str:
        """The verb in names of kernels."""
        return "adapt"

    @property
    def sources(self) -> tuple[str, ...]:
        """The rule's C, and what rules share."""
        return f"{FOLDER}/mct_update_rule.c", self.by.source

    def params(self, state: Sequence[Operand]) -> tuple[Param, ...]:
        """The fields of `mct_parameter`, and of `mct_update_rule` in kernels/update_rule.

        state: where the values lie, the residuals if there are some, and the slots.
        """
        first, second = (*state[len(state) - self.slots :], None)[:2]
        return (
            *super().params(state),
            Param("rule.slots.first", first, "void *"),
            Param("rule.slots.second", second, "void *"),
            Param("rule.direct", FunctionName(f"mct_{self.by.name}"), "mct_direct *"),
        )

    def updated(
        self, step: Array, sums: FittedSums, exponent: int, rate_axis: int, slots: Sequence[Array]
    ) -> tuple[Array, tuple[Array, ...]]:
        """As of UpdateRule, channel by channel."""
        values = sums.value
        index = np.moveaxis(np.arange(values.size).reshape(values.shape), rate_axis, 0)
        shape, rows = index.shape, (values.shape[rate_axis], -1)
        index = index.reshape(rows)
        gradients = ChannelGradients(
            np.moveaxis(values, rate_axis, 0).reshape(rows),
            exponent,
            index,
            fixedpoint.node_key(int(step[0]) & 0xFFFFFFFF, self.salt),
            int(step[1]) & 0xFFFFFFFF,
        )
        directions, kept = self.by.direct(gradients, slots)
        fraction = self._fraction(directions, step)
        delta = fixedpoint.round_stochastic(fraction, gradients.key, index)
        return np.moveaxis(delta.reshape(shape), 0, rate_axis), kept

    def _fraction(self, directions: Directions, step: Array) -> Array:
        """Directions times rates, with FRACTION_BITS behind the point."""
        mult, shift = self.multipliers()
        mult = fixedpoint.high_mul(mult, int(step[3]))
        if directions.root_q31 is not None:
            mult = fixedpoint.high_mul(mult, directions.root_q31)
        total_shift = shift + int(step[4]) + directions.exponent
        return fixedpoint.scale_to_fraction(
            directions.sums, mult[:, None], total_shift[:, None], ADAPTED_FINER
        )


@dataclass(frozen=True)
class SumRule:
    """How sums of int16 gradients are added up over samples, in int32.

    Each loses its last dropped_bits, rounded stochastically. salt: distinguishes the node's random
    numbers.
    """

    dropped_bits: int = ACC_DROPPED_BITS["int16"]
    salt: int = 0

    @staticmethod
    def of(largest: int, salt: int) -> SumRule:
        """Return the rule for sums of at most that size: it drops the bits that int32 lacks."""
        return SumRule(min(max(largest.bit_length() - 31, 0), ACC_DROPPED_BITS["int16"]), salt)

    @property
    def kept_bits(self) -> int:
        """How many of the ACC_DROPPED_BITS are kept."""
        return ACC_DROPPED_BITS["int16"] - self.dropped_bits

    def narrowed(self, sums: Array, step: Array) -> Array:
        """As int32."""
        key = fixedpoint.node_key(int(step[0]) & 0xFFFFFFFF, self.salt)
        index = np.arange(sums.size).reshape(sums.shape)
        random = fixedpoint.random16(key, index) & ((1 << self.dropped_bits) - 1)
        return fixedpoint.clip((sums + random) >> self.dropped_bits, -(2**31), 2**31 - 1)

    def params(self) -> tuple[Param, ...]:
        """The fields of `mct_sum_rule` in firmware/runtime/mct_update.h."""
        return (Param("sum.dropped_bits", self.dropped_bits), Param("sum.salt", self.salt))


def residual_type(weights: int, residual_bits: int) -> TensorType:
    """How the residuals of so many weights are stored: packed bytes, their lowest bits first."""
    return TensorType(((weights * residual_bits + 7) // 8,), "uint8")


def initial_parameter(value: Array) -> Array:
    """Return what training starts from: biases within the limits that every update keeps."""
    return np.clip(value, -BIAS_LIMIT, BIAS_LIMIT) if value.dtype == np.int32 else value


def initial_residual(weights: int, residual_bits: int) -> Array:
    """Every residual in the middle: the weight is exactly its int8 value."""
    middle = 1 << (residual_bits - 1)
    return pack_residual(np.full(weights, middle, np.int64), residual_bits)


def pack_residual(values: Array, residual_bits: int) -> Array:
    """Flat residuals to bytes: 8 / residual_bits in each."""
    each = 8 // residual_bits
    padded = np.pad(values, (0, -len(values) % each)).reshape(-1, each)
    packed: Array = (padded << (residual_bits * np.arange(each))).sum(axis=1).astype(np.uint8)
    return packed


def unpack_residual(packed: Array, residual_bits: int, count: int) -> Array:
    """Bytes to `count` flat residuals, int64."""
    each = 8 // residual_bits
    shifted = packed.astype(np.int64)[:, None] >> (residual_bits * np.arange(each))
    residuals: Array = shifted.ravel()[:count] & ((1 << residual_bits) - 1)
    return residuals


def updated_state(rule: UpdateRule | None) -> dict[int, int]:
    """Output → the input it takes over: the last ones, w, its residual if it has bits, slots."""
    count = 1 + (rule.slots + (rule.residual_bits > 0) if rule else 0)
    return {i: i - count for i in range(count)}


def update_state(
    rule: UpdateRule,
    step: Array,
    sums: FittedSums,
    exponent: int,
    rate_axis: int,
    w: Array,
    *others: Array,
) -> tuple[Array, ...]:
    """Apply a gradient to w, its residual and the rule's slots; returns them all."""
    shape = sums.value.shape
    slots = others[len(others) - rule.slots :]
    delta, slots = rule.updated(step, sums, exponent, rate_axis, slots)
    bits = rule.residual_bits
    if bits <= 0:
        updated, _ = rule.apply(w.reshape(shape), None, delta)
        return updated.reshape(w.shape), *slots
    old = unpack_residual(others[0], bits, sums.value.size).reshape(shape)
    updated, left = rule.apply(w.reshape(shape), old, delta)
    return updated.reshape(w.shape), pack_residual(left.ravel(), bits), *slots

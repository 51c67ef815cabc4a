"""What the backward operators share: how sums become gradients, and how weights are updated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mcutrain import fixedpoint
from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    NULL,
    SCRATCH,
    Bound,
    Emit,
    FunctionName,
    Gradient,
    KernelCall,
    Op,
    Operand,
    Param,
    inputs,
    outputs,
)
from mcutrain.ops.bounds import BIAS_LIMIT, DIFFERENCE, DIFFERENCE_LIMIT, gradient_sums
from mcutrain.update_rules.base import FOLDER, AdaptingRule, ChannelGradients, Directions

Array = npt.NDArray[Any]
Thing = TypeVar("Thing")  # what stands for an operand: its numbers, its type, its name, its pointer

STEP = TensorType((5,), "step")  # key, update, sample, lr_mult_q31, lr_shift
EXPONENT = TensorType((3,), "exponent")

# Sums of int16 gradients are int64. Those that do not fit int32 lose these bits, and exponents of
# sums count from there.
ACC_DROPPED_BITS = {"int8": 0, "int16": 8}
GRADIENT_BITS = {"int8": 7, "int16": 15}  # without the sign
SUFFIX = {"int8": "s8", "int16": "s16"}
SCALED = {"int8": fixedpoint.scale_to_fraction, "int16": fixedpoint.scale_reaching}
STEP_LIMIT = 8
"""Steps of an int8 weight that one update moves it by at most. Without a limit an absurd learning
rate drives weights and biases to their ends within a few updates: outputs clamp, have then
no gradient, and nothing is learnt ever after."""
BIAS_STEP_LIMIT = 128 * STEP_LIMIT  # what STEP_LIMIT of a weight is where its input is largest
ACC_BYTES = {"int8": 4, "int16": 8}
ADAPTED_FINER = 16
"""How many more bits than usual a rule's directions may be shifted to the right: they are larger
than sums of gradients, in smaller units."""


def narrow_sum(acc: Array, dtype: str) -> Array:
    """Sums of gradients of `dtype` as int32; their exponent grows by ACC_DROPPED_BITS."""
    drop = ACC_DROPPED_BITS[dtype]
    return fixedpoint.clip((acc + (1 << drop >> 1)) >> drop, -(2**31), 2**31 - 1)


class FittedSums(NamedTuple):
    """Sums as int32. kept_bits: of each, how many of the ACC_DROPPED_BITS it still has."""

    value: Array
    kept_bits: Array | int = 0


def fitted_sums(acc: Array, dtype: str) -> FittedSums:
    """Sums of gradients of `dtype`: exact where they fit int32, otherwise narrowed.

    Rounding small ones would lose every gradient that is small beside the largest of its tensor.
    """
    fits = (acc >= -(2**31)) & (acc < 2**31)
    kept_bits = np.where(fits, ACC_DROPPED_BITS[dtype], 0)
    return FittedSums(np.where(fits, acc, narrow_sum(acc, dtype)), kept_bits)


def with_wide_kernel(call: KernelCall) -> KernelCall:
    """The call of the body for int8 gradients with sums in int64: `_wide_s8` instead of `_s8`."""
    return replace(
        call,
        function=f"{call.function.removesuffix('_s8')}_wide_s8",
        scratch_bytes=2 * call.scratch_bytes,
        align_bytes=ACC_BYTES["int16"],
    )


def products(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    """Factors multiplied, each one per channel or one for all."""
    count = max(len(a), len(b))
    wide_a, wide_b = (v * count if len(v) == 1 else v for v in (a, b))
    return tuple(x * y for x, y in zip(wide_a, wide_b, strict=True))


def unpack_bits(mask: Array, shape: tuple[int, ...]) -> Array:
    """One bit per element, the lowest bit of each byte first, as booleans of `shape`."""
    bits = np.unpackbits(mask, bitorder="little")
    return bits[: int(np.prod(shape))].reshape(shape).astype(bool)


@dataclass(frozen=True)
class OutputStage:
    """Turns sums into a gradient tensor, in one rounding.

    gradient = round(sum * scale[c] * 2**(e_in - e_out)), rounded stochastically and saturated,
    0 where the clamp mask is. scale: one real factor, or one per channel (the last axis). e_out is
    chosen before the sums are known, from what was needed lately (fixedpoint.begin_exponent).
    salt: distinguishes this node's random numbers. addend_scale: if not empty, another gradient of
    the same tensor is added in the same rounding, times this factor, or one per channel.
    """

    scale: tuple[float, ...]
    masked: bool
    dtype: str
    salt: int
    addend_scale: tuple[float, ...] = ()

    def multipliers(self) -> tuple[Array, Array]:
        """mult_q31 and shift per channel, or of length one."""
        return fixedpoint.signed_multipliers(self.scale)

    def fraction(
        self, acc: Array, dy_exponent: int, exponent: int, kept_bits: Array | int = 0
    ) -> Array:
        """The scaled sums with FRACTION_BITS behind the point. kept_bits: see FittedSums."""
        mult, shift = self.multipliers()
        shift = shift + dy_exponent - exponent - kept_bits
        return SCALED[self.dtype](acc, mult, shift, kept_bits)

    def store(
        self, fraction: Array, step: Array, exponent: Array, mask: Array | None
    ) -> tuple[Array, Array]:
        """Round and saturate the fractions. Returns the gradient and the updated exponent."""
        if mask is not None:
            fraction = np.where(unpack_bits(mask, fraction.shape), fraction, 0)
        limit = 2 ** GRADIENT_BITS[self.dtype] - 1
        key = fixedpoint.node_key(int(step[0]) & 0xFFFFFFFF, self.salt)
        index = np.arange(fraction.size).reshape(fraction.shape)
        rounded = fixedpoint.round_stochastic(fraction, key, index)
        needed = fixedpoint.magnitude_bits(fraction)
        if needed > -fixedpoint.FRACTION_BITS:
            needed_exponent = int(exponent[0]) + needed - GRADIENT_BITS[self.dtype]
            exponent = fixedpoint.observe_exponent(exponent, needed_exponent)
        return fixedpoint.clip(rounded, -limit, limit).astype(self.dtype), exponent

    def fused(self, following: OutputStage) -> OutputStage | None:
        """This stage and the following rescale in one; None if this one has a mask already."""
        if self.masked:
            return None
        scale = products(self.scale, following.scale)
        addend_scale = products(self.addend_scale, following.scale) if self.addend_scale else ()
        return replace(self, scale=scale, masked=following.masked, addend_scale=addend_scale)

    def addend(self) -> OutputStage:
        """The stage that scales the addend alone."""
        return replace(self, scale=self.addend_scale, addend_scale=())

    def params(self) -> tuple[Param, ...]:
        """The fields of `mct_gradient_stage` in firmware/runtime/mct_gradient.h."""
        mult, shift = self.multipliers()
        return (
            Param("stage.mult_q31", tuple(mult.tolist()) or None, "const int32_t *"),
            Param("stage.shift", tuple(shift.tolist()) or None, "const int8_t *"),
            Param("stage.per_channel", int(len(mult) > 1)),
            Param("stage.salt", self.salt),
        )


@dataclass(frozen=True)
class GradientInputs(Generic[Thing]):
    """What a GradientOp reads. own: the operator's; addend: with its exponent."""

    step: Thing
    dy: Thing
    dy_exponent: Thing
    own: tuple[Thing, ...]
    addend: tuple[Thing, Thing] | None
    mask: Thing | None
    exponent: Thing

    def in_order(self) -> tuple[Thing, ...]:
        """As a node has them."""
        masks = () if self.mask is None else (self.mask,)
        start = (self.step, self.dy, self.dy_exponent, *self.own)
        return (*start, *(self.addend or ()), *masks, self.exponent)


@dataclass(frozen=True)
class GradientOp(Op):
    """A node that computes one gradient tensor from another by sums and an OutputStage.

    Inputs: GradientInputs, addend and mask if the stage has them. Outputs: dx, and the exponent
    with what was observed.
    wide: sums of int8 gradients are int64 too, and saturate to int32; only in operators that
    with_wide_sums returns.
    """

    stage: OutputStage
    shape: tuple[int, ...]
    wide: bool = field(default=False, repr=False, kw_only=True)

    @abstractmethod
    def sums(self, dy: Array, *rest: Array) -> Array:
        """The exact sums, int64, shaped as dx."""

    @abstractmethod
    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """The call without the stage's params and without operands."""

    def named(self, inputs: Sequence[Thing]) -> GradientInputs[Thing]:
        """A node's inputs, or what stands for them, by name."""
        step, dy, dy_exponent, *rest, exponent = inputs
        mask = rest.pop() if self.stage.masked else None
        addend = None
        if self.stage.addend_scale:
            *rest, gradient, its_exponent = rest
            addend = gradient, its_exponent
        return GradientInputs(step, dy, dy_exponent, tuple(rest), addend, mask, exponent)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """dx as the stage stores it, and the exponent."""
        return TensorType(self.shape, self.stage.dtype), EXPONENT

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Choose the exponent, sum, scale, mask, round."""
        given = self.named(inputs)
        step = given.step
        exponent = fixedpoint.begin_exponent(
            given.exponent, int(step[1]) & 0xFFFFFFFF, int(step[2])
        )
        sums = fitted_sums(self.sums(given.dy, *given.own), self.stage.dtype)
        e_in = int(given.dy_exponent[0]) + ACC_DROPPED_BITS[self.stage.dtype]
        fraction = self.stage.fraction(sums.value, e_in, int(exponent[0]), sums.kept_bits)
        if given.addend is not None:
            value, e = given.addend
            stage = self.stage.addend()
            fraction += stage.fraction(value.reshape(self.shape), int(e[0]), int(exponent[0]))
        return self.stage.store(fraction, step, exponent, given.mask)

    @property
    def may_add(self) -> bool:
        """Whether the kernel takes an addend."""
        return False

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """f(params, step, dy, dy_exponent, own…[, addend, exponent], mask, exponent, dx, scratch).

        Absent operands are NULL.
        """
        call = with_wide_kernel(self.call(types)) if self.wide else self.call(types)
        given = self.named(inputs(*range(len(types))))
        operands: tuple[Operand, ...] = (given.step, given.dy, given.dy_exponent, *given.own)
        if self.may_add:
            operands = (*operands, *(given.addend or (NULL, NULL)))
        operands = (*operands, given.mask or NULL, given.exponent, *outputs(0))
        if call.scratch_bytes:
            operands = (*operands, SCRATCH)
        params = [*call.params, *self.stage.params()]
        if self.may_add:
            extra = self.stage.addend().params()
            params += [replace(p, name=p.name.replace("stage", "addend")) for p in extra]
        return replace(call, params=tuple(params), operands=operands)

    @property
    def updates(self) -> dict[int, int]:
        """The exponent is updated where it lies, it is always the last input."""
        return {1: -1}


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

    def apply(self, w: Array, residual: Array | None, delta: Array) -> tuple[Array, Array]:
        """The new weights and residuals; w and residual as int64 of delta's shape."""
        if w.dtype == np.int8:  # -128 stays unused: weights are symmetric
            low, high = -127 << self.residual_bits, (128 << self.residual_bits) - 1
            most = STEP_LIMIT << self.residual_bits
        elif w.dtype == np.int16:
            low, high = -DIFFERENCE_LIMIT, DIFFERENCE_LIMIT
            most = BIAS_STEP_LIMIT >> -self.residual_bits
        else:
            low, high, most = -BIAS_LIMIT, BIAS_LIMIT, BIAS_STEP_LIMIT
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
        self,
        step: Array,
        sums: FittedSums,
        exponent: int,
        rate_axis: int,
        slots: Sequence[Array],
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
        self,
        step: Array,
        sums: FittedSums,
        exponent: int,
        rate_axis: int,
        slots: Sequence[Array],
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


@dataclass(frozen=True)
class ParameterInputs(Generic[Thing]):
    """What a ParameterGradientOp reads. own: the operator's; dy_exponent: only with a rule.

    state: what is updated: w, perhaps its residual, and the rule's slots; or the sum.
    """

    step: Thing
    dy: Thing
    dy_exponent: Thing | None
    own: tuple[Thing, ...]
    state: tuple[Thing, ...]


@dataclass(frozen=True)
class ParameterGradientOp(Op):
    """The gradient of a parameter, applied at once (rule given) or added up over samples.

    Inputs: ParameterInputs. Outputs: the new state.
    With a rule: w, the residual if it has bits, slots; rows are summed in scratch, there is never a
    whole gradient. Without one: the sum, int32, saturating; the first sample of a group overwrites
    it.

    trained: shape of the gradient. rate_axis: its axis along which the rate varies. wide: as in
    GradientOp. sum_rule: of int16 gradients that are added up. largest_factor: what dy is
    multiplied by at each position, at most.
    """

    rule: UpdateRule | None
    trained: tuple[int, ...]
    wide: bool = field(default=False, repr=False, kw_only=True)
    sum_rule: SumRule = field(default=SumRule(), repr=False, kw_only=True)
    rate_axis = 0
    largest_factor = DIFFERENCE

    @abstractmethod
    def sums(self, dy: Array, *own: Array) -> Array:
        """The exact gradient, int64, of shape `trained`."""

    @property
    def trained_count(self) -> int:
        """How many numbers of an output channel are trained."""
        return int(np.prod(self.trained)) // self.trained[self.rate_axis]

    @abstractmethod
    def call(self, types: Sequence[TensorType], action: str) -> KernelCall:
        """The kernel call without the rule's params; action is update, adapt or grad."""

    def named(self, inputs: Sequence[Thing]) -> ParameterInputs[Thing]:
        """A node's inputs, or what stands for them, by name."""
        step, dy, *rest = inputs
        dy_exponent = rest.pop(0) if self.rule else None
        first = -len(updated_state(self.rule))
        return ParameterInputs(step, dy, dy_exponent, tuple(rest[:first]), tuple(rest[first:]))

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The types of what is updated."""
        return self.named(inputs).state

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Sum, then update or accumulate."""
        given = self.named(inputs)
        dtype = str(given.dy.dtype)
        sums = self.sums(given.dy, *given.own).reshape(self.trained)
        if self.rule is None:
            return (self._accumulated(sums, dtype, given.step, *given.state),)
        assert given.dy_exponent is not None
        fitted = fitted_sums(sums, dtype)
        exponent = int(given.dy_exponent[0]) + ACC_DROPPED_BITS[dtype]
        return update_state(self.rule, given.step, fitted, exponent, self.rate_axis, *given.state)

    def _accumulated(self, sums: Array, dtype: str, step: Array, total: Array) -> Array:
        """The sums added to those of a group's samples before this one."""
        is_wide = ACC_DROPPED_BITS[dtype] > 0
        sums = self.sum_rule.narrowed(sums, step) if is_wide else narrow_sum(sums, dtype)
        if int(step[2]) != 0:
            sums = np.clip(sums + total, -(2**31), 2**31 - 1)
        return sums.astype(np.int32)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """f(params, step, dy, dy_exponent, own…[, scratch]); the parameters say what is updated.

        f(params, step, dy, own…, sum[, scratch]) without a rule.
        """
        call = self.call(types, self.rule.action if self.rule else "grad")
        call = with_wide_kernel(call) if self.wide else call
        operands = inputs(*range(len(types)))
        if self.rule:
            state = self.named(operands).state
            params = (*call.params, *self.rule.params(state))
            call = replace(call, also=self.rule.sources)
            operands = operands[: -len(state)]
        else:
            params = (*call.params, *self._sum_params(types))
        if call.scratch_bytes:
            operands = (*operands, SCRATCH)
        return replace(call, params=params, operands=operands)

    def _sum_params(self, types: Sequence[TensorType]) -> tuple[Param, ...]:
        is_wide = ACC_DROPPED_BITS[types[1].dtype] > 0
        return self.sum_rule.params() if is_wide and self.rule is None else ()

    @property
    def updates(self) -> dict[int, int]:
        """All outputs are updated inputs."""
        return updated_state(self.rule)


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


@dataclass(frozen=True)
class ApplyInputs(Generic[Thing]):
    """What an ApplyUpdate reads. sums: the accumulated gradient. state: what is updated."""

    step: Thing
    sums: Thing
    dy_exponent: Thing
    state: tuple[Thing, ...]


@dataclass(frozen=True)
class ApplyUpdate(Op):
    """w -= learning_rate * rate * (accumulated gradient), once per group of samples.

    Inputs: ApplyInputs. Outputs: the new state.
    dtype: of the gradients that were summed; rate_axis as in ParameterGradientOp.
    """

    rule: UpdateRule
    dtype: str
    rate_axis: int = 0

    def named(self, inputs: Sequence[Thing]) -> ApplyInputs[Thing]:
        """A node's inputs, or what stands for them, by name."""
        step, sums, dy_exponent, *state = inputs
        return ApplyInputs(step, sums, dy_exponent, tuple(state))

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The types of what is updated."""
        return self.named(inputs).state

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Scale, round, subtract."""
        given = self.named(inputs)
        exponent = int(given.dy_exponent[0]) + ACC_DROPPED_BITS[self.dtype]
        sums = FittedSums(given.sums.astype(np.int64))
        return update_state(self.rule, given.step, sums, exponent, self.rate_axis, *given.state)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_apply_update_s8 for weights, _s32 for biases, _s16 for differences of biases.

        mct_apply_adapt_… with a rule, which has a channel's gradient in scratch.
        """
        given = self.named(types)
        shape, w = given.sums.shape, given.state[0]
        operands = inputs(*range(len(types)))
        state = self.named(operands).state
        last = self.rate_axis % len(shape) == len(shape) - 1
        params = (
            Param("rows", int(np.prod(shape[:-1]))),
            Param("columns", shape[-1]),
            Param("rows_per_rate", 0 if last else int(np.prod(shape[1:-1]))),
            Param("dropped_bits", ACC_DROPPED_BITS[self.dtype]),
            *self.rule.params(state),
        )
        suffix, operands = w.dtype.replace("int", "s"), operands[: -len(state)]
        name = f"mct_apply_{self.rule.action}_{suffix}"
        if not self.rule.sources:
            return KernelCall("apply_update", name, params, operands)
        scratch = ACC_BYTES["int8"] * given.sums.elements // shape[self.rate_axis]
        return KernelCall(
            "apply_update", name, params, (*operands, SCRATCH), scratch, also=self.rule.sources
        )

    @property
    def updates(self) -> dict[int, int]:
        """All outputs are updated inputs."""
        return updated_state(self.rule)


@dataclass(frozen=True)
class BiasGradient(ParameterGradientOp):
    """db[c] = sum of dy over all positions, applied to the bias or accumulated.

    dy: [..., c]. b: [c] int32, or its int16 difference to the model's own. The rule has no residual
    bits: an int32 bias is fine enough.
    """

    largest_factor = 1

    def sums(self, dy: Array, *own: Array) -> Array:
        """Sum over all axes but the last."""
        sums: Array = dy.astype(np.int64).reshape(-1, dy.shape[-1]).sum(axis=0)
        return sums

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Every gradient of a channel, added up."""
        dy = inputs[1]
        positions = dy.type.elements // dy.type.shape[-1]
        what = f"sums of {positions:,} gradients"
        return gradient_sums(dy, positions, 1, what, "train no bias there, or use a smaller input")

    def call(self, types: Sequence[TensorType], action: str) -> KernelCall:
        """mct_bias_update_<dy>, mct_bias_update_difference_<dy> or mct_bias_grad_<dy>.

        With a rule adapt stands for update.
        """
        dy, b = types[1], self.named(types).state[0]
        action += "_difference" if b.dtype == "int16" else ""
        params = (
            Param("positions", dy.elements // dy.shape[-1]),
            Param("channels_out", dy.shape[-1]),
        )
        return KernelCall("bias", f"mct_bias_{action}_{SUFFIX[dy.dtype]}", params, ())


def train_bias(emit: Emit, dy: Gradient, b: Tensor, factors: tuple[float, ...] = (1.0,)) -> None:
    """Train the bias b of a layer whose sums have the gradient dy * factors, if it is trained."""
    update = emit.update(b)
    if update:
        update = replace(update, rate=products(update.rate, factors))
        emit.train(BiasGradient(None, b.type.shape), update, dy, parameter=b)

"""How sums become gradients: exponents, one rounding, and what all backward operators share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import NULL, SCRATCH, KernelCall, Op, Operand, Param, inputs, outputs

Array = npt.NDArray[Any]
STEP = TensorType((5,), "step")  # key, update, sample, lr_mult_q31, lr_shift
EXPONENT = TensorType((3,), "exponent")
# Sums of int16 gradients are int64. Those that do not fit int32 lose these bits, and exponents of
# sums count from there.
ACC_DROPPED_BITS = {"int8": 0, "int16": 8}
GRADIENT_BITS = {"int8": 7, "int16": 15}  # without the sign
SUFFIX = {"int8": "s8", "int16": "s16"}
SCALED = {"int8": fixedpoint.scale_to_fraction, "int16": fixedpoint.scale_reaching}
ACC_BYTES = {"int8": 4, "int16": 8}
Thing = TypeVar("Thing")  # what stands for an operand: its numbers, its type, its name, its pointer


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
    if len(a) == 1:
        return tuple([a[0] * y for y in b])
    if len(b) == 1:
        return tuple([x * b[0] for x in a])
    return tuple([x * y for x, y in zip(a, b, strict=True)])


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

"""How parameters are trained: their gradients, applied at once or added up over samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Generic

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import SCRATCH, Bound, Emit, Gradient, KernelCall, Op, Param, inputs
from mcutrain.ops.bounds import DIFFERENCE, gradient_sums
from mcutrain.ops.gradients import (
    ACC_BYTES,
    ACC_DROPPED_BITS,
    SUFFIX,
    FittedSums,
    Thing,
    fitted_sums,
    narrow_sum,
    products,
    with_wide_kernel,
)
from mcutrain.ops.updating import SumRule, UpdateRule, update_state, updated_state

Array = npt.NDArray[Any]


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

"""Gradients added, scaled and masked elementwise: where a tensor is used twice, and at clamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Generic

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import NULL, Emit, Gradient, KernelCall, Op, Param, inputs, outputs
from mcutrain.ops.gradients import EXPONENT, SUFFIX, OutputStage, Thing

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SumInputs(Generic[Thing]):
    """What a GradientSum reads. terms: each with its exponent."""

    step: Thing
    terms: tuple[tuple[Thing, Thing], ...]
    mask: Thing | None
    exponent: Thing

    def in_order(self) -> tuple[Thing, ...]:
        """As a node has them."""
        masks = () if self.mask is None else (self.mask,)
        return (self.step, *chain.from_iterable(self.terms), *masks, self.exponent)


@dataclass(frozen=True)
class GradientSum(Op):
    """g = mask * scale[c] * (weights[0] * a * 2**e_a + weights[1] * b * 2**e_b), in one rounding.

    Inputs: SumInputs. Outputs: g and its exponent. One or two terms; a, b, g: [..., c].
    """

    stage: OutputStage
    shape: tuple[int, ...]
    weights: tuple[float, ...]

    def named(self, inputs: Sequence[Thing]) -> SumInputs[Thing]:
        """A node's inputs, or what stands for them, by name."""
        step, *rest, exponent = inputs
        mask = rest.pop() if self.stage.masked else None
        return SumInputs(step, tuple(zip(rest[::2], rest[1::2], strict=True)), mask, exponent)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape of the terms."""
        terms = self.named(inputs).terms
        if any(term.elements != int(np.prod(self.shape)) for term, _ in terms):
            raise ValueError("gradients of different size cannot be added")
        return TensorType(self.shape, self.stage.dtype), EXPONENT

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Scale each term to the common exponent, keeping fraction bits; add; round once."""
        given = self.named(inputs)
        step = given.step
        exponent = fixedpoint.begin_exponent(
            given.exponent, int(step[1]) & 0xFFFFFFFF, int(step[2])
        )
        now = int(exponent[0])
        total = np.zeros(self.shape, np.int64)
        for stage, (value, e) in zip(self.stages(), given.terms, strict=True):
            total += stage.fraction(value.reshape(self.shape), int(e[0]), now)
        return self.stage.store(total, step, exponent, given.mask)

    def stages(self) -> tuple[OutputStage, ...]:
        """The stage of each term: the common scale times its weight."""
        return tuple(
            replace(self.stage, scale=tuple(w * s for s in self.stage.scale)) for w in self.weights
        )

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_gradient_rescale_<g> for one term, mct_gradient_add_<g> for two."""
        operation = "rescale" if len(self.weights) == 1 else "add"
        channels = self.shape[-1]
        params = [
            Param("positions", int(np.prod(self.shape)) // channels),
            Param("channels_out", channels),
        ]
        for letter, stage in zip("ab", self.stages(), strict=False):
            params += [replace(p, name=p.name.replace("stage", letter)) for p in stage.params()]
        given = self.named(inputs(*range(len(types))))
        given = replace(given, mask=given.mask or NULL)
        operands = (*given.in_order(), *outputs(0))
        name = f"mct_gradient_{operation}_{SUFFIX[self.stage.dtype]}"
        return KernelCall("gradient_sum", name, tuple(params), operands)

    @property
    def updates(self) -> dict[int, int]:
        """The exponent, always the last input."""
        return {1: -1}

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Elementwise: g may lie where a term was."""
        return {0: tuple(1 + 2 * i for i in range(len(self.weights)))}


def rescale(
    emit: Emit, dy: Gradient, shape: tuple[int, ...], factors: tuple[float, ...], mask: str | None
) -> Gradient:
    """dy times a factor per channel (or one), and 0 where the mask is. No node if both are trivial.

    A following pass (autodiff.fuse) folds the node into the one that computed dy where it can.
    """
    if mask is None and len(set(factors)) == 1:
        return replace(dy, scale=dy.scale * factors[0])
    stage = OutputStage(factors, mask is not None, emit.gradient_dtype, emit.salt())
    masks = () if mask is None else (mask,)
    return emit.gradient(GradientSum(stage, shape, (dy.scale,)), dy, *masks)

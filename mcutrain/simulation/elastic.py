"""How much each trained tensor has helped lately, from the states before and after.

ElasticTrainer (see mcutrain.autodiff.elastic) measures a tensor by what the loss lost on account of
it: −Σ (∂L(w + Δw)/∂w)·Δw, after a step Δw. Updates move w by −lr·rate·∂L/∂w, so of two windows of
steps that follow one another the second one's Δw' gives the gradient at w + Δw, and the importance
is Σ Δw·Δw' / rate, up to lr, which all tensors share. It takes no gradient but those of the updates
themselves, and what is noise in one window is not in the other.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.autodiff.elastic import ElasticTensor, importance_of
from mcutrain.codegen import SAVED_HEADER_BYTES
from mcutrain.errors import ArgumentError
from mcutrain.memplan import TrainingPlan
from mcutrain.ops.training import unpack_residual
from mcutrain.simulation.compiled import unpack_state
from mcutrain.sparse.elastic import ONE_Q16, ElasticTimes, budget, choose

Array = npt.NDArray[Any]

MOST_MOVED = 2**15 - 1
"""Counts of a stored number, in its unit."""
MOST_EVERY = 2**24
LOOKS = 20
"""Each of the two windows in which everything is trained takes one in so many steps of a period."""


@dataclass(frozen=True)
class Decision:
    """From a step on these tensors are trained, for what they had done for the loss."""

    step: int
    tensors: tuple[int, ...]
    importance: tuple[int, ...]

    @staticmethod
    def of(values: Mapping[str, Any]) -> Decision:
        """Of its fields, as JSON has them."""
        tensors, importance = (tuple(map(int, values[n])) for n in ("tensors", "importance"))
        return Decision(int(values["step"]), tensors, importance)


@dataclass(frozen=True)
class TensorSelector:
    """When and how a run decides anew which tensors are trained.

    A period of `every` steps begins with two windows in which all are. Then those are chosen that
    helped most and with which the mean step of the period takes a share of the time of a whole one.

    times: of the plan's elastic tensors, and of a step's other nodes. share_q16: 65,536 is a whole
    step. every: a multiple of the samples of an update.

    Raises ArgumentError for a share in which not even the last layer can be trained.
    """

    plan: TrainingPlan
    times: ElasticTimes
    share_q16: int
    every: int

    def __post_init__(self) -> None:
        group = self.plan.training.accumulate
        if self.every % group or not 2 * self.look < self.every < MOST_EVERY:
            of_group = (
                f"a multiple of the {group} samples of an update" if group > 1 else "a number"
            )
            raise ArgumentError(
                f"tensors cannot be selected every {self.every:,} steps: give {of_group}, "
                f"{3 * group} or more, below {MOST_EVERY:,}"
            )
        if self.share_q16 > ONE_Q16 or self.budget < self.times.problem.least_time:
            raise ArgumentError(
                f"a step cannot take a share of {self.share_q16 / ONE_Q16:.3g} of its time: give "
                f"{math.ceil(1000 * self._least_share) / 1000:g} to 1; forward, loss, the last "
                f"layer and the {2 * self.look} steps of {self.every} in which everything is "
                "trained take so much"
            )

    @property
    def look(self) -> int:
        """Steps of each window."""
        return look_of(self.every, self.plan.training.accumulate)

    @property
    def all(self) -> range:
        """Every tensor."""
        return range(len(self.plan.training.elastic))

    def steps_to_next(self, step: int) -> int:
        """Until there is something to look at, or to select."""
        place = step % self.every
        ends = (self.look, 2 * self.look, self.every)
        return next(end for end in ends if end > place) - place

    @property
    def budget(self) -> int:
        """Time for the backward pass of a step with a selection."""
        return budget(
            selected_share(self.share_q16, self.every, self.look),
            self.times.forward,
            self.times.problem.backward_time,
        )

    @property
    def _least_share(self) -> float:
        """With which the last layer can be trained."""
        whole = self.times.forward + self.times.problem.backward_time
        least = (self.times.forward + self.times.problem.least_time + 1) / whole
        looks = 2 * self.look / self.every
        return looks + (1 - looks) * least + 2 / ONE_Q16

    def choose(self, step: int, states: Sequence[bytes]) -> Decision:
        """What to train from a step on. states: as `importance` takes them."""
        found = importance(self.plan, states)
        return Decision(step, choose(self.times.problem, found, self.budget), found)


def look_of(every: int, accumulate: int) -> int:
    """Steps of each of the windows at the begin of a period: of whole updates."""
    return -(-every // (LOOKS * accumulate)) * accumulate


def selected_share(share_q16: int, every: int, look: int) -> int:
    """Of a step's time, in steps with a selection, so that all of a period take share_q16."""
    return max((every * share_q16 - 2 * look * ONE_Q16) // (every - 2 * look), 0)


def importance(plan: TrainingPlan, states: Sequence[bytes]) -> tuple[int, ...]:
    """Of each elastic tensor, int32, all together less than 2^31.

    states: as saved, before the first window of steps, between both, and after the
    second.
    """
    tensors = plan.training.elastic
    unpacked = [unpack_state(plan, saved[SAVED_HEADER_BYTES:]) for saved in states]
    found = [_helped(t, *(_stored(t, state) for state in unpacked)) for t in tensors]
    return scaled(found)


def scaled(values: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Numbers and their powers of two as int32 in one unit, small enough to be added up.

    If none is above 0, nothing is known of any: then all are alike.
    """
    if all(v <= 0 for v, _ in values):
        return (1,) * len(values)
    most = max(v.bit_length() + exponent for v, exponent in values if v > 0)
    bits = 31 - len(values).bit_length()
    shifts = [exponent - most + bits for _, exponent in values]
    return tuple(
        0 if v <= 0 else (v << s if s >= 0 else v >> -s)
        for (v, _), s in zip(values, shifts, strict=True)
    )


def _helped(tensor: ElasticTensor, before: Array, between: Array, after: Array) -> tuple[int, int]:
    """The importance and its power of two."""
    scales = importance_of(tensor, before.shape)
    moves = [
        np.clip(b - a, -MOST_MOVED, MOST_MOVED) for a, b in ((before, between), (between, after))
    ]
    product = moves[0] * moves[1]
    sums = product.reshape(-1, len(scales.factors), scales.inner).sum(axis=(0, 2))
    kept = [int(s) >> scales.dropped_bits for s in sums]
    return sum(map(operator.mul, kept, scales.factors)), scales.exponent


def _stored(tensor: ElasticTensor, state: dict[str, Array]) -> Array:
    """The numbers with their residual bits, int64."""
    value = state[tensor.name].astype(np.int64)
    if tensor.residual is None:
        return value
    residual = unpack_residual(state[tensor.residual], tensor.bits, value.size)
    return (value << tensor.bits) + residual.reshape(value.shape)

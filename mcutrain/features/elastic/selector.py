"""How much each trained tensor has helped lately, from the states before and after.

ElasticTrainer (see mcutrain.autodiff.elastic) measures a tensor by what the loss lost on account of
it: −Σ (∂L(w + Δw)/∂w)·Δw, after a step Δw. Updates move w by −lr·rate·∂L/∂w. So of two windows of
steps, one after the other, the second one's Δw' gives the gradient at w + Δw. The importance is Σ
Δw·Δw' / rate, up to lr, which all tensors share. It takes no gradient but those of the updates
themselves, and what is noise in one window is not in the other.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.saved import HEADER_BYTES

from mcutrain.autodiff.elastic import ElasticTensor, importance_of
from mcutrain.errors import ArgumentError, DataError
from mcutrain.features.turns import (
    LEAST_IMPORTANCE,
    Decision,
    RunPart,
    S,
    TurnedPlan,
    TurnedSimulator,
    TurnSettings,
)
from mcutrain.ops.updating import unpack_residual
from mcutrain.sparse.elastic import ONE_Q16, ElasticTimes, budget, choose

Array = npt.NDArray[Any]

MOST_MOVED = 2**15 - 1
"""Counts of a stored number, in its unit."""
MOST_EVERY = 2**24
MOVES, SQUARES = IMPORTANCES = ("moves", "squares")
"""What tensors are chosen by: Σ Δw · Δw' of two windows, or Σ Δw² of both together, / rate."""
LONE_SHARE = 0.95
"""Share of all importance that one tensor of MANY_TENSORS exceeds by chance alone."""
LOOKS = 20
"""Each of the two windows in which everything is trained takes one in so many steps of a period."""


@dataclass(frozen=True)
class Periods:
    """When a run decides anew which tensors are trained, and for which share of a step's time.

    A period of `every` steps begins with two windows in which all are. Then those are chosen that
    helped most and with which the mean step of the period takes a share of the time of a whole one.
    firmware/runtime/mct_selection.h is the same in C.

    share_q16: 65,536 is a whole step. samples_per_update: `every` is a multiple of that.

    Raises ArgumentError for periods that there cannot be.
    """

    share_q16: int
    every: int
    samples_per_update: int = 1

    def __post_init__(self) -> None:
        group = self.samples_per_update
        if self.every % group or not 2 * self.look < self.every < MOST_EVERY:
            kind = f"a multiple of the {group} samples of an update" if group > 1 else "a number"
            raise ArgumentError(
                f"tensors cannot be selected every {self.every:,} steps: give {kind}, "
                f"{3 * group} or more, below {MOST_EVERY:,}"
            )

    @property
    def look(self) -> int:
        """Steps of each window: of whole updates."""
        group = self.samples_per_update
        return -(-self.every // (LOOKS * group)) * group

    def steps_to_next(self, step: int) -> int:
        """Until there is something to look at, or to select."""
        place = step % self.every
        ends = (self.look, 2 * self.look, self.every)
        return next(end for end in ends if end > place) - place

    def budget(self, forward_time: int, backward_time: int) -> int:
        """Time for the backward pass of a step with a selection."""
        looks = 2 * self.look
        share = max((self.every * self.share_q16 - looks * ONE_Q16) // (self.every - looks), 0)
        return budget(share, forward_time, backward_time)

    def check(self, forward_time: int, backward_time: int, least_time: int) -> None:
        """Raise ArgumentError if not even the last layer can be trained in the share.

        least_time: of the backward pass for the last layer alone.
        """
        if 0 < self.share_q16 <= ONE_Q16 and self.budget(forward_time, backward_time) >= least_time:
            return
        looks = 2 * self.look / self.every
        least = (forward_time + least_time + 1) / (forward_time + backward_time)
        share = looks + (1 - looks) * least + 2 / ONE_Q16
        raise ArgumentError(
            f"a step cannot take a share of {self.share_q16 / ONE_Q16:.3g} of its time: give "
            f"{math.ceil(1000 * share) / 1000:g} to 1; forward, loss, the last layer and the "
            f"{2 * self.look:,} steps of {self.every:,} in which everything is trained take so much"
        )


def periods_of(share: float, every: int, samples_per_update: int, epoch_steps: int) -> Periods:
    """Return the periods for a share as a real number. every: 0 is an epoch, of whole updates.

    Raises ArgumentError.
    """
    if not 0 < share <= 1:
        raise ArgumentError(f"elastic = {share:g}: give a share of a step, such as 0.7")
    epoch = -(-epoch_steps // samples_per_update) * samples_per_update
    return Periods(round(share * ONE_Q16), every or epoch, samples_per_update)


@dataclass(frozen=True, kw_only=True)
class ElasticSettings(TurnSettings):
    """Fields of RunSettings.

    elastic: the share of a whole step's time that a step may take in the mean; None: all is
    trained. importance: what tensors are selected by, of IMPORTANCES.
    """

    elastic: float | None = None
    importance: str = MOVES

    def periods(self, epoch_steps: int, samples_per_update: int) -> Periods:
        """Periods of an elastic run. Raises ArgumentError."""
        assert self.elastic is not None, "the run is elastic"
        return periods_of(self.elastic, self.every, samples_per_update, epoch_steps)

    def doubt(
        self, decisions: Sequence[Decision], epoch_steps: int, samples_per_update: int
    ) -> str:
        """Return a sentence where selections were no more than chance; "" for runs without."""
        if self.elastic is None:
            return ""
        return doubt(decisions, self.periods(epoch_steps, samples_per_update).look)


def _check(settings: ElasticSettings) -> None:
    if settings.importance not in IMPORTANCES:
        raise DataError(f"importance = {settings.importance!r}: give {' or '.join(IMPORTANCES)}")
    if settings.elastic is None and settings.importance != MOVES:
        raise DataError(
            f"importance = {settings.importance!r} is what tensors of an elastic run are selected "
            "by: give the share of a step that it may take, too (elastic)"
        )


def _selector(
    plan: TurnedPlan,
    settings: ElasticSettings,
    epoch_steps: int,
    times: Callable[[], ElasticTimes],
) -> TensorSelector:
    training = plan.training
    if not training.elastic:
        raise ArgumentError(
            "this step trains all of its tensors, always: prepare one with elastic, or leave out "
            "the share of it that is to be taken"
        )
    if all(tensor.is_always_trained for tensor in training.elastic):
        raise ArgumentError(
            "the scheme trains the last layer alone, of which nothing can be left out: give one "
            "that trains more, such as last:4, or no share of a step (elastic)"
        )
    periods = settings.periods(epoch_steps, training.accumulate)
    return TensorSelector(plan, times(), periods, settings.importance)


RUN = RunPart(
    setting="elastic",
    check=_check,
    options=lambda settings: {"elastic": settings.elastic is not None},
    turn=_selector,
    anew="an elastic run begins anew: leave out --elastic, or --after",
)


def doubt(decisions: Sequence[Decision], look: int) -> str:
    """A sentence where windows of `look` steps showed no more than noise; empty where they did.

    Of moves that are noise half of the tensors seem to have helped. So it is a sign test over all
    tensors of all decisions: half of them and two standard deviations of a fair coin's.
    """
    found = [value for decision in decisions for value in decision.importance]
    helped = sum(value > LEAST_IMPORTANCE for value in found)
    if helped >= len(found) / 2 + math.sqrt(len(found)):
        return _lone_doubt(decisions, look)
    return (
        f"of what was chosen in windows of {look:,} {'step' if look == 1 else 'steps'} each, "
        f"{helped:,} of {len(found):,} tensors seem to have helped, which chance may do as well: "
        "take longer periods (--every; a window is a twentieth of one), or, where the network "
        "learns little any more, a smaller scheme"
    )


def _lone_doubt(decisions: Sequence[Decision], look: int) -> str:
    """A sentence where one tensor of many has nearly all importance; empty where none has.

    Layers learn together: a single one that stands out by so much is an outlier of its window.
    """
    shares = {d.step: max(d.importance) / sum(d.importance) for d in decisions if d.is_of_many}
    lone = [(step, share) for step, share in shares.items() if share > LONE_SHARE]
    if not lone:
        return ""
    step, share = lone[0]
    return (
        f"in {len(lone):,} of {len(decisions):,} selections one tensor alone seems to have helped, "
        f"first from step {step + 1:,} on, with {share:.0%} of what helped: in windows of "
        f"{look:,} {'step' if look == 1 else 'steps'} that is mostly chance; take longer periods "
        "(--every; a window is a twentieth of one)"
    )


@dataclass(frozen=True)
class TensorSelector:
    """Decides which tensors of a plan are trained. times: what they and the rest of a step take.

    measure: of IMPORTANCES.

    Raises ArgumentError for a share in which not even the last layer can be trained.
    """

    plan: TurnedPlan
    times: ElasticTimes
    periods: Periods
    measure: str = MOVES

    def __post_init__(self) -> None:
        problem = self.times.problem
        self.periods.check(self.times.forward, problem.backward_time, problem.least_time)

    @property
    def all(self) -> range:
        """Every tensor."""
        return range(len(self.plan.training.elastic))

    @property
    def looks(self) -> tuple[int, ...]:
        """Steps of a period before which the state is looked at."""
        return (0,) if self.measure == SQUARES else (0, self.periods.look)

    @property
    def identity(self) -> str:
        """What tensors take, and when they are chosen."""
        return repr((self.times, self.periods))

    def steps_to_next(self, step: int) -> int:
        """Return the steps until there is something to look at, or to select."""
        return self.periods.steps_to_next(step)

    def take(self, simulator: TurnedSimulator, state: S) -> S:
        """Look at the state, or select what is trained from here on, if it is time to."""
        looks, decisions = state.looks, state.decisions
        place, wanted = state.trained % self.periods.every, len(self.looks)
        if place == 0:
            simulator.select(self.all)
            looks = (simulator.save(),)
        elif place == self.periods.look and len(looks) == 1 < wanted:
            looks = (*looks, simulator.save())
        elif place == 2 * self.periods.look and len(looks) == wanted:
            found = self.choose(state.trained, (*looks, simulator.save()))
            simulator.select(found.tensors)
            looks, decisions = (), (*decisions, found)
        return replace(state, saved=simulator.save(), looks=looks, decisions=decisions)

    def choose(self, step: int, states: Sequence[bytes]) -> Decision:
        """Return what to train from a step on. states: as `importance` takes them."""
        found = importance(self.plan, states)
        time = self.periods.budget(self.times.forward, self.times.problem.backward_time)
        return Decision(step, choose(self.times.problem, found, time), found)


def importance(plan: TurnedPlan, states: Sequence[bytes]) -> tuple[int, ...]:
    """Return the importance of each elastic tensor, int32, all together less than 2^31.

    states: as saved, before the first window of steps, between both, and after the second; without
    the one between the sums of squares.
    """
    tensors = plan.training.elastic
    unpacked = [plan.state.unpack(saved[HEADER_BYTES:]) for saved in states]
    found = [_helped(t, *(stored(t, state) for state in unpacked)) for t in tensors]
    return scaled(found)


def scaled(values: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Numbers and their powers of two as int32 in one unit, small enough to be added up.

    Each is 1 at least, so that time which is left trains as much as fits.
    """
    most = max((v.bit_length() + exponent for v, exponent in values if v > 0), default=0)
    bits = 31 - len(values).bit_length()
    shifts = [exponent - most + bits for _, exponent in values]
    return tuple(
        LEAST_IMPORTANCE if v <= 0 else max(v << s if s >= 0 else v >> -s, LEAST_IMPORTANCE)
        for (v, _), s in zip(values, shifts, strict=True)
    )


def _helped(tensor: ElasticTensor, *states: Array) -> tuple[int, int]:
    """The importance and its power of two."""
    scales = importance_of(tensor, states[0].shape)
    moves = [np.clip(b - a, -MOST_MOVED, MOST_MOVED) for a, b in pairwise(states)]
    product = moves[0] * moves[-1]
    sums = product.reshape(-1, len(scales.factors), scales.inner).sum(axis=(0, 2))
    kept = [int(s) >> scales.dropped_bits for s in sums]
    return sum(map(operator.mul, kept, scales.factors)), scales.exponent


def stored(tensor: ElasticTensor, state: dict[str, Array]) -> Array:
    """The numbers with their residual bits, int64."""
    value = state[tensor.name].astype(np.int64)
    if tensor.residual is None:
        return value
    residual = unpack_residual(state[tensor.residual], tensor.bits, value.size)
    return (value << tensor.bits) + residual.reshape(value.shape)

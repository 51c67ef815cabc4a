"""Which of several schemes ends short runs with the least loss of samples that they did not learn.

Where everything fits, training all of it is often not best: a few layers learn faster from little
data, and forget less. Gradients do not say so, since they are taken where training begins. So each
scheme makes the trials that find a learning rate (mcutrain.simulation.range_test), at rates of its
own. The better half goes on, four times as long, up to a usual run's length (successive halving: K.
Jamieson and A. Talwalkar, AISTATS 2016, section 3). Test samples are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain import data
from mcutrain.arguments import EPOCHS
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.sample_reading import samples_of
from mcutrain.runs.training import fastest_simulator, search_of
from mcutrain.simulation import LatentSamples, LatentSimulator, RunSettings, Samples, Search
from mcutrain.simulation.range_test import LONGER, OutOfTime, Trials, first_rate, later_rate

AFFORDABLE_MACS = 200_000_000_000
"""Products of all steps' inferences that are affordable: about half a minute of one core."""
USUAL_TRIALS = 6
"""Trials of a scheme in the first round."""
ROUNDS = 3
LOWER = (0, -1, -2)
"""What later rounds try, in steps of RATES: a longer run mostly wants no larger rate. Where the
first or the last of them ends best, those beyond it follow."""
Report = Callable[[int, int], None]
"""Called after each compilation and each trial with the schemes whose trials are done, and how many
there may be. May raise OutOfTime."""


@dataclass(frozen=True)
class Contest:
    """How it ended. best: a scheme. steps: of the last trials that all made who were left.

    is_cut: whether time ended it. If not all had made their first trials by then, steps is 0, and
    the best is of those that had, or the first one.
    """

    best: str
    steps: int
    is_cut: bool = False


@dataclass
class _Entrant:
    """A scheme and its trials. best: index of a rate in RATES; loss: that it ended with."""

    name: str
    trials: Trials
    macs: int
    best: int = 0
    loss: float = math.inf

    def cost(self, steps: int, trials: int) -> int:
        """Multiply-accumulates of so many trials."""
        return self.macs * self.trials.round_steps(steps, trials)

    def first(self, steps: int, told: Callable[[], None]) -> None:
        """Find a rate among all."""
        self.best, self.loss = first_rate(self.trials, steps, told)

    def later(self, steps: int, affords: Callable[[], bool], told: Callable[[], None]) -> None:
        """Try that rate and lower ones for longer, and those beyond while these end best."""
        tried = [max(self.best + lower, 0) for lower in LOWER]
        self.best, self.loss = later_rate(self.trials, steps, tried, affords, told)


def contest(
    steps: Mapping[str, TrainingStep],
    split: data.Split,
    normalization: Any = None,
    seed: int = 0,
    report: Report = lambda done, of: None,
    epochs: int = EPOCHS,
) -> Contest | None:
    """The scheme that ends best, of a name for each step; of equal ones the last.

    epochs: of the run that it is for: the longer that is, the more layers pay.
    None where trials say nothing, since all samples are of one class, or where the first two rounds
    take too long. Raises DataError, BuildError.
    """
    settings = RunSettings(epochs=epochs, seed=seed)
    samples = samples_of(next(iter(steps.values())), split, settings, normalization)
    done, most = 0, len(steps) + 2 * _half(len(steps))

    def told() -> None:
        report(min(done, most), most)

    best, ended = next(iter(steps)), 0
    try:
        left = _entrants(steps, split, samples, settings, told)
    except OutOfTime:
        return Contest(best, ended, is_cut=True)
    entrants = tuple(left)

    def affords(macs: int) -> bool:
        return sum(e.macs * e.trials.spent for e in entrants) + macs <= AFFORDABLE_MACS

    if not left or not affords(_two_rounds(left)):
        return None
    length = left[0].trials.first_steps
    try:
        for entrant in left:
            entrant.first(length, told)
            best = _better(left, 1)[0].name
            done += 1
        ended = length
        for _ in range(1, ROUNDS):
            longer = min(LONGER * length, left[0].trials.whole_steps)
            left = _better(left, _half(len(left)))
            costs = [e.cost(longer, len(LOWER)) for e in left]
            if longer == length or not affords(sum(costs)):
                break
            length = longer
            for i, entrant in enumerate(left):
                rest = sum(costs[i + 1 :]) + entrant.cost(length, 1)
                entrant.later(length, partial(affords, rest), told)
                done += 1
            best, ended = _better(left, 1)[0].name, length
    except OutOfTime:
        return Contest(best, ended, is_cut=True)
    return Contest(best, ended)


def _entrants(
    steps: Mapping[str, TrainingStep],
    split: data.Split,
    samples: Samples,
    settings: RunSettings,
    told: Callable[[], None],
) -> list[_Entrant]:
    """Compile a step for each scheme; none where trials say nothing. told: is called after each."""
    found = []
    for name, step in steps.items():
        search = _search(step, split, samples, settings)
        if search.is_blind:
            return []
        found.append(_Entrant(name, Trials(search), search.macs))
        told()
    return found


def _two_rounds(left: list[_Entrant]) -> int:
    """Return the multiply-accumulates of the first two rounds, if the dearest go on."""
    length = left[0].trials.first_steps
    second = min(LONGER * length, left[0].trials.whole_steps)
    dearest = sorted(left, key=lambda e: e.macs)[-_half(len(left)) :]
    first = sum(e.cost(length, USUAL_TRIALS) for e in left)
    return first + sum(e.cost(second, len(LOWER)) for e in dearest)


def _half(count: int) -> int:
    """Return how many go on; two as long as there are."""
    return max(math.ceil(count / 2), min(count, 2))


def _better(entrants: list[_Entrant], count: int) -> list[_Entrant]:
    """Return so many entrants with the least losses, in their order; of equal ones the last."""
    order = sorted(range(len(entrants)), key=lambda i: (entrants[i].loss, -i))
    return [entrants[i] for i in sorted(order[:count])]


def _search(
    step: TrainingStep, split: data.Split, samples: Samples, settings: RunSettings
) -> Search:
    """Prepare the search for a scheme's rate. samples: as the whole step takes them."""
    simulator = fastest_simulator(step, split, settings)
    if isinstance(simulator, LatentSimulator):
        samples = LatentSamples.of(samples, simulator)
    return search_of(step, samples, settings, simulator)

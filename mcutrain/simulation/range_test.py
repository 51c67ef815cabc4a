"""The learning rate of a run, found by short trial runs on some of its training samples.

A trial is the run itself in small: the same step in the device's integers, the same schedule, order
and augmentation, on samples drawn per class. Samples of the data's validation part tell the loss
that it ends with; without such a part, training samples that are held out. Test samples are not
looked at. L. Smith, "Cyclical Learning Rates for Training Neural Networks", WACV 2017, section 3.3,
lets the rate grow within one run; whole runs compare better, because a rate that is too large shows
late.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host import cache
from mcutrain_host.errors import CacheError

from mcutrain import data
from mcutrain.errors import BuildError, DataError
from mcutrain.simulation.rates import LearningRate
from mcutrain.simulation.run import Course, RunSettings, Samples, Simulator, content_of

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]
"""Called with the trials that are done, and how many there may be."""

RATES = tuple(float(f"{digit}e{power}") for power in range(-7, 3) for digit in (1, 2, 5))
"""What can be found: 1e-07, 2e-07, 5e-07 … 500; short to write after --lr."""
FIRST = RATES.index(0.01)
COARSE = 2
"""Steps in RATES between the first trials; later ones go to the neighbours."""
SAMPLES = 400
"""That are looked at, at most."""
HELD_OUT = 0.4
"""Share of them that tells the loss."""
USUAL_TRIALS = 6
TRIAL_STEPS = 500
"""Of a trial, at most; enough for 16 updates all the same."""
FEWEST_UPDATES = 16
FEW_SAMPLES = 200
"""With fewer the trials are repeated with others held out, until they make so many."""
MOST_REPEATS = 4
NEARLY = 1.02
"""Times the least loss is as good."""
TOO_LARGE = 4
"""A rate so many times the one that trials find is why a run ended badly."""
FEWEST_STEPS = 200
"""A shorter run may well end with a large loss."""
FORMAT = 1
"""Raised when the same run would find another rate."""
_STILL = LearningRate(0, 0)


@dataclass(frozen=True)
class FoundRate:
    """What trials ended best with. lowers_loss: whether they ended clearly better than they began.

    Where they did not, the smallest rates are as good as others, and what is found means nothing.
    is_blind: no trial was made, since none would see what is forgotten.
    """

    rate: float
    lowers_loss: bool
    is_blind: bool = False

    @property
    def doubt(self) -> str:
        """A sentence if trials changed next to nothing, or were not made, else ""."""
        if self.is_blind:
            return (
                "it is only a usual one: trials on samples of one class, or of added classes "
                "alone, do not show what is forgotten, and would end with the largest rate"
            )
        if self.lowers_loss:
            return ""
        return (
            "trials with this learning rate hardly lowered the loss of samples that they had not "
            "seen: the model may know such samples already, or there are too few to learn from"
        )


@dataclass(frozen=True)
class Search:
    """A run whose rate is to be found.

    samples: of the run; their test part is not used. settings: its learning_rate does not
    matter. model_hash: of model, scheme and layout, as a saved state names it. accumulate: samples
    per update. simulator: makes one that has not learnt; it is not made if the rate is known.
    added: how many classes, the last ones, a classifier learns besides those that it knows.
    """

    samples: Samples
    settings: RunSettings
    model_hash: str
    accumulate: int
    simulator: Callable[[], Simulator]
    added: int = 0

    @property
    def is_blind(self) -> bool:
        """Whether no training sample is of a class that could be forgotten, or all are of one."""
        train = self.samples.split.train
        if not train.is_labelled or train.positions:
            return False
        trained = np.unique(train.y)
        first_added = train.classes - self.added
        return len(trained) == 1 or (self.added > 0 and int(trained[0]) >= first_added)

    def found(self, report: Report = lambda done, of: None) -> FoundRate:
        """The rate of RATES, from the cache or found now. Raises DataError, BuildError."""
        if self.is_blind:
            return FoundRate(RATES[FIRST], lowers_loss=True, is_blind=True)
        path = cache.cache_folder() / "rates" / f"{self.key}.json"
        known = _read(path)
        if known is None:
            known = find_rate(self, report)
            kept = {"learning_rate": known.rate, "lowers_loss": known.lowers_loss}
            cache.write(path, json.dumps(kept).encode())
        return known

    @property
    def key(self) -> str:
        """32 hexadecimal digits of all that the rate depends on."""
        settings = replace(self.settings, learning_rate=None)
        course = Course(self.samples, settings).digest
        facts = (FORMAT, version("mcutrain"), self.model_hash, self.accumulate, course)
        found = hashlib.sha256(repr(facts).encode())
        if self.samples.split.validation is not None:
            found.update(content_of(self.samples.split.validation))
        return found.hexdigest()[:32]


def _read(path: Path) -> FoundRate | None:
    """What was found before; anything else than one of RATES counts as absent."""
    try:
        known = json.loads(cache.read(path) or b"")
        rate, lowers_loss = known["learning_rate"], known["lowers_loss"]
    except (ValueError, KeyError, TypeError):
        return None
    if rate not in RATES or not isinstance(lowers_loss, bool):
        return None
    return FoundRate(rate, lowers_loss)


def warning(search: Search, sign: str, report: Report = lambda done, of: None) -> str:
    """A sentence if a run's rate is why it ended badly, else "".

    search: its settings have the rate. sign: what is bad, in words; if nothing is, no trials are
    made to compare the rate with. Where they cannot be made, the reason stays open: the run is
    over, and what it did is worth more than this sentence.
    """
    rate = search.settings.learning_rate
    if rate is None or not sign:
        return ""
    try:
        found = search.found(report).rate
    except (BuildError, CacheError, DataError):
        return f"the learning rate {rate:g} may be too large: {sign}"
    if rate < TOO_LARGE * found:
        return ""
    return f"the learning rate {rate:g} is too large: {sign}; short trials find --lr {found:g}"


def bad_sign(loss: float, classes: int, before: float | None, after: float | None) -> str:
    """That a classifier forgot, or learnt nothing; else "".

    loss: that training ended with. before, after: shares of the test samples, where they are known.
    """
    if before is not None and after is not None and after < before:
        return f"the test accuracy fell from {100 * before:.1f} to {100 * after:.1f} %"
    return loss_sign(loss, math.log(classes), "guessing")


def loss_sign(loss: float, usual: float, of: str) -> str:
    """What is bad about a loss. of: what has the usual one."""
    if loss <= usual:
        return ""
    return f"the loss ended at {loss:.3g}, above the {usual:.3g} of {of}"


def find_rate(search: Search, report: Report = lambda done, of: None) -> FoundRate:
    """The rate that trials end best with, or a little less. Raises DataError."""
    trials = Trials(search)
    losses: dict[int, float] = {}

    def loss(i: int) -> float:
        if i not in losses:
            losses[i] = trials.loss(RATES[i])
            report(len(losses), max(USUAL_TRIALS, len(losses) + 1))
        return losses[i]

    before = trials.loss(None)
    best = _least(loss, FIRST, COARSE)
    for i in range(best, -1, -COARSE):  # where all is too large, larger need not be worse
        if loss(best) < before:
            break
        best = _least(loss, i, COARSE)
    found = cautious(losses, _least(loss, best, 1))
    return FoundRate(RATES[found], losses[found] * NEARLY < before)


def _least(loss: Callable[[int], float], start: int, stride: int) -> int:
    """Downhill from `start`: the index whose loss is less than its neighbours' `stride` away."""
    best = start
    while True:
        around = [i for i in (best - stride, best, best + stride) if 0 <= i < len(RATES)]
        found = min(around, key=lambda i: (loss(i), i))
        if found == best:
            return best
        best = found


def cautious(losses: Mapping[int, float], best: int) -> int:
    """The smallest index tried, from `best` downwards, whose loss is nearly the best one's.

    A run is mostly longer than its trials, and then wants a smaller rate rather than a larger one.
    """
    enough = losses[best] * NEARLY
    below = sorted((i for i in losses if i <= best), reverse=True)
    near = itertools.takewhile(lambda i: losses[i] <= enough, below)
    return min(near, default=best)


class Trials:
    """Short runs, each from the same start. loss: what is left of it after a run with a rate."""

    def __init__(self, search: Search) -> None:
        self._simulator = search.simulator()
        self._begin = self._simulator.save()
        parts = _parts(search.samples.split, search.settings.seed)
        self._parts = [replace(search.samples, split=part) for part in parts]
        self._settings = replace(search.settings, epochs=self._epochs(search))

    def _epochs(self, search: Search) -> int:
        """As many as the run has, but of no more than TRIAL_STEPS."""
        samples = len(self._parts[0].split.train) * (1 + search.settings.replay)
        steps = max(TRIAL_STEPS, FEWEST_UPDATES * search.accumulate)
        return max(min(search.settings.epochs, math.ceil(steps / samples)), 1)

    def loss(self, rate: float | None) -> float:
        """Mean loss of held-out samples after a run, over all repeats; None: before any."""
        try:
            return float(np.mean([self._loss(part, rate) for part in self._parts]))
        finally:
            self._simulator.load(self._begin)

    def _loss(self, part: Samples, rate: float | None) -> float:
        self._simulator.load(self._begin)
        if rate is not None:
            self._run(Course(part, replace(self._settings, learning_rate=rate)))
        held = part.split.test
        still = [_STILL] * len(held)  # steps that change no weight tell the loss of the sums
        losses, _ = self._simulator.train(part.test(0, len(held)), held.y, still)
        return float(losses.astype(np.float64).mean())

    def _run(self, course: Course) -> None:
        done = 0
        while done < course.total:
            index, epoch = course.indices(done, course.total)
            rates = [course.rates.at(done + i) for i in range(len(index))]
            x = course.samples.train(index, epoch, course.settings.seed)
            self._simulator.train(x, course.samples.split.train.y[index], rates)
            done += len(index)


def _parts(split: data.Split, seed: int) -> list[data.Split]:
    """What trials train on, and what tells the loss that they end with."""
    if split.validation is None:
        return _parted(_drawn(split.train, seed), seed)
    held_out = round(SAMPLES * HELD_OUT)
    trained = min(SAMPLES - held_out, len(split.train))
    tested = min(held_out, len(split.validation))
    return [data.Split(split.train.drawn(trained, seed), split.validation.drawn(tested, seed))]


def _drawn(train: data.Dataset, seed: int) -> data.Dataset:
    """SAMPLES of them, per class where classes have two samples or more."""
    if len(train) <= SAMPLES:
        return train
    return _shared_out(train, SAMPLES / len(train), seed).test


def _parted(drawn: data.Dataset, seed: int) -> list[data.Split]:
    """Some to train on, and others held out; several times where there is little."""
    if len(drawn) == 1:
        return [data.Split(drawn, drawn)]
    repeats = min(math.ceil(FEW_SAMPLES / len(drawn)), MOST_REPEATS)
    return [_shared_out(drawn, HELD_OUT, seed + i) for i in range(repeats)]


def _shared_out(samples: data.Dataset, share: float, seed: int) -> data.Split:
    """A share of every class as the test part; of all samples where no class has two."""
    try:
        train, test = data.stratified(samples.y, share, seed)
    except DataError:
        order = data.order(len(samples), 0, seed)
        count = min(max(round(len(samples) * share), 1), len(samples) - 1)
        test, train = np.sort(order[:count]), np.sort(order[count:])
    return data.Split(samples.take(train), samples.take(test))

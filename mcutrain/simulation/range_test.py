"""The learning rate of a run, found by short trial runs on some of its training samples.

A trial is the run itself in small: the same step in the device's integers, the same schedule, order
and augmentation. Samples of the data's validation part tell the loss that it ends with; without
such a part, training samples that are held out. Test samples are not looked at.

A long run wants a smaller rate than a short one. So trials get longer in rounds, up to the run's
own length where that is affordable. The first round finds a rate among all, the second tries those
around it, each later one the better half of these (successive halving: K. Jamieson and A.
Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization", AISTATS 2016,
section 3). Where the smallest or the largest that is left ends best, those beyond it are tried at
the same length: the shorter trials gave them up too early. Where a run is n times as long as the
last trials, the rate is divided by the square root of n. What is affordable is counted in steps and
multiply-accumulates, not in seconds, so that every machine finds the same rate.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field, fields, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host import cache
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import CacheError

from mcutrain import data
from mcutrain.errors import BuildError, DataError
from mcutrain.simulation.course import Course
from mcutrain.simulation.rates import LearningRate
from mcutrain.simulation.run import Simulator
from mcutrain.simulation.samples import Samples, content_of
from mcutrain.simulation.settings import RunSettings

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]
"""Called with the trials that are done, and how many there may be. May raise OutOfTime."""

RATES = tuple(float(f"{digit}e{power}") for power in range(-7, 3) for digit in (1, 2, 5))
"""What can be found: 1e-07, 2e-07, 5e-07 … 500; short to write after --lr."""
RATES_A_DECADE = 3
FIRST = RATES.index(0.01)
CHUNK = 64
"""Samples per call of the simulator."""
COARSE = 2
"""Steps in RATES between the first trials; later ones go to the neighbours."""
HELD_OUT = 0.4
"""Share of the samples that tells the loss, unless that are more than MOST_HELD_OUT."""
MOST_HELD_OUT = 400
USUAL_TRIALS = 6
"""Trials of the first round."""
AROUND = (1, 0, -1, -2, -3)
"""What the second round tries beside the rate that the first one found, in steps of RATES."""
FEWEST_TRIALS = 2
"""Fewest trials of a later round, which tries the better half of the one before."""
TRIAL_STEPS = 500
"""Steps of a trial of the first round; enough for 16 updates all the same."""
FEWEST_UPDATES = 16
LONGER = 4
"""How many times as long the trials of the next round are."""
AFFORDABLE_SHARE = 0.2
"""Share of the run's steps that all trials together may take, or as many as AFFORDABLE_MACS."""
AFFORDABLE_MACS = 600_000_000_000
"""Products of all trials' inferences that are affordable: about a minute of one core."""
MOST_STEPS = 200_000
"""Most steps of all trials together, for networks so small that other work takes longer."""
FEW_SAMPLES = 200
"""With fewer samples trials are repeated with others held out, until they make so many."""
MOST_REPEATS = 4
NEARLY = 1.02
"""Times the least loss is as good."""
TOO_LARGE = 4
"""A rate so many times the one that trials find is why a run ended badly."""
FEWEST_STEPS = 200
"""A shorter run may well end with a large loss."""
FORMAT = 5
"""Raised when the same run would find another rate, or more is kept of it."""
_STILL = LearningRate(0, 0)


class OutOfTime(Exception):  # noqa: N818  # nothing is wrong
    """Raised by a report: what has been found so far has to do."""


@dataclass(frozen=True)
class TrialOutcome:
    """What a trial ended with, on samples that it did not learn.

    loss: the mean. accuracy: the share of right ones; 0 without labels.
    """

    loss: float
    accuracy: float


@dataclass(frozen=True)
class FoundRate:
    """What trials ended best with. lowers_loss: whether they ended clearly better than they began.

    Where they did not, the smallest rates are as good as others, and what is found means nothing.
    is_blind: no trial was made, since none would see what is forgotten. steps: of the longest
    trials. accuracy, loss: of the best of these, on judged samples that it did not learn. is_cut:
    whether time ended the trials.
    """

    rate: float
    lowers_loss: bool
    is_blind: bool = False
    steps: int = 0
    accuracy: float = 0.0
    loss: float = 0.0
    judged: int = 0
    is_cut: bool = False

    @property
    def doubt(self) -> str:
        """A sentence if trials changed next to nothing, or were not made, else ""."""
        if self.is_blind:
            return (
                "it is only a usual one: trials on samples of one class, or of added classes "
                "alone, do not show what is forgotten, and would end with the largest rate"
            )
        is_least = self.rate == RATES[0]
        if self.lowers_loss:
            return "it is the smallest that is tried: a smaller one may do better" * is_least
        reasons = "the model may know such samples already, or there are too few to learn from"
        if is_least:
            reasons += ", or what they are computed from does not tell their labels, as of layers "
            reasons += "before the trained ones that never learnt"
        return (
            f"trials with this learning rate{', the smallest of all,' * is_least} hardly lowered "
            f"the loss of samples that they had not seen: {reasons}"
        )


@dataclass(frozen=True)
class Search:
    """A run whose rate is to be found.

    samples: of the run; their test part is not used. settings: its learning_rate does not
    matter. model_hash: of model, scheme and layout, as a saved state names it. start: of what the
    state begins with. accumulate: samples per update. simulator: makes one that has not learnt; it
    is not made if the rate is known. added: how many classes, the last ones, a classifier learns
    besides those that it knows. macs: multiply-accumulates of an inference; 0 if nobody said.
    """

    samples: Samples
    settings: RunSettings
    model_hash: str
    start: str
    accumulate: int
    simulator: Callable[[], Simulator]
    added: int = 0
    macs: int = 0

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return Course(self.samples, replace(self.settings, learning_rate=None)).total

    @property
    def affordable_steps(self) -> int:
        """Steps that all trials together may take."""
        by_macs = min(AFFORDABLE_MACS // self.macs, MOST_STEPS) if self.macs else 0
        return max(round(AFFORDABLE_SHARE * self.steps), by_macs)

    @property
    def is_blind(self) -> bool:
        """Whether no training sample is of a class that could be forgotten, or all are of one."""
        train = self.samples.split.train
        if not train.is_labelled or train.positions or train.has_targets:
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
            if not known.is_cut:
                cache.write(path, json.dumps(asdict(known)).encode())
        return known

    @property
    def key(self) -> str:
        """32 hexadecimal digits of all that the rate depends on."""
        settings = replace(self.settings, learning_rate=None)
        course = Course(self.samples, settings).digest
        facts = (
            FORMAT,
            version("mcutrain"),
            self.model_hash,
            self.start,
            self.accumulate,
            course,
        )
        found = hashlib.sha256(repr(facts).encode())
        if self.samples.split.validation is not None:
            found.update(content_of(self.samples.split.validation))
        return found.hexdigest()[:32]


def step_macs(macs: int, front_macs: int, settings: RunSettings) -> int:
    """Multiply-accumulates of an inference in a simulated step.

    macs: of the whole network. front_macs: of its frozen front, which is computed once a sample
    where no epoch varies the samples.
    """
    return macs - front_macs if settings.kept_versions else macs


def _read(path: Path) -> FoundRate | None:
    """Return what was found before; anything else than one of RATES counts as absent."""
    try:
        known = FoundRate(**json.loads(cache.read(path) or b""))
    except (ValueError, TypeError):
        return None
    types = {f.name: type(getattr(known, f.name)) for f in fields(FoundRate)}
    usual = {f.name: type(getattr(FoundRate(0.1, True), f.name)) for f in fields(FoundRate)}
    return known if types == usual and known.rate in RATES else None


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
        found = search.found(report)
    except (BuildError, CacheError, DataError):
        found = None
    if found is None or found.is_cut:
        return f"the learning rate {rate:g} may be too large: {sign}"
    if rate < TOO_LARGE * found.rate:
        return ""
    return f"the learning rate {rate:g} is too large: {sign}; short trials find --lr {found.rate:g}"


def bad_sign(loss: float, guessing: float, before: float | None, after: float | None) -> str:
    """Say that a classifier forgot, or learnt nothing; else "".

    loss: that training ended with. guessing: of a network that knows nothing. before,
    after: shares of the test samples, where they are known.
    """
    if before is not None and after is not None and after < before:
        return f"the test accuracy fell from {100 * before:.1f} to {100 * after:.1f} %"
    return loss_sign(loss, guessing, "guessing")


def loss_sign(loss: float, usual: float, of: str) -> str:
    """Return what is bad about a loss. of: what has the usual one."""
    if loss <= usual:
        return ""
    return f"the loss ended at {loss:.3g}, above the {usual:.3g} of {of}"


def find_rate(search: Search, report: Report = lambda done, of: None) -> FoundRate:
    """The rate that the longest trials end best with, or a little less. Raises DataError.

    Where time ends them, the longest that are done at all rates say it; or the first ones, as far
    as they went.
    """
    trials = Trials(search)
    done = 0

    def told() -> None:
        nonlocal done
        done += 1
        report(done, max(USUAL_TRIALS, done + 1))

    def losses_after(steps: int) -> _TrialOutcomes:
        return _TrialOutcomes(lambda i: trials.outcome(RATES[i], steps), told)

    steps = trials.first_steps
    losses = losses_after(steps)
    before = trials.outcome(None, steps).loss
    is_cut = False
    try:
        best = _first_best(losses, before)
        tried = [best + n for n in AROUND if 0 <= best + n < len(RATES)]
        while more := trials.longer_steps(steps, len(tried)):
            longer = losses_after(more)
            ranked = sorted(tried, key=lambda i: (longer(i), i))
            best, tried = ranked[0], ranked[: max(FEWEST_TRIALS, math.ceil(len(tried) / 2))]
            steps, losses = more, longer
        best = _beyond(losses, best, lambda: trials.affords(steps, 1))
    except OutOfTime:
        best, is_cut = min(losses.by_index, key=lambda i: (losses(i), i)), True
    lower = best - fewer_steps(steps, trials.whole_steps)
    found = min(cautious(losses.by_index, best), lower)  # two reasons for one caution
    outcome = losses.known[best]
    return FoundRate(
        RATES[max(found, 0)],
        outcome.loss * NEARLY < before,
        steps=steps,
        accuracy=outcome.accuracy,
        loss=outcome.loss,
        judged=trials.judged,
        is_cut=is_cut,
    )


def _first_best(losses: _TrialOutcomes, before: float) -> int:
    """Return the best index of the first trials. before: the loss without any step."""
    best = _least(losses, FIRST, COARSE)
    for i in range(best, -1, -COARSE):  # where all is too large, larger need not be worse
        if losses(best) < before:
            break
        best = _least(losses, i, COARSE)
    return _least(losses, best, 1)


def _beyond(losses: _TrialOutcomes, best: int, affords: Callable[[], bool]) -> int:
    """Return the best index, or one beyond all that were tried, downwards or upwards, that ends
    better.
    """
    least, most = min(losses.known), max(losses.known)
    for end, further, limit in ((least, -1, 0), (most, 1, len(RATES) - 1)):
        while best == end != limit and affords():
            end += further
            best = min(best, end, key=losses)
    return best


def first_rate(trials: Trials, steps: int, told: Callable[[], None]) -> tuple[int, float]:
    """Return the one of RATES whose trials of so many steps end best, and their loss.

    told: is called after each.
    """
    losses = _TrialOutcomes(lambda i: trials.outcome(RATES[i], steps), told)
    best = _least(losses, FIRST, COARSE)
    return best, losses(best)


def later_rate(
    trials: Trials,
    steps: int,
    tried: Iterable[int],
    affords: Callable[[], bool],
    told: Callable[[], None],
) -> tuple[int, float]:
    """Return the one of RATES tried, or beyond them, whose trials end best, and their loss.

    affords: whether one trial more beyond those tried is affordable. told: is called after each.
    """
    losses = _TrialOutcomes(lambda i: trials.outcome(RATES[i], steps), told)
    best = _beyond(losses, min(tried, key=lambda i: (losses(i), i)), affords)
    return best, losses(best)


def fewer_steps(steps: int, of: int) -> int:
    """Return by how many of RATES a run of `of` steps begins below the best of `steps`.

    The best rate of a run falls with the square root of its length (S. Shalev-Shwartz and S.
    Ben-David, "Understanding Machine Learning", 2014, theorem 14.8).
    """
    return round(RATES_A_DECADE * math.log10(math.sqrt(of / steps)))


class _TrialOutcomes:
    """Outcomes of trials of one length, by index into RATES; each is made once."""

    def __init__(self, outcome: Callable[[int], TrialOutcome], made: Callable[[], None]) -> None:
        self.known: dict[int, TrialOutcome] = {}
        self._outcome, self._made = outcome, made

    def __call__(self, i: int) -> float:
        """The loss."""
        if i not in self.known:
            self.known[i] = self._outcome(i)
            self._made()
        return self.known[i].loss

    @property
    def by_index(self) -> dict[int, float]:
        """All losses that are known."""
        return {i: outcome.loss for i, outcome in self.known.items()}


def _least(loss: Callable[[int], float], start: int, stride: int) -> int:
    """Downhill from `start`: the index whose loss is less than its neighbours' `stride` away.

    The start comes first: it has to do where there is time for one.
    """
    best = start
    while True:
        around = [i for i in (best, best + stride, best - stride) if 0 <= i < len(RATES)]
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
    """Short runs, each from the same start. spent: steps of all of them."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._simulator = search.simulator()
        self._begin = self._simulator.save()
        self._parts = _parts(search.samples, search.settings.seed)
        self.spent = 0

    @property
    def judged(self) -> int:
        """Samples that judge."""
        return sum(len(part.held_out) for part in self._parts)

    @property
    def whole_steps(self) -> int:
        """Steps of a trial as long as the run, without the samples that judge."""
        settings = self._search.settings
        return settings.epochs * len(self._parts[0].trained) * (1 + settings.replay)

    @property
    def first_steps(self) -> int:
        """Steps of a trial of the first round."""
        return min(max(TRIAL_STEPS, FEWEST_UPDATES * self._search.accumulate), self.whole_steps)

    def longer_steps(self, steps: int, trials: int) -> int:
        """Steps of each trial of the next round; 0 if there is none, or it would take too many."""
        longer = min(LONGER * steps, self.whole_steps)
        return longer if longer > steps and self.affords(longer, trials) else 0

    def affords(self, steps: int, trials: int) -> bool:
        """Return whether so many trials more, each of so many steps, are affordable."""
        return self.spent + self.round_steps(steps, trials) <= self._search.affordable_steps

    def round_steps(self, steps: int, trials: int) -> int:
        """Steps of so many trials, and of telling what they end with."""
        return trials * sum(steps + len(part.held_out) for part in self._parts)

    def outcome(self, rate: float | None, steps: int) -> TrialOutcome:
        """After so many steps with a rate, the mean over all parts; None: before any step."""
        try:
            found = [self._outcome(part, rate, steps) for part in self._parts]
        finally:
            self._simulator.load(self._begin)
        losses, accuracies = zip(*((one.loss, one.accuracy) for one in found), strict=True)
        return TrialOutcome(float(np.mean(losses)), float(np.mean(accuracies)))

    def _outcome(self, part: _TrialPart, rate: float | None, steps: int) -> TrialOutcome:
        self._simulator.load(self._begin)
        if rate is not None:
            self._run(self._course(part, rate, steps))
        x, y = part.test
        self.spent += len(y)
        still = [_STILL] * len(y)  # steps that change no weight tell the loss of the sums
        losses, found = self._simulator.train(x, y, still)
        is_right = found == y if y.ndim == 1 else np.zeros(1)
        return TrialOutcome(float(losses.astype(np.float64).mean()), float(is_right.mean()))

    def _course(self, part: _TrialPart, rate: float, steps: int) -> Course:
        """As few epochs as have so many steps, of samples that are drawn per class."""
        settings = replace(self._search.settings, learning_rate=rate)
        wanted = max(steps // (1 + settings.replay), 1)
        epochs = math.ceil(wanted / len(part.trained))
        samples = part.drawn(math.ceil(wanted / epochs), settings.seed)
        return Course(samples, replace(settings, epochs=epochs))

    def _run(self, course: Course) -> None:
        done = 0
        while done < course.total:
            index, epoch = course.indices(done, CHUNK)
            rates = [course.rates.at(done + i) for i in range(len(index))]
            x = course.samples.train(index, epoch, course.settings.seed)
            self._simulator.train(x, course.samples.split.train.y[index], rates)
            done += len(index)
        self.spent += done


@dataclass(frozen=True)
class _TrialPart:
    """Training samples, by their numbers: those that trials learn, and others that judge.

    judges: of whom held_out are; None: training samples.
    """

    samples: Samples
    trained: Array
    held_out: Array
    judges: data.Dataset | None = None

    @cached_property
    def test(self) -> tuple[Array, Array]:
        """Samples that judge, as the simulator takes them, and their labels."""
        chosen = (self.judges or self.samples.split.train).take(self.held_out)
        judged = replace(self.samples, split=data.Split(chosen, chosen))
        return judged.test(0, len(chosen)), chosen.y

    def drawn(self, count: int, seed: int) -> Samples:
        """Draw so many of the trained samples, of each class alike."""
        index = self.trained
        if count < len(index):
            index = index[data.drawn(self.samples.split.train.y[index], count, seed)]
        return SomeSamples.of(self.samples, index)


@dataclass(frozen=True)
class SomeSamples(Samples):
    """Some of the training samples: what is computed of one is computed once for all trials."""

    source: Samples = field(kw_only=True)
    index: Array = field(kw_only=True)

    @staticmethod
    def of(whole: Samples, index: Array) -> SomeSamples:
        """Return the training samples with these numbers."""
        values = {f.name: getattr(whole, f.name) for f in fields(Samples)}
        values["split"] = replace(whole.split, train=whole.split.train.take(index))
        return SomeSamples(**values, source=whole, index=index)

    def train(self, index: Array, epoch: int, seed: int) -> Array:
        """As the whole has them."""
        return self.source.train(self.index[index], epoch, seed)


def _parts(samples: Samples, seed: int) -> list[_TrialPart]:
    """Return what trials train on, and what tells the loss that they end with."""
    split = samples.split
    every = np.arange(len(split.train))
    if split.validation is not None:
        count = min(MOST_HELD_OUT, len(split.validation))
        judges = data.drawn(split.validation.y, count, seed)
        return [_TrialPart(samples, every, judges, split.validation)]
    if len(every) == 1:
        return [_TrialPart(samples, every, every)]
    repeats = min(math.ceil(FEW_SAMPLES / len(every)), MOST_REPEATS)
    share = min(HELD_OUT, MOST_HELD_OUT / len(every))
    return [_TrialPart(samples, *_shared_out(split.train, share, seed + i)) for i in range(repeats)]


def _shared_out(samples: data.Dataset, share: float, seed: int) -> tuple[Array, Array]:
    """Numbers of samples to train on, and of a share of every class that judges.

    Of all samples alike where no class has two.
    """
    try:
        train, test = data.stratified(samples.y, share, seed)
    except DataError:
        order = data.order(len(samples), 0, seed)
        count = min(max(round(len(samples) * share), 1), len(samples) - 1)
        test, train = np.sort(order[:count]), np.sort(order[count:])
    return train, test

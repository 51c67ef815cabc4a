"""A training run: epochs over a data set, evaluation, and going on after an interruption."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.state import LEVEL_SAMPLES, StateTable

from mcutrain import data
from mcutrain.features import FACTS, Turn
from mcutrain.simulation.batches import LevelBatches
from mcutrain.simulation.checkpoint import read_checkpoint, write_checkpoint
from mcutrain.simulation.course import CHUNK, Course
from mcutrain.simulation.metrics.labels import OwnLabels, classes_tested, scores_of_pair
from mcutrain.simulation.metrics.positions import counts_of, scores_of
from mcutrain.simulation.metrics.reconstruction import Reconstruction
from mcutrain.simulation.metrics.regression import Regression
from mcutrain.simulation.metrics.tested import Tested
from mcutrain.simulation.progress import EpochResult, Progress, RunState, Steps
from mcutrain.simulation.rates import LearningRate
from mcutrain.simulation.replay import NOTHING, Earlier
from mcutrain.simulation.samples import Samples, content_of
from mcutrain.simulation.settings import RunSettings

Array = npt.NDArray[Any]

EVALUATE_CHUNKS = 4  # samples of a call without training, in chunks


class Simulator(Protocol):
    """What a run needs: CompiledSimulator, or a device with the same bits."""

    def train(self, x: Array, labels: Array, rates: list[LearningRate]) -> tuple[Array, Array]: ...
    def infer(self, x: Array) -> Array: ...
    def select(self, tensors: Sequence[int]) -> None: ...
    def save(self) -> bytes: ...
    def resample(self) -> None: ...
    def load(self, saved: bytes) -> None: ...


@runtime_checkable
class CountsLevels(Simulator, Protocol):
    """A simulator that counts the levels of its fronts."""

    def levels(self, x: Array) -> Array: ...
    def replay(self, x: Array, labels: Array, rates: list[LearningRate]) -> tuple[Array, Array]: ...


@dataclass
class Run:
    """Trains a simulator on samples; `state` can be saved at any time and continued from.

    fingerprint: of model and scheme, so that a checkpoint is not continued with others.
    chunk: samples per call of the simulator: how long an interruption may take.
    recipe: how the simulator was made of the model, as JSON, for whoever reads the checkpoint.
    reconstruction: of a network that reproduces its input, regression: of one that learns real
    targets; None for a classifier. table: of the state that the simulator saves. turns: what is
    done between steps. earlier: what was before, whose state the simulator has. batches: what puts
    samples together; None if they are mixed.
    has_learnt: whether the outputs mean something before the first step. threshold: above which
    one output says the second of two classes; None where classes have an output each. judged: how
    outputs are that each have a label of their own; None where they have not.
    """

    simulator: Simulator
    samples: Samples
    settings: RunSettings
    fingerprint: str = ""
    chunk: int = CHUNK
    recipe: str = ""
    reconstruction: Reconstruction | None = None
    regression: Regression | None = None
    table: StateTable = StateTable()
    turns: Sequence[Turn] = ()
    earlier: Earlier = NOTHING
    batches: LevelBatches | None = None
    has_learnt: bool = False
    threshold: int | None = None
    judged: OwnLabels | None = None
    course: Course = field(init=False)
    begin: bytes = field(init=False)
    state: RunState = field(init=False)

    def __post_init__(self) -> None:
        self.course = Course(self.samples, self.settings, self.earlier, self.batches)
        self.begin = self.simulator.save()
        self.state = RunState(self.begin)

    @property
    def learns_classes(self) -> bool:
        """Whether there is an accuracy."""
        return self.reconstruction is None and self.regression is None

    @property
    def total(self) -> int:
        """Training steps of the whole run."""
        return self.course.total

    def train(
        self,
        report: Callable[[Progress], None] = lambda _: None,
        evaluating: Callable[[int], None] = lambda _: None,
        noting: Callable[[str], None] = lambda _: None,
    ) -> RunState:
        """Run to the end from wherever `state` is. An interruption leaves `state` usable.

        report: called after some steps. evaluating: called with the test samples done. noting:
        called with what the first test says against the order of the classes, if anything.
        """
        self.simulator.load(self.state.saved)
        self._end_epoch(evaluating)
        if self.state.before is None:
            found = self.test(evaluating)
            kept, doubt = replace(found, answers=None), self._order_doubt(found)
            self.state = replace(self.state, before=kept, tested=kept, order_doubt=doubt)
            if self.state.order_doubt:
                noting(self.state.order_doubt)
        busy_seconds, first = 0.0, self.state.trained
        for index, epoch in self._chunks():
            started = time.monotonic()
            steps, seconds = self._step(index, epoch)
            losses, predictions = steps.losses_q16, steps.predictions
            right = self._right(predictions, index)
            self.state = replace(
                self.state,
                saved=self.simulator.save(),
                trained=self.state.trained + len(index),
                correct=self.state.correct + right,
                loss_q16=self.state.loss_q16 + int(losses.sum()),
                seconds=self.state.seconds + seconds,
            )
            busy_seconds += max(time.monotonic() - started, 1e-9)
            judged = self._judged(index)
            report(self._progress(steps, right / max(judged, 1), first, busy_seconds))
            self._end_epoch(evaluating)
        return self.state

    def evaluate(self, report: Callable[[int], None] = lambda _: None) -> float:
        """The share of test samples (positions) whose largest output is their class.

        report: samples done.
        """
        return self.test(report).accuracy

    def test(self, report: Callable[[int], None] = lambda _: None) -> Tested:
        """Return what the network does with the test samples. report: samples done."""
        test, chunk = self.samples.split.test, EVALUATE_CHUNKS * self.chunk
        answers, scores, losses, counts = [], [], [], None
        for first in range(0, len(test), chunk):
            x = self.samples.test(first, first + chunk)
            y = self.simulator.infer(x)
            if self.regression is not None:
                losses.append(self.regression.errors(y, test.y[first : first + chunk]))
            elif test.positions and self.reconstruction is None:
                found = self._counted(y, test.y[first : first + chunk])
                counts = found if counts is None else counts + found
            elif self.reconstruction is None:
                answers.append(self._answers(y))
                scores.append(scores_of_pair(y.reshape(len(y), -1)))
            else:
                losses.append(self.reconstruction.losses(x, y))
            report(min(first + chunk, len(test)))
        if counts is not None:
            return scores_of(counts) if self.judged is None else self.judged.tested(counts)
        if self.regression is not None:
            return self.regression.tested(losses, test.y)
        if self.reconstruction is None:
            if not answers:
                return Tested(0.0, answers=np.zeros(0, np.int64))
            known = [s for s in scores if s is not None]
            of_pair = np.concatenate(known) if known else None
            return classes_tested(np.concatenate(answers), test.y, of_pair)
        is_anomaly = test.y if test.is_labelled else None
        return self.reconstruction.tested(np.concatenate(losses), is_anomaly)

    def answered(self) -> tuple[Array, Array]:
        """Return the class that is said of each test sample, and by how much it beats the label.

        In steps of the output; of one sigmoid from its threshold on. Of classifiers, one class for
        a sample.
        """
        test, chunk = self.samples.split.test, EVALUATE_CHUNKS * self.chunk
        said, lead = np.zeros(len(test), np.int64), np.zeros(len(test), np.int64)
        for first in range(0, len(test), chunk):
            y = self.simulator.infer(self.samples.test(first, first + chunk))
            here = slice(first, first + len(y))
            said[here] = self._answers(y)
            wide = y.reshape(len(y), -1).astype(np.int64)
            if self.threshold is not None:
                lead[here] = np.abs(wide[:, 0] - self.threshold)
            else:
                rows = np.arange(len(y))
                lead[here] = wide[rows, said[here]] - wide[rows, test.y[here]]
        return said, lead

    def predicted(self) -> tuple[Array, Array]:
        """Return the real targets of the test samples, and the outputs for them, float64 [n, k].

        Of one output that learns real targets.
        """
        assert self.regression is not None, "it learns real targets"
        test, chunk, errors = self.samples.split.test, EVALUATE_CHUNKS * self.chunk, []
        for first in range(0, len(test), chunk):
            y = self.simulator.infer(self.samples.test(first, first + chunk))
            errors.append(self.regression.errors(y, test.y[first : first + chunk]))
        wanted = self.regression.targets.reals(test.y)
        return wanted, wanted + np.concatenate(errors)

    def _counted(self, y: Array, labels: Array) -> Array:
        """Count what outputs say of labels of positions, or of their own."""
        return counts_of(y, labels) if self.judged is None else self.judged.counts(y, labels)

    def _answers(self, y: Array) -> Array:
        """The classes that int8 outputs [n, outputs] say."""
        above = y.argmax(axis=1) if self.threshold is None else y[:, 0] > self.threshold
        return np.asarray(above, np.int64)

    def _order_doubt(self, found: Tested) -> str:
        """Say whether the outputs seem to have another order, by the test before the first step."""
        if not self.has_learnt or found.answers is None:
            return ""
        test = self.samples.split.test
        return data.better_order(test.y, found.answers, test.names)

    def save(self, path: Path) -> None:
        """Write a checkpoint; the file is replaced as a whole or not at all. Raises StateError."""
        left = self.course.after(self.state.trained)
        remember = self.settings.remember if self.settings.replay else 0
        more = {
            "identity": self._identity,
            "learning_rate": self.settings.learning_rate,
            "left": {"steps": left.steps, "offered": left.offered, "remember": remember},
        }
        ring = self.samples.split.train.take(np.array(left.ring, np.int64)) if left.ring else None
        write_checkpoint(path, self.state, more, ring, self.recipe)

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint. Raises StateError if it is of another run, or damaged."""
        state = read_checkpoint(path, self._identity, len(self.begin))
        self.simulator.load(state.saved)
        self.state = state

    def _chunks(self) -> Iterator[tuple[Array, int]]:
        """The rest of the run, in pieces that end with the epochs."""
        while self.state.trained < self.total:
            count = self.chunk
            for turn in self.turns:
                self.state = turn.take(self.simulator, self.state)
                count = min(count, turn.steps_to_next(self.state.trained))
            yield self.course.indices(self.state.trained, count)

    def _step(self, index: Array, epoch: int) -> tuple[Steps, float]:
        """Train on the samples `index`; and how many seconds it took."""
        x = self.samples.train(index, epoch, self.settings.seed)
        first = self.state.trained
        rates = [self.course.rates.at(step) for step in range(first, first + len(index))]
        labels = self.samples.split.train.y[index]
        started = time.monotonic()
        if not self.settings.replay or not self.table.of_kind(LEVEL_SAMPLES):
            losses, predictions = self.simulator.train(x, labels, rates)
        else:
            losses, predictions = self._with_replays(x, labels, rates)
        return Steps(losses, predictions, labels, rates), time.monotonic() - started

    def _with_replays(
        self, x: Array, labels: Array, rates: list[LearningRate]
    ) -> tuple[Array, Array]:
        """Train where fronts count their samples: remembered ones are told from new ones."""
        simulator, found = self.simulator, []
        assert isinstance(simulator, CountsLevels), "fronts choose levels"
        steps = range(self.state.trained, self.state.trained + len(x))
        for is_replay, group in groupby(range(len(x)), lambda i: self.course.is_replay(steps[i])):
            here = list(group)
            own = slice(here[0], here[-1] + 1)
            train = simulator.replay if is_replay else simulator.train
            found.append(train(x[own], labels[own], rates[own]))
        losses, predictions = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return losses, predictions

    def _progress(self, steps: Steps, right: float, first: int, busy_seconds: float) -> Progress:
        """right: the share of the predictions."""
        speed = (self.state.trained - first) / busy_seconds
        loss = float(steps.losses_q16.mean()) / 65536
        accuracy = right if self.learns_classes else math.nan
        return Progress(self.state.trained, self.total, loss, accuracy, speed, steps)

    def _right(self, predictions: Array, index: Array) -> int:
        """Return how many predictions of training samples (positions) are their labels."""
        if self.regression is not None:
            return 0
        if self.samples.split.positions:
            return int(predictions.sum())
        return int((predictions == self.samples.split.train.y[index]).sum())

    def _judged(self, index: Array) -> int:
        """Return how many labels of training samples a prediction may be."""
        if not self.samples.split.positions:
            return len(index)
        return int((self.samples.split.train.y[index] != data.IGNORED).sum())

    def _train_accuracy(self, epoch: int) -> float:
        """Accuracy of an epoch, counted from 1, that is over."""
        if not self.learns_classes:
            return math.nan
        index, _ = self.course.indices(
            (epoch - 1) * self.course.epoch_steps, self.course.epoch_steps
        )
        return self.state.correct / max(self._judged(index), 1)

    def _end_epoch(self, evaluating: Callable[[int], None]) -> None:
        """Add an epoch's result if all its samples are trained."""
        count = self.course.epoch_steps
        epoch = len(self.state.epochs) + 1
        if self.state.trained < epoch * count:
            return
        tested = self.test(evaluating) if self.settings.tests_after(epoch) else None
        result = EpochResult(
            epoch=epoch,
            loss=self.state.loss_q16 / 65536 / count,
            train_accuracy=self._train_accuracy(epoch),
            test_accuracy=None if tested is None else tested.accuracy,
            seconds=self.state.seconds - sum(e.seconds for e in self.state.epochs),
            test_loss=None if tested is None else tested.loss,
            test_auc=None if tested is None else tested.auc,
            test_iou=None if tested is None else tested.iou,
            test_f1=None if tested is None else tested.f1,
            test_mae=None if tested is None else tested.mae,
            test_r2=None if tested is None else tested.r2,
            mixed_batches=self.course.mixed_batches(epoch - 1),
            **self.counted(FACTS.of(epoch) for epoch in self.state.epochs),
        )
        if tested is not None:
            self.state = replace(self.state, tested=replace(tested, answers=None))
        self.state = replace(self.state, correct=0, loss_q16=0, epochs=(*self.state.epochs, result))

    def counted(self, before: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """Return what features have counted since the run's begin, and since what they had before.

        before: parts of the run that do not count, such as epochs that are over.
        """
        now, begin = (FACTS.read(saved, self.table) for saved in (self.state.saved, self.begin))
        return FACTS.since(now, (begin, *before))

    @cached_property
    def _identity(self) -> str:
        """What a checkpoint must agree with."""
        turns = "".join(turn.identity for turn in self.turns)
        digest = hashlib.sha256((self.fingerprint + self.course.digest + turns).encode())
        if self.earlier != NOTHING:
            digest.update(self.begin)
        digest.update(content_of(self.samples.split.test))
        return digest.hexdigest()

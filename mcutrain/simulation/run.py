"""A training run: epochs over a data set, evaluation, and going on after an interruption."""

from __future__ import annotations

import hashlib
import io
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from mcutrain_host.files import unwritable, write_whole
from mcutrain_host.reading import MOST_TEXT_BYTES
from mcutrain_host.saved import level_drift, level_samples, skipped_samples
from mcutrain_host.state import LEVEL_SAMPLES, StateTable
from mcutrain_host.text import reason

from mcutrain import data
from mcutrain.data.array_file import ArrayFile, array_file
from mcutrain.errors import ArgumentError, DataError, StateError
from mcutrain.simulation.augment import Augmentation, check_kinds, sample_key
from mcutrain.simulation.batches import BATCHES, MIXED, LevelBatches, by_level, mixed_batches
from mcutrain.simulation.elastic import (
    IMPORTANCES,
    MOVES,
    Decision,
    Periods,
    TensorSelector,
    periods_of,
)
from mcutrain.simulation.positions import counts_of, scores_of
from mcutrain.simulation.rates import LearningRate, Schedule
from mcutrain.simulation.reconstruction import Reconstruction, Tested
from mcutrain.simulation.replay import NOTHING, Earlier, remembered, with_replays

Array = npt.NDArray[Any]

CHUNK = 32
MOST_LOOKS = 3
"""States that one selection of tensors compares."""
LARGEST_NUMBER = 8
"""Bytes of a number of a sample."""
EVALUATE_CHUNKS = 4  # samples of a call without training, in chunks


class Simulator(Protocol):
    """What a run needs: CompiledSimulator, or a device with the same bits."""

    def train(self, x: Array, labels: Array, rates: list[LearningRate]) -> tuple[Array, Array]: ...
    def infer(self, x: Array) -> Array: ...
    def select(self, tensors: Sequence[int]) -> None: ...
    def save(self) -> bytes: ...
    def swap(self) -> None: ...
    def load(self, saved: bytes) -> None: ...


@runtime_checkable
class CountsLevels(Simulator, Protocol):
    """A simulator that counts the levels of its fronts."""

    def levels(self, x: Array) -> Array: ...
    def replay(self, x: Array, labels: Array, rates: list[LearningRate]) -> tuple[Array, Array]: ...


def rounding_seed(seed: int) -> int:
    """Of the random numbers that round, for a run of this seed; it is never 0, which they lack."""
    return seed + 1


@dataclass(frozen=True)
class RunSettings:
    """All that determines a run besides model, scheme and data.

    learning_rate: per sample; None is to be found, see mcutrain.simulation.range_test.
    schedule: cosine or constant.
    warmup: share of all steps in which the rate rises.
    seed: of the order of samples and of the augmentation.
    flip, crop_pixels: random changes of images.
    augment: more of them, see mcutrain.simulation.augment.
    versions: in how many ways at most a sample is varied. The same ways come again after so many
        epochs, so latents of them can be kept. 0: other ways in each epoch.
    test_every: epochs from one test to the next; 0 tests only before the first and after the last.
        It changes nothing that is learnt.
    replay: remembered samples that follow each new one, out of at most `remember`, see
        mcutrain.simulation.replay. An epoch then has 1 + replay steps for each training sample.
    elastic: the share of a whole step's time that a step may take in the mean, see
        mcutrain.simulation.elastic; None: all is trained.
    every: steps from one selection of tensors, or one swap, to the next; 0: an epoch.
    importance: what tensors are selected by, moves or squares.
    swap: which of the RULES of mcutrain.sparse.columns chooses other input channels of partly
        trained layers; empty: none does.
    batches: whether the samples of an update are mixed, as they come, or of one level of proxies.
    """

    epochs: int = 4
    learning_rate: float | None = None
    schedule: str = "cosine"
    warmup: float = 0.1
    seed: int = 0
    flip: bool = False
    crop_pixels: int = 0
    test_every: int = 1
    augment: tuple[str, ...] = ()
    replay: int = 0
    remember: int = 200
    versions: int = 0
    elastic: float | None = None
    every: int = 0
    importance: str = MOVES
    swap: str = ""
    batches: str = MIXED

    @property
    def rounding_seed(self) -> int:
        """What simulators and boards begin their random numbers with in such a run."""
        return rounding_seed(self.seed)

    @property
    def varies_samples(self) -> bool:
        """Whether epochs take samples otherwise than they are."""
        return self.flip or self.crop_pixels > 0 or bool(self.augment)

    @property
    def kept_versions(self) -> int:
        """How many latents there are of a training sample; 0: others in each epoch."""
        return self.versions if self.varies_samples else 1

    def check(self) -> None:
        """Raises DataError if there is no such run."""
        if self.test_every < 0:
            raise DataError(f"test_every = {self.test_every}: give 0 or more epochs")
        check_kinds(self.augment)
        if self.replay < 0 or self.remember < 1:
            raise DataError(
                f"replay = {self.replay}, remember = {self.remember}: give 0 or more samples to "
                "replay after each new one, and room for 1 or more"
            )
        if self.versions < 0 or (self.versions > 0 and not self.varies_samples):
            raise DataError(
                f"versions = {self.versions} is of samples that are varied, 1 or more: give an "
                "augmentation, too, or leave it out"
            )
        if self.importance not in IMPORTANCES:
            raise DataError(f"importance = {self.importance!r}: give {' or '.join(IMPORTANCES)}")
        if self.batches not in BATCHES:
            raise DataError(f"batches = {self.batches!r}: give {' or '.join(BATCHES)}")
        if self.elastic is None and self.importance != MOVES:
            raise DataError(
                f"importance = {self.importance!r} is what tensors of an elastic run are selected "
                "by: give the share of a step that it may take, too (elastic)"
            )
        if self.elastic is None and not self.swap and self.every != 0:
            raise DataError(
                f"every = {self.every} steps tensors are selected for an elastic run, or columns "
                "swapped: give the share of a step that it may take, too (elastic), or swap"
            )
        if self.replay > 0 and self.varies_samples:
            raise DataError(
                "a remembered sample is replayed as it was, but here epochs vary the samples: "
                "leave out the augmentation, or the replay"
            )

    def periods(self, samples: int, samples_per_update: int) -> Periods:
        """Periods of an elastic run. samples: in an epoch. Raises ArgumentError."""
        assert self.elastic is not None, "the run is elastic"
        epoch_steps = samples * (1 + self.replay)
        return periods_of(self.elastic, self.every, samples_per_update, epoch_steps)

    def swap_every(self, samples: int, samples_per_update: int) -> int:
        """Steps from one swap to the next; 0 without swaps. samples: in an epoch.

        Raises ArgumentError.
        """
        if not self.swap:
            return 0
        epoch = samples * (1 + self.replay)
        every = self.every or -(-epoch // samples_per_update) * samples_per_update
        if every < 1 or every % samples_per_update:
            raise ArgumentError(
                f"columns cannot be swapped every {every:,} steps: give a multiple of the "
                f"{samples_per_update} samples of an update"
            )
        return every

    def tests_after(self, epoch: int) -> bool:
        """Return whether there is a test after an epoch, counted from 1; after the last always."""
        return epoch == self.epochs or (self.test_every > 0 and epoch % self.test_every == 0)


@dataclass(frozen=True)
class Steps:
    """Training steps in order. losses_q16: times 65536. labels: of no meaning without classes.

    predictions: classes; of samples with labels of positions how many of these are right.
    """

    losses_q16: Array
    predictions: Array
    labels: Array
    rates: Sequence[LearningRate]


@dataclass(frozen=True)
class Progress:
    """Where a run is: samples trained of all, mean loss and accuracy of the last ones.

    loss: in nats; of a network that reproduces its input in squared steps of the input, and the
    accuracy is NaN. steps: the last ones, one by one.
    """

    trained: int
    total: int
    loss: float
    accuracy: float
    samples_per_second: float
    steps: Steps | None = None


@dataclass(frozen=True)
class EpochResult:
    """Mean loss and accuracy while training, accuracy on the test set afterwards.

    test_accuracy: None where RunSettings.test_every leaves the test out, as the other test results.
    seconds: in training steps, without the preparation of samples and evaluation. Of a network that
    reproduces its input the accuracies are NaN, and the test says loss and auc, see Tested; of one
    with a class for each position it says iou. skipped: samples from which a gate let it learn
    nothing; None without a gate. levels: samples of each front; None without a ladder. drift: what
    corrects their choice then, see mcutrain_host.saved.level_drift; None if nothing does.
    mixed_batches: updates from samples of several levels; None where none are put together by it.
    """

    epoch: int
    loss: float
    train_accuracy: float
    test_accuracy: float | None
    seconds: float
    test_loss: float | None = None
    test_auc: float | None = None
    skipped: int | None = None
    test_iou: float | None = None
    levels: tuple[int, ...] | None = None
    drift: float | None = None
    mixed_batches: int | None = None


@dataclass(frozen=True)
class RunState:
    """How far a run is. saved: the simulator's state. seconds: in training steps, so far.

    before, loss_before, auc_before, iou_before: of the test before the first step. class_iou: of
    the last test. order_doubt: what the test before the first step says against the order of the
    classes. looks: states that the next selection of tensors compares, so far. decisions: the
    selections that were made.
    """

    saved: bytes
    trained: int = 0
    correct: int = 0
    loss_q16: int = 0
    seconds: float = 0.0
    before: float | None = None
    loss_before: float | None = None
    auc_before: float | None = None
    iou_before: float | None = None
    class_iou: tuple[float | None, ...] = ()
    order_doubt: str = ""
    epochs: tuple[EpochResult, ...] = ()
    looks: tuple[bytes, ...] = ()
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True)
class Samples:
    """A split whose images fit the model, quantized and augmented on demand."""

    split: data.Split
    transform: data.Transform
    scale: float
    zero_point: int
    normalization: Any = "auto"
    augmentation: Augmentation | None = None
    versions: int = 0

    @staticmethod
    def prepare(
        split: data.Split,
        input_shape: tuple[int, ...],
        scale: float,
        zero_point: int,
        settings: RunSettings,
        normalization: Any = "auto",
    ) -> Samples:
        """Resize images once, and give windows of another form the shape of the model's input.

        input_shape: without the batch. Raises DataError if none fits.
        """
        if len(input_shape) != 3 and (settings.flip or settings.crop_pixels):
            raise DataError(
                f"flips and crops are of images, but the model takes samples of {input_shape}: "
                "train without them"
            )
        height, width, channels = (*(1,) * (3 - len(input_shape)), *input_shape)
        transform = data.Transform(height, width, channels, settings.flip, settings.crop_pixels)
        kinds = settings.augment
        augmentation = Augmentation(kinds, input_shape, zero_point) if kinds else None
        split = split.each(lambda part: _fitted(part, input_shape, transform))
        return Samples(
            split,
            transform,
            scale,
            zero_point,
            normalization,
            augmentation,
            settings.versions,
        )

    @property
    def are_varied(self) -> bool:
        """Whether epochs take them otherwise than they are."""
        flips_or_crops = self.transform.flip or self.transform.crop_pixels > 0
        return flips_or_crops or self.augmentation is not None

    def train(self, index: Array, epoch: int, seed: int) -> Array:
        """The training samples `index` of an epoch as the model's int8 input."""
        epoch = epoch % self.versions if self.versions else epoch
        x = self.split.train.x[index]
        if self.transform.flip or self.transform.crop_pixels:
            x = self.transform.augment(x, index, seed=seed, epoch=epoch)
        if self.augmentation is None:
            return self.quantized(x)
        keys = [sample_key(seed, epoch, int(i)) for i in index]
        codes = self.quantized(self.augmentation.pixels(x, keys))
        return self.augmentation.codes(codes, keys)

    def whole(self) -> Samples:
        """The samples themselves, where these are what a network's front makes of them."""
        return self

    def test(self, first: int, last: int) -> Array:
        """Test samples as the model's int8 input."""
        return self.quantized(self.split.test.x[first:last])

    def quantized(self, x: Array) -> Array:
        """Samples of the split as the model's int8 input."""
        return data.quantize_input(
            x, scale=self.scale, zero_point=self.zero_point, normalization=self.normalization
        )


def _fitted(part: data.Dataset, shape: tuple[int, ...], transform: data.Transform) -> data.Dataset:
    """Samples in the model's shape where only axes of length 1 differ; other images are resized.

    Windows (n, time, channels) are thus no images (n, height, width), if the model's input says so.
    """
    x = data.arranged(part.x, shape)
    if data.is_same_shape(x.shape[1:], shape):
        return replace(part, x=x.reshape(len(part), *shape))
    return replace(part, x=transform.fit(x)) if x.dtype == np.uint8 else replace(part, x=x)


@dataclass(frozen=True)
class Course:
    """What a run learns at every step: sample, label and learning rate follow from its number.

    batches: what puts samples together; None if they are mixed.
    """

    samples: Samples
    settings: RunSettings
    earlier: Earlier = NOTHING
    batches: LevelBatches | None = None

    def __post_init__(self) -> None:
        if self.new_samples <= 0:
            raise DataError("there is no training sample")
        self.settings.check()

    @property
    def new_samples(self) -> int:
        """Training samples of an epoch; behind them are those that an earlier run remembered."""
        return len(self.samples.split.train) - len(self.earlier.ring)

    @property
    def epoch_steps(self) -> int:
        """Training steps of an epoch."""
        return self.new_samples * (1 + self.settings.replay)

    @property
    def total(self) -> int:
        """Training steps of the whole run."""
        return self.settings.epochs * self.epoch_steps

    @cached_property
    def rates(self) -> Schedule:
        """The learning rate of every step."""
        warmup = round(self.settings.warmup * self.total)
        rate = self.settings.learning_rate
        if rate is None:
            raise DataError(
                "the run has no learning rate: mcutrain.runs.training.prepare_run finds one"
            )
        base = LearningRate.of(rate)
        return Schedule(base, self.settings.schedule, warmup, self.total)

    def indices(self, first: int, count: int) -> tuple[Array, int]:
        """Which training samples the steps from `first` on take, at most `count` of an epoch.

        Returns their indices and the epoch.
        """
        epoch, done = divmod(first, self.epoch_steps)
        if self.settings.replay > 0:
            end = min(first + count, (epoch + 1) * self.epoch_steps)
            return self._with_replays[first:end], epoch
        return self._new(epoch)[done : done + count], epoch

    def is_replay(self, step: int) -> bool:
        """Return whether a step takes a remembered sample."""
        return step % (1 + self.settings.replay) != 0

    def _new(self, epoch: int) -> Array:
        order = _order(self.new_samples, epoch, self.settings.seed)
        if self.batches is None:
            return order
        if epoch not in self._batched:
            size, begun = self.batches.size, self._begun(epoch)
            self._batched[epoch] = by_level(order, self._levels(epoch), size, begun)
        return self._batched[epoch]

    @cached_property
    def _batched(self) -> dict[int, Array]:
        """Orders of epochs, which cost many fronts."""
        return {}

    @cached_property
    def _known_levels(self) -> dict[int, Array]:
        return {}

    def _begun(self, epoch: int) -> int:
        """Return how many samples the epoch before has left in its last batch."""
        assert self.batches is not None
        return (self.earlier.steps + epoch * self.epoch_steps) % self.batches.size

    def _levels(self, epoch: int) -> Array:
        """Level of each training sample as an epoch has it."""
        assert self.batches is not None
        versions = self.settings.kept_versions
        version = epoch % versions if versions else epoch
        if version not in self._known_levels:
            parts = np.array_split(np.arange(self.new_samples), -(-self.new_samples // CHUNK))
            samples = (self.samples.train(part, epoch, self.settings.seed) for part in parts)
            found = np.concatenate([self.batches.levels_of(x) for x in samples])
            self._known_levels[version] = found
        return self._known_levels[version]

    def mixed_batches(self, epoch: int) -> int | None:
        """Updates that end in an epoch, from samples of several levels; None if all may be."""
        if self.batches is None:
            return None
        levels = self._levels(epoch)[self._new(epoch)]
        return mixed_batches(levels, self.batches.size, self._begun(epoch))

    @cached_property
    def _with_replays(self) -> Array:
        """The samples of all steps of the run."""
        settings = self.settings
        return with_replays(self._all_new, settings.replay, settings.remember, self.earlier)

    def after(self, steps: int) -> Earlier:
        """Return what that many steps of the run leave to the next; a ring only if it replays."""
        if not self.settings.replay:
            return Earlier(self.earlier.steps + steps)
        new = self._all_new[: -(-steps // (1 + self.settings.replay))]
        ring = remembered(new, self.settings.remember, self.earlier)
        offered = self.earlier.offered + len(new)
        return Earlier(self.earlier.steps + steps, offered, tuple(map(int, ring)))

    @property
    def _all_new(self) -> Array:
        nothing = np.zeros(0, np.int64)
        return np.concatenate([nothing, *map(self._new, range(self.settings.epochs))])

    def at(self, step: int) -> tuple[Array, int | bytes]:
        """The sample of a step as the model's int8 input, and its label; bytes: of positions."""
        index, epoch = self.indices(step, 1)
        x = self.samples.train(index, epoch, self.settings.seed)
        return x[0], self.samples.split.train.label(int(index[0]))

    @cached_property
    def digest(self) -> str:
        """A hash of all that determines the steps besides model and scheme."""
        settings = asdict(self.settings)
        del settings["test_every"]  # a run may go on with fewer or more tests
        if not self.settings.augment:
            del settings["augment"]  # so that it fits checkpoints from before it was there
        if not self.settings.replay:
            del settings["replay"], settings["remember"]
        if not self.settings.versions:
            del settings["versions"]
        if self.settings.importance == MOVES:
            del settings["importance"]
        if self.settings.elastic is None:
            del settings["elastic"]
        if self.settings.elastic is None and not self.settings.swap:
            del settings["every"]
        if not self.settings.swap:
            del settings["swap"]
        if self.settings.batches == MIXED:
            del settings["batches"]
        found = hashlib.sha256(repr(sorted(settings.items())).encode())
        found.update(content_of(self.samples.split.train))
        if self.earlier != NOTHING:
            found.update(repr(self.earlier).encode())
        return found.hexdigest()


def rate_of_checkpoint(path: Path) -> float | None:
    """The learning rate of the run that wrote it; None if the file does not tell."""
    try:
        with array_file(path) as file:
            rate = counts_in(file)["learning_rate"]
    except Exception:  # Run.resume says what is wrong with it
        return None
    return rate if isinstance(rate, float) else None


def check_checkpoint(path: Path) -> None:
    """Raise StateError for a file that is no checkpoint; whose it is, is not looked at."""
    with _reading(path, "give another file") as file:
        counts_in(file)


def counts_in(file: ArrayFile) -> dict[str, Any]:
    """Return what a checkpoint has besides arrays. Raises DataError, ValueError."""
    found = json.loads(file.text("counts", MOST_TEXT_BYTES))
    if not isinstance(found, dict):
        raise ValueError("its counts are no table")
    return found


@dataclass(frozen=True)
class Finished:
    """A run, as its checkpoint has it, that another goes on from with other samples.

    It remembered samples, out of at most `remember`. What is large is read when its length is
    known.
    """

    path: Path
    steps: int
    offered: int
    remember: int

    @staticmethod
    def read(path: Path) -> Finished:
        """Read what a run goes on from. Raises StateError."""
        with _reading(path, "give the --checkpoint of the run to go on from") as file:
            left = counts_in(file)["left"]
            found = Finished(path, left["steps"], left["offered"], left["remember"])
            numbers = (found.steps, found.offered, found.remember)
            if not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
                raise ValueError("its counts are no numbers")
        return found

    def saved(self, saved_bytes: int) -> bytes:
        """The trained state, of that many bytes at most. Raises StateError."""
        with _reading(self.path, "give the --checkpoint of a run of this model") as file:
            return file.octets("saved", saved_bytes)

    def ring(self, train: data.Dataset) -> tuple[Array, Array]:
        """The remembered samples by slot, as it trained on them, and labels. train: such samples.

        Raises StateError.
        """
        with _reading(self.path, "give the --checkpoint of a run with such data") as file:
            most = self.remember * max(train.x[:1].nbytes, 1)
            x = file.array("ring_x", most * LARGEST_NUMBER)  # of data of another kind, to be named
            return x, file.array("ring_y", self.remember * max(train.y[:1].nbytes, 8))

    def added_to(self, samples: Samples, settings: RunSettings) -> tuple[Samples, Earlier]:
        """Samples with the remembered ones behind them. Raises DataError if they do not fit."""
        if not settings.replay:
            return samples, Earlier(self.steps)
        if self.remember != settings.remember:
            raise DataError(
                f"the run to go on from remembered {self.remember:,} samples, and this one replays "
                f"of {settings.remember:,}: give --remember {self.remember}"
                if self.remember
                else "the run to go on from replayed nothing, so that what it remembered is not "
                "known: give it --replay and --remember, too"
            )
        train = samples.split.train
        kept_x, kept_y = self.ring(train)
        if kept_x.dtype != train.x.dtype or kept_x.shape[1:] != train.x.shape[1:]:
            raise DataError(
                f"the run to go on from remembered samples of {kept_x.dtype} {kept_x.shape[1:]}, "
                f"and the data is {train.x.dtype} {train.x.shape[1:]}: give data of one kind"
            )
        if kept_y.max(initial=0) >= train.classes:
            raise DataError(
                f"the run to go on from remembered a sample of class {kept_y.max()}, and the data "
                f"names {train.classes}: name all classes, those without samples too"
            )
        x, y = np.concatenate([train.x, kept_x]), np.concatenate([train.y, kept_y])
        ring = tuple(range(len(train), len(x)))
        split = replace(samples.split, train=replace(train, x=x, y=y))
        return replace(samples, split=split), Earlier(self.steps, self.offered, ring)


def content_of(part: data.Dataset) -> bytes:
    """Samples and labels."""
    return np.ascontiguousarray(part.x).tobytes() + part.y.tobytes()


@lru_cache(maxsize=2)
def _order(count: int, epoch: int, seed: int) -> Array:
    return data.order(count, epoch, seed)


@dataclass
class Run:
    """Trains a simulator on samples; `state` can be saved at any time and continued from.

    fingerprint: of model and scheme, so that a checkpoint is not continued with others.
    chunk: samples per call of the simulator: how long an interruption may take.
    recipe: how the simulator was made of the model, as JSON, for whoever reads the checkpoint.
    reconstruction: of a network that reproduces its input; None for a classifier. table: of the
    state that the simulator saves. selector: of elastic tensors, which are all trained without one.
    swap_every: steps from one swap of columns to the next; 0: none. earlier: what was before, whose
    state the simulator has. batches: what puts samples together; None if they are mixed.
    has_learnt: whether the outputs mean something before the first step.
    """

    simulator: Simulator
    samples: Samples
    settings: RunSettings
    fingerprint: str = ""
    chunk: int = CHUNK
    recipe: str = ""
    reconstruction: Reconstruction | None = None
    table: StateTable = StateTable()
    selector: TensorSelector | None = None
    swap_every: int = 0
    earlier: Earlier = NOTHING
    batches: LevelBatches | None = None
    has_learnt: bool = False
    course: Course = field(init=False)
    begin: bytes = field(init=False)
    state: RunState = field(init=False)

    def __post_init__(self) -> None:
        self.course = Course(self.samples, self.settings, self.earlier, self.batches)
        self.begin = self.simulator.save()
        self.state = RunState(self.begin)

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
            self.state = replace(
                self.state,
                before=found.accuracy,
                loss_before=found.loss,
                auc_before=found.auc,
                iou_before=found.iou,
                class_iou=found.class_iou,
                order_doubt=self._order_doubt(found),
            )
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
        answers, losses, counts = [], [], None
        for first in range(0, len(test), chunk):
            x = self.samples.test(first, first + chunk)
            y = self.simulator.infer(x)
            if test.positions and self.reconstruction is None:
                found = counts_of(y, test.y[first : first + chunk])
                counts = found if counts is None else counts + found
            elif self.reconstruction is None:
                answers.append(y.argmax(axis=1))
            else:
                losses.append(self.reconstruction.losses(x, y))
            report(min(first + chunk, len(test)))
        if counts is not None:
            return scores_of(counts)
        if self.reconstruction is None:
            found = np.concatenate(answers) if answers else np.zeros(0, np.int64)
            return Tested(int((found == test.y).sum()) / max(len(test), 1), answers=found)
        is_anomaly = test.y if test.is_labelled else None
        return self.reconstruction.tested(np.concatenate(losses), is_anomaly)

    def _order_doubt(self, found: Tested) -> str:
        """Say whether the outputs seem to have another order, by the test before the first step."""
        if not self.has_learnt or found.answers is None:
            return ""
        test = self.samples.split.test
        return data.better_order(test.y, found.answers, test.names)

    def save(self, path: Path) -> None:
        """Write a checkpoint; the file is replaced as a whole or not at all. Raises StateError."""
        buffer = io.BytesIO()
        counts: dict[str, Any] = {
            "trained": self.state.trained,
            "correct": self.state.correct,
            "loss_q16": self.state.loss_q16,
            "seconds": self.state.seconds,
            "before": self.state.before,
            "loss_before": self.state.loss_before,
            "auc_before": self.state.auc_before,
            "iou_before": self.state.iou_before,
            "class_iou": self.state.class_iou,
            "epochs": [asdict(e) for e in self.state.epochs],
            "decisions": [asdict(d) for d in self.state.decisions],
            "identity": self._identity,
            "learning_rate": self.settings.learning_rate,
        }
        if self.state.order_doubt:
            counts["order_doubt"] = self.state.order_doubt
        left = self.course.after(self.state.trained)
        remember = self.settings.remember if self.settings.replay else 0
        counts["left"] = {"steps": left.steps, "offered": left.offered, "remember": remember}
        ring = self.samples.split.train.take(np.array(left.ring, np.int64)) if left.ring else None
        saved = np.frombuffer(self.state.saved, np.uint8)
        texts = [np.array(text) for text in (json.dumps(counts), self.recipe)]
        looks = np.array([np.frombuffer(look, np.uint8) for look in self.state.looks], np.uint8)
        np.savez_compressed(
            buffer,
            saved=saved,
            counts=texts[0],
            recipe=texts[1],
            looks=looks,
            ring_x=np.zeros(0, np.uint8) if ring is None else ring.x,
            ring_y=np.zeros(0, np.int64) if ring is None else ring.y,
        )
        try:
            write_whole(path, buffer.getvalue())
        except OSError as error:
            why = unwritable(path, error)
            raise StateError(f"cannot write the checkpoint {path}: {why}") from error

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint. Raises StateError if it is of another run, or damaged."""
        with _reading(path, "give another file", "mcutrain") as file:
            counts = counts_in(file)
            if counts.pop("identity") != self._identity:
                raise StateError(
                    f"{path} belongs to another model, scheme, data set or settings; give the same "
                    "ones as in the interrupted run, or another checkpoint file"
                )
            saved = file.octets("saved", len(self.begin))
            looks = file.array("looks", MOST_LOOKS * len(self.begin)) if "looks" in file else ()
            kept = tuple(look.astype(np.uint8).tobytes() for look in looks)
            epochs = tuple(_epoch(e) for e in counts["epochs"])
            counts.pop("learning_rate", None)
            counts.pop("left", None)
            counts["class_iou"] = tuple(counts.get("class_iou", ()))
            decisions = tuple(Decision.of(d) for d in counts.pop("decisions", ()))
            state = RunState(saved, **{**counts, "epochs": epochs}, looks=kept, decisions=decisions)
        self.simulator.load(saved)
        self.state = state

    def _chunks(self) -> Iterator[tuple[Array, int]]:
        """The rest of the run, in pieces that end with the epochs."""
        while self.state.trained < self.total:
            count = self.chunk
            if self.swap_every:
                count = min(count, self.swap_every - self.state.trained % self.swap_every)
                self._swap()
            if self.selector is not None:
                self._select(self.selector)
                count = min(count, self.selector.periods.steps_to_next(self.state.trained))
            yield self.course.indices(self.state.trained, count)

    def _swap(self) -> None:
        """Trains other columns, if it is time to: once at a position, also where a run goes on."""
        if self.state.trained % self.swap_every == 0:
            self.simulator.swap()
            self.state = replace(self.state, saved=self.simulator.save())

    def _select(self, selector: TensorSelector) -> None:
        """Looks at the state, or selects what is trained from here on, if it is time to."""
        step, looks = self.state.trained, self.state.looks
        place = step % selector.periods.every
        wanted = len(selector.looks)
        if place == 0:
            self.simulator.select(selector.all)
            looks = (self.simulator.save(),)
        elif place == selector.periods.look and len(looks) == 1 < wanted:
            looks = (*looks, self.simulator.save())
        elif place == 2 * selector.periods.look and len(looks) == wanted:
            found = selector.choose(step, (*looks, self.simulator.save()))
            self.simulator.select(found.tensors)
            self.state = replace(self.state, decisions=(*self.state.decisions, found))
            looks = ()
        self.state = replace(self.state, saved=self.simulator.save(), looks=looks)

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
        accuracy = right if self.reconstruction is None else math.nan
        return Progress(self.state.trained, self.total, loss, accuracy, speed, steps)

    def _right(self, predictions: Array, index: Array) -> int:
        """Return how many predictions of training samples (positions) are their labels."""
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
        if self.reconstruction is not None:
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
        found = self.test(evaluating) if self.settings.tests_after(epoch) else None
        result = EpochResult(
            epoch,
            self.state.loss_q16 / 65536 / count,
            self._train_accuracy(epoch),
            None if found is None else found.accuracy,
            self.state.seconds - sum(e.seconds for e in self.state.epochs),
            None if found is None else found.loss,
            None if found is None else found.auc,
            self._skipped(),
            None if found is None else found.iou,
            self._levels(),
            level_drift(self.state.saved, self.table),
            self.course.mixed_batches(epoch - 1),
        )
        if found is not None:
            self.state = replace(self.state, class_iou=found.class_iou)
        self.state = replace(self.state, correct=0, loss_q16=0, epochs=(*self.state.epochs, result))

    def _skipped(self) -> int | None:
        """Samples that the gate kept from being learnt since the last epoch's end."""
        now = skipped_samples(self.state.saved, self.table)
        if now is None:
            return None
        before = sum(epoch.skipped or 0 for epoch in self.state.epochs)
        return now - before - (skipped_samples(self.begin, self.table) or 0)

    def _levels(self) -> tuple[int, ...] | None:
        """Samples of each front since the last epoch's end."""
        now = level_samples(self.state.saved, self.table)
        if now is None:
            return None
        before = [level_samples(self.begin, self.table) or ()]
        before += [epoch.levels for epoch in self.state.epochs if epoch.levels is not None]
        sums = (sum(counts) for counts in zip(*before, strict=True))
        return tuple(count - earlier for count, earlier in zip(now, sums, strict=True))

    @cached_property
    def _identity(self) -> str:
        """What a checkpoint must agree with."""
        selector = (
            "" if self.selector is None else repr((self.selector.times, self.selector.periods))
        )
        digest = hashlib.sha256((self.fingerprint + self.course.digest + selector).encode())
        if self.earlier != NOTHING:
            digest.update(self.begin)
        digest.update(content_of(self.samples.split.test))
        return digest.hexdigest()


@contextmanager
def _reading(path: Path, hint: str, whose: str = "this version of mcutrain") -> Iterator[ArrayFile]:
    """A checkpoint. hint: what to do about what is none. Raises StateError for that."""
    none = f"{path} is no checkpoint of {whose}, or a damaged one: "
    try:
        with array_file(path) as file:
            yield file
    except StateError:
        raise
    except OSError as error:
        raise StateError(f"cannot read the checkpoint {path}: {reason(error)}") from error
    except DataError as error:
        raise StateError(f"{none}{hint}; {error}") from error
    except Exception as error:
        raise StateError(f"{none}{hint}") from error


def _epoch(values: dict[str, Any]) -> EpochResult:
    """Make an epoch's result of a checkpoint's values."""
    levels = values.pop("levels", None)
    return EpochResult(**values, levels=None if levels is None else tuple(levels))

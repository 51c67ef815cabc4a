"""What a run learns at every step: the order of its samples, and their rates."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import data
from mcutrain.errors import DataError
from mcutrain.simulation.batches import MIXED, LevelBatches, by_level, mixed_batches
from mcutrain.simulation.rates import LearningRate, Schedule
from mcutrain.simulation.replay import NOTHING, Earlier, remembered, with_replays
from mcutrain.simulation.samples import Samples, content_of
from mcutrain.simulation.settings import RunSettings

Array = npt.NDArray[Any]

CHUNK = 32


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
        return self.settings.epoch_steps(self.new_samples)

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
        del settings["background"]  # what counts is the noise in it
        if self.samples.raw is None:
            del settings["snr_db"]
        if not self.settings.replay:
            del settings["replay"], settings["remember"]
        if not self.settings.versions:
            del settings["versions"]
        for name in self.settings.unsaid:
            del settings[name]
        if self.settings.batches == MIXED:
            del settings["batches"]
        found = hashlib.sha256(repr(sorted(settings.items())).encode())
        found.update(content_of(self.samples.split.train))
        if self.samples.raw is not None:
            found.update(self.samples.raw.digest.encode())
        if self.earlier != NOTHING:
            found.update(repr(self.earlier).encode())
        return found.hexdigest()


@lru_cache(maxsize=2)
def _order(count: int, epoch: int, seed: int) -> Array:
    return data.order(count, epoch, seed)

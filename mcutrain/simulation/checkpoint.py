"""A run in a file: written, continued, or gone on from with other samples."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass
from mcutrain_host.files import unwritable, write_whole
from mcutrain_host.reading import MOST_TEXT_BYTES
from mcutrain_host.text import reason

from mcutrain import data
from mcutrain.data.array_file import ArrayFile, array_file
from mcutrain.errors import DataError, StateError
from mcutrain.features import Decision
from mcutrain.simulation.metrics.tested import OutputScore, Tested
from mcutrain.simulation.progress import EpochResult, RunState
from mcutrain.simulation.replay import Earlier
from mcutrain.simulation.samples import Samples
from mcutrain.simulation.settings import RunSettings

Array = npt.NDArray[Any]

MOST_LOOKS = 3
"""States that one selection of tensors compares."""
TESTS = ("before", "tested")
"""Fields of a run's state that are results of tests."""
LARGEST_NUMBER = 8
"""Bytes of a number of a sample."""


def write_checkpoint(
    path: Path, state: RunState, more: Mapping[str, Any], ring: data.Dataset | None, recipe: str
) -> None:
    """Write a run's state; the file is replaced as a whole or not at all. Raises StateError.

    more: JSON besides the state. ring: what the run remembers. recipe: as Run has it.
    """
    arrays = ("saved", "looks")
    counts = {f.name: getattr(state, f.name) for f in fields(state) if f.name not in arrays}
    counts |= {name: [asdict(one) for one in counts[name]] for name in ("epochs", "decisions")}
    tests = {name: counts[name] for name in TESTS}
    counts |= {name: None if one is None else asdict(one) for name, one in tests.items()}
    if not state.order_doubt:
        del counts["order_doubt"]
    texts = [np.array(text) for text in (json.dumps({**counts, **more}), recipe)]
    looks = np.array([np.frombuffer(look, np.uint8) for look in state.looks], np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        saved=np.frombuffer(state.saved, np.uint8),
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


def read_checkpoint(path: Path, identity: str, saved_bytes: int) -> RunState:
    """Return a run's state. Raises StateError if it is of another run, or damaged.

    identity: of the run. saved_bytes: of the simulator's state.
    """
    with _reading(path, "give another file", "mcutrain") as file:
        counts = counts_in(file)
        if counts.pop("identity") != identity:
            raise StateError(
                f"{path} belongs to another model, scheme, data set or settings; give the same "
                "ones as in the interrupted run, or another checkpoint file"
            )
        saved = file.octets("saved", saved_bytes)
        looks = file.array("looks", MOST_LOOKS * saved_bytes) if "looks" in file else ()
        kept = tuple(look.astype(np.uint8).tobytes() for look in looks)
        epochs = tuple(_epoch(e) for e in counts["epochs"])
        counts.pop("learning_rate", None)
        counts.pop("left", None)
        tests = {name: counts[name] for name in TESTS}
        counts |= {name: None if one is None else _tested(one) for name, one in tests.items()}
        decisions = tuple(Decision.of(d) for d in counts.pop("decisions", ()))
        return RunState(saved, **{**counts, "epochs": epochs}, looks=kept, decisions=decisions)


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
    return EpochResult(**_with_tuples(values))


def _tested(values: dict[str, Any]) -> Tested:
    """Make the result of a test of a checkpoint's values."""
    outputs = tuple(OutputScore(*score) for score in values["outputs"])
    return Tested(**{**_with_tuples(values), "outputs": outputs})


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """The values; JSON has tuples as lists."""
    return {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}

"""A run on a board in values: what is learnt, how it is done, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from mcutrain_host.dataclass import dataclass
from mcutrain_host.log import Kept
from mcutrain_host.manifest import ElasticSelection
from mcutrain_host.protocol import (
    Firmware,
    Identity,
    Rate,
    RingStatistics,
    Saved,
    Selecting,
    Statistics,
    Step,
)
from mcutrain_host.state import StateTable

ACCURACY = "accuracy"
IGNORED = 255
"""The label of a position that nothing is learnt from."""


@dataclass(frozen=True)
class Scores:
    """How a network is tested whose output is more than the scores of a sample's class.

    of: what to say of a test sample's input and output bytes, by its index: how far the output is
    from the input, or which class positions are taken for. of_all: what that is of all test
    samples, by name: loss, and auc if there are labels; or accuracy, iou and class_iou.
    """

    of: Callable[[bytes, bytes, int], Any]
    of_all: Callable[[Sequence[Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Lessons:
    """What a board is to learn, and what it is tested on, by position and by index.

    sample_at, test_at: the input's bytes and the label; or the labels of positions, as bytes.
    total: steps of the whole run. scores: of a network without classes, whose labels are all 0, or
    with a class for each position. replay: remembered samples that the board trains on after each
    new one, out of at most `remember`. latents: the bytes are of latents in the place of samples.
    selecting: when the board chooses which tensors it trains; None: it trains those that it did.
    first: the position that the run begins at, where the board has learnt something else before;
    `total` counts from 0 all the same. resample_every: steps from one resampling of input channels
    to the next; 0: none. targets: whether labels are real targets, as bytes. of_classes: what
    answers for all test samples, and outputs, say besides the share of right ones; None of networks
    with `scores`. reads_outputs: whether it needs the outputs. raw_of: raw samples of which the
    board itself makes a sample; None where that is sent. hears: whether there are such.
    """

    total: int
    sample_at: Callable[[int], tuple[bytes, int | bytes]]
    rate_at: Callable[[int], Rate]
    tests: int
    test_at: Callable[[int], tuple[bytes, int | bytes]]
    scores: Scores | None = None
    replay: int = 0
    remember: int = 0
    latents: bool = False
    selecting: Selecting | None = None
    first: int = 0
    resample_every: int = 0
    targets: bool = False
    of_classes: Callable[[Sequence[int], Sequence[bytes]], Mapping[str, Any]] | None = None
    reads_outputs: bool = False
    raw_of: Callable[[bytes], bytes | None] = lambda sample: None
    hears: bool = False

    def is_replay(self, position: int) -> bool:
        """Return whether the step there takes a sample that the board remembers."""
        return (position - self.first) % (1 + self.replay) != 0

    def new_before(self, position: int) -> int:
        """Return how many of the run's steps before a position took a new sample."""
        return -(-(position - self.first) // (1 + self.replay))


class Begin(Enum):
    """From where a run starts."""

    BOARD = "from what the board has learnt"
    FILE = "from the state of a file"
    FRESH = "from the weights that the model came with"


@dataclass(frozen=True)
class Settings:
    """How a run is done.

    firmware: the project's. seed: of the rounding, for RESET. state: the file that the trained
    state is brought to. save_every: steps between saves; 0 saves only at the end. begin, source:
    from where; `source` is the file of Begin.FILE. reconnect_seconds: how long to wait for a board
    that is gone. facts: about the run, for the log. counted: what features of the
    step have counted in a saved state, for the log. table: of the project's state. elastic: as the
    manifest has it. earlier: what the board saved in an earlier run, which is not saved once more.
    doubt: what is to be said of the classes that the test samples are taken for before the first
    step; empty if nothing is. recipe: of the project's step, as JSON, for the file of the state.
    is_other_course: whether the board learnt from other samples or settings, by the log. before:
    what an earlier run of the same course said of the test samples before the first step.
    """

    firmware: Firmware
    seed: int
    state: Path
    save_every: int = 500
    begin: Begin = Begin.BOARD
    source: Path | None = None
    reconnect_seconds: float = 0.0
    facts: Mapping[str, Any] | None = None
    counted: Callable[[bytes], Mapping[str, Any]] = lambda raw: {}
    table: StateTable = StateTable()
    elastic: ElasticSelection | None = None
    earlier: Kept | None = None
    doubt: Callable[[Sequence[int]], str] = lambda answers: ""
    recipe: str = ""
    is_other_course: bool = False
    before: Mapping[str, Any] | None = None


class TrainingObserver(Protocol):
    """Who wants to know how far a run is."""

    def connected(self, identity: Identity, first: int) -> None:
        """The board is found, and training goes on at position `first`."""

    def tested(self, done: int, of: int) -> None:
        """Test samples done."""

    def trained(self, step: Step, label: int | bytes) -> None:
        """A step is done."""

    def transferred(self, what: str, done: int, of: int) -> None:
        """Bytes of a state on their way."""

    def say(self, sentence: str) -> None:
        """Something that is not usual."""


@dataclass(frozen=True)
class Outcome:
    """What a run did. before, accuracy: shares of the test samples; None if not tested.

    resumed: the share where the run went on, at `first`; None if it began there. Where it went on,
    `before` is what an earlier run said before the first step, or None if that is not known.
    scores_before, scores_resumed, scores: what Scores.of_all or Lessons.of_classes said.
    doubt: what Settings.doubt said.
    first: the position at the begin. steps: done in this run, those that were lost by a restart
    included. train_cycles: on average. saved: on the board, None if it cannot.
    """

    identity: Identity
    first: int
    position: int
    total: int
    steps: int
    before: float | None
    accuracy: float | None
    seconds: float
    train_cycles: float
    restarts: int
    resent: int
    saved: Saved | None
    statistics: Statistics
    interrupted: bool
    scores_before: Mapping[str, Any] | None = None
    scores: Mapping[str, Any] | None = None
    doubt: str = ""
    resumed: float | None = None
    scores_resumed: Mapping[str, Any] | None = None

    @property
    def has_one_class(self) -> bool:
        """Whether each test sample is of one class, if the scores say so."""
        scores = self.scores or self.scores_before or self.scores_resumed or {}
        return "class_f1" in scores and "class_auc" not in scores

    @property
    def is_resumed(self) -> bool:
        """Has the test something to say of where the run went on?"""
        return self.resumed is not None or self.scores_resumed is not None


def position_facts(right: int, labels: bytes) -> dict[str, int]:
    """Count labels of positions in a step, and how many of them are right."""
    return {"right": right, "labelled": len(labels) - labels.count(IGNORED)}


def ring_facts(statistics: Statistics) -> dict[str, int]:
    """Facts about the ring of a board that remembers."""
    if not isinstance(statistics, RingStatistics):
        return {}
    return {"samples_offered": statistics.offered, "slots_erased": statistics.slots_erased}

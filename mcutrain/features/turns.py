"""What a run does between its steps for features of the step: their settings, and their turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.sparse.elastic import ElasticTimes

Array = npt.NDArray[Any]
MANY_TENSORS = 4
LEAST_IMPORTANCE = 1
"""Importance of a tensor that did not help."""


@dataclass(frozen=True, kw_only=True)
class TurnSettings:
    """A field of RunSettings. every: steps from one turn of a feature to the next; 0: an epoch."""

    every: int = 0


@dataclass(frozen=True)
class Decision:
    """Tensors that are trained from a step on, for what they had done for the loss."""

    step: int
    tensors: tuple[int, ...]
    importance: tuple[int, ...]

    @property
    def is_of_many(self) -> bool:
        """Whether one of the tensors could stand out."""
        return len(self.importance) >= MANY_TENSORS

    @property
    def has_helped(self) -> bool:
        """Whether one of the tensors did something for the loss; else all are alike."""
        return max(self.importance) > LEAST_IMPORTANCE

    @staticmethod
    def of(values: Mapping[str, Any]) -> Decision:
        """Make a decision of its fields, as JSON has them."""
        tensors, importance = (tuple(map(int, values[n])) for n in ("tensors", "importance"))
        return Decision(int(values["step"]), tensors, importance)


@dataclass(frozen=True)
class TurnState:
    """What turns read and change of a run. saved: the simulator's state. trained: steps done.

    looks: states that the next decision compares, so far. decisions: those that were made.
    """

    saved: bytes
    trained: int = 0
    looks: tuple[bytes, ...] = ()
    decisions: tuple[Decision, ...] = ()


S = TypeVar("S", bound=TurnState)


class TurnedSimulator(Protocol):
    """What turns need of a simulator."""

    def select(self, tensors: Sequence[int]) -> None: ...
    def resample(self) -> None: ...
    def save(self) -> bytes: ...


class Turn(Protocol):
    """What is done between steps."""

    @property
    def identity(self) -> str:
        """What of it a checkpoint must agree with, besides the settings; "" for nothing."""

    def steps_to_next(self, step: int) -> int:
        """Return the steps until there is something to do again."""

    def take(self, simulator: TurnedSimulator, state: S) -> S:
        """Do what is due, once at a step: also where a run goes on."""


class UnpackedState(Protocol):
    """How a state is laid out."""

    def unpack(self, state: bytes) -> dict[str, Array]:
        """Return the tensors of a state, without its header, by name."""


class TurnedPlan(Protocol):
    """What turns need of a step's plan."""

    @property
    def training(self) -> TrainGraph:
        """The step."""

    @property
    def state(self) -> UnpackedState:
        """Where its state has what."""


@dataclass(frozen=True, kw_only=True)
class RunPart:
    """What a feature does in a run.

    setting: the field of RunSettings that asks for it. check: raises DataError for settings that do
    not go together. options: of the step that such a run needs. anew: why a run with it cannot go
    on from another one. turn: takes the step's plan, the settings, the steps of an epoch, and a
    function that tells what tensors take. Raises ArgumentError for a step that cannot be run so.
    """

    setting: str
    check: Callable[[Any], None] = lambda settings: None
    options: Callable[[Any], Mapping[str, Any]]
    turn: Callable[[TurnedPlan, Any, int, Callable[[], ElasticTimes]], Turn]
    anew: str

    def is_on(self, settings: TurnSettings) -> bool:
        """Return whether the settings ask for it."""
        return getattr(settings, self.setting) not in (None, "")

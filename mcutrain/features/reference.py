"""What features add to the definition of right, the training step by numpy.

A feature's part of it is a class that adds to StepState what the feature keeps and does; the step
of mcutrain.simulation.reference is made of all of them. What decides within a step is a function
that the feature's StepFeature names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

import numpy.typing as npt
from mcutrain_host.state import COUNTERS

from mcutrain.autodiff.train_graph import TrainGraph

Array = npt.NDArray[Any]
WORD = 0xFFFFFFFF
"""Counts of the state have 32 bits, and begin anew behind them."""


class StepRate(Protocol):
    """A learning rate: mult_q31 / 2^31 * 2^shift."""

    @property
    def mult_q31(self) -> int:
        """Its digits."""

    @property
    def shift(self) -> int:
        """Its power of two; positive is left."""


class Number:
    """A number among the words of the state, as an attribute; 0 in steps that do not keep it."""

    def __init__(self, kind: str, place: int = 0) -> None:
        self.kind, self.place = kind, place

    def __get__(self, step: StepState, _: object = None) -> int:
        numbers = step.words.get(self.kind)
        return 0 if numbers is None else int(numbers[self.place])

    def __set__(self, step: StepState, value: int) -> None:
        step.words[self.kind][self.place] = value


class StepState(ABC):
    """The state of a training run, and how it learns.

    state: every state tensor by name, and what is in the backing store. words: what else the state
    keeps, by kind of section, see mcutrain.memplan.state; the attributes are these words. key,
    update, sample: the counters. Features override the methods that are not abstract, and call
    super.
    """

    training: TrainGraph
    state: dict[str, Array]
    words: dict[str, Array]
    key = Number(COUNTERS, 0)
    update = Number(COUNTERS, 1)
    sample = Number(COUNTERS, 2)

    @property
    def position(self) -> int:
        """Samples that the state has seen, modulo 2^32."""
        return (self.update * self.training.accumulate + self.sample) & WORD

    def begin(self, seed: int) -> None:
        """Put what a run begins with into the words, which are zeros. seed: of random numbers."""
        self.key = seed & WORD or 1

    def read_by_inference(self) -> tuple[str, ...]:
        """Names of the state's tensors that an inference reads, besides the parameters."""
        return ()

    def kept(self) -> dict[str, Array]:
        """The state's tensors as they are saved, by name."""
        return dict(self.state)

    def is_sound(self, state: Mapping[str, Array]) -> bool:
        """Whether tensors that were read from a saved state are ones that a training makes."""
        return True

    @abstractmethod
    def numbered(self, update: int, sample: int, rate: StepRate) -> Array:
        """Return what nodes know of a step."""

    @abstractmethod
    def learn(self, inputs: Mapping[str, Array], step: Array) -> dict[str, Array]:
        """The whole step, and the updates if it is the last of its group. Returns its results."""

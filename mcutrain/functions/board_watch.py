"""How far a run on a board is: who hears of it, and means of its last steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcutrain.functions.smoothed import Smoothed

if TYPE_CHECKING:
    from mcutrain_host.protocol import Identity, Step
    from mcutrain_host.trainer import Lessons


class BoardWatch:
    """Passes on what is not usual, and shows no progress. The command line has another."""

    def __init__(self, note: Callable[[str], None], doubt: Callable[[str], None]) -> None:
        self.note, self.doubt = note, doubt

    def connected(self, identity: Identity, first: int) -> None:
        """Hear that the board is found, and training goes on at position `first`."""

    def tested(self, done: int, of: int) -> None:
        """Hear how many test samples are done."""

    def trained(self, step: Step, means: Smoothed) -> None:
        """Hear that a step is done. means: of the last steps."""

    def transferred(self, what: str, done: int, of: int) -> None:
        """Hear how many bytes of a state are on their way."""

    def say(self, sentence: str) -> None:
        """Hear something that is not usual."""
        self.note(sentence)

    def doubted(self, sentence: str) -> None:
        """Hear what the first test says against the order of the classes."""
        self.doubt(sentence)


class Averaging:
    """Tells a watch how far a run is, and keeps the means of its last steps.

    A mcutrain_host.trainer.TrainingObserver.
    """

    def __init__(self, watch: BoardWatch, lessons: Lessons) -> None:
        self.watch, self.means = watch, Smoothed()
        self._has_classes = lessons.scores is None
        self._doubt = ""
        self.connected, self.tested = watch.connected, watch.tested
        self.transferred = watch.transferred

    def doubt(self, sentence: str) -> str:
        """Return a doubt about the order of the classes, as the host says it."""
        self._doubt = sentence
        return sentence

    def trained(self, step: Step, label: int | bytes) -> None:
        """Tell a step that is done."""
        self.means.add(step.position, step.loss, self._right(step, label))
        self.watch.trained(step, self.means)

    def say(self, sentence: str) -> None:
        """Tell what is not usual."""
        (self.watch.doubted if sentence == self._doubt else self.watch.say)(sentence)

    def _right(self, step: Step, label: int | bytes) -> float:
        """The share of a step's predictions that are right; NaN where nothing is predicted."""
        from mcutrain_host.trainer import position_facts  # slow to import

        if isinstance(label, bytes):
            facts = position_facts(step.prediction, label)
            return float(facts["right"] / max(facts["labelled"], 1))
        return float(step.prediction == label) if self._has_classes else math.nan

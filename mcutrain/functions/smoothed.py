"""How a run goes: means of its last steps."""

from __future__ import annotations

import math

SMOOTHING = 0.005
"""Weight of the newest sample in the shown loss and accuracy; like an average of the last 200."""


class Smoothed:
    """Exponential averages of loss and accuracy. A short run has those of all its steps."""

    def __init__(self) -> None:
        self._loss = self._accuracy = self._weight = 0.0
        self._trained: int | None = None

    @property
    def loss(self) -> float:
        """The mean; 0 before the first step."""
        return self._loss / self._weight if self._weight else 0.0

    @property
    def accuracy(self) -> float:
        """The mean; 0 before the first step, not a number where there are no classes."""
        return self._accuracy / self._weight if self._weight else 0.0

    @property
    def text(self) -> str:
        """Both; the accuracy only where there are classes."""
        accuracy = f"  accuracy {100 * self.accuracy:.1f} %"
        return f"loss {self.loss:.3f}{'' if math.isnan(self.accuracy) else accuracy}"

    def add(self, trained: int, loss: float, accuracy: float) -> None:
        """Take the steps since the last call along. trained: steps that are done."""
        keep = (1 - SMOOTHING) ** (1 if self._trained is None else trained - self._trained)
        self._trained = trained
        self._weight = keep * self._weight + (1 - keep)
        self._loss = keep * self._loss + (1 - keep) * loss
        self._accuracy = keep * self._accuracy + (1 - keep) * accuracy

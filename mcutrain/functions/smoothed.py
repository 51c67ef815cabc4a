"""How a run goes: means of its last steps."""

from __future__ import annotations

import math

SMOOTHING = 0.005
"""Weight of the newest sample in the shown loss and accuracy; like an average of the last 200."""


class Smoothed:
    """Exponential averages of loss and accuracy."""

    def __init__(self) -> None:
        self.loss = self.accuracy = 0.0
        self._trained: int | None = None

    @property
    def text(self) -> str:
        """Both; the accuracy only where there are classes."""
        accuracy = f"  accuracy {100 * self.accuracy:.1f} %"
        return f"loss {self.loss:.3f}{'' if math.isnan(self.accuracy) else accuracy}"

    def add(self, trained: int, loss: float, accuracy: float) -> None:
        """Take the steps since the last call along. trained: steps that are done."""
        keep = 0.0 if self._trained is None else (1 - SMOOTHING) ** (trained - self._trained)
        self._trained = trained
        self.loss = keep * self.loss + (1 - keep) * loss
        self.accuracy = keep * self.accuracy + (1 - keep) * accuracy

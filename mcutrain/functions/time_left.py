"""The minutes that a call may take: what is left of them, and when a part of it has to end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import field
from typing import ParamSpec

from mcutrain_host.dataclass import dataclass

from mcutrain.simulation.range_test import OutOfTime

P = ParamSpec("P")
clock = time.monotonic


@dataclass
class TimeLeft:
    """What is left of so many seconds since it was made; they may be infinite.

    cut: what ended early, in words.
    """

    seconds: float
    begun: float = field(default_factory=lambda: clock())
    cut: list[str] = field(default_factory=list)

    @property
    def spent(self) -> float:
        """Seconds since it was made."""
        return clock() - self.begun

    @property
    def left(self) -> float:
        """Seconds; below 0 where more were taken."""
        return self.seconds - self.spent

    @property
    def text(self) -> str:
        """What is left, such as "3.2 of 5 minutes"; empty where there is no end."""
        if math.isinf(self.seconds):
            return ""
        return f"{max(self.left, 0) / 60:.1f} of {self.seconds / 60:g} minutes"

    def ending(self, what: str, report: Callable[P, None], spare: float) -> Callable[P, None]:
        """Return a report that raises OutOfTime where less than the spare seconds would be left.

        That is after as long as it took from the last report to this one. Before the first one, and
        while it counts 0, something else was done, such as compiling, which is not done again.
        what: is then cut.
        """
        before: float | None = None

        def limited(*given: P.args, **more: P.kwargs) -> None:
            nonlocal before
            report(*given, **more)
            now = self.left
            again = 0.0 if before is None or 0 in given else before - now
            before = now
            if now - again < spare:
                if what not in self.cut:
                    self.cut.append(what)
                raise OutOfTime

        return limited

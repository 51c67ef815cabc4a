"""How far an analysis is, what is left, and where the time went."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mcutrain_host.dataclass import dataclass


@dataclass(frozen=True)
class TrialsDone:
    """done of total trials, those found in the cache not counted. remaining_seconds: an estimate
    from the cost of what is left, None until a trial is done. what: is being done."""

    what: str
    done: int
    total: int
    remaining_seconds: float | None = None


@dataclass
class Times:
    """Seconds by part, over all processes; wall: on the clock."""

    front: float = 0.0
    build: float = 0.0
    train: float = 0.0
    test: float = 0.0
    wall: float = 0.0
    trials: int = 0
    cached: int = 0

    def add(self, result: Mapping[str, float]) -> None:
        """A trial that was run."""
        self.build += result["build_seconds"]
        self.train += result["train_seconds"]
        self.test += result["test_seconds"]
        self.trials += 1


Report = Callable[[TrialsDone], None]


class Estimate:
    """Time that the rest will take, from the cost of each trial and what those done took."""

    def __init__(self, costs: Mapping[str, float], workers: int) -> None:
        self._costs, self._workers = dict(costs), workers
        self._done_cost = self._run_seconds = self._build_seconds = 0.0
        self._done = 0

    def add(self, key: str, result: Mapping[str, float]) -> None:
        """A trial is done."""
        self._done += 1
        self._done_cost += self._costs.pop(key)
        self._build_seconds += result["build_seconds"]
        self._run_seconds += result["train_seconds"] + result["test_seconds"]

    def remaining_seconds(self) -> float:
        """Seconds that are left on the clock, with all workers busy."""
        run = sum(self._costs.values()) * self._run_seconds / max(self._done_cost, 1.0)
        build = len(self._costs) * self._build_seconds / max(self._done, 1)
        return (run + build) / self._workers

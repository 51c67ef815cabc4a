"""Common steps for the schedules of several schemes, and memory over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.selection.cost import UNNAMED, SchemeCost

Array = npt.NDArray[Any]


class Timeline:
    """A total order of steps that holds the schedule of every scheme that was added.

    A node's name identifies its step. Where two schedules disagree on the order (a digest that is
    made later because something else keeps its source), the later one's step gets a place of its
    own. At a step that a scheme does not run, memory is what lives across it. At UNNAMED steps it
    counts as 0.
    """

    def __init__(self, schedules: Iterable[Sequence[str]] = ()) -> None:
        self.steps: list[str] = []
        self._places: dict[tuple[str, ...], Array] = {}
        self._schedules = list(dict.fromkeys(tuple(s) for s in schedules))
        for schedule in self._schedules:
            self._add(schedule)

    def memory(self, cost: SchemeCost) -> Array:
        """Aligned bytes of the arena alive at each step. [steps] int64.

        Raises KeyError for a schedule that was not added.
        """
        places = self._place_of(cost.steps)
        change = np.zeros(len(self.steps) + 1, np.int64)
        if len(cost.spans):
            sizes = np.array([s.size_bytes for s in cost.spans], np.int64)
            np.add.at(change, places[[s.first for s in cost.spans]], sizes)
            np.add.at(change, places[[s.last for s in cost.spans]] + 1, -sizes)
        memory: Array = np.cumsum(change[:-1])
        memory[[i for i, name in enumerate(self.steps) if name.startswith(UNNAMED)]] = 0
        return memory

    def holds(self, schedule: tuple[str, ...]) -> bool:
        """Return whether the schedule is part of this order."""
        return schedule in self._places or len(_matches(self.steps, schedule)) == len(schedule)

    def _place_of(self, schedule: tuple[str, ...]) -> Array:
        """The place of each step; found after all schedules are there."""
        if schedule not in self._places:
            matched = _matches(self.steps, schedule)
            if len(matched) != len(schedule):
                raise KeyError("this schedule is not part of the timeline")
            self._places[schedule] = np.array([matched[i] for i in range(len(schedule))], np.int64)
        return self._places[schedule]

    def _add(self, schedule: tuple[str, ...]) -> None:
        matched = _matches(self.steps, schedule)
        if len(matched) == len(schedule):
            return
        merged: list[str] = []
        taken = 0
        for i, name in enumerate(schedule):
            if i in matched:
                merged += self.steps[taken : matched[i] + 1]
                taken = matched[i] + 1
            else:
                merged.append(name)
        self.steps = merged + self.steps[taken:]
        self._places.clear()


def _matches(steps: Sequence[str], schedule: Sequence[str]) -> dict[int, int]:
    """Index in schedule → index in steps, increasing; as many as possible."""
    found: dict[int, int] = {}
    at = 0
    positions: dict[str, list[int]] = {}
    for place, name in enumerate(steps):
        positions.setdefault(name, []).append(place)
    for i, name in enumerate(schedule):
        later = [place for place in positions.get(name, ()) if place >= at]
        if not later:
            break
        found[i], at = later[0], later[0] + 1
    else:
        return found
    blocks = SequenceMatcher(None, list(schedule), list(steps), autojunk=False)
    return {b.a + j: b.b + j for b in blocks.get_matching_blocks() for j in range(b.size)}

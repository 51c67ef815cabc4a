"""What a log says of the runs before: which course was trained last, and what first tests said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from mcutrain_host.dataclass import dataclass
from mcutrain_host.reading import opened

LONGEST_LINE_BYTES = 1 << 20
"""The longest line that is read; a longer one is not ours."""
NO_SCORES = ("event", "time", "position", "correct", "evaluated")
"""Facts of a test that are no scores."""
LARGEST = 2.0**53


@dataclass(frozen=True)
class _Begun:
    """A run, as its first line has it; with "" for what that does not say."""

    model_hash: str = ""
    tests: str = ""
    course: str = ""

    @staticmethod
    def of(facts: Mapping[str, Any]) -> _Begun:
        """Read what is text."""
        names = (field.name for field in fields(_Begun))
        return _Begun(**{name: facts[name] for name in names if isinstance(facts.get(name), str)})


_NOTHING = _Begun()


class LoggedRuns:
    """The runs of a log. course: what the last one that trained learnt from; None: none did.

    A run that did no step is none that trained, whatever it was asked for.
    """

    def __init__(self) -> None:
        self.course: str | None = None
        self._begun = _NOTHING
        self._tests: dict[tuple[_Begun, int], dict[str, Any]] = {}

    @staticmethod
    def read(path: Path) -> LoggedRuns:
        """Read a log. Lines that are none of ours are left out, and what is no file has none."""
        found = LoggedRuns()
        if not path.is_file():
            return found
        with suppress(OSError), opened(path) as lines:
            while line := lines.readline(LONGEST_LINE_BYTES):
                found._take(line)
        return found

    def tested(
        self, model_hash: str, tests: str, course: str, position: int
    ) -> Mapping[str, Any] | None:
        """Return what a run said of these test samples there; None: nothing.

        model_hash, tests, course: as the facts of "connected" have them. At position 0 the course
        does not matter: nothing was learnt yet.
        """
        return self._tests.get((_Begun(model_hash, tests, course if position else ""), position))

    def _take(self, line: bytes) -> None:
        """Look at a line; steps are many, and no more is looked at than that they are there."""
        if line.startswith(b'{"event": "step"'):
            self.course = self._begun.course or self.course
        elif line.startswith((b'{"event": "connected"', b'{"event": "evaluated"')):
            with suppress(ValueError, RecursionError):
                self._note(json.loads(line))

    def _note(self, facts: Mapping[str, Any]) -> None:
        if facts["event"] == "connected":
            self._begun = _Begun.of(facts)
            return
        scores = {name: value for name, value in facts.items() if name not in NO_SCORES}
        position = facts.get("position")
        if isinstance(position, int) and all(_is_score(*item) for item in scores.items()):
            begun = self._begun if position else replace(self._begun, course="")
            self._tests[begun, position] = scores


def _is_score(name: str, value: Any) -> bool:
    """Is it what a test can have said? The mean over the classes that are there may be of none."""
    if isinstance(value, list):
        return all(each is None or _is_score("", each) for each in value)
    if value is None:
        return name in ("iou", "f1", "auc")
    least = -LARGEST if name.endswith("r2") else 0  # a network may be worse than the mean
    return type(value) in (int, float) and least <= value < LARGEST

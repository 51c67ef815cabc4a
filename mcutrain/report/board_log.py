"""The log of `mcutrain train` as a learning curve, and what an elastic run chose to train."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import field
from pathlib import Path
from typing import Any

from mcutrain_host.dataclass import dataclass
from mcutrain_host.reading import opened
from mcutrain_host.text import reason

from mcutrain.errors import ReportError
from mcutrain.report.learning import ElasticChoice, LearningCurve, Point, measures_of

MOST_POINTS = 40
FEWEST_STEPS = 20
"""A point of the curve is the mean of at least so many steps."""
LONGEST_LINE_BYTES = 1 << 20
EVENTS = ("connected", "restarted", "step", "evaluated", "selected")


def read_log(path: Path) -> LearningCurve | None:
    """The curve of the last run in a train.jsonl; None if it has learnt nothing.

    A line that a power cut left in part, at the end, is left out. Raises ReportError for others.
    """
    return _read(path).curve()


def read_choices(path: Path) -> tuple[ElasticChoice, ...]:
    """Return what the last run of the same file chose to train, in order. Raises ReportError."""
    return tuple(choice for _, choice in sorted(_read(path).choices.items()))


def _read(path: Path) -> _Found:
    """The last line is left out if it has no end: it may be being written."""
    found, number = _Found(), 0
    try:
        with opened(path) as lines:
            while (line := lines.readline(LONGEST_LINE_BYTES)).endswith(b"\n"):
                number += 1
                found.add(_event(line, f"{path}, line {number}"))
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror or error}") from error
    if len(line) == LONGEST_LINE_BYTES:
        raise ReportError(
            f"{path}, line {number + 1} is longer than {LONGEST_LINE_BYTES:,} bytes: it is no log "
            "of `mcutrain train`"
        )
    return found


@dataclass
class _Found:
    """What holds of the lines so far. steps: position → loss and rightness, if it has classes."""

    board: str = "board"
    steps: dict[int, tuple[float, bool | None]] = field(default_factory=dict)
    tests: dict[int, Point] = field(default_factory=dict)
    choices: dict[int, ElasticChoice] = field(default_factory=dict)

    def add(self, event: dict[str, Any]) -> None:
        position = event["position"]
        if event["event"] == "step":
            self.steps[position] = event["loss"], event.get("is_right")
        elif event["event"] == "evaluated":
            accuracy = event.get("accuracy")
            self.tests[position] = Point(position, accuracy, measures=measures_of(event))
        elif event["event"] == "selected":
            importance = event.get("importance", {})
            self.choices[position] = ElasticChoice(position, tuple(event["tensors"]), importance)
        elif event["event"] in ("connected", "restarted"):
            # what was learnt after the last save is lost, or the run began anew
            self.steps = {k: v for k, v in self.steps.items() if k <= position}
            self.tests = {k: v for k, v in self.tests.items() if k <= position}
            self.choices = {k: v for k, v in self.choices.items() if k <= position}
            self.board = str(event.get("board", self.board))

    def curve(self) -> LearningCurve | None:
        """Means of the steps, and the tests between them."""
        points = [*_means(sorted(self.steps.items())), *self.tests.values()]
        points.sort(key=lambda p: p.at)
        return LearningCurve(f"on {self.board}", tuple(points), unit="sample") if points else None


def _event(line: bytes, where: str) -> dict[str, Any]:
    """A line's event, with the fields that are needed of it. Raises ReportError."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{where} is no JSON: {reason(error)}") from error
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise ReportError(f"{where} is no event of `mcutrain train`")
    if event["event"] not in EVENTS:
        return {"event": "", "position": 0}
    _check(event, "position", int, where)
    if event["event"] == "step":
        _check(event, "loss", float, where)
        if "is_right" in event:  # a network without classes has none
            _check(event, "is_right", bool, where)
    if event["event"] == "evaluated" and "loss" not in event:
        _check(event, "accuracy", float, where)
    if event["event"] == "selected":
        _check_choice(event, where)
    return event


def _check_choice(event: dict[str, Any], where: str) -> None:
    names, importance = event.get("tensors"), event.get("importance", {})
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ReportError(f"{where}: tensors is {str(names)[:40]!r}")
    if not isinstance(importance, dict):
        raise ReportError(f"{where}: importance is {str(importance)[:40]!r}")
    for name in importance:
        _check(importance, name, float, where)


def _check(event: dict[str, Any], key: str, kind: type, where: str) -> None:
    value: Any = event.get(key)
    kinds = (int, float) if kind is float else (kind,)
    if type(value) not in kinds or not 0 <= value < 2**53:
        raise ReportError(f"{where}: {key} is {str(value)[:40]!r}")


def _means(steps: list[tuple[int, tuple[float, bool | None]]]) -> Iterable[Point]:
    size = max(-(-len(steps) // MOST_POINTS), FEWEST_STEPS)
    for first in range(0, len(steps), size):
        part = steps[first : first + size]
        if first > 0 and len(part) < size / 2:
            continue  # too few to compare
        loss = sum(loss for _, (loss, _) in part) / len(part)
        rights = [is_right for _, (_, is_right) in part if is_right is not None]
        right = sum(rights) / len(rights) if rights else None
        yield Point(part[-1][0], train_accuracy=right, loss=loss)

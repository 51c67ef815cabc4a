"""What a run's log says to the next one: its course, and the test before the first step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcutrain_host.logged import LONGEST_LINE_BYTES, LoggedRuns


def connected(**facts: Any) -> dict[str, Any]:
    known = {"model_hash": "m", "tests": "t", "course": "a"}
    return {"event": "connected", "time": 1.0, "position": 0, **known, **facts}


def evaluated(position: int, **scores: Any) -> dict[str, Any]:
    facts = {"accuracy": 0.5, "correct": 1, "evaluated": 2, **scores}
    return {"event": "evaluated", "time": 1.0, "position": position, **facts}


STEP = {"event": "step", "time": 1.0, "position": 1}


def read(folder: Path, *lines: dict[str, Any] | str) -> LoggedRuns:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path = folder / "train.jsonl"
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return LoggedRuns.read(path)


def test_a_course_counts_when_a_step_of_it_is_done(tmp_path: Path) -> None:
    assert read(tmp_path, connected()).course is None
    assert read(tmp_path, connected(), STEP).course == "a"
    assert read(tmp_path, connected(), STEP, connected(course="b")).course == "a"
    assert read(tmp_path, connected(), STEP, connected(course="b"), STEP).course == "b"
    assert read(tmp_path, connected(), STEP, connected(course=["b"]), STEP).course == "a"


def test_the_first_test_is_known_by_model_and_samples(tmp_path: Path) -> None:
    runs = read(tmp_path, connected(), evaluated(0), evaluated(7, accuracy=1))
    assert runs.tested("m", "t", "a", 0) == runs.tested("m", "t", "another", 0) == {"accuracy": 0.5}
    assert runs.tested("m", "t", "a", 7) == {"accuracy": 1}
    for other in (("n", "t", "a", 0), ("m", "u", "a", 0), ("m", "t", "b", 7), ("m", "t", "a", 8)):
        assert runs.tested(*other) is None


def test_scores_besides_accuracy_are_kept(tmp_path: Path) -> None:
    scores = {"accuracy": 0.5, "iou": None, "class_iou": [0.5, None], "r2": -3.5, "a r2": -2}
    assert read(tmp_path, connected(), evaluated(0, **scores)).tested("m", "t", "a", 0) == scores


@pytest.mark.parametrize(
    "line",
    [
        evaluated(0, accuracy="much"),
        evaluated(0, accuracy=None),
        evaluated(0, accuracy=True),
        evaluated(0, accuracy=-1),
        evaluated(0, accuracy=float("nan")),
        evaluated(0, iou={}),
        {**evaluated(0), "position": [0]},
        '{"event": "evaluated", ',
        '{"event": "evaluated"' + "[" * 100_000,
        '{"event": "evaluated", "x": "' + "x" * LONGEST_LINE_BYTES,
        "no line of ours",
    ],
)
def test_what_is_no_test_of_ours_is_left_out(tmp_path: Path, line: dict[str, Any] | str) -> None:
    runs = read(tmp_path, connected(), line, STEP)
    assert runs.tested("m", "t", "a", 0) is None
    assert runs.course == "a"


def test_what_is_no_file_says_nothing(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none", Path("/dev/zero")):
        assert LoggedRuns.read(path).course is None

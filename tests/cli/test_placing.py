"""A long search for a smaller arena is shown; a short one is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mcutrain.cli import training
from mcutrain.cli.training import LINE_SECONDS, QUIET_SECONDS, placing
from mcutrain.demo import MODEL
from mcutrain.memplan import Buffer, MemoryPlan, solve, training_plan
from tests.cli.conftest import Run

SHOWN = "a smaller arena is searched, 5,000 nodes of 200,000 at most"


def test_a_search_is_shown_after_two_seconds_and_then_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(training.time, "monotonic", lambda: now)
    after: list[tuple[float, bool]] = [
        (0.0, False),
        (QUIET_SECONDS - 0.1, False),
        (QUIET_SECONDS, True),
        (QUIET_SECONDS + LINE_SECONDS - 0.1, False),
        (QUIET_SECONDS + LINE_SECONDS + 0.1, True),
    ]
    with placing() as report:
        for seconds, is_shown in after:
            now = 100.0 + seconds
            report(5_000, 200_000)
            assert (SHOWN in capsys.readouterr().err) == is_shown, seconds


@pytest.mark.parametrize("command", ["plan", "generate"])
def test_commands_that_plan_show_a_long_search(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def slow(buffers: Sequence[Buffer], *arguments: Any, **options: Any) -> MemoryPlan:
        options["report"](5_000, 200_000)
        return solve(buffers, *arguments, **options)

    monkeypatch.setattr(training_plan, "solve", slow)
    arguments = (
        command,
        MODEL,
        "--scheme",
        "head",
        *(("-o", "c") if command == "generate" else ()),
    )
    assert SHOWN not in run(*arguments).err
    monkeypatch.setattr(training, "QUIET_SECONDS", 0.0)
    assert SHOWN in run(*arguments).err

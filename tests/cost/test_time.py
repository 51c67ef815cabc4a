"""How long a step takes on a board, and how that is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mcutrain import demo
from mcutrain.cost.instructions import estimate
from mcutrain.cost.time import StepTime, step_time, time_of
from mcutrain.errors import TargetError
from mcutrain.functions.planning import plan
from mcutrain.pipeline import TrainingStep, prepare
from mcutrain.report.collect import collect
from mcutrain.report.html import render
from mcutrain.target import Target, board_names, load_target
from tests.cost.test_targets import _board


@pytest.fixture(scope="module")
def step() -> TrainingStep:
    return prepare(demo.network(), "last:3")


@pytest.fixture
def board() -> Target:
    return replace(
        load_target("nucleo-f446re"),
        cycles_per_instruction=1.5,
        cycles_range=(1.0, 2.5),
        cycles_source="a table",
    )


@pytest.mark.parametrize("name", board_names())
def test_every_board_with_a_clock_has_a_range_and_says_what_it_rests_on(name: str) -> None:
    target = load_target(name)
    if target.is_hosted:
        assert time_of(1000, target) is None
        return
    least, most = target.cycles_range
    assert target.cycles_per_instruction is not None
    assert 0.5 < least < target.cycles_per_instruction <= most < 3.5  # 3.0 with serial flash
    assert "tables" in target.cycles_source or "an assumption" in target.cycles_source


def test_a_time_is_instructions_times_cycles_by_clock(board: Target) -> None:
    found = time_of(18_000_000, board)
    assert found is not None
    assert (found.ms, found.least_ms, found.most_ms) == (150.0, 100.0, 250.0)
    assert found.text == "150 ms (100 to 250)"
    assert found.reason == (
        "18.0 M instructions, estimated, of 1.5 (1 to 2.5) cycles at 180 MHz, assumed, from a table"
    )
    exact = time_of(18_000_000, replace(board, cycles_range=(1.5, 1.5), cycles_source=""))
    assert exact is not None
    assert exact.text == "150 ms"
    assert exact.reason.endswith("of 1.5 cycles at 180 MHz")
    short = time_of(18_000, board)
    assert short is not None
    assert short.text == "0.15 ms (0.1 to 0.25)"


def test_where_something_is_unknown_there_is_no_time(step: TrainingStep, board: Target) -> None:
    assert step_time(step.plan, None) is None
    assert step_time(step.plan, replace(board, cycles_per_instruction=None)) is None
    assert step_time(step.plan, replace(board, isa="host")) is None


def test_plans_and_reports_have_the_time_of_all_instructions(
    step: TrainingStep, board: Target
) -> None:
    found = step_time(step.plan, board)
    assert isinstance(found, StepTime)
    counts = estimate(step.plan.training, "dsp", step.plan.segments)
    assert found.instructions == sum(counts.values()) > 0
    kept = json.loads(json.dumps(plan(step, board=board).to_dict()))["board"]["step_time"]
    assert kept == {**found.to_dict(), "cycles_range": [1.0, 2.5]}
    report = collect(step, board)
    assert report.instructions is not None
    assert report.instructions.time == f"A step takes {found.text}: {found.reason}."
    assert f"A step takes {found.text}" in render(report)


@pytest.mark.parametrize(
    "given", ["[1.4]", "[1.6, 2.0]", "[1.0, 1.4]", "1.5", "['1', '2']", "[0, 2]", "[1.0, inf]"]
)
def test_a_wrong_range_is_a_sentence(given: str, tmp_path: Path) -> None:
    board = _board(tmp_path, "cycles_range = [1.4, 1.6]", f"cycles_range = {given}")
    with pytest.raises(TargetError, match=r"cycles_range = .* is not the least and the most that"):
        load_target(board)

"""Nobody counts instructions of a chip by those of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mcutrain import demo, prepare
from mcutrain.cost.elastic import estimated_times
from mcutrain.cost.instructions import COSTS, HOST, USUAL_ISA, model_for
from mcutrain.cost.ladder import front_costs
from mcutrain.cost.profile import timing_of
from mcutrain.errors import TargetError
from mcutrain.memplan import TrainingPlan
from tests.proxies import ladders

NEW = "rv64gc"


@pytest.fixture(scope="module")
def plan() -> TrainingPlan:
    """Elastic, and with a ladder."""

    def fronts(front_of: Callable[[str], Any]) -> Any:
        return ladders.ladder(front_of("auto"))

    return prepare(demo.network(), ladders.SCHEME, elastic=True, ladder=fronts).plan


@pytest.mark.parametrize("count", [timing_of, estimated_times, front_costs])
def test_costs_that_nobody_fitted_are_a_sentence(count: Callable[..., Any], plan: Any) -> None:
    with pytest.raises(TargetError, match=f"'{NEW}'.*{NEW}.toml"):
        count(plan, NEW)


def test_an_instruction_set_has_its_own_costs_and_a_host_none() -> None:
    fitted = {file.stem for file in COSTS.glob("*.toml")} - {"code"}
    assert {isa: model_for(isa) for isa in fitted} == {isa: isa for isa in fitted}
    assert HOST not in fitted
    assert model_for(HOST) == USUAL_ISA


def test_an_elastic_program_for_such_a_board_is_refused() -> None:
    from mcutrain.functions.planning import elastic_times
    from mcutrain.target import load_target

    step = prepare(demo.network(), ladders.SCHEME, elastic=True)
    board = load_target("nucleo-f446re")
    assert elastic_times(step, board) is not None
    with pytest.raises(TargetError, match=NEW):
        elastic_times(step, replace(board, isa=NEW))

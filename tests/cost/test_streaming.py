"""How much computes row by row, with a memory that is known and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain import prepare
from mcutrain.autodiff import TrainGraph
from mcutrain.cost import streaming
from mcutrain.cost.streaming import WORTH, fit_rows, work_of
from mcutrain.functions.generating import generate
from mcutrain.functions.planning import plan
from mcutrain.ir.graph import Graph
from mcutrain.memplan import TrainingPlan, plan_training
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator
from mcutrain.target import Target, target_of
from tests.memplan.fronts import draw_front, training_graph, with_two_stems
from tests.memplan.test_stream import mobile_network
from tests.ops.drawing import drawn
from tests.simulation import networks
from tests.simulation.test_training_steps import QUICK

STEPS = 4


def needs(step: TrainingStep) -> int:
    return step.plan.arena_bytes + step.plan.resident_bytes


@pytest.fixture(scope="module")
def least() -> TrainingStep:
    return prepare(mobile_network(), "head")


@pytest.fixture(scope="module")
def plain() -> TrainingStep:
    return prepare(mobile_network(), "head", stream="off")


def test_the_network_of_these_tests_pays_for_its_rows(
    least: TrainingStep, plain: TrainingStep
) -> None:
    assert needs(least) < needs(plain)
    assert work_of(plain.plan) < work_of(least.plan)


@settings(max_examples=25)
@given(share=st.floats(0, 1.2))
def test_a_plan_takes_no_more_than_there_is_and_no_more_work_than_the_least(
    least: TrainingStep, plain: TrainingStep, share: float
) -> None:
    there_is = round(needs(least) + share * (needs(plain) - needs(least)))
    found = fit_rows(least, there_is)
    assert needs(found) <= there_is
    assert work_of(found.plan) <= work_of(least.plan)
    saved = work_of(least.plan) - work_of(found.plan)
    if found is not least:
        assert saved >= WORTH * work_of(least.plan)
        assert found.plan.least is not None
        assert found.plan.least.sram_bytes == needs(least)
        assert found.plan.least.more_instructions == saved


def test_where_everything_fits_nothing_is_computed_row_by_row(
    least: TrainingStep, plain: TrainingStep
) -> None:
    found = fit_rows(least, needs(plain))
    assert found.plan.segments == ()
    assert needs(found) == needs(plain)


def test_between_the_two_some_is(least: TrainingStep, plain: TrainingStep) -> None:
    found = fit_rows(least, (needs(least) + needs(plain)) // 2)
    assert found.plan.segments
    assert work_of(plain.plan) < work_of(found.plan) < work_of(least.plan)


def test_what_does_not_fit_stays_the_least(least: TrainingStep) -> None:
    assert fit_rows(least, needs(least) - 1) is least


def test_a_byte_less_than_whole_images_take_is_not_enough_for_them(
    least: TrainingStep, plain: TrainingStep
) -> None:
    assert fit_rows(least, needs(plain) - 1).plan.segments


@pytest.mark.parametrize("network", [mobile_network, with_two_stems])
def test_without_a_memory_rows_have_to_save_a_larger_share_than_they_cost(
    network: Callable[[], Graph],
) -> None:
    graph = network()
    step, whole = prepare(graph, "head"), prepare(graph, "head", stream="off")
    found = fit_rows(step, None)
    products = {needs(s) * work_of(s.plan): s.plan.segments for s in (step, whole)}
    assert found.plan.segments == products[min(products)]


def test_no_memory_is_taken_for_next_to_nothing(
    least: TrainingStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = fit_rows(least, 1 << 20)
    share = 1 - work_of(found.plan) / work_of(least.plan)
    monkeypatch.setattr(streaming, "WORTH", share + 0.001)
    assert fit_rows(least, 1 << 20) is least


def test_what_has_no_rows_or_chooses_by_its_times_stays(plain: TrainingStep) -> None:
    elastic = prepare(mobile_network(), "last:1", elastic=True)
    assert elastic.plan.segments
    for step in (plain, elastic):
        for there_is in (None, 1 << 20):
            assert fit_rows(step, there_is) is step


@pytest.mark.slow
@settings(max_examples=8)
@given(graph=drawn(draw_front), share=st.floats(0, 1))
def test_fronts_with_any_room_compute_the_bits_of_the_reference(graph: Graph, share: float) -> None:
    training = training_graph(graph)
    ends = [plan_training(training, 8, stream=s).arena_bytes for s in ("least", "off")]
    room_bytes = round(ends[0] + share * (ends[1] - ends[0]))
    plan = plan_training(training, 8, room_bytes=room_bytes)
    compiled = CompiledSimulator(plan, seed=7, extra_flags=QUICK)
    reference = ReferenceSimulator(plan.training, seed=7)
    x, labels = networks.samples(graph, STEPS, plan.training.classes)
    rates = networks.rates(STEPS)
    expected, found = (s.train(x, labels, rates) for s in (reference, compiled))
    assert [list(v) for v in found] == [list(v) for v in expected]
    assert networks.states_differ(compiled.state, reference.state) == []
    np.testing.assert_array_equal(compiled.infer(x[:2]), reference.infer(x[:2]))


def board_with(sram_bytes: int) -> Target:
    board = target_of("nucleo-f446re")
    assert board is not None
    assert board.ram is not None
    return replace(board, ram=replace(board.ram, bytes=sram_bytes // 8 * 8))


def test_a_plan_for_a_board_takes_what_the_board_has(
    least: TrainingStep, plain: TrainingStep
) -> None:
    graph = mobile_network()
    roomy, tight = board_with(128 * 1024), board_with(needs(least) + 4500)
    assert plan(graph, board=roomy).step.plan.arena_bytes == plain.plan.arena_bytes
    assert plan(graph, board=roomy, stream="least").step.plan.arena == least.plan.arena
    found = plan(graph, board=tight)
    assert found.sram_bytes <= needs(least) + 4500
    assert found.to_dict()["least"] is None or needs(found.step) > needs(least)
    assert plan(graph, sram=needs(least)).step.plan.arena == least.plan.arena
    assert plan(least, board=roomy).step is least  # it was planned by who gave it


def test_what_firmware_takes_besides_is_left_to_it(tmp_path: Path) -> None:
    """Latents that are remembered take places in SRAM, which the images may not."""
    graph, count = mobile_network(), 100
    whole = plan(graph, board="nucleo-f446re", remember=count).to_dict()["board"]["sram_bytes"]
    tight = board_with(whole - 8)
    found = generate(graph, tmp_path / "project", board=tight, remember=count)
    assert found.plan.board is not None
    assert found.plan.board.ram is not None
    step = found.plan.step.plan
    assert step.segments
    taken = found.plan.board.sram_bytes(step.arena_bytes, step.resident_bytes)
    assert taken <= found.plan.board.ram.size_bytes


def test_what_gaps_make_too_large_is_planned_again(
    least: TrainingStep, plain: TrainingStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, rooms = streaming.plan_training, list[int]()

    def with_gaps(training: TrainGraph, align_bytes: int, **facts: Any) -> TrainingPlan:
        rooms.append(facts["room_bytes"])
        return real(training, align_bytes, **{**facts, "room_bytes": rooms[-1] + 48})

    monkeypatch.setattr(streaming, "plan_training", with_gaps)
    there_is = needs(plain) - 48
    assert needs(fit_rows(least, there_is)) <= there_is
    assert rooms[:2] == [there_is - least.plan.resident_bytes - more for more in (0, 48)]

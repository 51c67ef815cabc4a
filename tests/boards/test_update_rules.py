"""Boards and libraries train by other rules than SGD with the simulation's bits."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from mcutrain.codegen import Interface
from mcutrain.pipeline import TrainingStep, prepare
from mcutrain.sparse import parse_scheme
from mcutrain.update_rules import RULES, SGD
from tests.boards.projects import RATE, SEED, built, with_a_board
from tests.boards.stress import boards_with_power_cuts, end_power_cuts, taught
from tests.boards.test_library_on_cores import SECONDS, add_samples, built_for_risc_v
from tests.boards.test_same_bits import on_unicorn
from tests.codegen.test_own_program import compiler
from tests.drawing import drawn_by_commit
from tests.simulation.networks import residual_network, samples

OTHERS = sorted(RULES.keys() - {SGD})
STEPS = 24
CUTS = 6
MOST_INSTRUCTIONS = 8_000_000
"""Between two power cuts."""


@lru_cache(maxsize=4)
def step_by(rule: str) -> TrainingStep:
    graph = replace(residual_network(size=16), name=f"by {rule}")
    return prepare(graph, replace(parse_scheme("full"), update_rule=rule))


@lru_cache(maxsize=4)
def expected(rule: str) -> bytes:
    x, y = samples(residual_network(size=16), STEPS, 4)
    simulator = step_by(rule).simulator(SEED)
    simulator.train(x, y, [RATE] * STEPS)
    return simulator.save()


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "board"), with_a_board(OTHERS))
def test_a_board_trains_by_a_rule_as_the_simulation_does(
    projects_root: Path, tmp_path: Path, board: str, rule: str
) -> None:
    device = on_unicorn(built(projects_root, board, step=step_by(rule)))
    state = tmp_path / "state.mcts"
    lessons = samples(residual_network(size=16), STEPS, 4)
    taught(device, STEPS, save_every=8, state=state, of=lessons)
    assert state.read_bytes() == expected(rule)


@pytest.mark.slow
def test_power_cuts_lose_nothing_that_a_rule_keeps(projects_root: Path, tmp_path: Path) -> None:
    folder = built(projects_root, "nucleo-f446re", step=step_by("momentum"))
    lessons = samples(residual_network(size=16), STEPS, 4)
    for device, link, number in boards_with_power_cuts(folder, CUTS, MOST_INSTRUCTIONS):
        state = tmp_path / f"{number}.mcts"
        taught(device, STEPS, save_every=3, state=state, of=lessons)
        end_power_cuts(device, link)
        assert device.read_state() == expected("momentum") == state.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("rule", drawn_by_commit(OTHERS, 1))
def test_a_library_on_risc_v_trains_by_a_rule_as_the_simulation_does(
    tmp_path: Path, rule: str
) -> None:
    pytest.importorskip("ziglang")
    qemu = compiler("qemu-riscv32")
    folder = tmp_path / "library"
    step_by(rule).library(Interface()).write(folder)
    add_samples(folder, *samples(residual_network(size=16), STEPS, 4))
    program = str(built_for_risc_v(folder))
    done = subprocess.run([qemu, program], capture_output=True, timeout=SECONDS)
    assert done.returncode == 0
    assert done.stdout.partition(b"\n")[2] == expected(rule)

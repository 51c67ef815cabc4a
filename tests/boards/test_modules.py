"""A board trains modules as the simulation does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mcutrain.pipeline import prepare
from tests.boards.projects import RATE, SEED, built
from tests.boards.stress import taught
from tests.boards.test_same_bits import on_unicorn
from tests.modules.graphs import augmented
from tests.simulation.networks import residual_network, samples


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("kinds", ["adapter:2,lora-fa:2", "lite:3,up=bilinear,gain"])
@pytest.mark.parametrize("board", ["nucleo-f446re"])
def test_a_board_trains_modules_as_the_simulation_does(
    projects_root: Path, tmp_path: Path, board: str, kinds: str
) -> None:
    graph = augmented(residual_network(size=16), kinds).graph
    step = prepare(replace(graph, name=f"modules {kinds}"), "modules")
    device = on_unicorn(built(projects_root, board, step=step))
    x, y = samples(graph, 40, 4)
    state = tmp_path / "state.mcts"
    taught(device, 40, save_every=8, state=state, of=(x, y))
    simulator = step.simulator(SEED)
    simulator.train(x, y, [RATE] * 40)
    assert state.read_bytes() == simulator.save()

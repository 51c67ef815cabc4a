"""Recurrent layers trained on emulated boards: the simulation's losses, state and output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.client import Device, Patience
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import prepare
from mcutrain.simulation.rates import LearningRate
from tests.boards.projects import SEED, built
from tests.cost.networks import recalling, remembering

RATE = LearningRate.of(0.1)
COUNT = 4


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("made", [recalling, remembering])
@pytest.mark.parametrize("board", ["mps2-an500", "rpi-pico"])
def test_boards_learn_through_a_recurrent_layer_as_the_simulation(
    projects_root: Path, board, made
) -> None:
    step = prepare(made(1), "full")
    kind = step.graph.tensors[step.graph.inputs[0]].type
    drawn = np.random.default_rng(0).integers(-128, 128, (COUNT, *kind.shape[1:]))
    x, labels, simulator = drawn.astype(np.int8), np.arange(COUNT) % 4, step.simulator(SEED)
    losses, said = simulator.train(x, labels, [RATE] * COUNT)
    folder = built(projects_root, board, step=step)
    device = Device(DirectLink(load_machine(folder, LoopbackLink())), Patience())
    device.reset(SEED)
    found = []
    for position, sample in enumerate(x):
        device.send_sample(sample.tobytes())
        one = device.train(int(labels[position]), position, Rate(RATE.mult_q31, RATE.shift))
        found.append((one.loss_q16, one.prediction))
    assert found == list(zip(losses.tolist(), said.tolist(), strict=True))
    assert device.read_state() == simulator.save()
    device.send_sample(x[0].tobytes())
    device.infer()
    assert device.read_output() == simulator.infer(x[:1]).tobytes()

"""Learning to reproduce the input, on emulated boards: the simulation's bits, loss for loss."""

from __future__ import annotations

import numpy as np
import pytest
from mcutrain_host.client import Device, Patience
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import prepare
from mcutrain.simulation.rates import LearningRate
from tests.boards.projects import SEED, built
from tests.simulation.autoencoders import dense, normal

STEPS = 8
RATE = LearningRate.of(0.3)


@pytest.mark.parametrize("board", ["nucleo-f446re", "rpi-pico"])
def test_an_autoencoder_ends_with_the_simulations_bits(projects_root, board):
    step = prepare(dense(), "2:1,bias:2", loss="mse")
    x = normal(step.graph, STEPS)
    simulator = step.simulator(SEED)
    losses, _ = simulator.train(x, np.zeros(STEPS), [RATE] * STEPS)
    folder = built(projects_root, board, step=step)
    device = Device(DirectLink(load_machine(folder, LoopbackLink())), Patience())
    assert device.identify().classes == 1
    device.reset(SEED)
    found = []
    for position, sample in enumerate(x):
        device.send_sample(sample.tobytes())
        found.append(device.train(0, position, Rate(RATE.mult_q31, RATE.shift)).loss_q16)
    assert found == losses.tolist()
    assert device.read_state() == simulator.save()
    device.send_sample(x[0].tobytes())
    device.infer()
    assert device.read_output() == simulator.infer(x[:1]).tobytes()

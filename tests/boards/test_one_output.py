"""One output, a sigmoid, on emulated boards: the simulation's bits, and answers of two classes."""

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
from tests.simulation.test_one_output import lessons, network

RATE = LearningRate.of(0.1)


@pytest.mark.parametrize("board", ["nucleo-f446re", "rpi-pico"])
def test_boards_answer_and_learn_as_the_simulation(projects_root, board: str) -> None:
    step = prepare(network(), "last:1")
    data = lessons(step.graph, 12).train
    simulator = step.simulator(SEED)
    losses, said = simulator.train(data.x, data.y, [RATE] * 12)
    folder = built(projects_root, board, step=step)
    device = Device(DirectLink(load_machine(folder, LoopbackLink())), Patience())
    identity = device.identify()
    assert (identity.classes, identity.output_bytes) == (2, 1)
    device.reset(SEED)
    found = []
    for position, sample in enumerate(data.x):
        device.send_sample(sample.tobytes())
        one = device.train(int(data.y[position]), position, Rate(RATE.mult_q31, RATE.shift))
        found.append((one.loss_q16, one.prediction))
    assert found == list(zip(losses.tolist(), said.tolist(), strict=True))
    assert device.read_state() == simulator.save()
    answers = []
    for sample in data.x:
        device.send_sample(sample.tobytes())
        answers.append(device.infer().prediction)
        assert device.read_output() == simulator.infer(sample[np.newaxis]).tobytes()
    outputs = simulator.infer(data.x).ravel()
    assert answers == (outputs > step.plan.training.threshold).astype(int).tolist()
    assert set(answers) == {0, 1}

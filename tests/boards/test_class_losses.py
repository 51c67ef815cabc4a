"""Weighted and distilled losses of classes on emulated boards: the simulation's bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from mcutrain_host.client import Device, Patience
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import prepare
from mcutrain.simulation.rates import LearningRate
from tests.boards.projects import SEED, built
from tests.simulation.networks import residual_network, samples

STEPS = 8
RATE = LearningRate.of(0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "asked"),
    [
        ("rpi-pico", {"class_weights": "1,3,0.5,2", "label_smoothing": 0.1}),
        ("rpi-pico", {"distill": 0.4}),
        ("nucleo-f446re", {"distill": 0.7, "gradient_dtype": "int16"}),
    ],
)
def test_boards_learn_as_the_simulation(projects_root, board: str, asked: dict[str, Any]) -> None:
    graph = replace(residual_network(), name="_".join(asked))
    step = prepare(graph, "last:1", **asked)
    x, y = samples(step.graph, STEPS, 4)
    simulator, reference = step.simulator(SEED), step.reference(SEED)
    losses, _ = simulator.train(x, y, [RATE] * STEPS)
    assert reference.train(x, y, [RATE] * STEPS)[0].tolist() == losses.tolist()
    folder = built(projects_root, board, step=step)
    device = Device(DirectLink(load_machine(folder, LoopbackLink())), Patience())
    device.reset(SEED)
    found = []
    for position, sample in enumerate(x):
        device.send_sample(sample.tobytes())
        rate = Rate(RATE.mult_q31, RATE.shift)
        found.append(device.train(int(y[position]), position, rate).loss_q16)
    assert found == losses.tolist()
    assert device.read_state() == simulator.save() == reference.save()

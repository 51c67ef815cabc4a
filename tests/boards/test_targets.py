"""Learning real targets on an emulated board: the simulation's bits, loss for loss."""

from __future__ import annotations

import numpy as np
import pytest
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import RefusedError
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain.data import Targets
from mcutrain.pipeline import StepOptions, prepare
from mcutrain.simulation.rates import LearningRate
from tests.boards.projects import SEED, built
from tests.simulation.networks import detector, residual_network, samples

STEPS = 8
RATE = LearningRate.of(0.003)


def test_a_network_of_real_targets_ends_with_the_simulations_bits(projects_root):
    y = np.random.default_rng(2).uniform(20, 90, (STEPS, 3)).astype(np.float32)
    targets = Targets.spanning(y)
    step = prepare(
        residual_network(), "last:2", StepOptions(classes=3, loss="huber", targets=targets)
    )
    codes, x = targets.codes(y), samples(step.graph, STEPS, 3)[0]
    simulator = step.simulator(SEED)
    losses, _ = simulator.train(x, codes, [RATE] * STEPS)
    folder = built(projects_root, "nucleo-f446re", step=step)
    device = Device(DirectLink(load_machine(folder, LoopbackLink())), Patience())
    assert device.identify().label_bytes == 6
    device.reset(SEED)
    found = []
    for position, sample in enumerate(x):
        device.send_sample(sample.tobytes())
        rate = Rate(RATE.mult_q31, RATE.shift)
        found.append(device.train(codes[position].tobytes(), position, rate).loss_q16)
    assert found == losses.tolist()
    assert device.read_state() == simulator.save()
    device.send_sample(x[0].tobytes())
    device.infer()
    assert device.read_output() == simulator.infer(x[:1]).tobytes()


def test_several_outputs_end_with_the_simulations_bits(projects_root):
    random = np.random.default_rng(2)
    step = prepare(detector("boxes,parts"), "last:1", StepOptions(losses="boxes=huber:2"))
    x = samples(step.graph, STEPS, 3)[0]
    codes = random.integers(0, 3, (STEPS, 4 + 16)).astype(np.int16)
    codes[:, 5] = 255
    simulator = step.simulator(SEED)
    losses, _ = simulator.train(x, codes, [RATE] * STEPS)
    folder = built(projects_root, "nucleo-f446re", step=step)
    device = Device(DirectLink(load_machine(folder, LoopbackLink())), Patience())
    assert device.identify().label_bytes == 40
    device.reset(SEED)
    rate = Rate(RATE.mult_q31, RATE.shift)
    for wrong in (3, -1, 256):
        bad = codes[0].copy()
        bad[7] = wrong
        device.send_sample(x[0].tobytes())
        with pytest.raises(RefusedError, match="no class"):
            device.train(bad.tobytes(), 0, rate)
    found = []
    for position, sample in enumerate(x):
        device.send_sample(sample.tobytes())
        found.append(device.train(codes[position].tobytes(), position, rate).loss_q16)
    assert found == losses.tolist()
    assert device.read_state() == simulator.save()
    device.send_sample(x[0].tobytes())
    device.infer()
    assert device.read_output() == simulator.infer(x[:1]).tobytes()

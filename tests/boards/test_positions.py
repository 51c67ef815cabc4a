"""A small U-Net on emulated boards: the simulation's bits, with a label for each pixel."""

from __future__ import annotations

import numpy as np
import pytest
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import RefusedError
from mcutrain_host.protocol import Command, Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain.codegen import Interface
from mcutrain.data import IGNORED
from mcutrain.memplan import find_latent
from mcutrain.pipeline import prepare
from mcutrain.simulation.rates import LearningRate
from tests.boards.projects import SEED, TWO_BODIES, built
from tests.drawing import drawn_by_commit
from tests.simulation import segmentation
from tests.simulation.segmentation import CLASSES, SIDE

STEPS = 10
RATE = LearningRate.of(0.1)
SENT = Rate(RATE.mult_q31, RATE.shift)


@pytest.mark.slow
@pytest.mark.parametrize("board", drawn_by_commit(TWO_BODIES, 1))
def test_a_u_net_ends_with_the_simulations_bits(projects_root, board):
    step = prepare(segmentation.unet(), "full")
    x, y = segmentation.images(STEPS)
    x = segmentation.codes(step.graph, x)
    y[3] = IGNORED
    simulator, reference = step.simulator(SEED), step.reference(SEED)
    losses, right = simulator.train(x, y, [RATE] * STEPS)
    expected = reference.train(x, y, [RATE] * STEPS)
    assert [losses.tolist(), right.tolist()] == [values.tolist() for values in expected]
    folder = built(projects_root, board, step=step)
    device = Device(DirectLink(load_machine(folder, LoopbackLink())), Patience())
    identity = device.identify()
    assert (identity.classes, identity.label_bytes) == (CLASSES, SIDE * SIDE)
    device.reset(SEED)
    found = []
    for position in range(STEPS):
        device.send_sample(x[position].tobytes())
        device.send_labels(y[position].tobytes())
        trained = device.train(0, position, SENT)
        found.append((trained.loss_q16, trained.prediction))
    assert found == list(zip(losses.tolist(), right.tolist(), strict=True))
    assert device.read_state() == simulator.save() == reference.save()
    device.send_sample(x[0].tobytes())
    device.infer()
    assert device.read_output() == simulator.infer(x[:1]).tobytes()
    check_refusals(device, x[0], y[0])


def test_labels_go_with_a_latent(projects_root):
    step = prepare(segmentation.unet(), "head")
    latent = find_latent(step.plan)
    simulator = step.latent_simulator(latent, SEED)
    x, y = segmentation.images(4)
    latents = simulator.front(segmentation.codes(step.graph, x))
    losses, _ = simulator.train(latents, y, [RATE] * 4)
    names = Interface(latent=latent.tensor)
    folder = built(projects_root, "nucleo-f446re", step=step, interface=names)
    device = Device(DirectLink(load_machine(folder, LoopbackLink())), Patience())
    device.reset(SEED)
    for position in range(4):
        device.send_latent(latents[position].tobytes())
        device.send_labels(y[position].tobytes())
        assert device.train(0, position, SENT).loss_q16 == losses[position]
    assert device.read_state() == simulator.save()


def check_refusals(device, x, y):
    """No step without all labels, none with a wrong one, none with those of an earlier sample."""
    before = device.read_state()
    wrong = y.copy()
    wrong[-1, -1] = CLASSES
    refused("SAMPLE_INCOMPLETE", lambda: device.train(0, STEPS, SENT))
    device.send_sample(x.tobytes())
    refused("SAMPLE_INCOMPLETE", lambda: device.train(0, STEPS, SENT))
    device.send_labels(wrong.tobytes())
    refused("LABEL", lambda: device.train(0, STEPS, SENT))
    device.send_labels(y.tobytes())
    refused("LABEL", lambda: device.train(1, STEPS, SENT))
    refused("OFFSET", lambda: device._ask(Command.LABELS, bytes([1, 0, 0, 0, 0]), bytes))
    refused("OFFSET", lambda: device._ask(Command.LABELS, bytes(4 + SIDE * SIDE + 1), bytes))
    refused("LENGTH", lambda: device._ask(Command.LABELS, bytes(4), bytes))
    device.send_sample(x.tobytes())
    refused("SAMPLE_INCOMPLETE", lambda: device.train(0, STEPS, SENT))
    refused("COMMAND", lambda: device.evaluate(0, 0))
    assert device.read_state() == before
    device.send_labels(y.tobytes())
    assert device.train(0, STEPS, SENT).position == STEPS + 1


def refused(status, ask):
    with pytest.raises(RefusedError) as caught:
        ask()
    from mcutrain_host.protocol import Status

    assert caught.value.status == Status[status]


def test_labels_of_another_size_are_not_sent(projects_root):
    folder = built(projects_root, "nucleo-f446re", step=prepare(segmentation.unet(), "full"))
    device = Device(DirectLink(load_machine(folder, LoopbackLink())), Patience())
    with pytest.raises(ValueError, match="64 labels, not 3"):
        device.send_labels(np.zeros(3, np.uint8).tobytes())

"""Several sigmoids on emulated boards: the simulation's bits, with a label for each output."""

from __future__ import annotations

import pytest
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import RefusedError
from mcutrain_host.manifest import LabelOutputs, Manifest
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import prepare
from mcutrain.simulation.rates import LearningRate
from tests.boards.projects import SEED, TWO_BODIES, built
from tests.drawing import drawn_by_commit
from tests.simulation.test_label_outputs import LOSS, OUTPUTS, lessons, network

RATE = LearningRate.of(0.1)
STEPS = 12


@pytest.mark.parametrize("board", drawn_by_commit(TWO_BODIES, 1))
def test_boards_learn_as_the_simulation(projects_root, board: str) -> None:
    step = prepare(network(), "last:1", loss=LOSS)
    data = lessons(step.graph, STEPS).train
    simulator, reference = step.simulator(SEED), step.reference(SEED)
    losses, right = simulator.train(data.x, data.y, [RATE] * STEPS)
    expected = reference.train(data.x, data.y, [RATE] * STEPS)
    assert [losses.tolist(), right.tolist()] == [values.tolist() for values in expected]
    folder = built(projects_root, board, step=step)
    manifest = Manifest.of_folder(folder, "")
    assert manifest.label_outputs == LabelOutputs(channels=OUTPUTS, threshold=0)
    device = Device(DirectLink(load_machine(folder, LoopbackLink())), Patience())
    identity = device.identify()
    assert (identity.classes, identity.label_bytes) == (2, OUTPUTS)
    device.reset(SEED)
    found = []
    for position, sample in enumerate(data.x):
        device.send_sample(sample.tobytes())
        device.send_labels(data.y[position].tobytes())
        one = device.train(0, position, Rate(RATE.mult_q31, RATE.shift))
        found.append((one.loss_q16, one.prediction))
    assert found == list(zip(losses.tolist(), right.tolist(), strict=True))
    assert device.read_state() == simulator.save() == reference.save()
    device.send_sample(data.x[0].tobytes())
    device.infer()
    assert device.read_output() == simulator.infer(data.x[:1]).tobytes()
    device.send_labels(bytes([0, 2, 1]))
    with pytest.raises(RefusedError):
        device.train(0, STEPS, Rate(RATE.mult_q31, RATE.shift))
    assert device.read_state() == simulator.save()

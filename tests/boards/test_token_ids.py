"""Token ids on emulated boards, a Pi's program and a library: the simulation's bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.client import Device, Patience
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import Rate
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import prepare
from mcutrain.functions.board_samples import input_of
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation.rates import LearningRate
from tests.boards.projects import SEED, built, has_compiler
from tests.boards.test_same_bits import qemu_user
from tests.formats.token_models import CLASSES, ROWS, TOKENS, ids, quantized, transformer

RATE = LearningRate.of(0.1)
COUNT = 6
LABELS = np.arange(COUNT) % CLASSES


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> TrainingStep:
    graph = quantized(transformer(tmp_path_factory.mktemp("t") / "t.onnx")).graph
    return prepare(replace(graph, name="token-transformer"), "last:3")


def odd_ids() -> np.ndarray:
    """Some have no row: the device takes the nearest one."""
    x = ids(COUNT)
    x[0, :3], x[1, -1] = (-1, -(2**15), 2**15 - 1), ROWS
    return x


@pytest.mark.slow
def test_numpy_portable_c_and_host_bodies_agree(step: TrainingStep) -> None:
    x = odd_ids()
    known = np.clip(x, 0, ROWS - 1)
    makers = (step.reference(), step.simulator(), step.simulator(portable=True))
    rates = [RATE] * COUNT
    found = [(*one.train(x, LABELS, rates), one.infer(x), one.infer(known)) for one in makers]
    for one in found[1:]:
        assert all((a == b).all() for a, b in zip(found[0], one, strict=True))
    assert (found[0][2] == found[0][3]).all(), "an id without a row means the nearest one"


def check(device: Device, step: TrainingStep) -> None:
    x, simulator = odd_ids(), step.simulator(SEED)
    losses, said = simulator.train(x, LABELS, [RATE] * COUNT)
    assert device.identify().input_bytes == 2 * TOKENS
    device.reset(SEED)
    found = []
    for position, sample in enumerate(x):
        device.send_sample(sample.tobytes())
        one = device.train(int(LABELS[position]), position, Rate(RATE.mult_q31, RATE.shift))
        found.append((one.loss_q16, one.prediction))
    assert found == list(zip(losses.tolist(), said.tolist(), strict=True))
    assert device.read_state() == simulator.save()
    device.send_sample(x[0].tobytes())
    device.infer()
    assert device.read_output() == simulator.infer(x[:1]).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("board", ["mps2-an500", "rpi-pico"])
def test_boards_learn_as_the_simulation(projects_root: Path, step: TrainingStep, board) -> None:
    folder = built(projects_root, board, step=step)
    check(Device(DirectLink(load_machine(folder, LoopbackLink())), Patience()), step)
    taken = input_of(BoardProject.read(folder))
    assert (taken.ids, taken.known_order.ids, taken.shape) == (ROWS, ROWS, (TOKENS,))


@pytest.mark.slow
def test_a_pi_learns_as_the_simulation(projects_root: Path, step: TrainingStep) -> None:
    if not has_compiler("raspberry-pi", "gcc"):
        pytest.skip("no compiler for AArch64")
    with qemu_user(built(projects_root, "raspberry-pi", "gcc", step=step)) as device:
        check(device, step)

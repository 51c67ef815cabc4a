"""A board gives a class its weights from a few samples: the simulation's bits, and numpy's."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from mcutrain_host.client import Device
from mcutrain_host.errors import RefusedError
from mcutrain_host.link import SerialLink
from mcutrain_host.manifest import BoardProject
from mcutrain_host.memory import linked_memory
from mcutrain_host.protocol import Status
from mcutrain_host.virtual.qemu import QemuBoard

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.memplan import find_latent
from mcutrain.pipeline import TrainingStep
from mcutrain.quant import random_start
from mcutrain.simulation import CompiledSimulator
from mcutrain.sparse import find_head
from tests.boards.projects import RATE, SEED, TRAINING_THE_DEMO, built, quick_lessons
from tests.boards.test_replay import SENT_RATE
from tests.boards.test_same_bits import PATIENCE, SECONDS, as_program, on_unicorn
from tests.drawing import drawn_by_commit
from tests.simulation.networks import residual_network
from tests.simulation.test_imprint import centre_for

SHOTS, LABEL, KNOWN, TAUGHT = 5, 3, 3, 6
QEMU = "mps2-an386"


@lru_cache(maxsize=1)
def new_head() -> TrainingStep:
    """Whose classes share a weight scale; beside rows of zeros a class would get zeros."""
    graph = replace(residual_network(), name="new head")
    start = random_start(graph, find_head(graph).node, 4, 0)
    return prepare(graph, "head", classes=4, head_start=start)


@lru_cache(maxsize=1)
def interface() -> Interface:
    return Interface(centre=centre_for(new_head(), quick_lessons()[0][:20]))


def project(root: Path, board: str, **more: object) -> Path:
    own = replace(interface(), **more)
    return built(root, board, step=new_head(), interface=own)


@lru_cache(maxsize=1)
def expected() -> bytes:
    """After training, imprinting, and training again, as the host's C does it."""
    x, y = quick_lessons()
    library = new_head().library(interface())
    simulator = CompiledSimulator(new_head().plan, seed=SEED, project=library)
    rates = [RATE] * TAUGHT
    simulator.train(x[:TAUGHT], y[:TAUGHT], rates)
    simulator.imprint(x[20 : 20 + SHOTS], LABEL, KNOWN)
    simulator.train(x[TAUGHT : 2 * TAUGHT], y[TAUGHT : 2 * TAUGHT], rates)
    return simulator.save()


def teach(device: Device, first: int) -> None:
    x, y = quick_lessons()
    for i in range(first, first + TAUGHT):
        device.send_sample(x[i].tobytes())
        device.train(int(y[i]), i, SENT_RATE)


def collect(device: Device) -> None:
    x, _ = quick_lessons()
    for i in range(SHOTS):
        device.send_sample(x[20 + i].tobytes())
        assert device.collect(i).samples == i + 1


def imprinted(device: Device) -> bytes:
    device.reset(SEED)
    assert device.identity.imprints
    teach(device, 0)
    collect(device)
    device.imprint(LABEL, KNOWN)
    assert device.identify().position == TAUGHT
    teach(device, TAUGHT)
    return device.read_state()


def test_numpy_ends_with_the_simulations_bits() -> None:
    x, y = quick_lessons()
    reference = new_head().reference(SEED)
    rates = [RATE] * TAUGHT
    reference.train(x[:TAUGHT], y[:TAUGHT], rates)
    reference.imprint(x[20 : 20 + SHOTS], LABEL, KNOWN, interface().centre)
    reference.train(x[TAUGHT : 2 * TAUGHT], y[TAUGHT : 2 * TAUGHT], rates)
    assert reference.save() == expected()


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("board", drawn_by_commit(TRAINING_THE_DEMO, 2))
def test_boards_end_with_the_simulations_bits_in_the_memory_that_was_planned(
    projects_root: Path, board: str
) -> None:
    folder = project(projects_root, board)
    device = on_unicorn(folder)
    assert imprinted(device) == expected()
    memory = BoardProject.read(folder).board.memory
    linked = linked_memory(folder)
    assert linked is not None
    assert linked.agrees
    plain = BoardProject.read(built(projects_root, board, step=new_head())).board.memory
    features = len(interface().centre)
    more = memory.sram_bytes - plain.sram_bytes
    assert abs(more - (8 + 4 * features)) < 8  # by alignment
    assert device.identity.sram_bytes == memory.sram_bytes
    assert device.statistics().stack_used_bytes < device.identity.stack_bytes


@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
def test_qemu_and_a_program_end_with_the_simulations_bits(projects_root: Path) -> None:
    with as_program(project(projects_root, "native")) as device:
        assert imprinted(device) == expected()
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("no qemu-system-arm: apt install qemu-system-arm")
    folder = project(projects_root, QEMU)
    with QemuBoard.from_folder(folder) as qemu, SerialLink(qemu.port) as link:
        assert imprinted(Device(link, PATIENCE)) == expected()


@pytest.mark.timeout(SECONDS)
def test_latents_imprint_as_samples_do_and_remembered_ones_are_replayed_after(
    projects_root: Path,
) -> None:
    x, y = quick_lessons()
    device = on_unicorn(project(projects_root, "nucleo-f446re", remember=4))
    latent = find_latent(new_head().plan)
    front = new_head().latent_simulator(latent, SEED).front(x)
    states = []
    for takes_latents in (False, True):
        device.reset(SEED)
        teach(device, 0)
        for i in range(SHOTS):
            if takes_latents:
                device.send_latent(front[20 + i].tobytes())
            else:
                device.send_sample(x[20 + i].tobytes())
            device.collect(i)
        device.imprint(LABEL, KNOWN)
        replayed = [device.replay(TAUGHT + i, SENT_RATE).label for i in range(3)]
        assert set(replayed) <= set(y[:TAUGHT].tolist())
        states.append(device.read_state())
    assert states[0] == states[1]


@pytest.mark.timeout(SECONDS)
def test_what_cannot_be_is_refused_and_changes_nothing(projects_root: Path) -> None:
    x, _ = quick_lessons()
    device = on_unicorn(project(projects_root, "nucleo-f446re"))
    device.reset(SEED)
    before = device.read_state()

    def refusal(call: object, *given: int) -> int:
        with pytest.raises(RefusedError) as refused:
            call(*given)  # type: ignore[operator]
        return refused.value.status

    assert refusal(device.collect, 0) == Status.SAMPLE_INCOMPLETE
    assert refusal(device.imprint, LABEL, KNOWN) == Status.SAMPLE_INCOMPLETE
    device.send_sample(x[0].tobytes())
    assert refusal(device.collect, 1) == Status.POSITION
    device.collect(0)
    for label, known in ((4, 3), (0, 1), (1, 0), (1, 5), (0x8000_0000, 3)):
        assert refusal(device.imprint, label, known) == Status.LABEL
    assert device.read_state() == before
    device.imprint(LABEL, KNOWN)
    assert refusal(device.imprint, LABEL, KNOWN) == Status.SAMPLE_INCOMPLETE
    assert device.read_state() != before
    device.send_sample(x[0].tobytes())
    device.collect(0)
    device.write_state(before)
    assert refusal(device.imprint, LABEL, KNOWN) == Status.SAMPLE_INCOMPLETE
    plain = on_unicorn(built(projects_root, "nucleo-f446re", step=new_head()))
    assert not plain.identify().imprints
    assert refusal(plain.collect, 0) == Status.COMMAND
    assert refusal(plain.imprint, LABEL, KNOWN) == Status.COMMAND


@pytest.mark.timeout(SECONDS)
def test_a_class_outlives_a_power_cut_once_it_is_saved(projects_root: Path) -> None:
    device = on_unicorn(project(projects_root, "nucleo-f446re"))
    device.reset(SEED)
    teach(device, 0)
    collect(device)
    device.link.machine.power_cut()  # type: ignore[attr-defined]
    device.link.machine.power_on()  # type: ignore[attr-defined]
    device.identify()
    with pytest.raises(RefusedError):
        device.imprint(LABEL, KNOWN)  # what was collected is gone
    device.reset(SEED)
    teach(device, 0)
    collect(device)
    device.imprint(LABEL, KNOWN)
    state = device.read_state()
    device.save()
    device.link.machine.power_cut()  # type: ignore[attr-defined]
    device.link.machine.power_on()  # type: ignore[attr-defined]
    device.identify()
    assert device.read_state() == state

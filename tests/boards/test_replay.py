"""Boards take latents, remember them in flash, and replay what a simulation replays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.client import Device
from mcutrain_host.errors import RefusedError
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import Rate, RingStatistics, Status
from mcutrain_host.saved import skipped_samples

from mcutrain.codegen import Interface
from mcutrain.errors import TargetError
from mcutrain.memplan import find_latent
from mcutrain.pipeline import prepare
from mcutrain.simulation import LatentSimulator
from mcutrain.simulation.replay import with_replays
from mcutrain.target import load_target
from tests.boards.projects import RATE, SEED, built, quick_lessons, quick_step
from tests.boards.stress import taught, with_power_cuts
from tests.boards.test_faults import CUTS_PER_RUN, IS_STRESS, MOST_INSTRUCTIONS
from tests.boards.test_same_bits import on_unicorn
from tests.simulation.networks import residual_network

BOARDS = ("rpi-pico", "nucleo-f446re", "stm32f746g-disco", "nucleo-f303re")
LATENT = Interface(latent="auto")
RING = Interface(remember=6)
SENT_RATE = Rate(RATE.mult_q31, RATE.shift)
NEW, REPLAY = 20, 2
CUTS = (
    {"nucleo-f446re": 300, "nucleo-f303re": 300, "rpi-pico": 300}
    if IS_STRESS
    else {"nucleo-f446re": 20, "nucleo-f303re": 10, "rpi-pico": 10}
)
"""The ring and saves take most of a run's time on the chip."""


def latents() -> LatentSimulator:
    step = quick_step()
    return step.latent_simulator(find_latent(step.plan), SEED)


def order() -> np.ndarray:
    return with_replays(np.arange(NEW), REPLAY, RING.remember)


def simulated(index: np.ndarray) -> bytes:
    """After training on these samples."""
    x, y = quick_lessons()
    simulator = quick_step().simulator(SEED)
    simulator.train(x[index], y[index], [RATE] * len(index))
    return simulator.save()


@pytest.mark.parametrize("board", BOARDS)
def test_latents_and_samples_over_the_line_give_the_same_bits(projects_root: Path, board: str):
    x, y = quick_lessons()
    front = latents().front(x)
    device = on_unicorn(built(projects_root, board, step=quick_step(), interface=LATENT))
    device.reset(SEED)
    assert device.identity.latent_bytes == find_latent(quick_step().plan).size_bytes
    assert device.identity.remember == 0
    for i in range(12):
        if i % 3 == 0:
            device.send_sample(x[i].tobytes())
        else:
            device.send_latent(front[i].tobytes())
        device.train(int(y[i]), i, SENT_RATE)
    assert device.read_state() == simulated(np.arange(12))
    outputs = []
    for send, content in ((device.send_sample, x), (device.send_latent, front)):
        send(content[20].tobytes())
        device.infer()
        outputs.append(device.read_output())
    assert outputs[0] == outputs[1]
    with pytest.raises(RefusedError) as refused:
        device.replay(12, SENT_RATE)
    assert refused.value.status == Status.COMMAND
    assert device.statistics().stack_used_bytes < device.identity.stack_bytes


def train(device: Device, first: int, last: int, send_latents: bool = True) -> None:
    """The steps of a run with replays, as `mcutrain train` does them."""
    x, y = quick_lessons()
    front = latents().front(x) if send_latents else x
    send = device.send_latent if send_latents else device.send_sample
    for position in range(first, last):
        if position % (1 + REPLAY):
            step = device.replay(position, SENT_RATE)
            assert step.label == y[order()[position]]
        else:
            new = position // (1 + REPLAY)
            send(front[new].tobytes())
            device.train(int(y[new]), position, SENT_RATE)


@pytest.mark.parametrize("board", BOARDS)
def test_a_board_replays_with_the_bits_of_the_simulation(projects_root: Path, board: str):
    """Also from samples, and after the power failed behind what was saved."""
    device = on_unicorn(built(projects_root, board, step=quick_step(), interface=RING))
    total = NEW * (1 + REPLAY)
    assert device.reset(SEED) == 0
    train(device, 0, 31)
    device.save()
    train(device, 31, 43, send_latents=False)
    device.link.machine.power_cut()
    device.link.machine.power_on()
    assert device.identify().position == 31
    assert device.identity.offered == 11
    train(device, 31, total, send_latents=False)
    assert device.read_state() == simulated(order())
    counted = device.statistics()
    assert isinstance(counted, RingStatistics)
    assert counted.offered == NEW
    assert counted.slots_erased >= 1
    assert counted.stack_used_bytes < device.identity.stack_bytes


def test_a_gate_skips_remembered_samples_too_with_the_bits_of_the_simulation(tmp_path: Path):
    """In numpy, in C from samples and from latents, and on a board; the board remembers latents."""
    step, (x, y), index = prepare(residual_network(), "head", gate=1), quick_lessons(), order()
    latent = find_latent(step.plan)
    simulators = [step.reference(SEED), step.simulator(SEED), step.latent_simulator(latent, SEED)]
    for simulator in simulators[1:]:
        begin = simulator.front(x) if isinstance(simulator, LatentSimulator) else x
        simulator.train(begin[index], y[index], [RATE] * len(index))
    skipped = []
    for i in index:
        simulators[0].train(x[i : i + 1], y[i : i + 1], [RATE])
        skipped.append(simulators[0].skipped - sum(skipped))
    assert 3 < sum(skipped[:: 1 + REPLAY]) < NEW - 3
    assert 3 < sum(skipped) - sum(skipped[:: 1 + REPLAY]) < len(index) - NEW - 3
    device = on_unicorn(built(tmp_path, "nucleo-f446re", step=step, interface=RING))
    device.reset(SEED)
    train(device, 0, len(index))
    states = [simulator.save() for simulator in simulators]
    assert states == [device.read_state()] * 3
    assert skipped_samples(states[0], step.plan.gate_offset) == sum(skipped)


def test_what_a_board_remembers_goes_with_its_weights(projects_root: Path):
    device = on_unicorn(built(projects_root, "nucleo-f446re", step=quick_step(), interface=RING))
    device.reset(SEED)
    train(device, 0, 9)
    device.save()
    state = device.read_state()
    for forget in (lambda: device.reset(SEED), lambda: device.write_state(state)):
        position = forget() or device.identify().position
        assert device.identify().offered == 0
        with pytest.raises(RefusedError) as refused:
            device.replay(position, SENT_RATE)
        assert refused.value.status == Status.FORGOTTEN
        assert device.restore().position == 9
        assert device.identify().offered == 3
    train(device, 9, NEW * (1 + REPLAY))
    assert device.read_state() == simulated(order())


@pytest.mark.slow
@pytest.mark.timeout(3600 if IS_STRESS else 600)
@pytest.mark.parametrize("board", sorted(CUTS))
def test_power_cuts_while_a_ring_is_written_change_no_bit(
    projects_root: Path, tmp_path: Path, board: str
):
    folder = built(projects_root, board, step=quick_step(), interface=RING)
    expected = simulated(order())
    done = seed = 0
    while done < CUTS[board]:
        seed += 1
        cuts = min(CUTS_PER_RUN, CUTS[board] - done)
        device, link = with_power_cuts(folder, cuts, MOST_INSTRUCTIONS[board], seed)
        state = tmp_path / f"{seed}.mcts"
        ring = (REPLAY, RING.remember)
        taught(device, NEW, save_every=3, state=state, of=quick_lessons(), ring=ring)
        done += link.cuts
        link.machine.cut_at(None)
        device.identify()  # the last cut may have come behind the last step
        assert device.read_state() == expected == state.read_bytes()
    print(f"{board}: {done} power cuts in {seed} runs")


def test_a_ring_that_no_slot_has_room_for_is_refused():
    target, step = load_target("nucleo-f303re"), quick_step()
    with pytest.raises(TargetError, match=r"in which 189 latents of 5 bytes fit beside saved"):
        step.firmware(target, Interface(remember=1_000))
    step.firmware(target, Interface(remember=189))
    with pytest.raises(TargetError, match="cannot remember latents: the program has the flash of"):
        step.firmware(target.without_slots(), RING)


@pytest.mark.parametrize("remember", [4, 5, 6, 7])
def test_the_plan_counts_the_ring_to_the_byte(projects_root: Path, remember: int):
    interface = Interface(remember=remember)
    folder = built(projects_root, "nucleo-f446re", step=quick_step(), interface=interface)
    assert BoardProject.read(folder).board.memory.remember == remember  # mct_app.c asserts bytes

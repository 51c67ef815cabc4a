"""Boards take latents, remember them in flash, and replay what a simulation replays."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.errors import BuildError, RefusedError
from mcutrain_host.manifest import BoardProject
from mcutrain_host.memory import linked_memory
from mcutrain_host.protocol import Rate, RingStatistics, Status
from mcutrain_host.virtual.board import DirectLink, load_machine
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain import prepare
from mcutrain.codegen import Interface
from mcutrain.codegen.firmware import SAVED_HEADER_BYTES
from mcutrain.errors import TargetError
from mcutrain.features import FACTS
from mcutrain.memplan import find_latent
from mcutrain.simulation import LatentSimulator
from mcutrain.simulation.replay import Earlier, remembered, with_replays
from mcutrain.target import LOG_HEADER_BYTES, PAGE_BYTES, Target, load_target
from tests.boards.projects import RATE, SEED, built, quick_lessons, quick_step
from tests.boards.stress import (
    boards_with_power_cuts,
    end_power_cuts,
    taught,
    with_power_cuts,
)
from tests.boards.test_evidence import IS_STRESS, MOST_INSTRUCTIONS
from tests.boards.test_same_bits import on_unicorn
from tests.drawing import drawn_by_commit
from tests.firmware.elf import Section, sections
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


@pytest.mark.parametrize("board", drawn_by_commit(BOARDS, 1))
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


def train(
    device: Device,
    first: int,
    last: int,
    remember: int = RING.remember,
    send_latents: bool = True,
) -> None:
    """The steps of a run with replays, as `mcutrain train` does them."""
    order = with_replays(np.arange(NEW), REPLAY, remember)
    x, y = quick_lessons()
    front = latents().front(x) if send_latents else x
    send = device.send_latent if send_latents else device.send_sample
    for position in range(first, last):
        if position % (1 + REPLAY):
            step = device.replay(position, SENT_RATE)
            assert step.label == y[order[position]]
        else:
            new = position // (1 + REPLAY)
            send(front[new].tobytes())
            device.train(int(y[new]), position, SENT_RATE)


@pytest.mark.slow
@pytest.mark.parametrize("board", drawn_by_commit(BOARDS, 2))
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


def test_a_chip_learns_other_samples_after_the_first_and_replays_those_too(
    projects_root: Path, tmp_path: Path
):
    """Also after power cuts. The steps before are no multiple of what replays make one of."""
    folder = built(projects_root, "nucleo-f446re", step=quick_step(), interface=RING)
    device, _ = with_power_cuts(folder, 3, 3 * MOST_INSTRUCTIONS["dsp"], seed=1)
    x, y = quick_lessons()
    state, remember = tmp_path / "state.mcts", RING.remember
    taught(device, 11, 5, state, (x, y), (2, remember))
    first = with_replays(np.arange(11), 2, remember)
    ring = tuple(remembered(np.arange(11), remember))
    earlier = Earlier(len(first), 11, ring)
    taught(device, 9, 5, state, (x[11:], y[11:]), (1, remember), first=len(first))
    then = with_replays(np.arange(11, NEW), 1, remember, earlier)
    assert simulated(np.concatenate([first, then])) == state.read_bytes() == device.read_state()


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
    assert FACTS.read(states[0], step.plan.state.table)["skipped"] == sum(skipped)


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


@pytest.mark.draws(1)
@pytest.mark.slow
@pytest.mark.timeout(3600 if IS_STRESS else 600)
@pytest.mark.parametrize("board", sorted(CUTS))
def test_power_cuts_while_a_ring_is_written_change_no_bit(
    projects_root: Path, tmp_path: Path, board: str
):
    folder = built(projects_root, board, step=quick_step(), interface=RING)
    expected = simulated(order())
    ring = (REPLAY, RING.remember)
    boards = boards_with_power_cuts(folder, CUTS[board], MOST_INSTRUCTIONS[load_target(board).isa])
    for device, link, number in boards:
        state = tmp_path / f"{number}.mcts"
        taught(device, NEW, save_every=3, state=state, of=quick_lessons(), ring=ring)
        end_power_cuts(device, link)
        assert device.read_state() == expected == state.read_bytes()


def fit(board: Target) -> int:
    """Latents that a board's slots hold beside quick_step's state."""
    saved, pages = (
        quick_step().plan.state_bytes + SAVED_HEADER_BYTES,
        board.slot_bytes // PAGE_BYTES,
    )
    return pages - 2 * -(-(saved + LOG_HEADER_BYTES) // PAGE_BYTES) - 1


@pytest.mark.slow
@pytest.mark.parametrize("board", drawn_by_commit(BOARDS, 1))
def test_a_ring_that_the_boards_own_slots_have_no_room_for_gets_larger_ones(
    projects_root: Path, board: str
):
    """Also a slot that is full is left for the other, and power cuts change no bit."""
    own = load_target(board)
    ring = Interface(remember=fit(own) + 1)
    # Of an F446, the largest slots leave 64 KB: 2,261 bytes too few at -O3.
    level = "-Os" if board == "nucleo-f446re" else "-O3"
    folder = built(projects_root, board, optimize=level, step=quick_step(), interface=ring)
    memory = BoardProject.read(folder).board.memory
    (first, size), (second, _) = memory.slots
    assert size > own.slot_bytes
    assert memory.flash.origin + memory.flash.bytes == first
    assert first + size <= second
    program = [at + s.size for at, s in places(folder) if at < memory.ram.origin]
    assert max(program) <= first
    device = on_unicorn(folder)
    assert device.identity.remember == ring.remember
    device.reset(SEED)
    train(device, 0, 31, ring.remember)
    device.save()
    machine = device.link.machine
    machine.write(first + size - 1, b"\0")  # this slot is full
    machine.power_cut()
    machine.power_on()
    assert device.identify().position == 31
    device.save()
    assert device.statistics().slots_erased == 2
    train(device, 31, 43, ring.remember)
    machine.power_cut()
    machine.power_on()
    assert device.identify().position == 31
    assert device.identity.offered == 11
    total = NEW * (1 + REPLAY)
    train(device, 31, total, ring.remember)
    order = with_replays(np.arange(NEW), REPLAY, ring.remember)
    assert device.read_state() == simulated(order)


def places(folder: Path) -> list[tuple[int, Section]]:
    found = sections(BoardProject.read(folder).elf)
    return [(s.address, s) for s in found.values() if s.address]


def test_what_a_ring_left_in_the_boards_own_slots_is_no_ring_of_larger_ones(projects_root: Path):
    """Their pages count from elsewhere. The state may be restored, or not."""
    small, large = (
        Interface(remember=remember) for remember in (6, fit(load_target("nucleo-f303re")) + 1)
    )
    step = quick_step()
    before = on_unicorn(built(projects_root, "nucleo-f303re", step=step, interface=small))
    before.reset(SEED)
    train(before, 0, 9)
    before.save()
    folder = built(projects_root, "nucleo-f303re", step=step, interface=large)
    machine = load_machine(folder, LoopbackLink())
    own = load_target("nucleo-f303re")
    for slot in own.slots:
        at = slot - own.flash.origin
        machine.write(slot, bytes(before.link.machine.chip.flash.bytes[at : at + own.slot_bytes]))
    device = Device(DirectLink(machine))
    assert device.identify().position in (0, 9)
    assert device.identity.offered == 0
    device.reset(SEED)
    device.save()
    train(device, 0, NEW * (1 + REPLAY), large.remember)
    order = with_replays(np.arange(NEW), REPLAY, large.remember)
    assert device.read_state() == simulated(order)


def test_a_ring_that_no_slot_has_room_for_is_refused():
    target, step = load_target("nucleo-f303re"), quick_step()
    too_many = r"can have [\d,]+ bytes, in which ([\d,]+) latents of 5 bytes fit beside saved"
    with pytest.raises(TargetError, match=too_many) as refused:
        step.firmware(target, Interface(remember=2_000))
    most = int(re.search(too_many, str(refused.value))[1].replace(",", ""))
    project = step.firmware(target, Interface(remember=most))
    with pytest.raises(TargetError, match=too_many):
        step.firmware(target, Interface(remember=most + 1))
    memory = json.loads(project.files["manifest.json"])["board"]["memory"]
    assert memory["flash"]["bytes"] >= step.plan.constant_bytes
    with pytest.raises(TargetError, match="cannot remember latents: the program has the flash of"):
        step.firmware(target.without_slots(), RING)


def test_a_ring_that_fits_leaves_the_boards_slots_where_they_are():
    target, step = load_target("nucleo-f303re"), quick_step()
    assert fit(target) == 189
    ids = []
    for board in (target, target.with_latents(5, 190, 100)):
        config = step.firmware(board, RING).files["mct_board_config.h"]
        ids += [line for line in config.split("\n") if "MCT_RING_ID" in line]
    assert ids[0] != ids[1]
    for remember, is_larger in ((189, False), (190, True)):
        files = step.firmware(target, Interface(remember=remember)).files
        memory = json.loads(files["manifest.json"])["board"]["memory"]
        own = [[origin, target.slot_bytes] for origin in target.slots]
        assert (memory["slots"] != own) == is_larger
        assert memory.get("ring_flash_bytes", 0) == (2 * 2048 if is_larger else 0)


@pytest.mark.slow
def test_a_program_that_slots_for_a_ring_leave_no_room_is_told_so(tmp_path: Path):
    ring = Interface(remember=fit(load_target("nucleo-f303re")) + 30)
    quick_step().firmware(load_target("nucleo-f303re"), ring).write(tmp_path)
    script, manifest = tmp_path / "memory.ld", tmp_path / "manifest.json"
    gained = json.loads(manifest.read_text())["board"]["memory"]["ring_flash_bytes"]
    text = script.read_text()

    def refusal(missing_bytes: int) -> str:
        length = str(linked - missing_bytes)
        script.write_text(re.sub(r"(FLASH .*LENGTH = )\d+", rf"\g<1>{length}", text))
        with pytest.raises(BuildError, match=f"{missing_bytes} bytes too many for the") as caught:
            build(tmp_path, optimize="-Os")
        return str(caught.value)

    build(tmp_path, optimize="-Os")
    linked = linked_memory(tmp_path).flash_bytes
    few, many = (refusal(missing) for missing in (gained, gained + 4))
    assert "and 219 latents: generate the project anew with a smaller --remember" in few
    assert "--remember" not in many
    assert "--slots" not in few + many


@pytest.mark.parametrize("remember", [4, 5, 6, 7])
def test_the_plan_counts_the_ring_to_the_byte(projects_root: Path, remember: int):
    interface = Interface(remember=remember)
    folder = built(projects_root, "nucleo-f446re", step=quick_step(), interface=interface)
    assert BoardProject.read(folder).board.memory.remember == remember  # mct_app.c asserts bytes

"""Whatever goes wrong on the way, the trained state is that of an undisturbed run, to the bit.

`make stress` does what CI does on a smaller scale: 1,000 samples on a bad cable, 30 power cuts
while flashing. test_evidence.py has power cuts and line faults of every board.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from random import Random

import pytest
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import FlashError, HostError, RefusedError
from mcutrain_host.flashing import Job, choose
from mcutrain_host.link import SerialLink
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import Rate, Status
from mcutrain_host.virtual.board import DirectLink, VirtualBoard, load_machine
from mcutrain_host.virtual.link import LinkFaults, LoopbackLink

from mcutrain.target import load_target
from tests.boards.projects import (
    RATE,
    SEED,
    built,
    lessons,
    quick_lessons,
    quick_state,
    quick_step,
    simulated_state,
    training_step,
)
from tests.boards.stress import on_a_bad_cable, taught
from tests.drawing import drawn_by_commit

IS_STRESS = bool(os.environ.get("MCUTRAIN_STRESS"))
FLASH_CUTS = 30 if IS_STRESS else 2
SAMPLES = 1000 if IS_STRESS else 40
CHECKED = ("b-l475e-iot01a", "nucleo-h743zi")
"""Boards whose flash has checksums for its words."""
STM32 = ("nucleo-f446re", "nucleo-f303re", *CHECKED)
"""A board of each driver whose flash says how an operation ended."""
HEAD = "head"  # the smallest state and the shortest step


@pytest.mark.slow
@pytest.mark.timeout(3600 if IS_STRESS else 600)
def test_a_bad_cable_loses_and_doubles_no_step(projects_root, tmp_path):
    third = 0.001 / 3
    faults = LinkFaults(drop=third, corrupt=third, double=third)
    step = training_step(HEAD)
    device = on_a_bad_cable(built(projects_root, "nucleo-f446re", step=step), faults, seed=1)
    record = taught(device, SAMPLES, save_every=20, state=tmp_path / "state.mcts")
    assert record.positions() == list(range(1, SAMPLES + 1))
    assert device.read_state() == simulated_state(SAMPLES, HEAD)
    assert device.resent > 0
    assert len(lessons()[1]) >= SAMPLES


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("board_name", STM32)
def test_a_board_that_runs_is_flashed_without_a_button(projects_root, board_name):
    folder = built(projects_root, board_name, step=quick_step())
    with VirtualBoard.from_folder(folder, "pty") as board:
        job = Job(BoardProject.read(folder), board.port)
        choose(job, "stm32").run(job)
        with SerialLink(board.port) as link:
            assert Device(link).identify().board == board_name


@pytest.mark.slow
@pytest.mark.timeout(3600 if IS_STRESS else 600)
@pytest.mark.parametrize(
    "board_name",
    drawn_by_commit(("nucleo-f446re", "nucleo-f303re", "nucleo-h743zi"), 1),
)
def test_a_power_cut_while_flashing_loses_no_saved_state(projects_root, tmp_path, board_name):
    step = training_step(HEAD)
    folder = built(projects_root, board_name, step=step)
    random = Random(3)
    with VirtualBoard.from_folder(folder, "pty") as board:
        project = BoardProject.read(folder)
        with SerialLink(board.port) as link:
            taught(Device(link), 3, save_every=1, state=tmp_path / "state.mcts")
        for _ in range(FLASH_CUTS):
            cut_at = random.randrange(1, 60)
            calls = count()

            def cut(what: str, done: int, of: int, cut_at=cut_at, calls=calls) -> None:
                if next(calls) == cut_at:
                    board.power_cycle()

            board.press_reset(boot0=True)
            disturbed = Job(project, board.port, progress=cut)
            with pytest.raises(FlashError):
                choose(disturbed, "stm32").run(disturbed)
            board.press_reset(boot0=True)
            job = Job(project, board.port)
            choose(job, "stm32").run(job)
            with SerialLink(board.port) as link:
                device = Device(link)
                assert device.identify().position == 3
                assert device.read_state() == simulated_state(3, HEAD)


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.timeout(120)
@pytest.mark.parametrize("board", CHECKED)
def test_words_that_a_power_cut_left_half_written_are_passed_over(projects_root, board):
    """Who reads them gets an exception: the NMI, or a bus fault. Page 0, which is written last, is
    read at each start."""
    device = hasty(built(projects_root, board, step=quick_step()))
    machine, broken = device.link.machine, set()
    device.reset(SEED)
    page_0 = -(-device.identity.saved_bytes // 256) * 256 // machine.chip.flash.word_bytes
    for position in range(12):
        number = trained_and_saved(device, position)
        machine.cut_during("program", page_0)
        with pytest.raises(HostError):
            device.save()
        broken |= machine.chip.flash.broken
        machine.power_on()
        identity = device.identify()
        assert identity.position == position + 1
        assert identity.save_number in (number, number + 1)  # the cut came late
        assert device.read_state() == quick_state(position + 1)
    assert len(broken) > 3


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.timeout(120)
@pytest.mark.parametrize("board", CHECKED)
def test_a_slot_that_a_power_cut_left_half_erased_is_used_again(projects_root, board):
    device = hasty(built(projects_root, board, step=quick_step()))
    machine, target = device.link.machine, load_target(board)
    flash, slot = machine.chip.flash, target.slots[1]
    device.reset(SEED)
    number = trained_and_saved(device, 0)
    while not flash.broken:
        flash.put(slot, bytes(target.erase_bytes))
        flash.change(machine, slot - flash.origin, b"\xff" * target.erase_bytes, 1000)
        machine.power_cut()
    assert len(flash.broken) > target.erase_bytes // flash.word_bytes // 2
    machine.power_on()
    assert device.identify().position == 1
    assert device.read_state() == quick_state(1)
    while flash.bytes[slot - flash.origin :][:4] != b"MCTF":
        assert device.save().number == number + 1
        number += 1
    assert flash.broken == set()
    device.restart()
    assert device.identify().save_number == number
    assert device.read_state() == quick_state(1)


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.timeout(120)
@pytest.mark.parametrize("board", STM32)
def test_a_state_whose_write_the_flash_calls_bad_is_not_saved(projects_root, board):
    """Its bytes read as they should, but may not stay so: only the flash's status tells."""
    device = hasty(built(projects_root, board, step=quick_step()))
    machine = device.link.machine
    device.reset(SEED)
    number = trained_and_saved(device, 0)
    x, y = quick_lessons()
    device.send_sample(x[1].tobytes())
    device.train(int(y[1]), 1, Rate(RATE.mult_q31, RATE.shift))
    for kind, index in (("program", 0), ("program", 7), ("erase", 0)):
        machine.chip.controller.fail(kind, index)
        number, status = saved_until_refused(device, number)
        assert status == Status.FLASH
        device.restart()
        assert device.identify().save_number == number
    assert device.read_state() == quick_state(1)


def saved_until_refused(device: Device, number: int) -> tuple[int, int]:
    """The number of the last save, and why there was no other. A save has a place erased only
    where there is none."""
    for _ in range(400):
        try:
            number = device.save().number
        except RefusedError as error:
            return number, error.status
    raise AssertionError("the board saved 400 times")


def hasty(folder: Path) -> Device:
    """A board whose host does not wait: all that comes is there at once."""
    patience = Patience(answer_seconds=0.001, attempts=2, work_seconds=0.01)
    return Device(DirectLink(load_machine(folder, LoopbackLink())), patience)


def trained_and_saved(device: Device, position: int) -> int:
    """The number of the save."""
    x, y = quick_lessons()
    device.send_sample(x[position].tobytes())
    device.train(int(y[position]), position, Rate(RATE.mult_q31, RATE.shift))
    return device.save().number

"""What docs/measurements/boards.md says of each board, done anew.

`make stress` does all of it for every board, and prints the rows of the table; `make test` does
less, with a smaller network: six boards, others with each commit, have power cuts and bad cables,
and of boards that share a machine of QEMU one runs there. All have their memory, Unicorn, flashing,
saving and restart.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from mcutrain_host.client import Device
from mcutrain_host.flashing import Job, choose
from mcutrain_host.link import SerialLink
from mcutrain_host.manifest import BoardProject
from mcutrain_host.memory import linked_memory
from mcutrain_host.virtual.board import DirectLink, VirtualBoard, load_machine, put_uf2
from mcutrain_host.virtual.link import LoopbackLink

from mcutrain.target import Target, board_names, load_target
from tests.boards.projects import (
    TOO_SMALL_FOR_THE_DEMO,
    Lessons,
    built,
    lessons,
    quick_lessons,
    quick_state,
    quick_step,
    simulated_state,
)
from tests.boards.rp2040js import Rp2040js, needs_rp2040js
from tests.boards.stress import (
    IMPATIENT,
    bad_cables,
    boards_with_power_cuts,
    end_power_cuts,
    taught,
)
from tests.boards.test_same_bits import as_program, on_unicorn, qemu_system, trained
from tests.drawing import drawn_by_commit

IS_STRESS = bool(os.environ.get("MCUTRAIN_STRESS"))
SECONDS = 7200 if IS_STRESS else 600
PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "boards.md"
STEPS, CUTS, FAULTS = (100, 200, 500) if IS_STRESS else (20, 5, 50)
SAVED_STEPS = 60 if IS_STRESS else 20
FIRST_STEPS, SAVES = 3, 3
MOST_INSTRUCTIONS = {"dsp": 700_000, "armv6m": 2_800_000, "portable": 2_800_000}
"""Between two cuts, by instruction set: a few steps and saves, and often less than one. A save is a
larger part of the instructions than in the demo's."""
TARGETS = {name: load_target(name) for name in board_names()}
WITH_FIRMWARE = [name for name, target in TARGETS.items() if target.has_firmware]
KEEPING = [name for name in WITH_FIRMWARE if TARGETS[name].erasures is not None]
"""Their slots are in flash."""
CHIP_AND_LINE = {
    name: (TARGETS[name].emulation.unicorn, TARGETS[name].uart.name == "USB") for name in KEEPING
}
ONE_OF_EACH = [*dict(zip(CHIP_AND_LINE.values(), KEEPING, strict=True)).values()]
DISTURBED = KEEPING if IS_STRESS else drawn_by_commit(ONE_OF_EACH, 6)
"""Boards with power cuts and bad cables: drivers of flash and line are a chip's, not a board's."""
MACHINES = {name: target.emulation.qemu[1:2] for name, target in TARGETS.items()}
ON_QEMU = {
    drawn_by_commit([name for name, of in MACHINES.items() if of == machine], 1)[0]
    for machine in dict.fromkeys(MACHINES.values())
    if machine
}
"""Boards that QEMU runs, one for each of its machines; all with `make stress`."""
SLOW = "rp2040js"
"""It runs the small network."""
Opened = Callable[[Path], AbstractContextManager[Device]]


# ---- the emulators that a board has ----


@contextmanager
def in_unicorn(folder: Path) -> Iterator[Device]:
    yield on_unicorn(folder)


@contextmanager
def in_rp2040js(line: str, folder: Path) -> Iterator[Device]:
    with Rp2040js(folder, line) as board:
        board.open()
        yield Device(board, IMPATIENT)
        assert board.facts["faults"] == []


def emulators(target: Target) -> dict[str, Opened]:
    """Those that are here, by what the page calls them."""
    emulation, found = target.emulation, {}
    if emulation.unicorn:
        found["Unicorn"] = in_unicorn
    if emulation.qemu:
        found[f"QEMU `{emulation.qemu[1]}`"] = qemu_system
    if emulation.qemu_user:
        found[f"`{emulation.qemu_user}`"] = partial(as_program, emulator=(emulation.qemu_user,))
    if target.is_hosted and not emulation.qemu_user:
        found["itself"] = as_program
    if emulation.unicorn == "rp2040":
        found[SLOW] = partial(in_rp2040js, "usb" if target.uart.name == "USB" else "uart")
    return found


def needs(emulator: str) -> None:
    """Skip the test without it."""
    if emulator == SLOW:
        needs_rp2040js()
    program = "qemu-system-arm" if emulator.startswith("QEMU") else emulator.strip("`")
    if "qemu" in program and shutil.which(program) is None:
        pytest.skip(f"no {program}: apt install qemu-system-arm qemu-user")


# ---- the cells of a row ----


def planned_is_linked(folder: Path) -> str:
    memory = linked_memory(folder)
    assert memory.agrees, memory.facts()
    return f"{memory.linked_bytes:,}"


def same_bits(folder: Path, of: Lessons, expected: bytes, opened: dict[str, Opened]) -> str:
    """So many steps end with the simulation's state in each emulator."""
    x, y = of
    for open_board in opened.values():
        with open_board(folder) as device:
            assert trained(device, x[:STEPS], y[:STEPS]) == expected
    return f"`{sha256(expected).hexdigest()[:8]}`"


def power_cuts(folder: Path, target: Target, scratch: Path) -> str:
    """Steps and saves go on behind each cut, to the same bits."""
    done = runs = 0
    longest = MOST_INSTRUCTIONS[target.isa]
    for device, link, runs in boards_with_power_cuts(folder, CUTS, longest):
        state = scratch / f"{runs}.mcts"
        record = taught(device, SAVED_STEPS, save_every=2, state=state, of=quick_lessons())
        assert record.positions()[-1] == SAVED_STEPS
        end_power_cuts(device, link)
        done += link.cuts
        assert device.read_state() == quick_state(SAVED_STEPS) == state.read_bytes()
        link.machine.power_cut()
        link.machine.power_on()
        assert device.identify().position == SAVED_STEPS
        assert device.read_state() == quick_state(SAVED_STEPS)
    assert done >= CUTS
    return f"{done} in {runs} runs"


def line_faults(folder: Path, scratch: Path) -> str:
    """Lost, changed and doubled bytes, both ways."""
    done = carried = 0
    for run, (device, cable) in enumerate(bad_cables(folder)):
        taught(device, 100, save_every=20, state=scratch / f"bad-{run}.mcts", of=quick_lessons())
        assert device.read_state() == quick_state(100)
        assert device.resent > 0
        assert device.statistics().stack_used_bytes < device.identity.stack_bytes
        done, carried = done + cable.changes, carried + cable.carried
        if done >= FAULTS:
            break
    return f"{done} in {carried:,} bytes"


def flashed_from_empty(folder: Path, target: Target, scratch: Path) -> str:
    """By the chip's own way where there is a model of it; then it trains, saves and restarts."""
    ways = target.flashing.ways
    if "stm32" in ways:
        with VirtualBoard.from_folder(folder, "pty", loaded=False) as board:
            job = Job(BoardProject.read(folder), board.port)
            choose(job, "stm32").run(job)
            with SerialLink(board.port) as link:
                learns_and_keeps(Device(link))
        return "bootloader of its ROM"
    if "uf2" in ways:
        machine = load_machine(folder, LoopbackLink(), loaded=False)
        has_drive = machine.chip.uf2_family is not None
        machine.chip.uf2_family = target.output.uf2_family
        (scratch / "INFO_UF2.TXT").write_text(f"Board-ID: {target.flashing.drive or 'RPI-RP2'}\n")
        job = Job(BoardProject.read(folder), to=str(scratch))
        choose(job, "uf2").run(job)
        put_uf2(machine, (scratch / "firmware.uf2").read_bytes())
        learns_and_keeps(Device(DirectLink(machine), IMPATIENT))
        return "UF2 drive of its ROM" if has_drive else "UF2 file put there"
    learns_and_keeps(on_unicorn(folder))  # the ELF in erased flash
    return "ELF put there"


def learns_and_keeps(device: Device) -> None:
    """Saved several times, each time to another place."""
    x, y = quick_lessons()
    assert trained(device, x[:FIRST_STEPS], y[:FIRST_STEPS]) == quick_state(FIRST_STEPS)
    for number in range(1, SAVES + 1):
        assert device.save().number == number
        device.restart()
        assert device.identify().position == FIRST_STEPS
        assert device.read_state() == quick_state(FIRST_STEPS)


# ---- the rows ----


@pytest.mark.draws(12)
@pytest.mark.slow
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("board", WITH_FIRMWARE)
def test_a_board_earns_its_row(projects_root, tmp_path, board):
    target = TARGETS[board]
    opened = emulators(target)
    for emulator in opened:
        needs(emulator)
    quick = built(projects_root, board, step=quick_step())
    small = board in TOO_SMALL_FOR_THE_DEMO or not IS_STRESS
    folder = quick if small else built(projects_root, board)
    of, expected = (quick_lessons(), quick_state) if small else (lessons(), simulated_state)
    cells = ["program" if target.is_hosted else planned_is_linked(folder)]
    left_out = not IS_STRESS and board not in ON_QEMU
    fast = {
        name: way
        for name, way in opened.items()
        if name != SLOW and not (left_out and name.startswith("QEMU"))
    }
    cells.append(same_bits(folder, of, expected(STEPS), fast))
    if SLOW in opened:
        same_bits(quick, quick_lessons(), quick_state(STEPS), {SLOW: opened[SLOW]})
    if board in DISTURBED:
        cells.append(power_cuts(quick, target, tmp_path))
        cells.append(line_faults(quick, tmp_path))
    if board in KEEPING:
        cells.append(flashed_from_empty(quick, target, tmp_path))
    else:
        cells += ["–"] * 3
    print("| " + " | ".join([f"`{board}`", *cells, ", ".join(opened)]) + " |")


# ---- the page ----


def rows() -> dict[str, list[str]]:
    """The page's table, by board."""
    lines = re.findall(r"^\| `([\w-]+)` \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {board: [cell.strip() for cell in cells.split("|")] for board, cells in lines}


def test_the_page_has_a_row_for_every_board() -> None:
    assert set(rows()) == set(WITH_FIRMWARE)


@pytest.mark.parametrize("board", KEEPING)
def test_a_row_has_as_many_cuts_and_faults_as_were_asked_for(board: str) -> None:
    cuts, faults = (int(cell.split()[0]) for cell in rows()[board][2:4])
    assert cuts >= 200
    assert faults >= 500


@pytest.mark.parametrize("board", WITH_FIRMWARE)
def test_a_row_names_the_emulators_that_its_board_has(board: str) -> None:
    assert rows()[board][-1] == ", ".join(emulators(TARGETS[board]))


def test_states_on_the_page_are_the_simulations() -> None:
    own, small = (sha256(state(100)).hexdigest()[:8] for state in (simulated_state, quick_state))
    for board, cells in rows().items():
        assert cells[1] == f"`{small if board in TOO_SMALL_FOR_THE_DEMO else own}`"
    assert sha256(quick_state(24)).hexdigest() in PAGE.read_text(encoding="utf-8")

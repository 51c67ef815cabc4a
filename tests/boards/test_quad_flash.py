"""The Pico's second boot stage, run as it is, against flash chips that differ.

The flash driver runs it, too, so what boots must also save, and come back after a power cut.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from mcutrain_host.client import Device
from mcutrain_host.manifest import BoardProject
from mcutrain_host.virtual.board import DirectLink, load_machine, put_flash
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.image import Image
from mcutrain_host.virtual.link import LoopbackLink
from mcutrain_host.virtual.machine import Machine
from mcutrain_host.virtual.rp2_chip import Rp2040Chip
from mcutrain_host.virtual.rp2_rom import BOOT2_BYTES, crc32_mpeg2
from mcutrain_host.virtual.serial_flash import FlashKind, SerialFlash

from tests.boards.projects import built, quick_lessons, quick_state, quick_step
from tests.boards.stress import IMPATIENT, CuttingLink, end_power_cuts, taught
from tests.boards.test_same_bits import PATIENCE, trained

QUAD = (0x005F0300, 2, 0xA0002022, 1)
SERIAL = (0x001F0300, 4, 0x03000218, 1)
"""CTRLR0, BAUDR, SPI_CTRLR0, RX_SAMPLE_DLY."""
CLEAR = FlashKind(quad_enabled=False)
KINDS = {
    "QE is set": (FlashKind(), QUAD),
    "another maker": (FlashKind(maker=0xC8), QUAD),
    "QE is clear": (CLEAR, QUAD),
    "no 31h, some blocks protected": (replace(CLEAR, has_31h=False, status1=0x1C), QUAD),
    "QE stays clear": (replace(CLEAR, keeps_quad_clear=True), SERIAL),
    "no volatile status": (replace(CLEAR, has_volatile=False), SERIAL),
    "no quad, lines high": (FlashKind(has_quad=False, idle=1), SERIAL),
    "no quad, lines low": (FlashKind(has_quad=False, idle=0), SERIAL),
    "an unknown maker": (FlashKind(maker=0xC2), SERIAL),
    "no name, lines high": (FlashKind(answers_id=False, idle=1), SERIAL),
    "no name, lines low": (FlashKind(answers_id=False, idle=0), SERIAL),
}
STEPS = 16
CUTS, CUT_STEPS, MOST_INSTRUCTIONS = 8, 40, 700_000


@pytest.fixture
def folder(projects_root: Path) -> Path:
    return built(projects_root, "rpi-pico", step=quick_step())


def chip_of(machine: Machine) -> Rp2040Chip:
    assert isinstance(machine.chip, Rp2040Chip)
    return machine.chip


def flash_of(machine: Machine) -> SerialFlash:
    assert isinstance(machine.chip.flash, SerialFlash)
    return machine.chip.flash


def settings(machine: Machine) -> tuple[int, ...]:
    """How the flash is read: as QUAD and SERIAL."""
    ssi = chip_of(machine).ssi
    return tuple(ssi.values[w] for w in (ssi.CTRLR0, ssi.BAUDR, ssi.SPI_CTRLR0, ssi.DELAY))


def with_chip(folder: Path, kind: FlashKind) -> Machine:
    """A board with this chip, just switched on."""
    machine = load_machine(folder, LoopbackLink())
    machine.power_cut()
    flash_of(machine).replace(kind)
    machine.power_on()
    return machine


@pytest.mark.draws(4)
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", KINDS)
def test_each_chip_boots_trains_saves_and_comes_back(folder: Path, name: str) -> None:
    kind, wanted = KINDS[name]
    x, y = quick_lessons()
    machine = with_chip(folder, kind)
    device = Device(DirectLink(machine), PATIENCE)
    assert trained(device, x[:STEPS], y[:STEPS]) == quick_state(STEPS)
    assert settings(machine) == wanted
    device.save()
    assert settings(machine) == wanted
    flash = flash_of(machine)
    assert flash.continuous == (wanted == QUAD)
    assert flash.status1 == kind.status1
    assert flash.lasting[1] == (2 if kind.has_quad and kind.quad_enabled else 0)
    device.restart()  # the chip keeps its power: the ROM ends the continuous read
    assert device.identify().position == STEPS
    machine.power_cut()
    machine.power_on()
    assert device.identify().position == STEPS
    assert device.read_state() == quick_state(STEPS)
    assert settings(machine) == wanted
    assert device.statistics().stack_used_bytes < device.identity.stack_bytes


@pytest.mark.draws(1)
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["QE is clear", "no 31h, some blocks protected", "QE stays clear"])
def test_power_cuts_lose_no_step_whatever_the_chip(folder: Path, tmp_path: Path, name: str) -> None:
    kind, wanted = KINDS[name]
    link = CuttingLink(with_chip(folder, kind), CUTS, MOST_INSTRUCTIONS, seed=5)
    device = Device(link, IMPATIENT)
    state = tmp_path / "state.mcts"
    taught(device, CUT_STEPS, save_every=2, state=state, of=quick_lessons())
    end_power_cuts(device, link)
    assert link.cuts == CUTS
    assert device.read_state() == quick_state(CUT_STEPS) == state.read_bytes()
    assert settings(link.machine) == wanted


def changed(folder: Path, old: bytes, new: bytes) -> Machine:
    """A board whose second stage differs in some bytes, with a right checksum."""
    image = Image.from_elf(BoardProject.read(folder).built_elf())
    machine = Machine(BoardProject.read(folder).board, image, LoopbackLink())
    flash = bytes(flash_of(machine).bytes)
    stage = flash[: BOOT2_BYTES - 4]
    assert stage.count(old) == 1
    assert len(old) == len(new)
    stage = stage.replace(old, new)
    machine.power_cut()
    flash_of(machine).replace(replace(CLEAR, idle=0))  # noise can be a mode that works
    machine.power_on()
    put_flash(machine, stage + crc32_mpeg2(stage).to_bytes(4, "little") + flash[BOOT2_BYTES:])
    return machine


def word(value: int) -> bytes:
    return value.to_bytes(4, "little")


def half(value: int) -> bytes:
    return value.to_bytes(2, "little")


MOV_R0, MOV_R4, STR_DELAY = 0x2000, 0x2400, 0x5099
BROKEN = {
    "3 clocks of waiting": (word(0xA0002022), word(0xA0001822)),
    "5 clocks of waiting": (word(0xA0002022), word(0xA0002822)),
    "a mode that ends the reading": (word(0xA0002022), word(0xF0002022)),
    "a command that is not expected": (word(0xA0002022), word(0xEB002222)),
    "data on one line": (word(0x005F0300), word(0x001F0300)),
    "no mode at first": (half(MOV_R0 | 0xA0), half(MOV_R0 | 0x00)),
    "another command at first": (half(0x3000 | 0xEB), half(0x3000 | 0xBB)),
    "an address on one line at first": (word(0x00002221), word(0x00002220)),
    "too few address bits at first": (word(0x00002221), word(0x00002219)),
    "no volatile write": (half(MOV_R0 | 0x50), half(MOV_R0 | 0x51)),
    "data taken too early": (half(STR_DELAY), half(0xBF00)),
    "an answer that is not waited for": (half(0x2A0E), half(0x2A03)),
    "no clock": (half(MOV_R4 | 2), half(MOV_R4 | 0)),
}


@pytest.mark.draws(5)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_second_stage_does_not_boot(folder: Path, name: str) -> None:
    """QE is clear on the chip. Without its volatile write a stage falls back instead."""
    machine = changed(folder, *BROKEN[name])
    if name == "no volatile write":
        assert Device(DirectLink(machine), PATIENCE).identify().board == "rpi-pico"
        assert settings(machine) == SERIAL
    else:
        with pytest.raises(BoardFault, match=r"flash|SSI|where no code is"):
            Device(DirectLink(machine), PATIENCE).identify()


def test_the_unbroken_one_boots_in_the_same_way(folder: Path) -> None:
    machine = changed(folder, word(0xA0002022), word(0xA0002022))
    assert Device(DirectLink(machine), PATIENCE).identify().board == "rpi-pico"
    assert settings(machine) == QUAD

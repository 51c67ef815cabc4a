"""The model of a serial flash chip, spoken to as the data sheet of the W25Q16JV shows it."""

from __future__ import annotations

import random

import pytest
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.flash_memory import equal_sectors
from mcutrain_host.virtual.rp2_ssi import Ssi
from mcutrain_host.virtual.serial_flash import RELEASED, FlashKind, Lines, SerialFlash

CONTENT = random.Random(1).randbytes(1 << 16)
QUAD_FRAMES, QUAD_READ = 0x005F0300, 0xA0002022
SERIAL_FRAMES, SERIAL_READ = 0x001F0300, 0x03000218
BOOT_HZ, FULL_HZ = 6_500_000, 125_000_000


def made(kind: FlashKind | None = None) -> SerialFlash:
    chip = SerialFlash(0x10000000, bytearray(CONTENT), equal_sectors(len(CONTENT), 4096))
    chip.replace(kind or FlashKind())
    return chip


def said(chip: SerialFlash, *sent: int, answers: int = 0) -> list[int]:
    """What comes back on IO1 behind bytes on IO0."""
    chip.select()
    found = []
    for byte in (*sent, *[0] * answers):
        value = 0
        for shift in reversed(range(8)):
            value = value << 1 | (chip.clock((byte >> shift & 1, None, None, None))[1] or 0)
        found.append(value)
    chip.deselect()
    return found[len(sent) :]


def nibbles(value: int, count: int) -> list[Lines]:
    """On four lines, the highest first."""
    found: list[Lines] = []
    for shift in range(4 * count - 4, -1, -4):
        n = value >> shift
        found.append((n & 1, n >> 1 & 1, n >> 2 & 1, n >> 3 & 1))
    return found


def quad(chip: SerialFlash, address: int, mode: int, command: bool, dummies: int = 4) -> bytes:
    """Eight bytes by EBh."""
    chip.select()
    if command:
        for shift in reversed(range(8)):
            chip.clock((0xEB >> shift & 1, None, None, None))
    for lines in nibbles(address << 8 | mode, 8):
        chip.clock(lines)
    for _ in range(dummies):
        chip.clock(RELEASED)
    value = 0
    for _ in range(16):
        lines = chip.clock(RELEASED)
        value = value << 4 | sum((lines[i] or 0) << i for i in range(4))
    chip.deselect()
    return value.to_bytes(8, "big")


# ---- reading ----


@pytest.mark.parametrize(("command", "dummies"), [(0x03, 0), (0x0B, 1)])
def test_one_line_reads_go_on_from_an_address(command: int, dummies: int) -> None:
    found = said(made(), command, 0x00, 0x12, 0x34, *[0] * dummies, answers=16)
    assert bytes(found) == CONTENT[0x1234:0x1244]


def test_quad_reads_go_on_without_a_command_as_the_mode_says() -> None:
    chip = made()
    assert quad(chip, 0x40, 0xA0, command=True) == CONTENT[0x40:0x48]
    assert quad(chip, 0x123, 0xA0, command=False) == CONTENT[0x123:0x12B]
    assert quad(chip, 0x80, 0x00, command=False) == CONTENT[0x80:0x88]
    assert not chip.continuous
    assert quad(chip, 0x80, 0xA0, command=True) == CONTENT[0x80:0x88]


@pytest.mark.parametrize("mode", [m << 4 for m in range(16)])
def test_bits_5_and_4_of_the_mode_decide(mode: int) -> None:
    chip = made()
    quad(chip, 0, mode, command=True)
    assert chip.continuous == (mode & 0x30 == 0x20)


@pytest.mark.parametrize("dummies", [0, 2, 3, 5, 6])
def test_another_number_of_dummy_clocks_reads_something_else(dummies: int) -> None:
    assert quad(made(), 0x40, 0xA0, True, dummies) != CONTENT[0x40:0x48]


def test_without_qe_or_without_four_lines_a_quad_read_is_noise() -> None:
    for kind in (FlashKind(quad_enabled=False), FlashKind(has_quad=False)):
        chip = made(kind)
        assert quad(chip, 0x40, 0xA0, command=True) != CONTENT[0x40:0x48]
        assert not chip.continuous


def test_a_chip_that_reads_on_takes_no_command() -> None:
    chip = made()
    quad(chip, 0, 0xA0, command=True)
    assert said(chip, 0x03, 0, 0, 0, answers=4) != list(CONTENT[:4])


# ---- status registers ----


@pytest.mark.parametrize("write", [(0x31, 0x02), (0x01, 0x00, 0x02)])
@pytest.mark.parametrize(("enable", "kept"), [(0x50, 0), (0x06, 2)])
def test_qe_is_set_until_the_power_goes_or_for_good(
    write: tuple[int, ...], enable: int, kept: int
) -> None:
    chip = made(FlashKind(quad_enabled=False))
    said(chip, *write)
    assert said(chip, 0x35, answers=1) == [0]
    said(chip, enable)
    said(chip, *write)
    while said(chip, 0x05, answers=1)[0] & 1:
        pass
    assert said(chip, 0x35, answers=1) == [2]
    chip.power_cut(0, random.Random(0))
    assert said(chip, 0x35, answers=1) == [kept]


def test_a_lasting_write_is_busy_and_takes_nothing_meanwhile() -> None:
    chip = made(FlashKind(quad_enabled=False))
    said(chip, 0x06)
    assert said(chip, 0x05, answers=1) == [2]
    said(chip, 0x31, 0x02)
    assert said(chip, 0x03, 0, 0, 0, answers=8) != list(CONTENT[:8])
    answers = said(chip, 0x05, answers=8)
    assert answers == sorted(answers, reverse=True)
    assert (answers[0], answers[-1]) == (1, 0)
    assert said(chip, 0x9F, answers=3) == [0xEF, 0x40, 0x15]


def test_50h_holds_for_the_next_command_only() -> None:
    chip = made(FlashKind(quad_enabled=False))
    said(chip, 0x50)
    said(chip, 0x05, answers=1)
    said(chip, 0x31, 0x02)
    assert said(chip, 0x35, answers=1) == [0]


def test_a_write_that_ends_within_a_byte_is_none() -> None:
    chip = made(FlashKind(quad_enabled=False))
    said(chip, 0x50)
    chip.select()
    for bit in (0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1):
        chip.clock((bit, None, None, None))
    chip.deselect()
    assert said(chip, 0x35, answers=1) == [0]


@pytest.mark.parametrize(
    "kind",
    [
        FlashKind(quad_enabled=False, keeps_quad_clear=True),
        FlashKind(quad_enabled=False, has_volatile=False),
    ],
)
def test_qe_does_not_stick_everywhere(kind: FlashKind) -> None:
    chip = made(kind)
    said(chip, 0x50)
    said(chip, 0x31, 0x02)
    assert said(chip, 0x35, answers=1) == [0]


def test_the_lines_of_a_chip_that_does_not_answer_are_idle() -> None:
    assert said(made(FlashKind(answers_id=False, idle=1)), 0x9F, answers=3) == [0xFF] * 3
    assert said(made(FlashKind(answers_id=False, idle=0)), 0x9F, answers=3) == [0] * 3
    assert said(made(FlashKind(has_quad=False, idle=1)), 0x35, answers=1) == [0xFF]


# ---- the SSI that reads it ----


def reading(chip: SerialFlash, frames: int, read: int, divisor: int = 4, hz: int = BOOT_HZ) -> Ssi:
    """Switched on as the ROM leaves the rest."""
    ssi = Ssi(chip, lambda: hz, lambda: None)
    ssi.begin_commands()
    ssi.write(Ssi.ENABLE, 4, 0)
    for word, value in ((Ssi.CTRLR0, frames), (Ssi.BAUDR, divisor), (Ssi.SPI_CTRLR0, read)):
        ssi.write(word, 4, value)
    ssi.write(Ssi.ENABLE, 4, 1)
    return ssi


def polled(ssi: Ssi) -> None:
    """Waits until all was sent and answered."""
    while ssi.read(Ssi.STATUS, 4) != 0x0E:
        pass


def in_quad(read: int = QUAD_READ, frames: int = QUAD_FRAMES) -> bool:
    """A chip that reads on already, and the SSI set up for it."""
    chip = made()
    ssi = reading(chip, frames, read)
    quad(chip, 0, 0xA0, command=True)
    return ssi.reads_flash


def test_the_ssi_reads_what_the_chip_holds() -> None:
    assert reading(made(), SERIAL_FRAMES, SERIAL_READ).reads_flash
    assert in_quad()
    assert not reading(made(), QUAD_FRAMES, QUAD_READ).reads_flash  # nobody began to read on


@pytest.mark.parametrize("wait", [w for w in range(9) if w != 4])
def test_an_ssi_that_waits_another_number_of_clocks_reads_garbage(wait: int) -> None:
    assert not in_quad(QUAD_READ & ~(0x1F << 11) | wait << 11)


@pytest.mark.parametrize("mode", [m << 4 for m in range(16)])
def test_an_ssi_whose_mode_ends_the_reading_reads_garbage(mode: int) -> None:
    assert in_quad(QUAD_READ & 0xFFFFFF | mode << 24) == (mode & 0x30 == 0x20)


@pytest.mark.parametrize(
    ("read", "frames"),
    [
        (QUAD_READ & ~3, QUAD_FRAMES),  # the address on one line
        (QUAD_READ & ~0x3C | 6 << 2, QUAD_FRAMES),  # no mode behind it
        (QUAD_READ, SERIAL_FRAMES),  # data on one line
        (QUAD_READ, QUAD_FRAMES & ~(3 << 21) | 1 << 21),  # on two
        (QUAD_READ | 2 << 8, QUAD_FRAMES),  # a command
        (QUAD_READ, QUAD_FRAMES & ~(0x1F << 16) | 7 << 16),  # bytes
    ],
)
def test_an_ssi_with_other_lines_or_lengths_reads_garbage(read: int, frames: int) -> None:
    assert not in_quad(read, frames)


def test_a_clock_that_the_chip_does_not_bear_is_a_fault() -> None:
    reading(made(), SERIAL_FRAMES, SERIAL_READ, 4, FULL_HZ)
    with pytest.raises(BoardFault, match="62500000 Hz, and bears 50000000"):
        reading(made(), SERIAL_FRAMES, SERIAL_READ, 2, FULL_HZ)
    with pytest.raises(BoardFault, match="too late for RX_SAMPLE_DLY 0"):
        reading(made(), QUAD_FRAMES, QUAD_READ, 2, FULL_HZ)


def test_the_roms_sequence_ends_a_continuous_read() -> None:
    chip = made()
    quad(chip, 0, 0xA0, command=True)
    ssi = Ssi(chip, lambda: BOOT_HZ, lambda: None)
    ssi.begin_commands()
    assert not chip.continuous
    for byte in (0x9F, 0):
        ssi.write(Ssi.DATA, 4, byte)
    polled(ssi)
    ssi.read(Ssi.DATA, 4)
    assert ssi.read(Ssi.DATA, 4) == 0xEF


def test_a_poll_between_two_bytes_ends_the_command() -> None:
    """The SSI lets go of the chip when its FIFO is empty."""
    ssi = Ssi(made(FlashKind(idle=0)), lambda: BOOT_HZ, lambda: None)
    ssi.begin_commands()
    answers = []
    for byte in (0x9F, 0):
        ssi.write(Ssi.DATA, 4, byte)
        polled(ssi)
        answers.append(ssi.read(Ssi.DATA, 4))
    assert answers == [0, 0]


def test_an_answer_must_be_waited_for() -> None:
    ssi = Ssi(made(), lambda: BOOT_HZ, lambda: None)
    ssi.begin_commands()
    ssi.write(Ssi.DATA, 4, 0x9F)
    with pytest.raises(BoardFault, match="before it has come"):
        ssi.read(Ssi.DATA, 4)


def test_a_chip_without_quad_keeps_no_second_status() -> None:
    chip = made(FlashKind(has_quad=False))
    said(chip, 0x50)
    said(chip, 0x31, 0x02)
    assert chip.status2 == 0

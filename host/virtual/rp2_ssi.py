"""What makes an RP2040's flash readable as memory: sections of its datasheet are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.rp2 import Rp2Registers, silent
from mcutrain_host.virtual.serial_flash import RELEASED, Lines, SerialFlash

STANDARD, QUAD = 0, 2
"""SPI_FRF: how many lines a frame has."""
EVERY_BYTE_ANSWERED, READ_BEHIND_COMMAND = 0, 3
"""TMOD: what goes which way."""
OVERRIDE_NONE, OVERRIDE_LOW, OVERRIDE_HIGH = 0, 2, 3
PROBED_BYTES = 8
PROBED = tuple(range(0, 0x140, 0x28))
"""Where the flash is read to see whether the chip answers: in the second boot stage, and in
the program."""
ALL_HIGH: Lines = (1, 1, 1, 1)


class Frames(NamedTuple):
    """CTRLR0 and SPI_CTRLR0 (4.10.13)."""

    control: int
    spi: int

    @property
    def mode(self) -> int:
        """TMOD."""
        return self.control >> 8 & 3

    @property
    def data_bits(self) -> int:
        """DFS_32."""
        return (self.control >> 16 & 0x1F) + 1

    @property
    def data_lanes(self) -> int:
        """SPI_FRF."""
        return {STANDARD: 1, QUAD: 4}.get(self.control >> 21 & 3, 2)

    @property
    def command_bits(self) -> int:
        """INST_L."""
        return (0, 4, 8, 16)[self.spi >> 8 & 3]

    @property
    def address_bits(self) -> int:
        """ADDR_L."""
        return 4 * (self.spi >> 2 & 0xF)

    @property
    def wait_clocks(self) -> int:
        """WAIT_CYCLES."""
        return self.spi >> 11 & 0x1F

    @property
    def read_command(self) -> int:
        """XIP_CMD: the command of a read as memory; without a command, what follows the address."""
        return self.spi >> 24

    @property
    def lanes(self) -> tuple[int, int]:
        """TRANS_TYPE: of command and address."""
        many = self.data_lanes
        return ((1, 1), (1, many), (many, many), (1, 1))[self.spi & 3]

    def read_as_memory(self, address: int) -> tuple[int, int]:
        """Return command and address of an access by the bus."""
        if not self.command_bits:
            return 0, address << 8 | self.read_command
        return self.read_command, address


class Ssi(Rp2Registers):
    """4.10. chip: at the other end of its lines; core_hz: what BAUDR divides; changed: it was
    switched on or off."""

    CTRLR0, CTRLR1, ENABLE, SER, BAUDR, TX_LEVEL, RX_LEVEL, STATUS, DATA, DELAY, SPI_CTRLR0 = (
        *(0x00, 0x04, 0x08, 0x10, 0x14, 0x20, 0x24, 0x28),
        *(0x60, 0xF0, 0xF4),
    )
    FIFO = 16
    POLLS = 2
    """How often the status is read before what was sent has gone."""
    MOST_HZ, MOST_HZ_03, MOST_HZ_AT_ONCE = 133_000_000, 50_000_000, 50_000_000
    """Highest clocks: for commands, for command 03h (W25Q16JV, 9.5), without RX_SAMPLE_DLY."""
    ROM_SETTINGS: ClassVar = {CTRLR0: 7 << 16, BAUDR: 6, SER: 1, ENABLE: 1}
    """As flash_exit_xip leaves it: bytes, each with an answer."""

    def __init__(
        self, chip: SerialFlash, core_hz: Callable[[], int], changed: Callable[[], None]
    ) -> None:
        layout = dict.fromkeys(range(0, 0xFC, 4), 0) | {0x58: 0x51535049, 0x5C: 0x3430312A}
        super().__init__("XIP_SSI", layout)
        self.chip, self.core_hz, self.changed = chip, core_hz, changed
        self.override = OVERRIDE_NONE
        self._answers: list[int] = []
        self._words: list[int] = []
        self._polls = 0
        self._probed: dict[tuple[object, ...], bool] = {}

    def reset(self) -> None:
        """Reset as after power-on."""
        super().reset()
        self.override = OVERRIDE_NONE
        self._forget()

    def _forget(self) -> None:
        self.chip.deselect()
        self._answers, self._words, self._polls = [], [], 0

    @property
    def frames(self) -> Frames:
        """What is sent."""
        return Frames(self.values[self.CTRLR0], self.values[self.SPI_CTRLR0])

    # ---- the core's accesses ----

    def load(self, word: int) -> int:
        """Busy for a while; then all was sent, and the chip is let go."""
        if word == self.STATUS:
            if self._polls:
                self._polls -= 1
                return 1 << 0 | 1 << 1
            self._sent_all()
            return 1 << 1 | 1 << 2 | (1 << 3 if self._answers else 0)
        if word == self.RX_LEVEL:
            return 0 if self._polls else len(self._answers)
        if word == self.DATA:
            if self._polls:
                raise BoardFault(
                    "the firmware takes an answer of the flash chip before it has come"
                )
            self._sent_all()
            return self._answers.pop(0) if self._answers else 0
        return super().load(word)

    def store(self, word: int, value: int) -> None:
        """Settings change only while it is off."""
        if self.DATA <= word < self.DELAY:
            self._send(value)
            return
        fixed = word in (self.CTRLR0, self.CTRLR1, self.BAUDR, self.DELAY, self.SPI_CTRLR0)
        if fixed and self.values[self.ENABLE] & 1:
            raise BoardFault(f"the firmware changes the SSI's register at {word:#x} while it is on")
        was_on = self.values[self.ENABLE] & 1
        super().store(word, value)
        if word == self.ENABLE and value & 1 != was_on:  # the access comes twice
            self._forget()
            self.check_clock()
            self.changed()

    def select_by_hand(self, override: int) -> None:
        """IO_QSPI's SS_CTRL: what the chip's select line is, whatever the SSI wants."""
        self._polls = 0
        self._sent_all()
        self.override = override
        if override == OVERRIDE_LOW:
            self.chip.select()
        else:
            self.chip.deselect()

    def _sent_all(self) -> None:
        if self.override == OVERRIDE_NONE:
            self.chip.deselect()

    def _select(self) -> None:
        if self.override == OVERRIDE_NONE:
            self.chip.select()

    # ---- to the chip ----

    def _send(self, value: int) -> None:
        """A word into the FIFO, which never fills: the wire is faster than the core."""
        if not self.values[self.ENABLE] & 1:
            return
        if not self.values[self.SER] & 1:
            raise BoardFault("the firmware sends to a flash chip that SER does not select")
        self._polls = self.POLLS
        frames = self.frames
        if frames.mode == EVERY_BYTE_ANSWERED and frames.data_lanes == 1:
            self._select()
            self._keep(_exchange(self.chip, frames.data_bits, value))
        elif frames.mode == READ_BEHIND_COMMAND and frames.data_lanes == 4:
            self._words.append(value)
            if len(self._words) == (2 if frames.command_bits else 1):
                self._select()
                command, address = [0, *self._words][-2:]
                self._keep(_read(self.chip, frames, command, address, frames.data_bits))
                self._sent_all()
                self._words = []
        else:
            raise BoardFault(f"the SSI's CTRLR0 is {frames.control:#x}, which is not modelled")

    def _keep(self, answer: int) -> None:
        if len(self._answers) == self.FIFO:
            raise BoardFault("the firmware lets the SSI's receive FIFO run over")
        self._answers.append(answer)

    def begin_commands(self) -> None:
        """Bytes to the flash chip and from it, as the ROM's flash_exit_xip leaves it.

        First it ends a continuous read: 32 clocks with all lines high, and 16 more (2.8.1.2).
        """
        self._forget()
        self.values |= self.ROM_SETTINGS
        self.override = OVERRIDE_NONE
        for clocks in (32, 16):
            self.chip.select()
            for _ in range(clocks):
                self.chip.clock(ALL_HIGH)
            self.chip.deselect()

    # ---- as memory ----

    def check_clock(self) -> None:
        """Raise BoardFault where the chip cannot follow."""
        frames, divisor = self.frames, self.values[self.BAUDR] & 0xFFFE
        if not self.values[self.ENABLE] & 1 or frames.mode != READ_BEHIND_COMMAND or not divisor:
            return
        hz = self.core_hz() // divisor
        is_03 = frames.command_bits == 8 and frames.read_command == 0x03
        most = self.MOST_HZ_03 if is_03 else self.MOST_HZ
        if hz > most:
            raise BoardFault(f"the flash is read at {hz} Hz, and bears {most}")
        if hz > self.MOST_HZ_AT_ONCE and not self.values[self.DELAY]:
            raise BoardFault(
                f"the flash is read at {hz} Hz, where its data come too late for RX_SAMPLE_DLY 0"
            )

    @property
    def reads_flash(self) -> bool:
        """Does an access to the flash's addresses return what the chip holds? Tried on a twin."""
        frames, divisor = self.frames, self.values[self.BAUDR] & 0xFFFE
        selects = self.values[self.SER] & 1 and self.override == OVERRIDE_NONE
        is_memory = frames.mode == READ_BEHIND_COMMAND and frames.data_bits == 32
        if not self.values[self.ENABLE] & 1 or not is_memory or divisor < 2 or not selects:
            return False
        key = (frames, self.chip.state, bytes(self.chip.bytes[: PROBED[-1] + PROBED_BYTES]))
        if key not in self._probed:
            self._probed[key] = self._probe(frames)
        return self._probed[key]

    def _probe(self, frames: Frames) -> bool:
        chip = self.chip.twin()
        for address in PROBED:
            chip.select()
            command, sent = frames.read_as_memory(address)
            found = _read(chip, frames, command, sent, 8 * PROBED_BYTES)
            chip.deselect()
            if found.to_bytes(PROBED_BYTES, "big") != chip.bytes[address : address + PROBED_BYTES]:
                return False
        return True


class QspiPins(Rp2Registers):
    """IO_QSPI (2.19.6.2). Of its settings only the select line's OUTOVER counts."""

    SS_CTRL, OUTOVER = 0x0C, 8

    def __init__(self, ssi: Ssi) -> None:
        super().__init__("IO_QSPI", silent("", 0x58).layout)
        self.ssi = ssi

    def store(self, word: int, value: int) -> None:
        """Takes the line out of the SSI's hands."""
        super().store(word, value)
        if word == self.SS_CTRL:
            self.ssi.select_by_hand(value >> self.OUTOVER & 3)


def _exchange(chip: SerialFlash, bits: int, value: int) -> int:
    """IO0 to the chip and IO1 from it at the same time."""
    answer = 0
    for shift in reversed(range(bits)):
        lines = chip.clock((value >> shift & 1, None, None, None))
        answer = answer << 1 | (lines[1] or 0)
    return answer


def _read(chip: SerialFlash, frames: Frames, command: int, address: int, data_bits: int) -> int:
    """Command, address, waiting, data."""
    command_lanes, address_lanes = frames.lanes
    _drive(chip, command_lanes, frames.command_bits, command)
    _drive(chip, address_lanes, frames.address_bits, address)
    for _ in range(frames.wait_clocks):
        chip.clock(RELEASED)
    return _sample(chip, frames.data_lanes, data_bits)


def _drive(chip: SerialFlash, lanes: int, bits: int, value: int) -> None:
    """The highest bit first; one lane is IO0."""
    for shift in range(bits - lanes, -1, -lanes):
        levels = [value >> shift + lane & 1 if lane < lanes else None for lane in range(4)]
        chip.clock((levels[0], levels[1], levels[2], levels[3]))


def _sample(chip: SerialFlash, lanes: int, bits: int) -> int:
    """The highest bit first; one lane is IO1."""
    value = 0
    for _ in range(bits // lanes):
        lines = chip.clock(RELEASED)
        taken = (1,) if lanes == 1 else reversed(range(lanes))
        for lane in taken:
            value = value << 1 | (lines[lane] or 0)
    return value

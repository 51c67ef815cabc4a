"""A serial flash chip as its pins see it, clock by clock: Winbond's W25Q16JV, and chips with less.

Chapters are those of the data sheet of the W25Q16JV. A clock has the levels of four lines, IO0 to
IO3; None is a line that the side in question does not drive. What nobody drives reads as noise.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Generator, Sequence
from typing import ClassVar

from mcutrain_host.dataclass import dataclass
from mcutrain_host.virtual.flash_memory import FlashMemory

Lines = tuple[int | None, int | None, int | None, int | None]
Talk = Generator[Lines, Lines, None]
RELEASED: Lines = (None, None, None, None)
BUSY, WRITE_ENABLED, QUAD_ENABLE = 1 << 0, 1 << 1, 1 << 1
"""Bits of status registers 1, 1 and 2 (7.1)."""
VOLATILE, LASTING = "50h", "06h"
"""What a write to a status register follows, and whether its values outlive the power (8.2.2)."""
BUSY_ANSWERS = 3
"""How often a lasting write lets BUSY be read."""


@dataclass(frozen=True)
class FlashKind:
    """What one chip has otherwise than another.

    answers_id: to 9Fh; maker: what. has_quad: status register 2 and EBh. quad_enabled: QE as the
    factory left it. keeps_quad_clear: a write does not set QE. has_volatile: 50h. has_31h: else the
    second status register is written by 01h alone. idle: what lines read that nobody drives; None:
    noise.
    """

    maker: int = 0xEF
    answers_id: bool = True
    has_quad: bool = True
    quad_enabled: bool = True
    keeps_quad_clear: bool = False
    has_volatile: bool = True
    has_31h: bool = True
    status1: int = 0
    idle: int | None = None


W25Q16JV_IQ = FlashKind()
"""The Pico's."""


class SerialFlash(FlashMemory):
    """The content, the status registers, and what was sent since the chip was selected."""

    NUMBER: ClassVar = bytes.fromhex("E6601234ABCD5678")
    kind = W25Q16JV_IQ

    def __init__(self, origin: int, content: bytearray, sectors: Sequence[tuple[int, int]]) -> None:
        super().__init__(origin, content, sectors)
        self.noise = random.Random(0)
        self.replace(W25Q16JV_IQ)

    def replace(self, kind: FlashKind) -> None:
        """Solder another chip in, with the same content."""
        self.kind = kind
        second = QUAD_ENABLE if kind.has_quad and kind.quad_enabled else 0
        self.lasting = (kind.status1, second)
        self._begin()

    def _begin(self) -> None:
        """Reset as after power-on: the lasting status (7.1), and commands are expected."""
        self.status1, self.status2 = self.lasting
        self.continuous = False
        self._enabled: str | None = None
        self._busy_answers = 0
        self._talk: Talk | None = None
        self._lines = RELEASED
        self._clocks = 0
        self._received: list[int] = []

    def power_cut(self, now: int, draw: random.Random) -> None:
        """What is volatile is gone."""
        super().power_cut(now, draw)
        self._begin()

    def twin(self) -> SerialFlash:
        """A chip in the same state, to try something on. It must not be selected."""
        assert self._talk is None
        return copy.copy(self)

    @property
    def state(self) -> tuple[object, ...]:
        """All that decides what a read returns, but the content."""
        return (self.kind, self.status1, self.status2, self.continuous, self._busy_answers)

    # ---- the pins ----

    def select(self) -> None:
        """/CS goes low, if it was high."""
        if self._talk is None:
            self._clocks, self._received = 0, []
            self._talk = self._listen()
            self._lines = next(self._talk)

    def clock(self, host: Lines) -> Lines:
        """One clock; returns what the lines are while it is high."""
        if self._talk is None:
            return self._seen(host, RELEASED)
        seen = self._seen(host, self._lines)
        self._clocks += 1
        self._lines = self._talk.send(seen)
        return seen

    def deselect(self) -> None:
        """/CS goes high: commands that write are carried out if the last byte is whole (5.1)."""
        if self._talk is not None:
            self._talk.close()
            self._talk = None
            if self._clocks % 8 == 0 and self._received:
                self._obey(self._received)

    def _seen(self, host: Lines, chip: Lines) -> Lines:
        """Levels as the host reads them; where both drive a line, the level is anything."""
        return (
            self._level(host[0], chip[0]),
            self._level(host[1], chip[1]),
            self._level(host[2], chip[2]),
            self._level(host[3], chip[3]),
        )

    def _level(self, host: int | None, chip: int | None) -> int:
        if host is not None and (chip is None or chip == host):
            return host
        if host is None and chip is not None:
            return chip
        idle = self.kind.idle if host is None else None
        return self.noise.getrandbits(1) if idle is None else idle

    # ---- what is said ----

    def _listen(self) -> Talk:
        """From /CS low to /CS high."""
        if self.continuous:
            yield from self._read_quad()
        command = yield from _take(1, 8)
        self._received.append(command)
        status = {0x05: lambda: self._status1()}
        if self.kind.has_quad:
            status[0x35] = lambda: self.status2
        if command in status:
            while True:
                yield from _give(1, status[command]())
        if self._busy_answers:
            yield from _nothing()
        yield from self._answer(command)

    def _answer(self, command: int) -> Talk:
        kind = self.kind
        if command in (0x03, 0x0B):
            address = yield from _take(1, 24)
            yield from _wait(8 if command == 0x0B else 0)
            yield from self._stream(1, address)
        if command == 0xEB and kind.has_quad and self.status2 & QUAD_ENABLE:
            yield from self._read_quad()
        if command == 0x9F and kind.answers_id:
            yield from self._repeat((kind.maker, 0x40, 0x15))
        if command == 0x4B:
            yield from _wait(32)
            yield from self._repeat(self.NUMBER)
        while True:
            self._received.append((yield from _take(1, 8)))

    def _read_quad(self) -> Talk:
        """EBh behind its command (8.2.13): M5 and M4 = 1, 0 go on without one next time."""
        address = yield from _take(4, 24)
        mode = yield from _take(4, 8)
        self.continuous = mode >> 4 & 3 == 2
        yield from _wait(4)
        yield from self._stream(4, address)

    def _stream(self, lanes: int, address: int) -> Talk:
        while True:
            yield from _give(lanes, self.bytes[address % self.size_bytes])
            address += 1

    def _repeat(self, values: Sequence[int]) -> Talk:
        while True:
            for value in values:
                yield from _give(1, value)

    def _status1(self) -> int:
        """With BUSY, which ends in time, and WEL, which 50h does not set."""
        busy = BUSY if self._busy_answers else 0
        self._busy_answers = max(self._busy_answers - 1, 0)
        return self.status1 | busy | (WRITE_ENABLED if self._enabled == LASTING else 0)

    def _obey(self, received: Sequence[int]) -> None:
        """Writes; 50h holds for the command right behind it (8.2.2)."""
        enabled = self._enabled
        command, *values = received
        if enabled == VOLATILE:
            self._enabled = None
        if self._busy_answers:
            return
        if received == [0x06]:
            self._enabled = LASTING
        elif received == [0x50] and self.kind.has_volatile:
            self._enabled = VOLATILE
        elif enabled is not None and command == 0x01 and len(values) in (1, 2):
            second = values[1] if len(values) == 2 and self.kind.has_quad else self.status2
            self._write_status(values[0], second, enabled)
        elif enabled is not None and self._takes_31h and command == 0x31 and len(values) == 1:
            self._write_status(self.status1, values[0], enabled)

    @property
    def _takes_31h(self) -> bool:
        return self.kind.has_31h and self.kind.has_quad

    def _write_status(self, first: int, second: int, enabled: str) -> None:
        """BUSY and WEL are read only (7.1)."""
        kept = second & ~QUAD_ENABLE if self.kind.keeps_quad_clear else second
        self.status1, self.status2 = first & ~(BUSY | WRITE_ENABLED), kept
        self._enabled = None
        if enabled == LASTING:
            self.lasting = (self.status1, self.status2)
            self._busy_answers = BUSY_ANSWERS


def _take(lanes: int, bits: int) -> Generator[Lines, Lines, int]:
    """Bits from the host, the highest first; one lane is IO0."""
    value = 0
    for _ in range(bits // lanes):
        lines = yield RELEASED
        for lane in reversed(range(lanes)):
            value = value << 1 | (lines[lane] or 0)
    return value


def _give(lanes: int, byte: int) -> Talk:
    """Bits for the host, the highest first; one lane is IO1."""
    for shift in range(8 - lanes, -1, -lanes):
        if lanes == 1:
            yield (None, byte >> shift & 1, None, None)
        else:
            nibble = byte >> shift
            yield (nibble & 1, nibble >> 1 & 1, nibble >> 2 & 1, nibble >> 3 & 1)


def _wait(clocks: int) -> Talk:
    for _ in range(clocks):
        yield RELEASED


def _nothing() -> Talk:
    while True:
        yield RELEASED

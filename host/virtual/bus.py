"""What a peripheral is: registers at an address, and what the machine does for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from mcutrain_host.dataclass import dataclass
from mcutrain_host.virtual.errors import BoardFault


class Board(Protocol):
    """What peripherals need of the machine that they are in."""

    random: random.Random

    @property
    def now(self) -> int:
        """Time in instructions; each reading is later than the one before."""

    def skip(self, instructions: int) -> None:
        """The core waits."""

    def between(self, action: Callable[[], None]) -> None:
        """Do something while the core stands; then the running instruction's access comes anew."""

    def code_changed(self) -> None:
        """Something else than the core's own stores changed code."""

    def request_reset(self) -> None:
        """Reset the chip in the place of the next instruction."""

    def idle(self) -> None:
        """The firmware waits for a byte."""

    def operation_started(self, kind: str) -> None:
        """A flash operation began, which a power cut may break off."""


class Peripheral(Protocol):
    """Something at an address."""

    name: str

    def reset(self) -> None:
        """Reset as after power-on."""

    def read(self, offset: int, size: int) -> int:
        """Return what the core reads: 1, 2 or 4 bytes."""

    def write(self, offset: int, size: int, value: int) -> None:
        """What the core writes."""


@dataclass
class Button:
    """A button at a pin. level: of the pin while it is down."""

    pin: int
    level: int
    is_down: bool = False

    @staticmethod
    def of(define: Mapping[str, Any]) -> Button | None:
        """The button of a board with these macros, if it has one."""
        return (
            Button(define["BUTTON_PIN"], define["BUTTON_PRESSED"])
            if "BUTTON_PIN" in define
            else None
        )

    def reads(self, pull: int | None) -> int:
        """What the pin reads. pull: the level to which the chip pulls it. Without, it reads as
        pressed, which reveals firmware that relies on the board's own resistor.
        """
        return self.level if self.is_down or pull is None else pull


class Registers:
    """32-bit registers that keep what is written; subclasses give some a meaning.

    layout: the value after reset by offset; other offsets are faults.
    """

    def __init__(self, name: str, layout: Mapping[int, int]) -> None:
        self.name = name
        self.layout = dict(layout)
        self.values = dict(layout)

    def reset(self) -> None:
        """Reset as after power-on."""
        self.values = dict(self.layout)

    def read(self, offset: int, size: int) -> int:
        """Return what the core reads."""
        word = offset & ~3
        if word not in self.values:
            raise BoardFault(f"{self.name} has no register at offset {word:#x} in this model")
        value = self.load(word)
        return value if size == 4 else value >> 8 * (offset & 3) & ((1 << 8 * size) - 1)

    def write(self, offset: int, size: int, value: int) -> None:
        """What the core writes."""
        word = offset & ~3
        if word not in self.values:
            raise BoardFault(f"{self.name} has no register at offset {word:#x} in this model")
        self.store(word, value if size == 4 else self.widened(word, offset & 3, size, value))

    def widened(self, word: int, byte: int, size: int, value: int) -> int:
        """A narrow write as one of 32 bits: the others stay as they are."""
        mask = ((1 << 8 * size) - 1) << 8 * byte
        return self.values[word] & ~mask | value << 8 * byte & mask

    def load(self, word: int) -> int:
        """Value of a register."""
        return self.values[word]

    def store(self, word: int, value: int) -> None:
        """A write of 32 bits."""
        self.values[word] = value


class Silent(Registers):
    """A block of registers that keep values and do nothing."""

    def __init__(self, name: str, size_bytes: int, resets: Mapping[int, int] | None = None) -> None:
        super().__init__(name, {**dict.fromkeys(range(0, size_bytes, 4), 0), **(resets or {})})

"""What the RP2350's peripherals have otherwise than the RP2040's: sections of its datasheet."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.rp2 import Clocks, Pads, Resets, Rp2Registers, Watchdog

READ_COMMANDS = (0x03, 0x0B, 0xBB, 0xEB)
"""Commands of the ROM's read modes 0 to 3: one line, one faster line, two, four lines (5.4.8)."""


class Resets2350(Resets):
    """7.5."""

    IO_BANK0, PADS_BANK0, PLL_SYS, PLL_USB, TIMER, UART0, USB = 6, 9, 14, 15, 23, 26, 28
    ALL = 0x1FFFFFFF
    FREE_AFTER_BOOT = 1 << 7 | 1 << 10  # IO_QSPI, PADS_QSPI


class Clocks2350(Clocks):
    """8.1: dividers have 16 bits behind the point."""

    MAX_HZ, ONE = 150_000_000, 0x10000
    USB_CONTROL, USB_DIVISOR = 0x60, 0x64


class Pads2350(Pads):
    """9.11: a pad is isolated until its bit 8 is cleared."""

    FIRST, CHECKED, WORKS = 0x116, 0x1C0, 0x40


class Watchdog2350(Watchdog):
    """12.9: the tick is elsewhere."""

    def __init__(self, board: object) -> None:
        super().__init__(board)  # type: ignore[arg-type]
        del self.layout[self.TICK]
        self.reset()


class Ticks(Rp2Registers):
    """8.5: what the timer counts. CYCLES: of the reference clock."""

    TIMER, TIMER_CYCLES = 0x18, 0x1C

    def __init__(self) -> None:
        super().__init__("TICKS", dict.fromkeys(range(0, 0x48, 4), 0))

    @property
    def ticks_hz(self) -> Callable[[int], int]:
        """Return the timer's frequency for one of the reference clock; 0 while it is off."""
        cycles = self.values[self.TIMER_CYCLES]
        return lambda hz: hz // max(cycles, 1) if self.values[self.TIMER] & 1 else 0


class Qmi(Rp2Registers):
    """12.14: what makes the flash readable as memory. The ROM alone sets it up."""

    DIRECT, TIMING, FORMAT, COMMAND = 0x00, 0x0C, 0x10, 0x14
    MOST_HZ: ClassVar = 133_000_000
    """Highest clock of the Pico 2's flash chip."""

    def __init__(self, core_hz: Callable[[], int]) -> None:
        layout = dict.fromkeys(range(0, 0x54, 4), 0)
        layout |= {self.TIMING: 0x40000004, self.FORMAT: 0x1000, self.COMMAND: 0xA003}
        super().__init__("QMI", layout)
        self.core_hz = core_hz
        self.reads_flash = False

    def reset(self) -> None:
        """Reset as after power-on."""
        super().reset()
        self.reads_flash = False

    def store(self, word: int, value: int) -> None:
        """Refused: the flash would be read in another way than its chip is set to."""
        raise BoardFault(
            f"the firmware sets QMI's register at {word:#x}, which this model leaves to the ROM"
        )

    def begin_commands(self) -> None:
        """Bytes to the flash chip and from it, as the ROM's flash_exit_xip leaves it."""
        self.reads_flash = False

    def select(self, mode: int, divisor: int) -> None:
        """flash_select_xip_read_mode (5.4.8.12). Raises BoardFault."""
        if mode >= len(READ_COMMANDS):
            raise BoardFault(f"flash_select_xip_read_mode was called for mode {mode}; there are 4")
        hz = self.core_hz() // (divisor & 0xFF or 256)
        if hz > self.MOST_HZ:
            raise BoardFault(f"the flash is read at {hz} Hz, and bears {self.MOST_HZ}")
        self.values[self.TIMING] = 1 << 30 | divisor & 0xFF
        self.values[self.COMMAND] = READ_COMMANDS[mode]
        self.reads_flash = True

"""Peripherals of RP2040 and RP2350: sections of the RP2040 datasheet are named.

The RP2350's are the same with other bits and sizes, but for what reads its flash: rp2350.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from mcutrain_host.virtual.bus import Board, Button, Registers
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.serial_line import Wire
from mcutrain_host.virtual.stm32 import BAUD_TOLERANCE

CRYSTAL_HZ = 12_000_000
ROSC_HZ = 6_500_000
READ_WRITE, XOR, SET, CLEAR = 0, 1, 2, 3
"""2.1.2: what an access at +0x1000 times this does."""


class Rp2Registers(Registers):
    """With atomic aliases; a narrow write is repeated over all 32 bits (2.1.4)."""

    def __init__(
        self,
        name: str,
        layout: Mapping[int, int],
        in_reset: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(name, layout)
        self.in_reset = in_reset

    def widened(self, word: int, byte: int, size: int, value: int) -> int:
        """The bus repeats a narrow write."""
        return value & 0xFFFF | (value & 0xFFFF) << 16 if size == 2 else (value & 0xFF) * 0x01010101

    def read(self, offset: int, size: int) -> int:
        """Return what the core reads."""
        self._refuse_in_reset()
        return super().read(offset & 0xFFF, size)

    def write(self, offset: int, size: int, value: int) -> None:
        """What the core writes: as it is, or to set, clear or flip bits."""
        self._refuse_in_reset()
        way, word = offset >> 12 & 3, offset & 0xFFC
        if way != READ_WRITE and word in self.values:
            wide = value if size == 4 else self.widened(word, 0, size, value)
            old = self.values[word]
            value = (old ^ wide, old | wide, old & ~wide)[way - 1] & 0xFFFFFFFF
            self.store(word, value)
        else:
            super().write(offset & 0xFFF, size, value)

    def _refuse_in_reset(self) -> None:
        if self.in_reset():
            raise BoardFault(f"the firmware uses {self.name} while RESETS holds it in reset")


def silent(name: str, size_bytes: int) -> Rp2Registers:
    """Registers that keep values and do nothing."""
    return Rp2Registers(name, dict.fromkeys(range(0, size_bytes, 4), 0))


class Resets(Rp2Registers):
    """2.14: all peripherals but those of the boot begin in reset."""

    RESET, WATCHDOG, DONE = 0x0, 0x4, 0x8
    IO_BANK0, PADS_BANK0, PLL_SYS, PLL_USB, TIMER, UART0, USB = 5, 8, 12, 13, 21, 22, 24
    ALL = 0x01FFFFFF
    FREE_AFTER_BOOT = 1 << 6 | 1 << 9  # IO_QSPI, PADS_QSPI

    def __init__(self) -> None:
        first = self.ALL & ~self.FREE_AFTER_BOOT
        super().__init__("RESETS", {self.RESET: first, self.WATCHDOG: 0, self.DONE: 0})

    def load(self, word: int) -> int:
        """Out of reset at once."""
        return ~self.values[self.RESET] & self.ALL if word == self.DONE else super().load(word)

    def holds(self, bit: int) -> Callable[[], bool]:
        """A question to ask at each access."""
        return lambda: bool(self.values[self.RESET] >> bit & 1)


class Xosc(Rp2Registers):
    """2.16: the crystal."""

    CONTROL, STATUS, STARTUP = 0x00, 0x04, 0x0C
    ENABLE = 0xFAB

    def __init__(self) -> None:
        super().__init__("XOSC", {0x00: 0, 0x04: 0, 0x08: 0, 0x0C: 0xC4, 0x1C: 0})

    @property
    def is_on(self) -> bool:
        """The magic number of enabling was written."""
        return self.values[self.CONTROL] >> 12 & 0xFFF == self.ENABLE

    def load(self, word: int) -> int:
        """Stable as soon as it is on."""
        if word == self.STATUS:
            return 1 << 31 | 1 << 12 if self.is_on else 0
        return super().load(word)


class Pll(Rp2Registers):
    """2.18: crystal / REFDIV · FBDIV / POSTDIV1 / POSTDIV2."""

    CONTROL, POWER, FEEDBACK, DIVIDERS = 0x0, 0x4, 0x8, 0xC
    OFF, DIVIDERS_OFF, OSCILLATOR_OFF = 1 << 0, 1 << 3, 1 << 5

    def __init__(self, name: str, xosc: Xosc, in_reset: Callable[[], bool]) -> None:
        super().__init__(name, {0x0: 1, 0x4: 0x2D, 0x8: 0, 0xC: 0x77000}, in_reset)
        self.xosc = xosc

    def load(self, word: int) -> int:
        """Locked as soon as it is on and its crystal runs."""
        value = super().load(word)
        if word == self.CONTROL and self._runs() and self._oscillator_hz():
            value |= 1 << 31
        return value

    def _runs(self) -> bool:
        return not self.values[self.POWER] & (self.OFF | self.OSCILLATOR_OFF) and self.xosc.is_on

    def _oscillator_hz(self) -> int:
        feedback, divisor = self.values[self.FEEDBACK] & 0xFFF, self.values[self.CONTROL] & 0x3F
        hz = CRYSTAL_HZ // max(divisor, 1) * feedback
        if not 750_000_000 <= hz <= 1_600_000_000 or not 16 <= feedback <= 320:
            raise BoardFault(f"{self.name}'s oscillator is set to {hz} Hz, beyond its range")
        return hz

    @property
    def hz(self) -> int:
        """What comes out. Raises BoardFault if nothing does."""
        dividers = self.values[self.DIVIDERS]
        first, second = dividers >> 16 & 7, dividers >> 12 & 7
        if self.in_reset() or not self._runs() or self.values[self.POWER] & self.DIVIDERS_OFF:
            raise BoardFault(f"the firmware runs from {self.name}, which is not on")
        return self._oscillator_hz() // max(first, 1) // max(second, 1)


class Clocks(Rp2Registers):
    """2.15: reference, system and peripheral clock. ONE: a divider's value of 1."""

    MAX_HZ, ONE = 133_000_000, 0x100

    REF_CONTROL, REF_SELECTED = 0x30, 0x38
    SYS_CONTROL, SYS_DIVISOR, SYS_SELECTED, PERI_CONTROL = 0x3C, 0x40, 0x44, 0x48
    USB_CONTROL, USB_DIVISOR = 0x54, 0x58

    def __init__(self, xosc: Xosc, pll: Pll, changed: Callable[[], None] = lambda: None) -> None:
        layout = dict.fromkeys(range(0, 0xC8, 4), 0)
        layout |= dict.fromkeys(range(0x04, 0x78, 12), self.ONE)  # dividers
        super().__init__("CLOCKS", layout | {0x38: 1, 0x44: 1})
        self.xosc, self.pll, self.changed = xosc, pll, changed

    def load(self, word: int) -> int:
        """The glitchless multiplexers have switched at once."""
        if word == self.REF_SELECTED:
            return 1 << (self.values[self.REF_CONTROL] & 3)
        if word == self.SYS_SELECTED:
            return 1 << (self.values[self.SYS_CONTROL] & 1)
        return super().load(word)

    def store(self, word: int, value: int) -> None:
        """Refuses sources that do not run, and overclocking."""
        super().store(word, value)
        if word in (self.SYS_CONTROL, self.SYS_DIVISOR) and self.system_hz > self.MAX_HZ:
            raise BoardFault(f"the core is set to {self.system_hz} Hz, and bears {self.MAX_HZ}")
        if word == self.REF_CONTROL:
            _ = self.reference_hz
        self.changed()

    @property
    def reference_hz(self) -> int:
        """Frequency of the watchdog's tick."""
        source = self.values[self.REF_CONTROL] & 3
        if source == 2 and not self.xosc.is_on:
            raise BoardFault("the firmware takes the crystal as reference, which is not on")
        return {0: ROSC_HZ, 2: CRYSTAL_HZ}.get(source, ROSC_HZ)

    @property
    def system_hz(self) -> int:
        """Frequency of the core."""
        control = self.values[self.SYS_CONTROL]
        if not control & 1:
            return self.reference_hz
        source = control >> 5 & 7
        hz = {0: lambda: self.pll.hz, 2: lambda: ROSC_HZ, 3: lambda: CRYSTAL_HZ}.get(source)
        if hz is None:
            raise BoardFault(f"the system clock's source {source} is not modelled")
        return hz() * self.ONE // max(self.values[self.SYS_DIVISOR], self.ONE)

    @property
    def usb_runs(self) -> bool:
        """On, from PLL_USB, undivided."""
        control = self.values[self.USB_CONTROL]
        return (
            control >> 11 & 1 == 1
            and not control >> 5 & 7
            and self.values[self.USB_DIVISOR] == self.ONE
        )

    @property
    def peripheral_hz(self) -> int:
        """Frequency of the UARTs; 0 while they are off."""
        control = self.values[self.PERI_CONTROL]
        if not control >> 11 & 1:
            return 0
        source = control >> 5 & 7
        return {0: lambda: self.system_hz, 1: lambda: self.pll.hz, 4: lambda: CRYSTAL_HZ}.get(
            source, lambda: ROSC_HZ
        )()


class Watchdog(Rp2Registers):
    """4.7: the tick of the timer, and resets."""

    CONTROL, TICK = 0x00, 0x2C
    TRIGGER = 1 << 31

    def __init__(self, board: Board) -> None:
        super().__init__("WATCHDOG", {**dict.fromkeys(range(0, 0x30, 4), 0), self.TICK: 0x200})
        self.board = board

    def load(self, word: int) -> int:
        """The tick runs as soon as it is enabled."""
        value = super().load(word)
        return value | (value >> 9 & 1) << 10 if word == self.TICK else value

    def store(self, word: int, value: int) -> None:
        """TRIGGER resets the chip; the watchdog's own time is not modelled."""
        if word == self.CONTROL and value & self.TRIGGER:
            self.board.request_reset()
        elif word == self.CONTROL and value >> 30 & 1:
            raise BoardFault("the firmware starts the watchdog's timer, which is not modelled")
        else:
            super().store(word, value)

    @property
    def ticks_hz(self) -> Callable[[int], int]:
        """Return the timer's frequency for one of the reference clock; 0 while it is off."""
        tick = self.values[self.TICK]
        return lambda hz: hz // max(tick & 0x1FF, 1) if tick >> 9 & 1 else 0

    def reset(self) -> None:
        """The scratch registers survive a reset, not a power cut."""
        scratch = {offset: self.values[offset] for offset in range(0x0C, 0x2C, 4)}
        super().reset()
        self.values |= scratch


class Tick(Protocol):
    """What the timer counts."""

    @property
    def ticks_hz(self) -> Callable[[int], int]:
        """Return the timer's frequency for one of the reference clock; 0 while it is off."""


class Timer(Rp2Registers):
    """4.6: 64 bits of microseconds; a reading of the low half latches the high one."""

    HIGH_WRITE, LOW_WRITE, HIGH, LOW, RAW_HIGH, RAW_LOW = 0x00, 0x04, 0x08, 0x0C, 0x24, 0x28

    def __init__(
        self, board: Board, clocks: Clocks, tick: Tick, in_reset: Callable[[], bool]
    ) -> None:
        super().__init__("TIMER", dict.fromkeys(range(0, 0x4C, 4), 0), in_reset)
        self.board, self.clocks, self.tick = board, clocks, tick
        self._latched = 0

    def load(self, word: int) -> int:
        """The time."""
        if word in (self.LOW, self.RAW_LOW):
            ticks = self._ticks()
            self._latched = ticks >> 32 if word == self.LOW else self._latched
            return ticks & 0xFFFFFFFF
        if word == self.RAW_HIGH:
            return self._ticks() >> 32
        return self._latched if word == self.HIGH else super().load(word)

    def _ticks(self) -> int:
        hz = self.tick.ticks_hz(self.clocks.reference_hz)
        return self.board.now * hz // self.clocks.system_hz


class IoBank(Rp2Registers):
    """2.19: which peripheral has a pin."""

    def __init__(self, in_reset: Callable[[], bool]) -> None:
        layout = dict.fromkeys(range(0, 0x190, 4), 0)
        layout |= dict.fromkeys(range(0x04, 0xF0, 8), 0x1F)
        super().__init__("IO_BANK0", layout, in_reset)

    def function(self, pin: int) -> int:
        """2 is the UART."""
        return self.values[8 * pin + 4] & 0x1F


class Pads(Rp2Registers):
    """2.19.4: electrical settings of pins."""

    FIRST, CHECKED, WORKS = 0x56, 0xC0, 0x40

    def __init__(self, in_reset: Callable[[], bool]) -> None:
        layout = {0: 0} | dict.fromkeys(range(4, 0x84, 4), self.FIRST)
        super().__init__("PADS_BANK0", layout, in_reset)

    def pull(self, pin: int) -> int | None:
        """To which level the pin is pulled."""
        return {1: 0, 2: 1}.get(self.values[4 + 4 * pin] >> 2 & 3)

    def works(self, pin: int) -> bool:
        """Input on, output not off."""
        return self.values[4 + 4 * pin] & self.CHECKED == self.WORKS


class Pl011(Rp2Registers):
    """4.2: UART0 with its two FIFOs of 32 bytes. Status bits: Arm DDI 0183."""

    DR, RSR, FR, IBRD, FBRD, LCR, CR, RIS = 0x00, 0x04, 0x18, 0x24, 0x28, 0x2C, 0x30, 0x3C
    ENABLE, SEND, RECEIVE = 1 << 0, 1 << 8, 1 << 9
    RX_EMPTY, TX_EMPTY = 1 << 4, 1 << 7
    OVERRUN = 1 << 11

    def __init__(
        self,
        wire: Wire,
        clocks: Clocks,
        baud: int,
        reason: Callable[[], str | None],
        in_reset: Callable[[], bool],
    ) -> None:
        layout = dict.fromkeys(range(0, 0x4C, 4), 0) | {0x30: 0x300, 0x34: 0x12}
        peripheral_id = (0x11, 0x10, 0x34, 0x00, 0x0D, 0xF0, 0x05, 0xB1)
        layout |= {0xFE0 + 4 * i: byte for i, byte in enumerate(peripheral_id)}
        super().__init__("UART0", layout, in_reset)
        self.wire, self.clocks, self.baud, self.reason = wire, clocks, baud, reason
        self._overruns_seen = wire.overruns

    def load(self, word: int) -> int:
        """Data and status."""
        control = self.values[self.CR]
        if word == self.FR:
            hears = control & self.ENABLE and control & self.RECEIVE
            return self.TX_EMPTY | (0 if hears and self.wire.ready() else self.RX_EMPTY)
        if word == self.DR:
            byte = self.wire.take()
            lost, self._overruns_seen = (
                self._overruns_seen != self.wire.overruns,
                self.wire.overruns,
            )
            return byte | (self.OVERRUN if lost else 0)
        return super().load(word)

    def store(self, word: int, value: int) -> None:
        """Data and settings."""
        control = self.values[self.CR]
        if word == self.DR:
            if control & self.ENABLE and control & self.SEND:
                self.wire.send(value & 0xFF)
            return
        super().store(word, value)
        if word == self.CR and value & self.ENABLE and not control & self.ENABLE:
            self._check_settings()

    def _check_settings(self) -> None:
        """4.2.3: the divisor counts in 64ths, and a bit takes 16 clocks; 8 bits, no parity."""
        divisor = self.values[self.IBRD] * 64 + (self.values[self.FBRD] & 0x3F)
        baud = self.clocks.peripheral_hz * 4 / divisor if divisor else 0.0
        if abs(baud / self.baud - 1) > BAUD_TOLERANCE:
            raise BoardFault(
                f"UART0 is set to {baud:.0f} baud and the board promises {self.baud}: "
                f"its clock runs at {self.clocks.peripheral_hz} Hz, its divisor is {divisor}/64"
            )
        if self.values[self.LCR] & 0x6E != 0x60:
            raise BoardFault("UART0 is not set to 8 data bits, no parity and one stop bit")
        reason = self.reason()
        if reason:
            raise BoardFault(reason)


class SioPins(Registers):
    """What pins read (2.3.1; RP2350: 3.1.11): 0, but for the button's."""

    GPIO_IN = 0x004

    def __init__(self, button: Button | None, pads: Pads, words: Iterable[int] = ()) -> None:
        self.button, self.pads = button, pads
        super().__init__("SIO", dict.fromkeys((self.GPIO_IN, *words), 0))

    def load(self, word: int) -> int:
        """A pin whose pad is off reads 0."""
        button = self.button
        if word != self.GPIO_IN or button is None or not self.pads.works(button.pin):
            return super().load(word)
        return button.reads(self.pads.pull(button.pin)) << button.pin


class Sio(SioPins):
    """2.3.1: core number, pins, divider and spinlocks; no second core."""

    CPUID, DIVIDER = 0x000, range(0x060, 0x07C, 4)

    def __init__(self, button: Button | None, pads: Pads) -> None:
        super().__init__(button, pads, (*range(0, 0x58, 4), *range(0x100, 0x180, 4)))

    def store(self, word: int, value: int) -> None:
        """Set, clear and flip registers of the outputs."""
        if word in (0x14, 0x18, 0x1C, 0x24, 0x28, 0x2C):
            base, way = (0x10, word - 0x14) if word < 0x20 else (0x20, word - 0x24)
            old = self.values[base]
            self.values[base] = (old | value, old & ~value, old ^ value)[way // 4]
        else:
            super().store(word, value)

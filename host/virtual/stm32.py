"""Clocks, pins and USARTs of the STM32F4 and F7, and what the F3 shares: RM0090, RM0390, RM0385."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from mcutrain_host.dataclass import dataclass
from mcutrain_host.virtual.bus import Button, Peripheral, Registers
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.serial_line import Wire

BAUD_TOLERANCE = 0.03
"""A receiver that samples in the middle of bits bears about that much."""
MAX_VCO_HZ, MIN_VCO_HZ = 432_000_000, 100_000_000
AHB_DIVISORS = (2, 4, 8, 16, 64, 128, 256, 512)
APB_DIVISORS = (2, 4, 8, 16)


@dataclass(frozen=True)
class ClockLimits:
    """Highest frequencies in Hz; overdrive: above which it is needed, if the chip has it."""

    core: int
    apb1: int
    apb2: int
    overdrive: int | None = None


class Rcc(Registers):
    """Reset and clock control: ready bits follow enable bits; frequencies are those set up.

    hsi_hz: of the internal oscillator. wait_state_hz: the flash needs another wait state from every
    multiple of it on, at 2.7 V and more. ready: bits of CR that are set, and what follows them.
    apb_shifts: of the prescalers of APB1 and APB2 in CFGR.
    """

    CR: ClassVar = 0x00
    CFGR: ClassVar[int]
    GPIOENR: ClassVar[int]
    APB1ENR: ClassVar[int]
    APB2ENR: ClassVar[int]
    hsi_hz: ClassVar[int]
    wait_state_hz: ClassVar[int]
    ready: ClassVar[tuple[tuple[int, int], ...]]
    apb_shifts: ClassVar[tuple[int, int]]

    def __init__(self, limits: ClockLimits, layout: Mapping[int, int]) -> None:
        super().__init__("RCC", layout)
        self.limits = limits
        self.flash_wait_states: Callable[[], int] = lambda: 0
        self.overdriven: Callable[[], bool] = lambda: False
        self.voltage: Callable[[], int] = lambda: 0

    def power_on(self) -> None:
        """What a reset leaves, and the power's coming does not."""

    def load(self, word: int) -> int:
        """Each clock is ready as soon as it is on; there is no crystal in this model."""
        value = super().load(word)
        if word == self.CR:
            for enable, ready in self.ready:
                value = value & ~(1 << ready) | (value >> enable & 1) << ready
        if word == self.CFGR:
            value = value & ~0xC | (value & 3) << 2
        return value

    def store(self, word: int, value: int) -> None:
        """Refuses what the manual forbids."""
        if self.is_pll_on and self.sets_pll(word, value):
            raise BoardFault("the firmware changes the PLL's settings while the PLL runs")
        super().store(word, value)
        if word == self.CFGR:
            self.check()

    @property
    def is_pll_on(self) -> bool:
        """Does the PLL run?"""
        return bool(self.values[self.CR] >> 24 & 1)

    def sets_pll(self, word: int, value: int) -> bool:
        """Does such a write change how the PLL is set up?"""
        raise NotImplementedError

    def pll_hz(self) -> int:
        """Return what the PLL gives. Raises BoardFault for what it cannot."""
        raise NotImplementedError

    @property
    def from_reset_clock(self) -> bool:
        """Does the core run as after a reset, without the PLL?"""
        return self.values[self.CFGR] & 0xF3 == 0 and not self.is_pll_on

    @property
    def core_hz(self) -> int:
        """Frequency of core, AHB and flash."""
        high = self.values[self.CFGR] >> 4 & 0xF
        return self.system_hz() // (AHB_DIVISORS[high & 7] if high & 8 else 1)

    @property
    def apb1_hz(self) -> int:
        """Frequency of the slow peripheral bus."""
        return self._apb_hz(self.apb_shifts[0])

    @property
    def apb2_hz(self) -> int:
        """Frequency of the fast peripheral bus."""
        return self._apb_hz(self.apb_shifts[1])

    def is_on(self, register: int, bit: int) -> bool:
        """Is a peripheral's clock on?"""
        return bool(self.values[register] >> bit & 1)

    def _apb_hz(self, shift: int) -> int:
        field = self.values[self.CFGR] >> shift & 7
        return self.core_hz // (APB_DIVISORS[field & 3] if field & 4 else 1)

    def system_hz(self) -> int:
        """Frequency before the core's prescaler. Raises BoardFault for a source that is not on."""
        source = self.values[self.CFGR] & 3
        if source == 0:
            return self.hsi_hz
        if source != 2:
            raise BoardFault("the firmware switches to the crystal, and this model has none")
        return self.running_pll_hz()

    def running_pll_hz(self) -> int:
        """Return what the PLL gives. Raises BoardFault if it is off."""
        if not self.is_pll_on:
            raise BoardFault("the firmware switches to the PLL, which is not on")
        return self.pll_hz()

    def check(self) -> None:
        """Raises BoardFault for frequencies that the chip does not bear as it is set up."""
        limits = self.limits
        states = (self.core_hz - 1) // self.wait_state_hz
        if self.flash_wait_states() < states:
            raise BoardFault(
                f"at {self.core_hz} Hz the flash needs {states} wait states, "
                f"and FLASH_ACR says {self.flash_wait_states()}"
            )
        for name, hz, most in (
            ("the core", self.core_hz, limits.core),
            ("APB1", self.apb1_hz, limits.apb1),
            ("APB2", self.apb2_hz, limits.apb2),
        ):
            if hz > most:
                raise BoardFault(f"{name} is set to {hz} Hz, and bears {most}")
        if limits.overdrive and self.core_hz > limits.overdrive and not self.overdriven():
            raise BoardFault(f"{self.core_hz} Hz need the over-drive, which is not on")


class RccF4(Rcc):
    """The STM32F4's and F7's: RM0090, "Reset and clock control"."""

    PLLCFGR, CFGR = 0x04, 0x08
    GPIOENR, APB1ENR, APB2ENR = 0x30, 0x40, 0x44
    hsi_hz, wait_state_hz = 16_000_000, 30_000_000
    ready = ((0, 1), (24, 25), (26, 27), (28, 29))
    apb_shifts = (10, 13)

    def __init__(self, limits: ClockLimits) -> None:
        layout = dict.fromkeys(range(0, 0x98, 4), 0)
        for absent in (0x1C, 0x2C, 0x3C, 0x48, 0x4C, 0x5C, 0x68, 0x6C, 0x78, 0x7C):
            del layout[absent]
        layout |= {self.CR: 0x83, self.PLLCFGR: 0x24003010, self.GPIOENR: 0x00100000}
        super().__init__(limits, layout | {0x74: 0x0E000000})

    def sets_pll(self, word: int, value: int) -> bool:
        """Any write to its register."""
        return word == self.PLLCFGR

    def pll_hz(self) -> int:
        """The oscillator's frequency / m * n / p."""
        setting = self.values[self.PLLCFGR]
        m, n, p = setting & 0x3F, setting >> 6 & 0x1FF, 2 * (setting >> 16 & 3) + 2
        if setting >> 22 & 1:
            raise BoardFault("the PLL is fed by the crystal, and this model has none")
        if m < 2 or not 1_000_000 <= self.hsi_hz / m <= 2_000_000:
            raise BoardFault(f"the PLL's input is {self.hsi_hz} Hz / {m}, not 1 to 2 MHz")
        vco_hz = self.hsi_hz * n // m
        if not MIN_VCO_HZ <= vco_hz <= MAX_VCO_HZ:
            raise BoardFault(f"the PLL's oscillator is set to {vco_hz} Hz, beyond its range")
        return vco_hz // p


class PowerControl(Registers):
    """Power control: what clocks must know of the regulator."""

    def __init__(self, layout: Mapping[int, int]) -> None:
        super().__init__("PWR", layout)

    def power_on(self) -> None:
        """What a reset leaves, and the power's coming does not."""

    @property
    def overdriven(self) -> bool:
        """Is the over-drive on? Only some chips have one."""
        return False

    @property
    def voltage(self) -> int:
        """The scale of the core's voltage, where clocks depend on it."""
        return 0


class Pwr(PowerControl):
    """The STM32F4's and F7's, with its over-drive; the F3's."""

    CR, CSR = 0x00, 0x04

    def __init__(self, limits: ClockLimits) -> None:
        super().__init__({0x00: 0xC000, 0x04: 0, 0x08: 0, 0x0C: 0})
        self.has_overdrive = limits.overdrive is not None

    def load(self, word: int) -> int:
        """Ready bits follow enable bits."""
        value = super().load(word)
        if word == self.CSR:
            control = self.values[self.CR] if self.has_overdrive else 0
            value |= 1 << 14 | control & 3 << 16
        return value

    @property
    def overdriven(self) -> bool:
        """Both steps of the over-drive are done."""
        return self.has_overdrive and self.values[self.CR] >> 16 & 3 == 3


class Gpio(Registers):
    """A port of 16 pins; nothing is connected besides the UART and maybe a button.

    analog: all pins are, after a reset, and not inputs.
    """

    MODER, PUPDR, IDR, ODR, BSRR, AFR = 0x00, 0x0C, 0x10, 0x14, 0x18, 0x20
    PULLS: ClassVar[dict[int, int]] = {1: 1, 2: 0}

    def __init__(self, letter: str, analog: bool = False) -> None:
        moder = {"A": 0xA8000000, "B": 0x00000280}.get(letter, 0)
        if analog:  # but for the debugger's pins, which have another mode
            moder = {"A": 0xABFFFFFF, "B": 0xFFFFFEBF}.get(letter, 0xFFFFFFFF)
        super().__init__(f"GPIO{letter}", {**dict.fromkeys(range(0, 0x28, 4), 0), 0: moder})
        self.button: Button | None = None

    def load(self, word: int) -> int:
        """Inputs read what the outputs are, but for the button's."""
        if word != self.IDR:
            return super().load(word)
        button, read = self.button, self.values[self.ODR]
        if button is None or self.values[self.MODER] >> 2 * button.pin & 3:
            return read
        pull = self.PULLS.get(self.values[self.PUPDR] >> 2 * button.pin & 3)
        return read & ~(1 << button.pin) | button.reads(pull) << button.pin

    def store(self, word: int, value: int) -> None:
        """BSRR sets and clears outputs."""
        if word == self.BSRR:
            self.values[self.ODR] = self.values[self.ODR] & ~(value >> 16) | value & 0xFFFF
        else:
            super().store(word, value)

    def function(self, pin: int) -> int | None:
        """The alternate function of a pin, None if it has another mode."""
        if self.values[self.MODER] >> 2 * pin & 3 != 2:
            return None
        return self.values[self.AFR + 4 * (pin // 8)] >> 4 * (pin % 8) & 0xF


class Gated:
    """A peripheral that works only while its clock is on."""

    def __init__(self, device: Peripheral, rcc: Rcc, register: int, bit: int) -> None:
        self.device, self.rcc, self.register, self.bit = device, rcc, register, bit
        self.name = device.name

    def reset(self) -> None:
        """Reset as after power-on."""
        self.device.reset()

    def read(self, offset: int, size: int) -> int:
        """Return what the core reads."""
        self._check()
        return self.device.read(offset, size)

    def write(self, offset: int, size: int, value: int) -> None:
        """What the core writes."""
        self._check()
        self.device.write(offset, size, value)

    def _check(self) -> None:
        if not self.rcc.values[self.register] >> self.bit & 1:
            raise BoardFault(
                f"the firmware uses {self.name} while its clock is off: "
                f"bit {self.bit} of RCC at offset {self.register:#x} is 0"
            )


@dataclass(frozen=True)
class UsartPins:
    """What must be set up before bytes pass: each is called for the reason why they do not pass."""

    bus_hz: Callable[[], int]
    baud: int
    sends: Callable[[], str | None]
    receives: Callable[[], str | None]

    def check(self, divisor: int) -> None:
        """Raises BoardFault if the world would not understand the board."""
        baud = self.bus_hz() / divisor if divisor >= 16 else 0.0
        if abs(baud / self.baud - 1) > BAUD_TOLERANCE:
            raise BoardFault(
                f"the UART is set to {baud:.0f} baud and the board promises {self.baud}: "
                f"its bus runs at {self.bus_hz()} Hz and BRR is {divisor}"
            )
        for reason in (self.sends(), self.receives()):
            if reason:
                raise BoardFault(reason)


class UsartV1(Registers):
    """The STM32F4's: RM0090, "USART registers"."""

    SR, DR, BRR, CR1 = 0x00, 0x04, 0x08, 0x0C
    ENABLE, SEND, RECEIVE = 1 << 13, 1 << 3, 1 << 2
    RXNE, ORE, TC, TXE = 1 << 5, 1 << 3, 1 << 6, 1 << 7

    def __init__(self, name: str, wire: Wire, pins: UsartPins) -> None:
        super().__init__(name, dict.fromkeys(range(0, 0x1C, 4), 0))
        self.wire, self.pins = wire, pins
        self._overruns_seen = wire.overruns
        self._on = 0

    def reset(self) -> None:
        """Reset as after power-on."""
        super().reset()
        self._on = 0

    def load(self, word: int) -> int:
        """Status and data."""
        if word == self.SR:
            return self._status()
        if word == self.DR:
            self._overruns_seen = self.wire.overruns
            return self.wire.take() if self._on & self.RECEIVE else 0
        return super().load(word)

    def store(self, word: int, value: int) -> None:
        """Data and settings; the first time that it is switched on, they must be right."""
        if word == self.DR:
            if self._on & self.SEND:
                self.wire.send(value & 0xFF)
        elif word != self.SR:
            super().store(word, value)
            if word in (self.CR1, self.BRR):
                self._switch()

    def _switch(self) -> None:
        control = self.values[self.CR1]
        self._on = control if control & self.ENABLE else 0
        if self._on & (self.SEND | self.RECEIVE):
            self.pins.check(self.values[self.BRR])

    def _status(self) -> int:
        status = self.TC | self.TXE
        if self._on & self.RECEIVE and self.wire.ready():
            status |= self.RXNE
        if self.wire.overruns != self._overruns_seen:
            status |= self.ORE
        return status


class UsartV2(UsartV1):
    """The STM32F7's: RM0385, "USART registers". Its overrun must be cleared, or be switched off."""

    CR1, CR2, CR3, BRR, ISR, ICR, RDR, TDR = 0x00, 0x04, 0x08, 0x0C, 0x1C, 0x20, 0x24, 0x28
    ENABLE = 1 << 0
    OVERRUN_OFF = 1 << 12
    SENDING, RECEIVING = 1 << 21, 1 << 22

    def load(self, word: int) -> int:
        """Status and data."""
        if word == self.ISR:
            acknowledged = (self._on & self.SEND) << 18 | (self._on & self.RECEIVE) << 20
            return self._status() | acknowledged
        if word == self.RDR:
            return self.wire.take() if self._on & self.RECEIVE else 0
        return Registers.load(self, word)

    def store(self, word: int, value: int) -> None:
        """Data and settings."""
        if word == self.TDR:
            if self._on & self.SEND:
                self.wire.send(value & 0xFF)
        elif word == self.ICR:
            if value & self.ORE:
                self._overruns_seen = self.wire.overruns
        elif word not in (self.ISR, self.RDR):
            if word == self.BRR and self._on:
                raise BoardFault(f"the firmware writes {self.name}'s BRR while it is on")
            Registers.store(self, word, value)
            if word == self.CR1:
                self._switch()

    def __init__(self, name: str, wire: Wire, pins: UsartPins) -> None:
        super().__init__(name, wire, pins)
        self.layout = dict.fromkeys(range(0, 0x2C, 4), 0)
        self.reset()

    def _status(self) -> int:
        status = super()._status()
        if self.values[self.CR3] & self.OVERRUN_OFF:
            status &= ~self.ORE
        return status

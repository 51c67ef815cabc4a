"""Clocks, power control and flash controller of the STM32L47x: RM0351."""

from __future__ import annotations

from typing import ClassVar

from mcutrain_host.virtual.chip import Carrier
from mcutrain_host.virtual.cortex_m import NMI
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.flash_memory import ERASED, FlashMemory, FlashTiming
from mcutrain_host.virtual.stm32 import ClockLimits, PowerControl, Rcc
from mcutrain_host.virtual.stm32_flash import FlashController

MSI_HZ = 4_000_000
"""Clock of the oscillator that runs after a reset."""
LEAST_INPUT_HZ, MOST_INPUT_HZ = 4_000_000, 16_000_000
LEAST_VCO_HZ, MOST_VCO_HZ = 64_000_000, 344_000_000


class RccL4(Rcc):
    """RM0351, "Reset and clock control"; of the PLL's outputs only the core's, R."""

    CFGR, PLLCFGR = 0x08, 0x0C
    GPIOENR, APB1ENR, APB2ENR = 0x4C, 0x58, 0x60
    hsi_hz, wait_state_hz = 16_000_000, 16_000_000
    ready = ((0, 1), (8, 10), (24, 25), (26, 27), (28, 29))
    apb_shifts = (8, 11)
    HSI_READY, OUTPUT_ON = 1 << 10, 1 << 24

    def __init__(self, limits: ClockLimits) -> None:
        layout = dict.fromkeys(range(0, 0x98, 4), 0)
        for absent in (0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x84, 0x8C):
            del layout[absent]
        layout |= {self.CR: 0x63, self.PLLCFGR: 0x1000, 0x48: 0x100, 0x94: 0x0C000600}
        super().__init__(limits, layout)

    def sets_pll(self, word: int, value: int) -> bool:
        """Its outputs may be switched on while it runs, all else not."""
        changed = value ^ self.values[word]
        return word == self.PLLCFGR and bool(changed & ~(1 << 24 | 1 << 20 | 1 << 16))

    def pll_hz(self) -> int:
        """The oscillator's frequency / m * n / r."""
        setting = self.values[self.PLLCFGR]
        m, n, r = (setting >> 4 & 7) + 1, setting >> 8 & 0x7F, 2 * (setting >> 25 & 3) + 2
        if setting & 3 == 2 and not self.load(self.CR) & self.HSI_READY:
            raise BoardFault("the PLL is fed by HSI16, which is not on")
        if setting & 3 not in (1, 2):
            raise BoardFault("the PLL is fed by nothing, or by the crystal that this model lacks")
        if not setting & self.OUTPUT_ON:
            raise BoardFault("the firmware switches to the PLL, whose output PLLREN is off")
        input_hz = (MSI_HZ if setting & 3 == 1 else self.hsi_hz) // m
        vco_hz = input_hz * n
        if not LEAST_INPUT_HZ <= input_hz <= MOST_INPUT_HZ:
            raise BoardFault(f"the PLL's input is {input_hz} Hz, not 4 to 16 MHz")
        if not 8 <= n <= 86 or not LEAST_VCO_HZ <= vco_hz <= MOST_VCO_HZ:
            raise BoardFault(f"the PLL's oscillator is set to {vco_hz} Hz, beyond its range")
        return vco_hz // r

    def system_hz(self) -> int:
        """MSI after a reset, else HSI16 or the PLL."""
        source = self.values[self.CFGR] & 3
        if source == 0:
            return MSI_HZ
        if source == 2:
            raise BoardFault("the firmware switches to the crystal, and this model has none")
        if source == 1:
            if not self.load(self.CR) & self.HSI_READY:
                raise BoardFault("the firmware switches to HSI16, which is not on")
            return self.hsi_hz
        return self.running_pll_hz()


class PwrL4(PowerControl):
    """RM0351, "Power control": range 1 of the regulator, for every frequency."""

    CR1 = 0x00

    def __init__(self, limits: ClockLimits) -> None:
        layout = dict.fromkeys((*range(0, 0x1C, 4), *range(0x20, 0x60, 4)), 0)
        super().__init__(layout | {self.CR1: 0x200, 0x08: 0x8000})

    def store(self, word: int, value: int) -> None:
        """The core's voltage stays."""
        if word == self.CR1 and (value ^ self.values[word]) & 0x600:
            raise BoardFault("the firmware changes the regulator's range, which this model lacks")
        super().store(word, value)


class Stm32L4Flash(FlashController):
    """RM0351, "Embedded Flash memory": pages of 2 KB in two banks; 64 bits have eight for errors.

    The core writes two words, and the second starts to program both. Where the checksum of 64 bits
    is wrong, the core reads them as they are, and takes the NMI.
    """

    ACR: ClassVar = 0x00
    PDKEYR, KEYR, OPTKEYR, SR, CR, ECCR, OPTR = 0x04, 0x08, 0x0C, 0x10, 0x14, 0x18, 0x20
    DONE, FAILED, NOT_ERASED, ALIGNMENT, SIZE, SEQUENCE = 1, 1 << 1, 1 << 3, 1 << 5, 1 << 6, 1 << 7
    BUSY, ERRORS = 1 << 16, 0xC3FA
    PROGRAM, ERASE, MASS_ERASES, START, OPTION_LOCK, LOCK = 1, 2, 0x8004, 1 << 16, 1 << 30, 1 << 31
    OPTION_START, FAST = 1 << 17, 1 << 18
    DATA_CACHE, DATA_CACHE_RESET = 1 << 10, 1 << 12
    CORRECTED, DETECTED = 1 << 30, 1 << 31
    WORD_BYTES, PAGE_BYTES, BANK_PAGES = 8, 2048, 256
    lock, wait_mask = LOCK, 7

    def __init__(self, board: Carrier, memory: FlashMemory, timing: FlashTiming) -> None:
        layout = dict.fromkeys((self.PDKEYR, self.KEYR, self.OPTKEYR, self.SR, self.ECCR), 0)
        layout |= {self.ACR: 0x600, self.CR: self.LOCK | self.OPTION_LOCK, self.OPTR: 0xFFEFF8AA}
        self._half: tuple[int, bytes, bytes] | None = None
        """Where the first word of two is, what was there, and what was written."""
        self._reported: set[int] = set()
        self.carrier = board
        super().__init__(board, memory, timing, layout)

    def reset(self) -> None:
        """Reset as after power-on; a word of which only half was written never was."""
        super().reset()
        self._drop_half()
        self._reported.clear()

    def store(self, word: int, value: int) -> None:
        """Keys, the status's bits to clear, and commands."""
        if word == self.KEYR:
            self.key(value)
        elif word == self.SR:
            self.values[word] &= ~(value & (self.ERRORS | self.DONE))
        elif word == self.CR:
            self._control(value)
        elif word == self.ECCR:
            self.values[word] &= ~(value & (self.CORRECTED | self.DETECTED))
        elif word == self.ACR:
            if value & self.DATA_CACHE_RESET and value & self.DATA_CACHE:
                raise BoardFault("the firmware resets the data cache while it is on")
            super().store(word, value)
        elif word in (self.PDKEYR, self.OPTR):
            raise BoardFault("the firmware writes the option bytes, which this model leaves alone")
        elif word != self.OPTKEYR:
            super().store(word, value)

    def program(self, address: int, size: int, value: int) -> bytes:
        """The core writes to the flash's memory: what is there afterwards.

        What the manual forbids changes nothing, and the status says so.
        """
        self.wait()
        offset = address - self.memory.origin
        before = bytes(self.memory.bytes[offset : offset + size])
        error = self._error_of(offset, size)
        if error:
            self.values[self.SR] |= error
            self._drop_half()
            return before
        written = (value & 0xFFFFFFFF).to_bytes(4, "little")
        if self._half is None:
            self._half = offset, before, written
            return written
        whole = self._half[2] + written
        self._drop_half()
        old = self.memory.bytes[offset - 4 : offset + 4]
        is_erased = old == bytes([ERASED]) * 8 and not self.memory.broken_words(offset - 4, 8)
        if not is_erased and any(whole):
            self.values[self.SR] |= self.NOT_ERASED
            return before
        self.change(offset - 4, whole)
        return written

    def read_broken(self, offset: int) -> None:
        """The NMI, and where; once for each word, because the read comes anew after it."""
        if offset not in self._reported:
            self._reported.add(offset)
            if not self.values[self.ECCR] & self.DETECTED:
                self.values[self.ECCR] = self.DETECTED | offset
            self.carrier.interrupt(NMI)

    def _error_of(self, offset: int, size: int) -> int:
        if not self.values[self.CR] & self.PROGRAM or self.values[self.SR] & self.ERRORS:
            return self.SEQUENCE
        if size != 4:
            return self.SIZE
        wanted = self._half[0] + 4 if self._half else offset // self.WORD_BYTES * self.WORD_BYTES
        return 0 if offset == wanted else self.ALIGNMENT

    def _drop_half(self) -> None:
        """The first word of two is no longer there."""
        if self._half is not None:
            offset, before, _ = self._half
            self.memory.bytes[offset : offset + 4] = before
            self._half = None

    def _control(self, value: int) -> None:
        self.wait()
        if self.values[self.CR] & self.LOCK:
            return
        if value & (self.OPTION_START | self.FAST | self.MASS_ERASES):
            raise BoardFault("the firmware asks the flash for what this model does not have")
        if self._half is not None:
            raise BoardFault("the firmware closes the flash with half of 64 bits written")
        if value & self.LOCK:
            self.lock_again()
        self.values[self.CR] = value & ~self.START
        if value & self.START:
            self._erase(value)

    def _erase(self, value: int) -> None:
        if not value & self.ERASE or value & self.PROGRAM or self.values[self.SR] & self.ERRORS:
            self.values[self.SR] |= self.SEQUENCE
            return
        page = (value >> 3 & 0xFF) + self.BANK_PAGES * (value >> 11 & 1)
        self.erase(page * self.PAGE_BYTES, self.PAGE_BYTES)

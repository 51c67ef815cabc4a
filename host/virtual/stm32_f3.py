"""Clocks and flash controller of the STM32F303xD and xE: RM0316."""

from __future__ import annotations

from typing import ClassVar

from mcutrain_host.virtual.bus import Board
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.flash_memory import ERASED, FlashMemory, FlashTiming
from mcutrain_host.virtual.stm32 import ClockLimits, Rcc
from mcutrain_host.virtual.stm32_flash import FlashController

PLL_SETTINGS = 0xF << 18 | 3 << 15
"""Settings of CFGR: the factor and what is multiplied."""
LEAST_PLL_HZ = 16_000_000


class RccF3(Rcc):
    """RM0316, "Reset and clock control"."""

    CFGR, CFGR2 = 0x04, 0x2C
    GPIOENR, APB1ENR, APB2ENR = 0x14, 0x1C, 0x18
    hsi_hz, wait_state_hz = 8_000_000, 24_000_000
    ready = ((0, 1), (24, 25))
    apb_shifts = (8, 11)

    def __init__(self, limits: ClockLimits) -> None:
        layout = dict.fromkeys(range(0, 0x34, 4), 0)
        super().__init__(limits, layout | {self.CR: 0x83, self.GPIOENR: 0x14})

    def sets_pll(self, word: int, value: int) -> bool:
        """Its settings share CFGR with other things."""
        if word == self.CFGR:
            return bool((value ^ self.values[word]) & PLL_SETTINGS)
        return word == self.CFGR2 and bool((value ^ self.values[word]) & 0xF)

    def pll_hz(self) -> int:
        """The oscillator's frequency / 2, or / PREDIV, times the factor."""
        setting = self.values[self.CFGR]
        source, factor = setting >> 15 & 3, min((setting >> 18 & 0xF) + 2, 16)
        if source >= 2:
            raise BoardFault("the PLL is fed by the crystal, and this model has none")
        divisor = (self.values[self.CFGR2] & 0xF) + 1 if source else 2
        hz = self.hsi_hz * factor // divisor
        if not LEAST_PLL_HZ <= hz <= self.limits.core:
            raise BoardFault(f"the PLL is set to {hz} Hz, beyond its range")
        return hz


class Stm32F3Flash(FlashController):
    """RM0316, "Embedded Flash memory": erases pages, and programs 16 bits at a time."""

    ACR: ClassVar = 0x00
    KEYR, OPTKEYR, SR, CR, AR, OBR, WRPR = 0x04, 0x08, 0x0C, 0x10, 0x14, 0x1C, 0x20
    BUSY, NOT_ERASED, WRITE_PROTECTED, DONE = 1 << 0, 1 << 2, 1 << 4, 1 << 5
    PROGRAM, ERASE, MASS_ERASE, OPTIONS, START, LOCK = 1, 1 << 1, 1 << 2, 3 << 4, 1 << 6, 1 << 7
    PREFETCH, PREFETCHES = 1 << 4, 1 << 5
    FAILED = WRITE_PROTECTED
    lock, wait_mask = LOCK, 7

    def __init__(self, board: Board, memory: FlashMemory, timing: FlashTiming) -> None:
        layout = dict.fromkeys((self.KEYR, self.OPTKEYR, self.SR, self.AR, self.OBR), 0)
        layout |= {self.ACR: self.PREFETCH, self.CR: self.LOCK, self.WRPR: 0xFFFFFFFF}
        super().__init__(board, memory, timing, layout)

    def load(self, word: int) -> int:
        """BUSY while an operation is under way; the prefetch buffer is on when it should be."""
        value = super().load(word)
        if word == self.ACR and value & self.PREFETCH:
            value |= self.PREFETCHES
        return value

    def store(self, word: int, value: int) -> None:
        """Keys, the status's bits to clear, and commands."""
        if word == self.KEYR:
            self.key(value)
        elif word == self.SR:
            self.values[word] &= ~(value & (self.NOT_ERASED | self.WRITE_PROTECTED | self.DONE))
        elif word == self.CR:
            self._control(value)
        elif word not in (self.OPTKEYR, self.OBR, self.WRPR):
            self.wait()
            super().store(word, value)

    def program(self, address: int, size: int, value: int) -> bytes:
        """The core writes to the flash's memory: what is there afterwards.

        What is not erased stays as it is, and the status says so; but zeros can always be written.
        Raises BoardFault for what ends in a bus error.
        """
        self.wait()
        if size != 2 or address % 2:
            raise BoardFault(
                f"the firmware writes {size} bytes to flash at {address:#x}, which takes 2 at once"
            )
        if not self.values[self.CR] & self.PROGRAM or self.values[self.CR] & self.LOCK:
            raise BoardFault(f"the firmware writes to flash at {address:#x}, which is not open")
        offset = address - self.memory.origin
        before = bytes(self.memory.bytes[offset : offset + size])
        after = (value & 0xFFFF).to_bytes(size, "little")
        if before != bytes([ERASED]) * size and any(after):
            self.values[self.SR] |= self.NOT_ERASED
            return before
        self.change(offset, after)
        return after

    def _control(self, value: int) -> None:
        self.wait()
        if self.values[self.CR] & self.LOCK:
            return
        if value & self.OPTIONS:
            raise BoardFault("the firmware writes the option bytes, which this model leaves alone")
        if value & self.LOCK:
            self.lock_again()
        self.values[self.CR] = value & ~self.START
        if value & self.START:
            self._erase(value)

    def _erase(self, value: int) -> None:
        """The page that AR says, or all of them."""
        if value & self.MASS_ERASE:
            self.erase(0, self.memory.size_bytes)
        elif value & self.ERASE and not value & self.PROGRAM:
            place = self.values[self.AR] - self.memory.origin
            for offset, count in self.memory.sectors:
                if offset <= place < offset + count:
                    self.erase(offset, count)
                    return
            raise BoardFault(f"FLASH_AR says {self.values[self.AR]:#x}, where no flash is")
        else:
            raise BoardFault("the firmware starts the flash without saying what to erase")

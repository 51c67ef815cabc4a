"""Clocks, power control and flash controllers of the STM32H743: RM0433."""

from __future__ import annotations

from typing import ClassVar

from mcutrain_host.virtual.chip import Carrier
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.flash_memory import ERASED, FlashMemory, FlashTiming
from mcutrain_host.virtual.stm32 import AHB_DIVISORS, APB_DIVISORS, ClockLimits, PowerControl, Rcc
from mcutrain_host.virtual.stm32_flash import FlashController

INPUT_RANGES_HZ = (
    (1_000_000, 2_000_000),
    (2_000_000, 4_000_000),
    (4_000_000, 8_000_000),
    (8_000_000, 16_000_000),
)
"""Range of the PLL's input, by PLL1RGE."""
WIDE_VCO_HZ, NARROW_VCO_HZ = (192_000_000, 836_000_000), (150_000_000, 420_000_000)
VOLTAGE_HZ = {3: 400_000_000, 2: 300_000_000, 1: 200_000_000}
"""The most that the core bears, by VOS."""
WAIT_STATES = {
    3: ((70, 0, 0), (140, 1, 1), (185, 2, 1), (210, 2, 2), (225, 3, 2)),
    2: ((55, 0, 0), (110, 1, 1), (165, 2, 1), (225, 3, 2)),
    1: ((45, 0, 0), (90, 1, 1), (135, 2, 1), (180, 3, 2), (225, 4, 2)),
}
"""RM0433, table 17, by VOS: most MHz of the flash's bus, and the LATENCY and WRHIGHFREQ for it."""


class RccH7(Rcc):
    """RM0433, "Reset and clock control": each domain of the chip has prescalers of its own."""

    CFGR, D1CFGR, D2CFGR, D3CFGR = 0x10, 0x18, 0x1C, 0x20
    PLLCKSELR, PLLCFGR, PLL1DIVR = 0x28, 0x2C, 0x30
    GPIOENR, APB1ENR, APB2ENR, APB4ENR = 0xE0, 0xE8, 0xF0, 0xF4
    hsi_hz = 64_000_000
    ready = ((0, 2), (7, 8), (12, 13), (24, 25), (26, 27), (28, 29))
    RSR, POWER_ON, BY_SOFTWARE = 0xD0, 0x00E80000, 1 << 24
    OUTPUT_ON = 1 << 16

    def __init__(self, limits: ClockLimits) -> None:
        self._causes = 0
        layout = dict.fromkeys((*range(0, 0x78, 4), *range(0x7C, 0xA4, 4)), 0)
        layout |= dict.fromkeys((0xA8, *range(0xD0, 0xF8, 4), *range(0xFC, 0x120, 4)), 0)
        for absent in (0x14, 0x24, 0x48, 0x5C, 0x6C):
            del layout[absent]
        layout |= {self.CR: 0x83, self.PLLCKSELR: 0x02020200, self.PLLCFGR: 0x01FF0000}
        super().__init__(limits, layout | dict.fromkeys((0x30, 0x38, 0x40), 0x01010280))

    def power_on(self) -> None:
        """The causes of resets are forgotten."""
        self._causes = self.POWER_ON

    def reset(self) -> None:
        """Causes of resets are collected; all that this model has come from software."""
        super().reset()
        self.values[self.RSR] = self._causes
        self._causes |= self.BY_SOFTWARE

    def load(self, word: int) -> int:
        """The switch of the core's clock has its status elsewhere than in other families."""
        if word == self.CFGR:
            value = self.values[word]
            return value & ~0x38 | (value & 7) << 3
        return super().load(word)

    def store(self, word: int, value: int) -> None:
        """Prescalers are checked as the switch is."""
        super().store(word, value)
        if word in (self.D1CFGR, self.D2CFGR, self.D3CFGR):
            self.check()

    def sets_pll(self, word: int, value: int) -> bool:
        """Not its fractional part, which may change, and which is not used."""
        return word in (self.PLLCKSELR, self.PLLCFGR, self.PLL1DIVR)

    def pll_hz(self) -> int:
        """The oscillator's frequency / m * n / p."""
        source, divisors = self.values[self.PLLCKSELR], self.values[self.PLL1DIVR]
        setting = self.values[self.PLLCFGR]
        m, n, p = source >> 4 & 0x3F, (divisors & 0x1FF) + 1, (divisors >> 9 & 0x7F) + 1
        if source & 3:
            raise BoardFault("the PLL is fed by another oscillator than HSI, and this has none")
        if not setting & self.OUTPUT_ON:
            raise BoardFault("the firmware switches to the PLL, whose output DIVP1EN is off")
        least, most = INPUT_RANGES_HZ[setting >> 2 & 3]
        if m == 0 or not least <= self.hsi_hz / m <= most:
            raise BoardFault(
                f"the PLL's input is {self.hsi_hz} Hz / {m}, and PLL1RGE says {least} to {most}"
            )
        vco_hz = self.hsi_hz * n // m
        slowest, fastest = NARROW_VCO_HZ if setting >> 1 & 1 else WIDE_VCO_HZ
        if not slowest <= vco_hz <= fastest:
            raise BoardFault(f"the PLL's oscillator is set to {vco_hz} Hz, beyond its range")
        return vco_hz // p

    def system_hz(self) -> int:
        """HSI after a reset, else the PLL."""
        source = self.values[self.CFGR] & 7
        if source == 0:
            return self.hsi_hz
        if source != 3:
            raise BoardFault("the firmware switches to an oscillator that this model lacks")
        return self.running_pll_hz()

    @property
    def from_reset_clock(self) -> bool:
        """Does the core run as after a reset, without the PLL?"""
        words = (self.D1CFGR, self.D2CFGR, self.D3CFGR)
        is_plain = not any(self.values[word] for word in words)
        return is_plain and self.values[self.CFGR] & 7 == 0 and not self.is_pll_on

    @property
    def core_hz(self) -> int:
        """Frequency of the core."""
        return self.system_hz() // _ahb(self.values[self.D1CFGR] >> 8)

    @property
    def bus_hz(self) -> int:
        """Frequency of AXI, AHB and the flash."""
        return self.core_hz // _ahb(self.values[self.D1CFGR])

    @property
    def apb1_hz(self) -> int:
        """Frequency of the bus that USART2 to USART8 are on."""
        return self.bus_hz // _apb(self.values[self.D2CFGR] >> 4)

    @property
    def apb2_hz(self) -> int:
        """Frequency of the bus that USART1 and USART6 are on."""
        return self.bus_hz // _apb(self.values[self.D2CFGR] >> 8)

    def check(self) -> None:
        """Each bus bears a quarter of what the core does, AXI and AHB a half; at each voltage."""
        scale = self.voltage()
        most = VOLTAGE_HZ[scale]
        others = (self.values[self.D1CFGR] >> 4, self.values[self.D3CFGR] >> 4)
        buses = (self.apb1_hz, self.apb2_hz, *(self.bus_hz // _apb(other) for other in others))
        for name, hz, limit in (
            ("the core", self.core_hz, most),
            ("AXI", self.bus_hz, most // 2),
            *(("an APB", hz, most // 4) for hz in buses),
        ):
            if hz > limit:
                raise BoardFault(f"{name} is set to {hz} Hz, and bears {limit} at VOS {4 - scale}")
        set_to = self.flash_wait_states()
        for mhz, states, delay in WAIT_STATES[scale]:
            if self.bus_hz <= mhz * 1_000_000:
                if set_to & 0xF < states or set_to >> 4 & 3 < delay:
                    raise BoardFault(
                        f"at {self.bus_hz} Hz the flash needs LATENCY {states} and WRHIGHFREQ "
                        f"{delay}, and FLASH_ACR is {set_to:#x}"
                    )
                return


def _ahb(field: int) -> int:
    return AHB_DIVISORS[field & 7] if field & 8 else 1


def _apb(field: int) -> int:
    return APB_DIVISORS[field & 3] if field & 4 else 1


class PwrH7(PowerControl):
    """RM0433, "Power control": the supply is said once, before the voltage is set."""

    CSR1, CR3, D3CR = 0x04, 0x0C, 0x18
    BYPASS, LDO, UPDATE, READY, ACTIVE_READY = 1, 1 << 1, 1 << 2, 1 << 13, 1 << 13

    def __init__(self, limits: ClockLimits) -> None:
        layout = dict.fromkeys((*range(0, 0x1C, 4), 0x20, 0x24, 0x28), 0)
        super().__init__(layout | {0x00: 0xF000C000, self.CR3: 0x46, self.D3CR: 0x4000})
        self._is_said = False

    def power_on(self) -> None:
        """The supply is to be said."""
        self._is_said = False
        self.values[self.CR3] = self.layout[self.CR3]

    def reset(self) -> None:
        """The supply stays."""
        supply = self.values[self.CR3]
        super().reset()
        self.values[self.CR3] = supply

    def load(self, word: int) -> int:
        """Voltages are ready at once, if the supply was said."""
        value = super().load(word)
        if word == self.CSR1 and self._is_said:
            value |= self.ACTIVE_READY | self.values[self.D3CR] & 0xC000
        if word == self.D3CR and self._is_said:
            value |= self.READY
        return value

    def store(self, word: int, value: int) -> None:
        """Refuses what the manual forbids."""
        if word == self.CR3:
            if self._is_said:
                raise BoardFault("the firmware says twice which supply the chip has")
            if value & 7 != self.LDO:
                raise BoardFault("the firmware says another supply than the LDO")
            self._is_said = True
        if word == self.D3CR:
            if not self._is_said:
                raise BoardFault("the firmware sets the voltage before it says the supply")
            if not value >> 14 & 3:
                raise BoardFault("the firmware sets VOS to a reserved value")
        super().store(word, value)

    @property
    def voltage(self) -> int:
        """VOS: 3 for scale 1, down to 1 for scale 3."""
        return self.values[self.D3CR] >> 14 & 3


class FlashBank:
    """One bank: whether it is open, and the buffer of 256 bits that collects what the core writes.

    number: from 0; at: its registers' offset.
    """

    def __init__(self, number: int) -> None:
        self.number, self.at = number, 0x100 * number
        self.keys_given, self.shut = 0, False
        self.begun: int | None = None
        """Offset of the 256 bits that are collected."""
        self.collected = b""

    def reset(self) -> None:
        """Reset as after power-on."""
        self.keys_given, self.shut, self.begun, self.collected = 0, False, None, b""


class Stm32H7Flash(FlashController):
    """RM0433, "Embedded Flash memory": sectors in two banks, and 256 bits with ten for errors.

    What is written is collected, and the eighth word starts to program all. It can be programmed
    once. Where the checksum of 256 bits is wrong, the core gets any bytes and a bus fault.
    """

    ACR: ClassVar = 0x00
    KEYR, OPTKEYR, CR, SR, CCR, OPTCR = 0x04, 0x08, 0x0C, 0x10, 0x14, 0x18
    LOCK, PROGRAM, ERASE, WHOLE_BANK, FORCE, START = 1, 2, 4, 8, 1 << 6, 1 << 7
    BUSY, WAITS, QUEUED, DONE, SEQUENCE = 1, 2, 4, 1 << 16, 1 << 18
    FAILED, DETECTED, CLEARED = 1 << 22, 1 << 26, 0x0FEF0000
    WORD_BYTES, BANK_SECTORS, BANKS = 32, 8, 2
    lock, wait_mask = LOCK, 0x3F

    def __init__(self, board: Carrier, memory: FlashMemory, timing: FlashTiming) -> None:
        layout = {self.ACR: 0x37, self.OPTKEYR: 0, self.OPTCR: 1, 0x1C: 0x1C16AAF0}
        self.banks = [FlashBank(number) for number in range(self.BANKS)]
        for bank in self.banks:
            layout |= {bank.at + register: 0 for register in (self.KEYR, self.SR, self.CCR)}
            layout[bank.at + self.CR] = 0x30 | self.LOCK
        self.carrier = board
        super().__init__(board, memory, timing, layout)

    def reset(self) -> None:
        """Reset as after power-on; a word that was not whole never was."""
        super().reset()
        for bank in self.banks:
            if bank.begun is not None:
                erased = bytes([ERASED]) * self.WORD_BYTES
                self.memory.bytes[bank.begun : bank.begun + self.WORD_BYTES] = erased
            bank.reset()

    def load(self, word: int) -> int:
        """BUSY while an operation is under way."""
        value = super().load(word)
        if word & 0xFF == self.SR:
            if value & self.BUSY:
                value |= self.QUEUED
            if self.banks[word >> 8].begun is not None:
                value |= self.WAITS
        return value

    def store(self, word: int, value: int) -> None:
        """Keys, the status's bits to clear, and commands, of either bank."""
        bank, register = self.banks[word >> 8], word & 0xFF
        if register == self.KEYR:
            self._key_of(bank, value)
        elif register == self.CCR:
            self.values[bank.at + self.SR] &= ~(value & self.CLEARED)
        elif register == self.CR:
            self._control(bank, value)
        elif register == self.ACR:
            super().store(word, value)
        else:
            raise BoardFault("the firmware writes the option bytes, which this model leaves alone")

    def program(self, address: int, size: int, value: int) -> bytes:
        """The core writes to the flash's memory: what is there afterwards.

        Without permission nothing changes and the status says so. Raises BoardFault for what leaves
        bytes with a wrong checksum.
        """
        self.wait()
        offset = address - self.memory.origin
        before = bytes(self.memory.bytes[offset : offset + size])
        bank = self.banks[offset * self.BANKS // self.memory.size_bytes]
        if not self.values[bank.at + self.CR] & self.PROGRAM:
            self.values[bank.at + self.SR] |= self.SEQUENCE
            return before
        begin = offset // self.WORD_BYTES * self.WORD_BYTES
        if bank.begun is None:
            self._begin(bank, begin)
        if bank.begun != begin or offset != begin + len(bank.collected) or size != 4:
            raise BoardFault(
                f"the firmware writes {size} bytes to flash at {address:#x}; eight words are "
                "programmed at once, and this model takes them in their order"
            )
        written = (value & 0xFFFFFFFF).to_bytes(4, "little")
        bank.collected += written
        if len(bank.collected) == self.WORD_BYTES:
            self._program_word(bank)
        return written

    def read_broken(self, offset: int) -> None:
        """Any bytes, others at each reading, and a bus fault, which the firmware must expect."""
        bank = self.banks[offset * self.BANKS // self.memory.size_bytes]
        self.values[bank.at + self.SR] |= self.DETECTED
        if not self.carrier.ignores_bus_faults:
            raise BoardFault(
                f"the firmware reads flash at {self.memory.origin + offset:#x}, which a power cut "
                "left half-changed: its checksum is wrong, and the core gets a bus fault"
            )
        any_bytes = self.carrier.random.randbytes(self.WORD_BYTES)
        self.memory.bytes[offset : offset + self.WORD_BYTES] = any_bytes

    def _begin(self, bank: FlashBank, begin: int) -> None:
        word = self.memory.bytes[begin : begin + self.WORD_BYTES]
        is_erased = word == bytes([ERASED]) * self.WORD_BYTES
        if not is_erased or self.memory.broken_words(begin, self.WORD_BYTES):
            address = self.memory.origin + begin
            raise BoardFault(f"the firmware writes to flash at {address:#x}, which is not erased")
        bank.begun, bank.collected = begin, b""

    def _program_word(self, bank: FlashBank) -> None:
        """The emulator has stored the words before the last, which is not yet so."""
        assert bank.begun is not None
        begin, whole = bank.begun, bank.collected
        self.memory.bytes[begin : begin + self.WORD_BYTES] = bytes([ERASED]) * self.WORD_BYTES
        bank.begun, bank.collected = None, b""
        self.change(begin, whole, bank.at)

    def _key_of(self, bank: FlashBank, value: int) -> None:
        self._keys_given, self._shut = bank.keys_given, bank.shut
        try:
            self.check_key(value)
        finally:
            bank.keys_given, bank.shut = self._keys_given, self._shut
        if bank.keys_given == 2:
            self.values[bank.at + self.CR] &= ~self.LOCK

    def _control(self, bank: FlashBank, value: int) -> None:
        self.wait()
        word = bank.at + self.CR
        if self.values[word] & self.LOCK:
            return
        if value & (self.WHOLE_BANK | self.FORCE):
            raise BoardFault("the firmware asks the flash for what this model does not have")
        if bank.begun is not None:
            raise BoardFault("the firmware closes the flash with a part of 256 bits written")
        if value & self.LOCK:
            bank.keys_given = 0
        self.values[word] = value & ~self.START
        if value & self.START:
            self._erase(bank, value)

    def _erase(self, bank: FlashBank, value: int) -> None:
        if not value & self.ERASE or value & self.PROGRAM:
            self.values[bank.at + self.SR] |= self.SEQUENCE
            return
        sector = bank.number * self.BANK_SECTORS + (value >> 8 & 7)
        self.erase(*self.memory.sectors[sector], bank.at)

"""The STM32s: which memory and which peripherals are where, and how they start."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from mcutrain_host.dataclass import dataclass
from mcutrain_host.manifest import BoardDescription
from mcutrain_host.virtual import stm32_rom
from mcutrain_host.virtual.bus import Button, Silent
from mcutrain_host.virtual.chip import KB, ROM_ALIGN, TRAP, Carrier, Chip, MemoryBank, Start
from mcutrain_host.virtual.errors import BoardFault, VirtualBoardError
from mcutrain_host.virtual.flash_memory import ERASED, FlashMemory, FlashTiming, stacked_sectors
from mcutrain_host.virtual.stm32 import (
    ClockLimits,
    Gated,
    Gpio,
    UsartPins,
    UsartV1,
    UsartV2,
)
from mcutrain_host.virtual.stm32_family import F3, F4, H7, L4, Family


@dataclass(frozen=True)
class Stm32Facts:
    """What tells one STM32 from another. Sizes in bytes."""

    core: str
    chip_id: int
    sectors: tuple[int, ...]
    ram: int
    other_ram: tuple[tuple[str, int, int], ...]
    rom: int
    rom_bytes: int
    facts_at: tuple[int, int]
    """Addresses of the unique number and of the flash's size in the ROM."""
    limits: ClockLimits
    usart: type[UsartV1]
    ports: str
    loader_ram: int
    """RAM from the start on that the ROM bootloader uses itself."""
    revision: int
    family: Family = F4
    cache_bytes: int = 0
    flash_aliases: tuple[int, ...] = ()


STM32 = {
    "stm32f303": Stm32Facts(
        core="cortex-m4",
        chip_id=0x446,
        sectors=(2 * KB,) * 256,
        ram=64 * KB,
        other_ram=(("CCM", 0x10000000, 16 * KB),),
        rom=0x1FFFD800,
        rom_bytes=8 * KB,
        facts_at=(0x1FFFF7AC, 0x1FFFF7CC),
        limits=ClockLimits(72_000_000, 36_000_000, 72_000_000),
        usart=UsartV2,
        ports="ABCDEFGH",
        loader_ram=6 * KB,
        revision=0x1000,
        family=F3,
    ),
    "stm32f401": Stm32Facts(
        core="cortex-m4",
        chip_id=0x433,
        sectors=(*[16 * KB] * 4, 64 * KB, *[128 * KB] * 3),
        ram=96 * KB,
        other_ram=(),
        rom=0x1FFF0000,
        rom_bytes=32 * KB,
        facts_at=(0x1FFF7A10, 0x1FFF7A22),
        limits=ClockLimits(84_000_000, 42_000_000, 84_000_000),
        usart=UsartV1,
        ports="ABCDE",
        loader_ram=12 * KB,
        revision=0x1000,
    ),
    "stm32f405": Stm32Facts(
        core="cortex-m4",
        chip_id=0x413,
        sectors=(*[16 * KB] * 4, 64 * KB, *[128 * KB] * 7),
        ram=128 * KB,
        other_ram=(("CCM", 0x10000000, 64 * KB),),
        rom=0x1FFF0000,
        rom_bytes=32 * KB,
        facts_at=(0x1FFF7A10, 0x1FFF7A22),
        limits=ClockLimits(168_000_000, 42_000_000, 84_000_000),
        usart=UsartV1,
        ports="ABCDEFGHI",
        loader_ram=12 * KB,
        revision=0x1007,
    ),
    "stm32f411": Stm32Facts(
        core="cortex-m4",
        chip_id=0x431,
        sectors=(*[16 * KB] * 4, 64 * KB, *[128 * KB] * 3),
        ram=128 * KB,
        other_ram=(),
        rom=0x1FFF0000,
        rom_bytes=32 * KB,
        facts_at=(0x1FFF7A10, 0x1FFF7A22),
        limits=ClockLimits(84_000_000, 42_000_000, 84_000_000),  # at the voltage after a reset
        usart=UsartV1,
        ports="ABCDEH",
        loader_ram=12 * KB,
        revision=0x1000,
    ),
    "stm32f446": Stm32Facts(
        core="cortex-m4",
        chip_id=0x421,
        sectors=(*[16 * KB] * 4, 64 * KB, *[128 * KB] * 3),
        ram=128 * KB,
        other_ram=(),
        rom=0x1FFF0000,
        rom_bytes=32 * KB,
        facts_at=(0x1FFF7A10, 0x1FFF7A22),
        limits=ClockLimits(180_000_000, 45_000_000, 90_000_000, overdrive=168_000_000),
        usart=UsartV1,
        ports="ABCDEFGH",
        loader_ram=12 * KB,
        revision=0x1000,
    ),
    "stm32f746": Stm32Facts(
        core="cortex-m7",
        chip_id=0x449,
        sectors=(*[32 * KB] * 4, 128 * KB, *[256 * KB] * 3),
        ram=320 * KB,
        other_ram=(("ITCM", 0x00000000, 16 * KB),),
        rom=0x1FF00000,
        rom_bytes=64 * KB,
        facts_at=(0x1FF0F420, 0x1FF0F442),
        limits=ClockLimits(216_000_000, 54_000_000, 108_000_000, overdrive=180_000_000),
        usart=UsartV2,
        ports="ABCDEFGHIJK",
        loader_ram=16 * KB,
        revision=0x1001,
        cache_bytes=4 * KB,
        flash_aliases=(0x00200000,),
    ),
    "stm32h743": Stm32Facts(
        core="cortex-m7",
        chip_id=0x450,
        sectors=(128 * KB,) * 16,
        ram=128 * KB,
        other_ram=(("ITCM", 0x00000000, 64 * KB), ("AXI SRAM", 0x24000000, 512 * KB)),
        rom=0x1FF09800,
        rom_bytes=0x15100,
        facts_at=(0x1FF1E800, 0x1FF1E880),
        limits=ClockLimits(400_000_000, 100_000_000, 100_000_000),
        usart=UsartV2,
        ports="ABCDEFGHIJK",
        loader_ram=0x4100,
        revision=0x2003,
        family=H7,
        cache_bytes=16 * KB,
    ),
    "stm32l475": Stm32Facts(
        core="cortex-m4",
        chip_id=0x415,
        sectors=(2 * KB,) * 512,
        ram=96 * KB,
        other_ram=(("SRAM2", 0x10000000, 32 * KB),),
        rom=0x1FFF0000,
        rom_bytes=0x7600,
        facts_at=(0x1FFF7590, 0x1FFF75E0),
        limits=ClockLimits(80_000_000, 80_000_000, 80_000_000),
        usart=UsartV2,
        ports="ABCDEFGH",
        loader_ram=0x3100,
        revision=0x1007,
        family=L4,
        flash_aliases=(0x00000000,),
    ),
}


class Stm32Chip(Chip):
    """An STM32 with one USART connected."""

    RAM, FLASH = 0x20000000, 0x08000000

    def __init__(
        self, machine: Carrier, spec: BoardDescription, timing: FlashTiming, facts: Stm32Facts
    ):
        super().__init__(machine, facts.core, facts.cache_bytes)
        self.button = Button.of(spec.define)
        self.facts = facts
        content = bytearray([ERASED]) * sum(facts.sectors)
        sectors, word_bytes = stacked_sectors(facts.sectors), facts.family.word_bytes
        self.flash = FlashMemory(self.FLASH, content, sectors, word_bytes)
        self.memories = [
            MemoryBank("flash", self.FLASH, content, "flash", facts.flash_aliases),
            MemoryBank("SRAM", self.RAM, bytearray(facts.ram), "ram"),
            self._rom(),
            *(MemoryBank(name, at, bytearray(size), "ram") for name, at, size in facts.other_ram),
        ]
        self.rcc = facts.family.rcc(facts.limits)
        self.controller = facts.family.controller(machine, self.flash, timing, facts.core)
        self._add_devices(spec)

    def _add_devices(self, spec: BoardDescription) -> None:
        facts, family, rcc = self.facts, self.facts.family, self.rcc
        self.power = power = family.power(facts.limits)
        rcc.flash_wait_states = lambda: self.controller.wait_states
        rcc.overdriven = lambda: power.overdriven
        rcc.voltage = lambda: power.voltage
        self.add(family.rcc_at, rcc)
        self.add(family.controller_at, self.controller)
        gate = family.power_gate
        device = Gated(power, rcc, gate.register, gate.bit) if gate else power
        self.add(family.power_at, device)
        gate = family.syscfg_gate
        self.add(family.syscfg_at, Gated(Silent("SYSCFG", 0x30), rcc, gate.register, gate.bit))
        identity = facts.revision << 16 | facts.chip_id
        self.add(family.debug_at, Silent("DBGMCU", 0x10, {0: identity}))
        ports = {letter: Gpio(letter, family.analog) for letter in facts.ports}
        if self.button is not None:
            at = spec.define.get("BUTTON_GPIO", 0)
            port = next((ports[letter] for letter in ports if family.port_at(letter) == at), None)
            if port is None:
                raise VirtualBoardError(f"{spec.name} has its button at {at:#x}, which is no port")
            port.button = self.button
        for letter, port in ports.items():
            gated = Gated(port, rcc, rcc.GPIOENR, family.port_bits[letter])
            self.add(family.port_at(letter), gated)
        name = spec.uart.name
        if name not in family.usarts:
            raise VirtualBoardError(f"{name} of {spec.name} is not modelled")
        place = family.usarts[name]
        self.serial = self.machine.line(1)
        bus_hz: Callable[[], int] = (
            (lambda: rcc.apb1_hz) if place.register in family.apb1 else (lambda: rcc.apb2_hz)
        )
        pins = UsartPins(
            bus_hz,
            spec.uart.baud,
            pin_check(spec, "sends", place.function, ports),
            pin_check(spec, "receives", place.function, ports),
        )
        usart = facts.usart(name, self.serial, pins)
        self.add(place.address, Gated(usart, rcc, place.register, place.bit))

    def _rom(self) -> MemoryBank:
        """A vector table that leads to a BKPT, and the chip's facts, among BKPTs to whole pages."""
        facts = self.facts
        begin = facts.rom // ROM_ALIGN * ROM_ALIGN
        end = -(-(facts.rom + facts.rom_bytes) // ROM_ALIGN) * ROM_ALIGN
        trap = TRAP.to_bytes(2, "little")
        rom = bytearray(trap * (facts.rom_bytes // 2))
        rom[:8] = (self.RAM + facts.loader_ram).to_bytes(4, "little") + (
            facts.rom + 0x101
        ).to_bytes(4, "little")
        number, size = (address - facts.rom for address in facts.facts_at)
        rom[number : number + 12] = b"\x20\x00\x33\x00\x01\x51\x36VIRT"[:12].ljust(12, b"\0")
        rom[size : size + 2] = (sum(facts.sectors) // KB).to_bytes(2, "little")
        behind = end - facts.rom - len(rom)
        content = bytearray(trap * ((facts.rom - begin) // 2)) + rom + trap * (behind // 2)
        return MemoryBank("system memory", begin, content, "rom")

    def store(self, address: int, size: int, value: int) -> bytes:
        """As the flash controller does it."""
        return self.controller.program(address, size, value)

    def power_on(self) -> None:
        """Do what power-on does; a reset follows it."""
        super().power_on()
        self.rcc.power_on()
        self.power.power_on()

    def read_broken(self, offset: int) -> None:
        """As the flash controller does it."""
        self.controller.read_broken(offset)

    def start(self) -> Start | None:
        """BOOT0 high: the ROM bootloader; low: the flash."""
        if self.machine.boot0:
            self._enter_loader()
            return None
        return self.vector_table(self.FLASH)

    def trap(self, pc: int, registers: tuple[int, int, int, int]) -> int | Start | None:
        """The firmware jumped into the ROM."""
        if not 0 <= pc - self.facts.rom < self.facts.rom_bytes:
            raise BoardFault("the core stops at a BKPT instruction")
        if not self.rcc.from_reset_clock:
            raise BoardFault(
                "the firmware jumps to the ROM bootloader while the core runs from the PLL; the "
                "bootloader measures baud rates as if the clocks were those after a reset"
            )
        self._enter_loader()
        return None

    def _enter_loader(self) -> None:
        ram = next(memory for memory in self.memories if memory.origin == self.RAM)
        used = self.facts.loader_ram
        ram.content[:used] = self.machine.random.randbytes(used)
        reach = stm32_rom.LoaderMemory(self._loader_read, self._loader_write, self._erase, self._go)
        self.loader = stm32_rom.Bootloader(self.facts.chip_id, reach, self.serial.send)

    def _loader_read(self, address: int, count: int) -> bytes | None:
        begin = self.RAM + self.facts.loader_ram
        return None if self.RAM <= address < begin else self.read(address, count)

    def _loader_write(self, address: int, data: bytes) -> bool:
        """To erased flash, or to RAM that the bootloader does not use."""
        assert self.flash is not None
        if self._loader_read(address, len(data)) is None:
            return False
        offset = address - self.FLASH
        if 0 <= offset < self.flash.size_bytes and not self._is_programmable(offset, data):
            return False
        memory = next(m for m in self.memories if m.origin <= address < m.end)
        if memory.kind == "rom":
            return False
        begin = address - memory.origin
        memory.content[begin : begin + len(data)] = data
        self.machine.code_changed()
        return True

    def _is_programmable(self, offset: int, data: bytes) -> bool:
        """Erased, or the same; whole words where each has a checksum."""
        assert self.flash is not None
        size = self.flash.word_bytes
        if size == 0:
            old = self.flash.bytes[offset : offset + len(data)]
            return old in (bytes([ERASED]) * len(data), data)
        begin, end = offset // size * size, -(-(offset + len(data)) // size) * size
        is_erased = self.flash.bytes[begin:end] == bytes([ERASED]) * (end - begin)
        return is_erased and not self.flash.broken_words(begin, end - begin)

    def _erase(self, sectors: list[int] | None) -> bool:
        assert self.flash is not None
        known = range(len(self.flash.sectors))
        chosen = list(known) if sectors is None else sectors
        if not set(chosen) <= set(known):
            return False
        for sector in chosen:
            self.flash.erase_now(sector)
        self.machine.code_changed()
        return True

    def _go(self, address: int) -> bool:
        if self._loader_read(address, 8) is None:
            return False
        self.go_to = self.vector_table(address)
        return True


def pin_check(
    spec: BoardDescription, role: str, wanted: int, ports: Mapping[str, Gpio]
) -> Callable[[], str | None]:
    """Return why the UART is not connected to the pin that the board's description names.

    wanted: the alternate function of its pins.
    """
    found = re.search(rf"\bP([A-K])(\d+)\b[^,]*?\b{role}", spec.uart.pins)
    if found is None or found[1] not in ports:
        return lambda: None
    port, pin = ports[found[1]], int(found[2])

    def check() -> str | None:
        actual = port.function(pin)
        if actual == wanted:
            return None
        return (
            f"{spec.uart.name} is switched on and pin P{found[1]}{pin}, which {role}, "
            f"has alternate function {actual}, not {wanted}"
        )

    return check

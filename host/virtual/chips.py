"""The chips: which memory and which peripherals are where, and how each starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mcutrain_host.manifest import BoardDescription
from mcutrain_host.virtual import mps2, rp2040_rom, rp2040_usb, stm32_rom
from mcutrain_host.virtual.bus import Board, Peripheral, Silent
from mcutrain_host.virtual.cortex_m import CPUID, CycleCounter, SystemControl
from mcutrain_host.virtual.errors import BoardFault, VirtualBoardError
from mcutrain_host.virtual.flash_memory import (
    ERASED,
    FlashMemory,
    FlashTiming,
    equal_sectors,
    stacked_sectors,
)
from mcutrain_host.virtual.rp2040 import (
    Clocks,
    IoBank,
    Pads,
    Pl011,
    Pll,
    Resets,
    Sio,
    Ssi,
    Timer,
    Watchdog,
    Xosc,
    silent,
)
from mcutrain_host.virtual.rp2040_usb import SharedMemory, UsbPort, UsbRegisters
from mcutrain_host.virtual.serial_line import SerialLine
from mcutrain_host.virtual.stm32 import (
    ClockLimits,
    Gated,
    Gpio,
    Pwr,
    UsartPins,
    UsartV1,
    UsartV2,
)
from mcutrain_host.virtual.stm32_family import F3, F4, Family

KB = 1024
USB = "USB"
"""The name of a line that is no UART."""
SYSTEM_CONTROL, CYCLE_COUNTER, DEBUG_MCU = 0xE000E000, 0xE0001000, 0xE0042000
PAGE = 0x400
"""Peripherals begin at multiples of this."""
ROM_ALIGN = 0x1000
"""The emulator's pages."""


class Carrier(Board, Protocol):
    """What a chip needs besides what its peripherals do."""

    boot0: bool

    def line(self, depth: int) -> SerialLine:
        """The UART's wire."""

    def spend(self, instructions: int) -> None:
        """The core is busy in the ROM; a power cut may come."""

    def protect_flash(self, readable: bool) -> None:
        """Whether the core can read the flash, and run from it."""


@dataclass(frozen=True)
class MemoryBank:
    """Bytes at an address. kind: ram, flash or rom; aliases: other addresses of the same bytes."""

    name: str
    origin: int
    content: bytearray
    kind: str
    aliases: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """The first address behind."""
        return self.origin + len(self.content)


@dataclass(frozen=True)
class Start:
    """Where the core begins, and its stack pointer there."""

    stack_pointer: int
    pc: int


class RomLoader(Protocol):
    """A bootloader in the ROM that talks over the UART."""

    left: bool
    """It started a program: Chip.go_to says which."""

    def take(self, byte: int) -> None:
        """A byte from the host."""


class Chip:
    """One chip with its state. memories, devices by address, and the start."""

    core: str
    memories: list[MemoryBank]
    flash: FlashMemory | None = None
    loader: RomLoader | None = None
    """Runs instead of the core while it is not None."""
    ignores_uart = False
    """The ROM runs and listens elsewhere than on the UART."""
    go_to: Start | None = None
    serial: SerialLine

    def __init__(self, machine: Carrier, core: str, cache_bytes: int = 0) -> None:
        self.machine, self.core = machine, core
        self.system = SystemControl(machine, core, cache_bytes)
        self.devices: list[tuple[int, int, Peripheral]] = [(SYSTEM_CONTROL, 0x1000, self.system)]
        if core != "cortex-m0plus":
            counter = CycleCounter(machine, self.system, core == "cortex-m7")
            self.devices.append((CYCLE_COUNTER, 0x1000, counter))

    def reset_devices(self) -> None:
        """As a reset does."""
        self.loader, self.ignores_uart = None, False
        for _, _, device in self.devices:
            device.reset()
        self.serial.reset()

    def start(self) -> Start | None:
        """Return what a reset leads to; None if the ROM goes on by itself."""
        raise NotImplementedError

    def trap(self, pc: int, registers: tuple[int, int, int, int]) -> int | Start | None:
        """The core came to a BKPT: the result of a ROM function, where to go on, or None if it
        waits in the ROM from now on. Raises BoardFault if it is no trap of the ROM."""
        raise BoardFault("the core stops at a BKPT instruction")

    def read(self, address: int, count: int) -> bytes | None:
        """Bytes of memory, None if there are none."""
        for memory in self.memories:
            if memory.origin <= address and address + count <= memory.end:
                return bytes(memory.content[address - memory.origin :][:count])
        return None

    def put(self, address: int, data: bytes) -> None:
        """Change memory, whatever its kind. Raises VirtualBoardError if there is none."""
        for memory in self.memories:
            begin = address - memory.origin
            if begin >= 0 and address + len(data) <= memory.end:
                memory.content[begin : begin + len(data)] = data
                return
        raise VirtualBoardError(f"the chip has no {len(data)} bytes of memory at {address:#x}")

    def store(self, address: int, size: int, value: int) -> bytes:
        """Return what a store of the core's to the flash leaves there. Raises BoardFault."""
        raise BoardFault(f"the firmware writes to {address:#010x}, which is read-only")

    def vector_table(self, address: int) -> Start:
        """Stack pointer and reset from the first two words."""
        words = self.read(address, 8) or bytes(8)
        return Start(int.from_bytes(words[:4], "little"), int.from_bytes(words[4:], "little"))

    def add(self, address: int, device: Peripheral, size: int = PAGE) -> None:
        """Put a peripheral at an address."""
        self.devices.append((address, size, device))


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
}


class Stm32Chip(Chip):
    """An STM32 with one USART connected."""

    RAM, FLASH = 0x20000000, 0x08000000

    def __init__(
        self, machine: Carrier, spec: BoardDescription, timing: FlashTiming, facts: Stm32Facts
    ):
        super().__init__(machine, facts.core, facts.cache_bytes)
        self.facts = facts
        content = bytearray([ERASED]) * sum(facts.sectors)
        self.flash = FlashMemory(self.FLASH, content, stacked_sectors(facts.sectors))
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
        pwr = Pwr(facts.limits.overdrive is not None)
        rcc.flash_wait_states = lambda: self.controller.wait_states
        rcc.overdriven = lambda: pwr.overdriven
        self.add(family.rcc_at, rcc)
        self.add(family.controller_at, self.controller)
        self.add(0x40007000, Gated(pwr, rcc, rcc.APB1ENR, 28))
        syscfg = Gated(Silent("SYSCFG", 0x30), rcc, rcc.APB2ENR, family.syscfg_bit)
        self.add(family.syscfg_at, syscfg)
        identity = facts.revision << 16 | facts.chip_id
        self.add(DEBUG_MCU, Silent("DBGMCU", 0x10, {0: identity}))
        ports = {letter: Gpio(letter) for letter in facts.ports}
        for letter, port in ports.items():
            gated = Gated(port, rcc, rcc.GPIOENR, family.port_bits[letter])
            self.add(family.port_at(letter), gated)
        name = spec.uart.name
        if name not in family.usarts:
            raise VirtualBoardError(f"{name} of {spec.name} is not modelled")
        place = family.usarts[name]
        self.serial = self.machine.line(1)
        bus_hz: Callable[[], int] = (
            (lambda: rcc.apb1_hz) if place.register == rcc.APB1ENR else (lambda: rcc.apb2_hz)
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
        trap = rp2040_rom.TRAP.to_bytes(2, "little")
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
        if 0 <= offset < self.flash.size_bytes:
            old = self.flash.bytes[offset : offset + len(data)]
            if old != bytes([ERASED]) * len(data) and old != data:
                return False
        memory = next(m for m in self.memories if m.origin <= address < m.end)
        if memory.kind == "rom":
            return False
        begin = address - memory.origin
        memory.content[begin : begin + len(data)] = data
        self.machine.code_changed()
        return True

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
    """Why the UART is not connected to the pin that the board's description names.

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


class Rp2040Chip(Chip):
    """An RP2040 with 2 MB of flash; core 0 only."""

    FLASH, FLASH_BYTES, RAM, RAM_BYTES = 0x10000000, 2048 * KB, 0x20000000, 264 * KB
    SECTOR, PAGE_BYTES = 4 * KB, 256
    ERASE_COST, PROGRAM_COST = 2000, 200
    """Instructions for a sector and a page."""
    usb: UsbPort | None = None
    """Where that is the line, and not the UART."""

    def __init__(self, machine: Carrier, spec: BoardDescription) -> None:
        super().__init__(machine, "cortex-m0plus")
        content = bytearray([ERASED]) * self.FLASH_BYTES
        sectors = equal_sectors(self.FLASH_BYTES, self.SECTOR)
        self.flash = FlashMemory(self.FLASH, content, sectors)
        aliases = (0x11000000, 0x12000000, 0x13000000)  # the same without the cache
        self.memories = [
            MemoryBank("flash", self.FLASH, content, "flash", aliases),
            MemoryBank("SRAM", self.RAM, bytearray(self.RAM_BYTES), "ram"),
            MemoryBank("boot ROM", 0, bytearray(rp2040_rom.rom_content()), "rom"),
        ]
        self._add_devices(spec)
        self._connected = self._serial = self._stale = False

    def _add_devices(self, spec: BoardDescription) -> None:
        resets, xosc = Resets(), Xosc()
        pll = Pll("PLL_SYS", xosc, resets.holds(Resets.PLL_SYS))
        clocks, self.watchdog = Clocks(xosc, pll), Watchdog(self.machine)
        self.ssi = Ssi(lambda: self.machine.between(self._update_flash))
        io, pads = IoBank(resets.holds(Resets.IO_BANK0)), Pads(resets.holds(Resets.PADS_BANK0))
        pll_usb = Pll("PLL_USB", xosc, resets.holds(Resets.PLL_USB))
        if spec.uart.name == USB:
            self._add_usb(resets, clocks, pll_usb)
        else:
            self._add_uart(spec.uart.baud, resets, clocks, io, pads)
        timer = Timer(self.machine, clocks, self.watchdog, resets.holds(Resets.TIMER))
        for address, device in (
            (0x40008000, clocks),
            (0x4000C000, resets),
            (0x40010000, silent("PSM", 0x10)),
            (0x40014000, io),
            (0x4001C000, pads),
            (0x40018000, silent("IO_QSPI", 0x58)),
            (0x40020000, silent("PADS_QSPI", 0x1C)),
            (0x40024000, xosc),
            (0x40028000, pll),
            (0x4002C000, pll_usb),
            (0x40054000, timer),
            (0x40058000, self.watchdog),
            (0x40060000, silent("ROSC", 0x24)),
            (0x40064000, silent("VREG_AND_CHIP_RESET", 0x0C)),
            (0x14000000, silent("XIP_CTRL", 0x20)),
            (0x18000000, self.ssi),
        ):
            self.add(address, device, 0x4000)
        self.add(0xD0000000, Sio(), 0x1000)

    def _add_uart(self, baud: int, resets: Resets, clocks: Clocks, io: IoBank, pads: Pads) -> None:
        self.serial = self.machine.line(32)

        def pins() -> str | None:
            if any(io.function(pin) != 2 or not pads.works(pin) for pin in (0, 1)):
                return "UART0 is switched on and its pins GP0 and GP1 are not given to it"
            return None

        uart = Pl011(self.serial, clocks, baud, pins, resets.holds(Resets.UART0))
        self.add(0x40034000, uart, 0x4000)

    def _add_usb(self, resets: Resets, clocks: Clocks, pll: Pll) -> None:
        self.serial = self.machine.line(rp2040_usb.PACKET_BYTES)
        in_reset = resets.holds(Resets.USB)
        registers = UsbRegisters(lambda: pll.hz if clocks.usb_runs else 0, in_reset)
        memory = SharedMemory(self.machine, in_reset)
        self.usb = UsbPort(self.machine, registers, memory, self.serial)
        self.add(0x50100000, memory, 0x1000)
        self.add(0x50110000, registers, 0x4000)

    def reset_devices(self) -> None:
        """As a reset does; the flash can be read by commands only."""
        super().reset_devices()
        if self.usb is not None:
            self.usb.reset()
        self._connected = self._serial = self._stale = False

    def start(self) -> Start | None:
        """The boot ROM: copies the second stage to the RAM and runs it if its checksum is right."""
        assert self.flash is not None
        self._update_flash()
        if self.machine.boot0 or not rp2040_rom.boot2_is_sound(bytes(self.flash.bytes[:256])):
            self.ignores_uart = True
            return None
        ram = self.memories[1]
        at = rp2040_rom.BOOT2_RUNS_AT - self.RAM
        ram.content[at : at + rp2040_rom.BOOT2_BYTES] = self.flash.bytes[: rp2040_rom.BOOT2_BYTES]
        return Start(rp2040_rom.BOOT2_RUNS_AT, rp2040_rom.BOOT2_RUNS_AT | 1)

    def trap(self, pc: int, registers: tuple[int, int, int, int]) -> int | Start | None:
        """A function of the boot ROM."""
        if pc == rp2040_rom.LOOKUP:
            table = self.read(registers[0], 256)
            if table is None:
                raise BoardFault("rom_table_lookup was given no table of the ROM")
            return rp2040_rom.lookup(table, registers[1])
        names = {address: name for name, address in rp2040_rom.function_addresses().items()}
        if pc not in names:
            raise BoardFault("the core stops at a BKPT instruction")
        if names[pc] == "UB":
            self.ignores_uart = True
            return None
        functions = {
            "IF": self._connect,
            "EX": self._exit_xip,
            "RE": self._range_erase,
            "RP": self._range_program,
            "FC": self._flush_cache,
            "CX": self._enter_xip,
        }
        functions[names[pc]](registers)
        return 0

    def _update_flash(self) -> None:
        """Set up again, the SSI ends what flash_exit_xip began."""
        self._serial = self._serial and not self.ssi.reads_flash
        self.machine.protect_flash(self.ssi.reads_flash and not self._stale)

    def _connect(self, registers: tuple[int, int, int, int]) -> None:
        self._connected = True

    def _exit_xip(self, registers: tuple[int, int, int, int]) -> None:
        if not self._connected:
            raise BoardFault("flash_exit_xip was called before connect_internal_flash")
        self.ssi.begin_commands()
        self._serial = True
        self._update_flash()

    def _span(self, name: str, offset: int, count: int, unit: int) -> None:
        assert self.flash is not None
        if not self._serial:
            raise BoardFault(f"{name} was called before flash_exit_xip")
        if offset % unit or count % unit or offset + count > self.flash.size_bytes:
            raise BoardFault(
                f"{name} was called for {count:#x} bytes at offset {offset:#x}: both must be "
                f"multiples of {unit}, and the flash has {self.flash.size_bytes:#x} bytes"
            )

    def _range_erase(self, registers: tuple[int, int, int, int]) -> None:
        assert self.flash is not None
        offset, count, block, command = registers
        self._span("flash_range_erase", offset, count, self.SECTOR)
        self._stale = True
        while count:
            whole = command & 0xFF == 0xD8 and offset % block == 0 and count >= block
            unit = block if whole else self.SECTOR
            self.flash.change(self.machine, offset, bytes([ERASED]) * unit, self.ERASE_COST)
            self.machine.operation_started("erase")
            self.machine.spend(self.ERASE_COST)
            offset, count = offset + unit, count - unit
        self.machine.code_changed()

    def _range_program(self, registers: tuple[int, int, int, int]) -> None:
        """Bits can only be cleared."""
        assert self.flash is not None
        offset, source, count, _ = registers
        self._span("flash_range_program", offset, count, self.PAGE_BYTES)
        data = self.read(source, count)
        if data is None or self.FLASH <= source < self.RAM:
            raise BoardFault(f"flash_range_program was given data at {source:#x}, not in RAM")
        self._stale = True
        for at in range(0, count, self.PAGE_BYTES):
            page = data[at : at + self.PAGE_BYTES]
            old = self.flash.bytes[offset + at : offset + at + self.PAGE_BYTES]
            if any(o & p != p for o, p in zip(old, page, strict=True)):
                raise BoardFault(
                    f"the firmware writes to flash at {self.FLASH + offset + at:#x}, "
                    "which is not erased"
                )
            self.flash.change(self.machine, offset + at, page, self.PROGRAM_COST)
            self.machine.operation_started("program")
            self.machine.spend(self.PROGRAM_COST)

    def _flush_cache(self, registers: tuple[int, int, int, int]) -> None:
        self._stale = False
        self._update_flash()

    def _enter_xip(self, registers: tuple[int, int, int, int]) -> None:
        """03h, one line, slowly: all that the ROM knows of the flash chip."""
        self.ssi.values |= {Ssi.CTRLR0: 0x001F0300, Ssi.SPI_CTRLR0: 0x03000218, Ssi.BAUDR: 6}
        self.ssi.values[Ssi.ENABLE] = 1
        self._update_flash()


class Mps2Chip(Chip):
    """Arm's FPGA board; its memory is RAM, filled with the program when it is switched on."""

    RAM_BYTES = 4096 * KB

    def __init__(self, machine: Carrier, spec: BoardDescription) -> None:
        super().__init__(machine, spec.core, 16 * KB)
        self.memories = [
            MemoryBank("SSRAM1", 0, bytearray(self.RAM_BYTES), "ram", (0x00400000,)),
            MemoryBank("SSRAM2 and 3", 0x20000000, bytearray(self.RAM_BYTES), "ram"),
        ]
        self.serial = self.machine.line(1)
        self.add(mps2.UART0, mps2.CmsdkUart(self.serial))
        self.add(mps2.FPGA_IO, Silent("FPGAIO", 0x50))
        self.add(mps2.SCC, Silent("SCC", 0x110))

    def start(self) -> Start | None:
        """From the vector table at 0."""
        return self.vector_table(0)


def make_chip(machine: Carrier, spec: BoardDescription, timing: FlashTiming) -> Chip:
    """The chip that the board's description names. Raises VirtualBoardError."""
    name = spec.emulate.unicorn
    if spec.core not in CPUID:
        raise VirtualBoardError(
            f"the board {spec.name} has the core {spec.core!r}; virtual boards have "
            + ", ".join(CPUID)
        )
    if name in STM32:
        return Stm32Chip(machine, spec, timing, STM32[name])
    if name == "rp2040":
        return Rp2040Chip(machine, spec)
    if name == "mps2":
        return Mps2Chip(machine, spec)
    known = ", ".join([*sorted(STM32), "rp2040", "mps2"])
    raise VirtualBoardError(
        f"the board {spec.name} has no virtual twin; there are some for {known}"
    )

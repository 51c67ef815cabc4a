"""RP2040 and RP2350: which memory and which peripherals are where, and what their boot ROMs do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

from mcutrain_host.manifest import BoardDescription
from mcutrain_host.virtual import rp2_rom, rp2_usb
from mcutrain_host.virtual.bus import Button
from mcutrain_host.virtual.chip import KB, Carrier, Chip, MemoryBank, Start
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.flash_memory import ERASED, FlashMemory, equal_sectors
from mcutrain_host.virtual.rp2 import (
    Clocks,
    IoBank,
    Pads,
    Pl011,
    Pll,
    Resets,
    Sio,
    SioPins,
    Timer,
    Watchdog,
    Xosc,
    silent,
)
from mcutrain_host.virtual.rp2_ssi import OVERRIDE_NONE, QspiPins, Ssi
from mcutrain_host.virtual.rp2_usb import SharedMemory, UsbPort, UsbRegisters
from mcutrain_host.virtual.rp2350 import Clocks2350, Pads2350, Qmi, Resets2350, Ticks, Watchdog2350
from mcutrain_host.virtual.serial_flash import SerialFlash

USB = "USB"
"""The name of a line that is no UART."""


class Reader(Protocol):
    """What turns an access to the flash's addresses into commands for the flash chip."""

    @property
    def reads_flash(self) -> bool:
        """Is it set up so that the flash chip answers?"""

    def begin_commands(self) -> None:
        """Bytes to the flash chip and from it, and no access as memory."""


class Pins(NamedTuple):
    """Who has a pin, and its electrical settings."""

    io: IoBank
    pads: Pads


class Rp2Chip(Chip):
    """What both have: core 0, serial flash behind a cache, and a ROM that changes it."""

    FLASH, FLASH_BYTES, RAM, RAM_BYTES = 0x10000000, 2048 * KB, 0x20000000, 264 * KB
    ALIASES: ClassVar[tuple[int, ...]]
    """Addresses of the flash without the cache."""
    FUNCTIONS: ClassVar[tuple[str, ...]]
    SECTOR, PAGE_BYTES = 4 * KB, 256
    ERASE_COST, PROGRAM_COST = 2000, 200
    """Instructions for a sector and a page."""
    reader: Reader
    usb: UsbPort | None = None
    """Where that is the line, and not the UART."""

    def __init__(self, machine: Carrier, core: str) -> None:
        super().__init__(machine, core)
        content = bytearray([ERASED]) * self.FLASH_BYTES
        sectors = equal_sectors(self.FLASH_BYTES, self.SECTOR)
        self.flash = self.flash_chip(content, sectors)
        self.memories = [
            MemoryBank("flash", self.FLASH, content, "flash", self.ALIASES),
            MemoryBank("SRAM", self.RAM, bytearray(self.RAM_BYTES), "ram"),
            MemoryBank("boot ROM", 0, bytearray(rp2_rom.rom_content(self.FUNCTIONS)), "rom"),
        ]
        self._connected = self._serial = self._stale = False

    def flash_chip(self, content: bytearray, sectors: Sequence[tuple[int, int]]) -> FlashMemory:
        """Return what holds the program."""
        return FlashMemory(self.FLASH, content, sectors)

    def _add_uart(self, at: int, baud: int, resets: Resets, clocks: Clocks, pins: Pins) -> None:
        self.serial = self.machine.line(32)

        def check() -> str | None:
            if any(pins.io.function(pin) != 2 or not pins.pads.works(pin) for pin in (0, 1)):
                return "UART0 is switched on and its pins GP0 and GP1 are not given to it"
            return None

        uart = Pl011(self.serial, clocks, baud, check, resets.holds(resets.UART0))
        self.add(at, uart, 0x4000)

    def _add_usb(self, resets: Resets, clocks: Clocks, pll: Pll) -> None:
        self.serial = self.machine.line(rp2_usb.PACKET_BYTES)
        in_reset = resets.holds(resets.USB)
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

    def in_rom_function(self, pc: int) -> bool:
        """The boot ROM begins at 0."""
        return pc < 0x4000

    def trap(self, pc: int, registers: tuple[int, int, int, int]) -> int | Start | None:
        """A function of the boot ROM."""
        if pc == rp2_rom.LOOKUP:
            return self.look_up(registers)
        addresses = rp2_rom.function_addresses(self.FUNCTIONS)
        names = {address: name for name, address in addresses.items()}
        if pc not in names:
            raise BoardFault("the core stops at a BKPT instruction")
        if names[pc] in ("UB", "RB"):
            self.ignores_uart = True
            return None
        functions = {
            "IF": self._connect,
            "EX": self._exit_xip,
            "RE": self._range_erase,
            "RP": self._range_program,
            "FC": self._flush_cache,
            "CX": self._enter_xip,
            "XM": self._select_read_mode,
            "GS": self._get_sys_info,
        }
        functions[names[pc]](registers)
        return 0

    def look_up(self, registers: tuple[int, int, int, int]) -> int:
        """rom_table_lookup: the address of a function by its code."""
        raise NotImplementedError

    def _update_flash(self) -> None:
        """Set up again, the reader ends what flash_exit_xip began."""
        self._serial = self._serial and not self.reader.reads_flash
        self.machine.protect_flash(self.reader.reads_flash and not self._stale)

    def _connect(self, registers: tuple[int, int, int, int]) -> None:
        self._connected = True

    def _exit_xip(self, registers: tuple[int, int, int, int]) -> None:
        if not self._connected:
            raise BoardFault("flash_exit_xip was called before connect_internal_flash")
        self.reader.begin_commands()
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
        raise NotImplementedError

    def _select_read_mode(self, registers: tuple[int, int, int, int]) -> None:
        """The RP2350's alone."""
        raise NotImplementedError

    def _get_sys_info(self, registers: tuple[int, int, int, int]) -> None:
        """The RP2350's alone."""
        raise NotImplementedError


class Rp2040Chip(Rp2Chip):
    """An RP2040 with 2 MB of flash."""

    ALIASES = (0x11000000, 0x12000000, 0x13000000)
    FUNCTIONS = rp2_rom.FUNCTIONS
    uf2_family = 0xE48BFF56

    def __init__(self, machine: Carrier, spec: BoardDescription) -> None:
        super().__init__(machine, "cortex-m0plus")
        self.button = Button.of(spec.define)
        resets, xosc = Resets(), Xosc()
        pll = Pll("PLL_SYS", xosc, resets.holds(resets.PLL_SYS))
        clocks = Clocks(xosc, pll, lambda: self.ssi.check_clock())
        watchdog = Watchdog(self.machine)
        assert isinstance(self.flash, SerialFlash)
        self.reader = self.ssi = Ssi(
            self.flash,
            lambda: clocks.system_hz,
            lambda: self.machine.between(self._update_flash),
        )
        io, pads = IoBank(resets.holds(resets.IO_BANK0)), Pads(resets.holds(resets.PADS_BANK0))
        pll_usb = Pll("PLL_USB", xosc, resets.holds(resets.PLL_USB))
        if spec.uart.name == USB:
            self._add_usb(resets, clocks, pll_usb)
        else:
            self._add_uart(0x40034000, spec.uart.baud, resets, clocks, Pins(io, pads))
        timer = Timer(self.machine, clocks, watchdog, resets.holds(resets.TIMER))
        for address, device in (
            (0x40008000, clocks),
            (0x4000C000, resets),
            (0x40010000, silent("PSM", 0x10)),
            (0x40014000, io),
            (0x4001C000, pads),
            (0x40018000, QspiPins(self.ssi)),
            (0x40020000, silent("PADS_QSPI", 0x1C)),
            (0x40024000, xosc),
            (0x40028000, pll),
            (0x4002C000, pll_usb),
            (0x40054000, timer),
            (0x40058000, watchdog),
            (0x40060000, silent("ROSC", 0x24)),
            (0x40064000, silent("VREG_AND_CHIP_RESET", 0x0C)),
            (0x14000000, silent("XIP_CTRL", 0x20)),
            (0x18000000, self.ssi),
        ):
            self.add(address, device, 0x4000)
        self.add(0xD0000000, Sio(self.button, pads), 0x1000)

    def flash_chip(self, content: bytearray, sectors: Sequence[tuple[int, int]]) -> FlashMemory:
        """One that the firmware talks to by its pins."""
        return SerialFlash(self.FLASH, content, sectors)

    def start(self) -> Start | None:
        """The boot ROM: copies the second stage to the RAM and runs it if its checksum is right."""
        assert self.flash is not None
        self.ssi.begin_commands()
        self._update_flash()
        if self.machine.boot0 or not rp2_rom.boot2_is_sound(bytes(self.flash.bytes[:256])):
            self.ignores_uart = True
            return None
        ram = self.memories[1]
        at = rp2_rom.BOOT2_RUNS_AT - self.RAM
        ram.content[at : at + rp2_rom.BOOT2_BYTES] = self.flash.bytes[: rp2_rom.BOOT2_BYTES]
        return Start(rp2_rom.BOOT2_RUNS_AT, rp2_rom.BOOT2_RUNS_AT | 1)

    def look_up(self, registers: tuple[int, int, int, int]) -> int:
        """Given a table and the code."""
        table = self.read(registers[0], 256)
        if table is None:
            raise BoardFault("rom_table_lookup was given no table of the ROM")
        return rp2_rom.lookup(table, registers[1])

    def _flush_cache(self, registers: tuple[int, int, int, int]) -> None:
        """It also lets go of the chip's select line."""
        self.ssi.select_by_hand(OVERRIDE_NONE)
        super()._flush_cache(registers)

    def _enter_xip(self, registers: tuple[int, int, int, int]) -> None:
        """03h, one line, slowly: all that the ROM knows of the flash chip."""
        self.ssi.values |= {Ssi.CTRLR0: 0x001F0300, Ssi.SPI_CTRLR0: 0x03000218, Ssi.BAUDR: 6}
        self._update_flash()


class Rp2350Chip(Rp2Chip):
    """An RP2350 with 4 MB of flash; its Arm core 0, in the secure state."""

    FLASH_BYTES, RAM_BYTES = 4096 * KB, 520 * KB
    ALIASES = (0x14000000,)
    FUNCTIONS = rp2_rom.RP2350_FUNCTIONS
    uf2_family = 0xE48BFF59
    NUMBER = (0xABCD5678, 0xE6601234)
    """Lower half first."""
    QUAD, ROM_DIVISOR = 3, 6
    """How the ROM reads a flash chip that knows EBh, until the firmware asks for more."""

    def __init__(self, machine: Carrier, spec: BoardDescription) -> None:
        super().__init__(machine, "cortex-m33")
        self.button = Button.of(spec.define)
        resets, xosc = Resets2350(), Xosc()
        pll = Pll("PLL_SYS", xosc, resets.holds(resets.PLL_SYS))
        clocks = Clocks2350(xosc, pll)
        self.reader = self.qmi = Qmi(lambda: clocks.system_hz)
        io, pads = IoBank(resets.holds(resets.IO_BANK0)), Pads2350(resets.holds(resets.PADS_BANK0))
        pll_usb = Pll("PLL_USB", xosc, resets.holds(resets.PLL_USB))
        if spec.uart.name == USB:
            self._add_usb(resets, clocks, pll_usb)
        else:
            self._add_uart(0x40070000, spec.uart.baud, resets, clocks, Pins(io, pads))
        ticks = Ticks()
        timer = Timer(self.machine, clocks, ticks, resets.holds(resets.TIMER))
        for address, device in (
            (0x40010000, clocks),
            (0x40018000, silent("PSM", 0x10)),
            (0x40020000, resets),
            (0x40028000, io),
            (0x40038000, pads),
            (0x40048000, xosc),
            (0x40050000, pll),
            (0x40058000, pll_usb),
            (0x400B0000, timer),
            (0x400D0000, self.qmi),
            (0x40108000, ticks),
            (0x400D8000, Watchdog2350(self.machine)),
        ):
            self.add(address, device, 0x4000)
        self.add(0xD0000000, SioPins(self.button, pads), 0x1000)

    def start(self) -> Start | None:
        """The boot ROM: looks for an image definition, and reads the flash by four lines."""
        assert self.flash is not None
        if self.machine.boot0 or not rp2_rom.has_image_definition(bytes(self.flash.bytes[:4096])):
            self._update_flash()
            self.ignores_uart = True
            return None
        self.qmi.select(self.QUAD, self.ROM_DIVISOR)
        self._update_flash()
        return self.vector_table(self.FLASH)

    def look_up(self, registers: tuple[int, int, int, int]) -> int:
        """Given the code and for whom."""
        code, mask = registers[:2]
        if mask != rp2_rom.FOR_SECURE_ARM:
            raise BoardFault(f"rom_table_lookup was asked with {mask:#x}, not for secure Arm")
        table = self.memories[2].content[rp2_rom.FUNCTION_TABLE :][:128]
        return rp2_rom.lookup(bytes(table), code)

    def _enter_xip(self, registers: tuple[int, int, int, int]) -> None:
        self.qmi.select(0, self.ROM_DIVISOR)
        self._update_flash()

    def _select_read_mode(self, registers: tuple[int, int, int, int]) -> None:
        if not self._serial:
            raise BoardFault("flash_select_xip_read_mode was called before flash_exit_xip")
        self.qmi.select(registers[0], registers[1])
        self._update_flash()

    def _get_sys_info(self, registers: tuple[int, int, int, int]) -> None:
        """What chip this is (5.4.8.17); nothing else is modelled."""
        to, count, flags = registers[:3]
        if flags != 1 or count < 4:
            raise BoardFault(f"get_sys_info was called for {flags:#x} in {count} words")
        self.put(to, b"".join(word.to_bytes(4, "little") for word in (1, 0, *self.NUMBER)))

"""What a chip is: its memory, its peripherals, and how it starts."""

from __future__ import annotations

from typing import Protocol

from mcutrain_host.dataclass import dataclass
from mcutrain_host.virtual.bus import Board, Button, Peripheral
from mcutrain_host.virtual.cortex_m import ARMV6M, CycleCounter, SystemControl
from mcutrain_host.virtual.errors import BoardFault, VirtualBoardError
from mcutrain_host.virtual.flash_memory import FlashMemory
from mcutrain_host.virtual.serial_line import SerialLine

KB = 1024
SYSTEM_CONTROL, CYCLE_COUNTER = 0xE000E000, 0xE0001000
PAGE = 0x400
"""Peripherals begin at multiples of this."""
ROM_ALIGN = 0x1000
"""The emulator's pages."""
TRAP = 0xBE00
"""BKPT: what functions of a ROM consist of; the machine acts in its place."""


class Carrier(Board, Protocol):
    """What a chip needs besides what its peripherals do."""

    boot0: bool

    def line(self, depth: int) -> SerialLine:
        """The UART's wire."""

    def spend(self, instructions: int) -> None:
        """The core is busy in the ROM; a power cut may come."""

    def protect_flash(self, readable: bool) -> None:
        """Whether the core can read the flash, and run from it."""

    @property
    def ignores_bus_faults(self) -> bool:
        """Does the core mask faults, and pass over those of the bus?"""

    def interrupt(self, number: int) -> None:
        """Let the core take an exception before its next instruction."""


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
    uf2_family: int | None = None
    """The number in UF2 files that its bootloader's drive takes; None: it has no such drive."""
    serial: SerialLine
    button: Button | None = None

    def __init__(self, machine: Carrier, core: str, cache_bytes: int = 0) -> None:
        self.machine, self.core = machine, core
        self.system = SystemControl(machine, core, cache_bytes)
        self.devices: list[tuple[int, int, Peripheral]] = [(SYSTEM_CONTROL, 0x1000, self.system)]
        if core not in ARMV6M:
            counter = CycleCounter(machine, self.system, core == "cortex-m7")
            self.devices.append((CYCLE_COUNTER, 0x1000, counter))

    def power_on(self) -> None:
        """Do what power-on does; a reset follows it."""
        for _, _, device in self.devices:
            device.reset()

    def reset_devices(self) -> None:
        """Reset the devices."""
        self.loader, self.ignores_uart = None, False
        for _, _, device in self.devices:
            device.reset()
        self.serial.reset()

    def start(self) -> Start | None:
        """Return what a reset leads to; None if the ROM goes on by itself."""
        raise NotImplementedError

    def in_rom_function(self, pc: int) -> bool:
        """Is this a function of the ROM, which the firmware called?"""
        return False

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

    def read_broken(self, offset: int) -> None:
        """The core reads a word of flash with a wrong checksum: it gets any bytes, and maybe an
        exception. Raises BoardFault if firmware cannot go on."""
        raise BoardFault("the flash of this model has no checksums")

    def vector_table(self, address: int) -> Start:
        """Stack pointer and reset from the first two words."""
        words = self.read(address, 8) or bytes(8)
        return Start(int.from_bytes(words[:4], "little"), int.from_bytes(words[4:], "little"))

    def add(self, address: int, device: Peripheral, size: int = PAGE) -> None:
        """Put a peripheral at an address."""
        self.devices.append((address, size, device))

"""The nRF51 and nRF52: which memory and which peripherals are where."""

from __future__ import annotations

import re

from mcutrain_host.dataclass import dataclass
from mcutrain_host.manifest import BoardDescription
from mcutrain_host.virtual.bus import Button, Silent
from mcutrain_host.virtual.chip import KB, Carrier, Chip, MemoryBank, Start
from mcutrain_host.virtual.errors import BoardFault, VirtualBoardError
from mcutrain_host.virtual.flash_memory import ERASED, FlashMemory, FlashTiming, equal_sectors
from mcutrain_host.virtual.nrf5 import NrfGpio, NrfTimer, NrfUart, Nvmc, Power


@dataclass(frozen=True)
class Nrf5Facts:
    """What tells one chip from another. Sizes in bytes."""

    core: str
    ram: int
    flash: int
    page: int
    ports: int

    @property
    def is_nrf52(self) -> bool:
        """Has it an instruction cache, and a lock of the debug port?"""
        return self.core == "cortex-m4"


NRF5 = {
    "nrf51822": Nrf5Facts("cortex-m0", 16 * KB, 256 * KB, KB, 1),
    "nrf52833": Nrf5Facts("cortex-m4", 128 * KB, 512 * KB, 4 * KB, 2),
    "nrf52840": Nrf5Facts("cortex-m4", 256 * KB, 1024 * KB, 4 * KB, 2),
}


class Nrf5Chip(Chip):
    """An nRF51 or nRF52 with its UART connected."""

    RAM, FLASH, FACTS, SETTINGS = 0x20000000, 0, 0x10000000, 0x10001000

    def __init__(
        self, machine: Carrier, spec: BoardDescription, timing: FlashTiming, facts: Nrf5Facts
    ):
        super().__init__(machine, facts.core)
        self.button = Button.of(spec.define)
        self.facts = facts
        program = spec.memory.vectors or spec.memory.flash
        self.entry = program.origin if program else self.FLASH
        content = bytearray([ERASED]) * facts.flash
        self.flash = FlashMemory(self.FLASH, content, equal_sectors(facts.flash, facts.page))
        self.memories = [
            MemoryBank("flash", self.FLASH, content, "flash"),
            MemoryBank("SRAM", self.RAM, bytearray(facts.ram), "ram"),
            MemoryBank("FICR", self.FACTS, self._ficr(), "rom"),
            MemoryBank("UICR", self.SETTINGS, bytearray([ERASED]) * 4 * KB, "rom"),
        ]
        self.controller = Nvmc(machine, self.flash, timing, facts.is_nrf52)
        self.power, self.gpio = Power(), NrfGpio(facts.ports)
        self._add_devices(spec)

    def _add_devices(self, spec: BoardDescription) -> None:
        sends, receives = (pin_of(spec, role) for role in ("sends", "receives"))

        def why_not(tx: int, rx: int) -> str | None:
            if not self.power.crystal_runs:
                return "UART0 is started without the crystal, which its baud rate needs"
            if (tx, rx) != (sends, receives):
                return f"UART0 has pins {tx} and {rx}, and the board's are {sends} and {receives}"
            for pin, role in ((tx, "sends"), (rx, "receives")):
                port = self.gpio.port_of(pin)
                good = port is not None and getattr(port, role)(pin % 32)
                if not good:
                    return f"UART0 is started and pin {pin}, which {role}, is not set up for it"
            return None

        if self.button is not None and (port := self.gpio.port_of(self.button.pin)):
            port.button = self.button
        self.serial = self.machine.line(6)
        for address, device in (
            (0x40000000, self.power),
            (0x40002000, NrfUart(self.serial, spec.uart.baud, why_not)),
            (0x40008000, NrfTimer(self.machine)),
            (0x4001E000, self.controller),
            (0x50000000, self.gpio),
        ):
            self.add(address, device, 0x1000)
        if self.facts.is_nrf52:
            self.add(0xE0042000, Silent("the debug unit", 0x10))

    def _ficr(self) -> bytearray:
        """Page size and number of pages, among erased bytes."""
        facts = self.facts
        content = bytearray([ERASED]) * 4 * KB
        content[0x10:0x14] = facts.page.to_bytes(4, "little")
        content[0x14:0x18] = (facts.flash // facts.page).to_bytes(4, "little")
        return content

    def store(self, address: int, size: int, value: int) -> bytes:
        """As the flash controller does it."""
        return self.controller.program(address, size, value)

    def start(self) -> Start | None:
        """From the vector table at 0, or where the board's own bootloader hands over.

        Raises BoardFault where the firmware asked for that bootloader, which this model has not.
        """
        if self.power.values[Power.GPREGRET]:
            raise BoardFault("the firmware restarts into the board's bootloader, not modelled here")
        return self.vector_table(self.entry)


def pin_of(spec: BoardDescription, role: str) -> int:
    """32 * port + number of the pin that sends or receives, by the board's description.

    Raises VirtualBoardError.
    """
    found = re.search(rf"\bP([01])\.(\d+)\b[^,:]*?\b{role}", spec.uart.pins)
    if found is None:
        raise VirtualBoardError(f"the pins of {spec.name} do not say which one {role}, as P0.06")
    return 32 * int(found[1]) + int(found[2])

"""Peripherals of Arm's MPS2 boards: DAI 0386 (AN386), DAI 0500 (AN500), DDI 0479 (their UART)."""

from __future__ import annotations

from mcutrain_host.manifest import BoardDescription
from mcutrain_host.virtual.bus import Registers, Silent
from mcutrain_host.virtual.chip import KB, Carrier, Chip, MemoryBank, Start
from mcutrain_host.virtual.serial_line import Wire

UART0, FPGA_IO, SCC = 0x40004000, 0x40028000, 0x4002F000


class CmsdkUart(Registers):
    """DDI 0479, "APB UART": one byte each way."""

    DATA, STATE, CONTROL, INTERRUPTS, DIVISOR = 0x00, 0x04, 0x08, 0x0C, 0x10
    SEND, RECEIVE = 1 << 0, 1 << 1
    RX_FULL, RX_OVERRUN = 1 << 1, 1 << 3
    LEAST_DIVISOR = 16

    def __init__(self, wire: Wire) -> None:
        super().__init__("UART0", dict.fromkeys((0x00, 0x04, 0x08, 0x0C, 0x10), 0))
        self.wire = wire
        self._overruns_seen = wire.overruns

    def load(self, word: int) -> int:
        """Data and status."""
        hears = self.values[self.CONTROL] & self.RECEIVE
        if word == self.STATE:
            status = self.RX_FULL if hears and self.wire.ready() else 0
            return status | (self.RX_OVERRUN if self.wire.overruns != self._overruns_seen else 0)
        if word == self.DATA:
            return self.wire.take() if hears else 0
        return super().load(word)

    def store(self, word: int, value: int) -> None:
        """Data and settings; too small a divisor sends nothing."""
        if word == self.DATA:
            sends = self.values[self.CONTROL] & self.SEND
            if sends and self.values[self.DIVISOR] >= self.LEAST_DIVISOR:
                self.wire.send(value & 0xFF)
        elif word == self.STATE:
            if value & self.RX_OVERRUN:
                self._overruns_seen = self.wire.overruns
        elif word != self.INTERRUPTS:
            super().store(word, value)


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
        self.add(UART0, CmsdkUart(self.serial))
        self.add(FPGA_IO, Silent("FPGAIO", 0x50))
        self.add(SCC, Silent("SCC", 0x110))

    def start(self) -> Start | None:
        """From the vector table at 0."""
        return self.vector_table(0)

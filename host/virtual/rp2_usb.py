"""The RP2040's USB controller as a device (4.1 of its datasheet), and the host at the cable's other
end. The host finds the serial port that the firmware offers, opens it, and carries the link's
bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator

from mcutrain_host.virtual.bus import Board
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.rp2 import Rp2Registers
from mcutrain_host.virtual.serial_line import SerialLine

USB_HZ = 48_000_000
DPRAM_BYTES = 4096
SETUP, EP0_BUFFER = 0x000, 0x100
EP0_IN, EP0_OUT = 0x80, 0x84
AVAILABLE, STALL, DATA1, FULL = 1 << 10, 1 << 11, 1 << 13, 1 << 15
COUNT = 0x3FF
PACKET_BYTES = 64
DATA_CLASS = 10
LOOP_INSTRUCTIONS = 200
"""More than a loop takes that does nothing but look."""
IDLE_LOOKS = 16
"""More nodes in a row than are computed in so few instructions each."""
ADDRESS = 7
Waiting = Generator[None, None, bytes]
"""Goes on when the firmware looks at the controller again; ends with what the device sent."""


class UsbRegisters(Rp2Registers):
    """4.1.4: what a polled device uses of them."""

    ADDRESS, MAIN, SIE_CONTROL, SIE_STATUS, DONE, STALL_ARM = 0x00, 0x40, 0x4C, 0x50, 0x58, 0x68
    PULL_UP, RESET, SETUP_CAME = 1 << 16, 1 << 19, 1 << 17
    CLEARED_BY_ONES = (SIE_STATUS, DONE)

    def __init__(self, clock_hz: Callable[[], int], in_reset: Callable[[], bool]) -> None:
        super().__init__("USB", dict.fromkeys(range(0, 0x9C, 4), 0), in_reset)
        self.clock_hz = clock_hz
        self.looked_at: Callable[[], None] = lambda: None

    @property
    def is_attached(self) -> bool:
        """Whether a host sees a device."""
        return bool(self.values[self.MAIN] & 1 and self.values[self.SIE_CONTROL] & self.PULL_UP)

    def load(self, word: int) -> int:
        """A look at what is done gives the host its turn."""
        if word == self.DONE:
            self.looked_at()
        return super().load(word)

    def store(self, word: int, value: int) -> None:
        """Some bits are cleared by ones."""
        if word in self.CLEARED_BY_ONES:
            value = self.values[word] & ~value
        super().store(word, value)
        if word == self.MAIN and value & 1 and self.clock_hz() != USB_HZ:
            raise BoardFault(f"USB is switched on and its clock runs at {self.clock_hz()} Hz")


class SharedMemory:
    """The 4 KB that controller and core share: setup packet, controls, buffers."""

    name = "USB memory"
    CONTROLS = range(EP0_IN, 0x100, 4)

    def __init__(self, board: Board, in_reset: Callable[[], bool]) -> None:
        self.board, self.in_reset = board, in_reset
        self.bytes = bytearray(DPRAM_BYTES)
        self.offered: Callable[[int], None] = lambda control: None

    def reset(self) -> None:
        """Garbage: it keeps no content."""
        self.bytes[:] = self.board.random.randbytes(DPRAM_BYTES)

    def read(self, offset: int, size: int) -> int:
        """Return what the core reads."""
        self._refuse_in_reset()
        return int.from_bytes(self.bytes[offset : offset + size], "little")

    def write(self, offset: int, size: int, value: int) -> None:
        """What the core writes; a buffer that becomes available is looked at."""
        self._refuse_in_reset()
        before = self.word(offset & ~3)
        self.bytes[offset : offset + size] = value.to_bytes(size, "little")
        if offset in self.CONTROLS and value & AVAILABLE:
            if before != value & ~AVAILABLE:
                raise BoardFault(
                    f"the buffer control at {offset:#x} becomes available in the same write as "
                    "its other bits, which the controller may then take from before (4.1.2.5.1)"
                )
            self.offered(offset)

    def word(self, offset: int) -> int:
        """Read a word of 32 bits."""
        return int.from_bytes(self.bytes[offset : offset + 4], "little")

    def set_word(self, offset: int, value: int) -> None:
        """As the controller does it."""
        self.bytes[offset : offset + 4] = value.to_bytes(4, "little")

    def buffer_of(self, control: int) -> int:
        """Where an endpoint's buffer begins: its control register says so, but for endpoint 0."""
        if control in (EP0_IN, EP0_OUT):
            return EP0_BUFFER
        endpoint = self.word(control - 0x80)
        if not endpoint >> 31:
            raise BoardFault(f"the buffer control at {control:#x} is used, its endpoint is off")
        return endpoint & 0xFFC0

    def _refuse_in_reset(self) -> None:
        if self.in_reset():
            raise BoardFault("the firmware uses the USB memory while RESETS holds it in reset")


class UsbPort:
    """A cable with a host that has opened the device's serial port, as soon as there is one."""

    def __init__(
        self, board: Board, registers: UsbRegisters, memory: SharedMemory, line: SerialLine
    ):
        self.board, self.registers, self.memory, self.line = board, registers, memory, line
        registers.looked_at, memory.offered = self.work, self._offered
        self.reset()

    def reset(self) -> None:
        """Nothing is plugged in."""
        self.is_open = False
        self.sends = self.receives = 0  # controls of the data endpoints
        self._looks = self._last_look = 0
        self._toggles: dict[int, int] = {}
        self._steps: Waiting | None = None

    def work(self) -> None:
        """The host's turn."""
        if not self.registers.is_attached:
            if self._steps is not None or self.is_open:
                self.reset()
            return
        if self.is_open:
            self._exchange()
        elif self._steps is None:
            self._steps = self._find()
        if self._steps is not None and next(self._steps, self) is self:
            self._steps, self.is_open = None, True

    def _exchange(self) -> None:
        """Bytes of the line, in packets."""
        if self.registers.values[UsbRegisters.DONE]:
            return
        self._offered(self.sends)
        if self._is_offered(self.receives) and self.line.has_come():
            self._give(self.receives, bytes(self.line.take_all(PACKET_BYTES)))
        elif self._waits():
            self.line.wait()

    def _waits(self) -> bool:
        """Whether the firmware does nothing but look, and not between two nodes of a network."""
        now = self.board.now
        is_soon = now - self._last_look < LOOP_INSTRUCTIONS
        self._looks, self._last_look = self._looks + 1 if is_soon else 0, now
        return self._looks >= IDLE_LOOKS

    def _offered(self, control: int) -> None:
        """A packet for the host leaves at once, as far as the firmware can see."""
        if self.is_open and control == self.sends and self._is_offered(control):
            for byte in self._take(control):
                self.line.send(byte)

    # ------------------------------------------------------------------------------- what hosts do

    def _find(self) -> Waiting:
        """Reset, address, descriptors, configuration, and the port's settings (USB 2.0, 9.1.2)."""
        yield from self._reset_bus()
        yield from self._control(0x80, 6, 0x100, 64)
        yield from self._reset_bus()
        yield from self._control(0x00, 5, ADDRESS)
        yield  # the host calls 2 ms later (USB 2.0, 9.2.6.3)
        if self.registers.values[UsbRegisters.ADDRESS] != ADDRESS:
            raise BoardFault("the device does not take the address that the host gives it")
        yield from self._control(0x80, 6, 0x100, 18)
        head = yield from self._control(0x80, 6, 0x200, 9)
        (size,) = struct.unpack_from("<H", head, 2)
        configuration = yield from self._control(0x80, 6, 0x200, size)
        self.sends, self.receives = data_endpoints(configuration)
        yield from self._control(0x00, 9, configuration[5])
        self._toggles = {self.sends: 0, self.receives: 0}
        coding = struct.pack("<IBBB", 115_200, 0, 0, 8)
        yield from self._control(0x21, 0x20, 0, len(coding), coding)
        yield from self._control(0x21, 0x22, 3, 0)
        return b""

    def _reset_bus(self) -> Waiting:
        status, values = UsbRegisters.SIE_STATUS, self.registers.values
        values[status] |= UsbRegisters.RESET
        while values[status] & UsbRegisters.RESET:
            yield
        return b""

    def _control(
        self, kind: int, request: int, value: int = 0, length: int = 0, data: bytes = b""
    ) -> Waiting:
        """A control transfer (USB 2.0, 8.5.3)."""
        setup = struct.pack("<BBHHH", kind, request, value, 0, length)
        self.memory.bytes[SETUP : SETUP + 8] = setup
        values = self.registers.values
        values[UsbRegisters.SIE_STATUS] |= UsbRegisters.SETUP_CAME
        values[UsbRegisters.STALL_ARM] = 0
        self._toggles |= {EP0_IN: 1, EP0_OUT: 1}
        got = b""
        if kind & 0x80:
            while True:
                packet = yield from self._awaited(EP0_IN, request)
                got += packet
                if len(packet) < PACKET_BYTES or len(got) >= length:
                    break
            self._toggles[EP0_OUT] = 1
            yield from self._awaited(EP0_OUT, request, b"")
            return got
        if data:
            yield from self._awaited(EP0_OUT, request, data)
        self._toggles[EP0_IN] = 1
        return (yield from self._awaited(EP0_IN, request))

    def _awaited(self, control: int, request: int, data: bytes = b"") -> Waiting:
        """A packet of endpoint 0, when the firmware is ready for it."""
        while not self._is_offered(control):
            stalls = self.registers.values[UsbRegisters.STALL_ARM]
            if self.memory.word(control) & STALL and stalls:
                raise BoardFault(f"the device refuses the host's request {request:#04x}")
            yield
        if control == EP0_OUT:
            self._give(control, data)
            return b""
        return self._take(control)

    # ----------------------------------------------------------------- what the controller does

    def _is_offered(self, control: int) -> bool:
        return bool(self.memory.word(control) & AVAILABLE)

    def _take(self, control: int) -> bytes:
        """A packet to the host (4.1.2.6.2)."""
        word = self.memory.word(control)
        if not word & FULL:
            raise BoardFault(f"the buffer control at {control:#x} is available and not full")
        self._check_toggle(control, word)
        at = self.memory.buffer_of(control)
        self._done(control, word & ~(AVAILABLE | FULL))
        return bytes(self.memory.bytes[at : at + (word & COUNT)])

    def _give(self, control: int, data: bytes) -> None:
        """A packet of the host's (4.1.2.6.3)."""
        word = self.memory.word(control)
        if word & FULL or word & COUNT < len(data):
            raise BoardFault(
                f"the buffer control at {control:#x} has no room for {len(data)} bytes"
            )
        self._check_toggle(control, word)
        at = self.memory.buffer_of(control)
        self.memory.bytes[at : at + len(data)] = data
        self._done(control, word & ~(AVAILABLE | COUNT) | FULL | len(data))

    def _check_toggle(self, control: int, word: int) -> None:
        """A packet with the other toggle is taken for a repetition, and lost (USB 2.0, 8.6)."""
        wanted, found = self._toggles[control], int(bool(word & DATA1))
        if found != wanted:
            raise BoardFault(
                f"the buffer control at {control:#x} says DATA{found} where the host has "
                f"DATA{wanted}: the packet would be lost"
            )
        self._toggles[control] ^= 1

    def _done(self, control: int, word: int) -> None:
        self.memory.set_word(control, word)
        self.registers.values[UsbRegisters.DONE] |= 1 << (control - EP0_IN) // 4


def data_endpoints(configuration: bytes) -> tuple[int, int]:
    """Buffer controls of the endpoints that a serial port's bytes take: to the host, from it.

    Raises BoardFault if the descriptors name none.
    """
    found: dict[bool, int] = {}
    is_data, at = False, 0
    while at < len(configuration) and configuration[at] >= 2:
        size, kind = configuration[at : at + 2]
        if kind == 4:
            is_data = configuration[at + 5] == DATA_CLASS
        elif kind == 5 and is_data:
            address = configuration[at + 2]
            found[bool(address & 0x80)] = (
                EP0_IN + 8 * (address & 0xF) + (0 if address & 0x80 else 4)
            )
        at += size
    if at != len(configuration) or found.keys() != {True, False}:
        raise BoardFault("the descriptors of the device name no serial port")
    return found[True], found[False]

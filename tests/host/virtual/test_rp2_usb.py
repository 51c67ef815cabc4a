"""The virtual USB controller refuses what a chip, or a host, would not bear."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from mcutrain_host.virtual.errors import BoardFault
from mcutrain_host.virtual.rp2_usb import (
    AVAILABLE,
    DATA1,
    FULL,
    SharedMemory,
    UsbPort,
    UsbRegisters,
    data_endpoints,
)

EP2_IN, EP2_OUT, EP2_IN_CONTROL = 0x90, 0x94, 0x10
ON = 1 << 31
SERIAL_PORT = bytes.fromhex("09021e0001010080320904010002 0a000000 0705020240 0000 0705820240 0000")


class Line:
    """What was sent; nothing comes."""

    def __init__(self) -> None:
        self.sent = bytearray()

    def send(self, byte: int) -> None:
        self.sent.append(byte)


def port(**values: Any) -> UsbPort:
    """A port that the host has opened, with endpoint 2 at 0x1C0."""
    board: Any = SimpleNamespace(random=random.Random(1), now=0)
    registers = UsbRegisters(lambda: 48_000_000, lambda: False)
    memory = SharedMemory(board, lambda: False)
    line: Any = Line()
    made = UsbPort(board, registers, memory, line)
    made.is_open, made.sends, made.receives = True, EP2_IN, EP2_OUT
    made._toggles = {EP2_IN: 0, EP2_OUT: 0}
    memory.write(EP2_IN_CONTROL, 4, values.get("control", ON | 0x1C0))
    return made


def offer(made: UsbPort, word: int) -> None:
    """As the datasheet wants it: AVAILABLE last."""
    made.memory.write(EP2_IN, 4, word)
    made.memory.write(EP2_IN, 4, word | AVAILABLE)


def test_a_packet_that_is_settled_leaves_and_says_so() -> None:
    made = port()
    made.memory.write(0x1C0, 4, int.from_bytes(b"abcd", "little"))
    offer(made, FULL | 3)
    assert made.line.sent == b"abc"  # type: ignore[attr-defined]
    assert made.registers.read(UsbRegisters.DONE, 4) == 1 << 4
    assert made.memory.read(EP2_IN, 4) & (AVAILABLE | FULL) == 0
    made.registers.write(UsbRegisters.DONE, 4, 1 << 4)
    assert made.registers.values[UsbRegisters.DONE] == 0


def test_a_buffer_that_becomes_available_unsettled_is_a_fault() -> None:
    with pytest.raises(BoardFault, match="becomes available in the same write"):
        port().memory.write(EP2_IN, 4, FULL | 3 | AVAILABLE)


def test_a_packet_with_the_toggle_of_the_last_one_is_a_fault() -> None:
    made = port()
    offer(made, FULL | 1)
    with pytest.raises(BoardFault, match="DATA0 where the host has DATA1"):
        offer(made, FULL | 1)
    offer(port(), FULL | 1)
    with pytest.raises(BoardFault, match="DATA1 where the host has DATA0"):
        offer(port(), FULL | 1 | DATA1)


def test_an_endpoint_that_is_off_is_a_fault() -> None:
    with pytest.raises(BoardFault, match="its endpoint is off"):
        offer(port(control=0x1C0), FULL | 1)


def test_a_packet_that_is_not_full_is_a_fault() -> None:
    with pytest.raises(BoardFault, match="available and not full"):
        offer(port(), 1)


@pytest.mark.parametrize(("hz", "is_right"), [(48_000_000, True), (125_000_000, False), (0, False)])
def test_another_clock_than_48_mhz_is_a_fault(hz: int, is_right: bool) -> None:
    registers = UsbRegisters(lambda: hz, lambda: False)
    if is_right:
        registers.write(UsbRegisters.MAIN, 4, 1)
        return
    with pytest.raises(BoardFault, match=f"its clock runs at {hz} Hz"):
        registers.write(UsbRegisters.MAIN, 4, 1)


def test_the_memory_of_a_block_in_reset_is_a_fault() -> None:
    board: Any = SimpleNamespace(random=random.Random(1))
    with pytest.raises(BoardFault, match="holds it in reset"):
        SharedMemory(board, lambda: True).read(0, 4)


def test_the_endpoints_of_a_serial_port_are_found_by_its_descriptors() -> None:
    assert data_endpoints(SERIAL_PORT) == (EP2_IN, EP2_OUT)
    for damaged in (SERIAL_PORT[:-1], SERIAL_PORT[:-7], SERIAL_PORT.replace(b"\x0a", b"\x03")):
        with pytest.raises(BoardFault, match="name no serial port"):
            data_endpoints(damaged)

"""The STM32's ROM bootloader on a UART: AN3155, with the chips' facts from AN2606."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import reduce
from operator import xor

from mcutrain_host.dataclass import dataclass

ACK, NACK, SYNC = 0x79, 0x1F, 0x7F
GET, GET_VERSION, GET_ID = 0x00, 0x01, 0x02
READ_MEMORY, GO, WRITE_MEMORY, EXTENDED_ERASE = 0x11, 0x21, 0x31, 0x44
WRITE_PROTECT, WRITE_UNPROTECT, READOUT_PROTECT, READOUT_UNPROTECT = 0x63, 0x73, 0x82, 0x92
COMMANDS = (
    *(GET, GET_VERSION, GET_ID, READ_MEMORY, GO, WRITE_MEMORY, EXTENDED_ERASE),
    *(WRITE_PROTECT, WRITE_UNPROTECT, READOUT_PROTECT, READOUT_UNPROTECT),
)
VERSION = 0x31
MASS_ERASE, BANK_1, BANK_2 = 0xFFFF, 0xFFFE, 0xFFFD


@dataclass(frozen=True)
class LoaderMemory:
    """What the bootloader can reach; each call says with None or False that it cannot.

    write: programs flash only where it is erased. erase: sectors by number, None for all. go: the
    program's vector table.
    """

    read: Callable[[int, int], bytes | None]
    write: Callable[[int, bytes], bool]
    erase: Callable[[list[int] | None], bool]
    go: Callable[[int], bool]


Talk = Generator[None, int, None]
"""Wants a byte at each yield."""


class Bootloader:
    """Takes bytes one by one; `send` gets the answers."""

    def __init__(self, chip_id: int, memory: LoaderMemory, send: Callable[[int], None]) -> None:
        self.chip_id, self.memory = chip_id, memory
        self._send = send
        self._talk = self._session()
        next(self._talk)
        self.left = False

    def take(self, byte: int) -> None:
        """A byte from the host; `left` says afterwards that a program was started."""
        if not self.left:
            self._talk.send(byte)

    def _answer(self, good: bool) -> bool:
        self._send(ACK if good else NACK)
        return good

    def _session(self) -> Talk:
        while (yield) != SYNC:
            pass
        self._answer(True)
        while True:
            command = yield
            check = yield
            if command ^ check != 0xFF or command not in COMMANDS:
                self._answer(False)
                continue
            yield from self._command(command)

    def _command(self, command: int) -> Talk:
        if command == GET:
            self._say(VERSION, *COMMANDS)
        elif command == GET_VERSION:
            self._answer(True)
            for byte in (VERSION, 0, 0, ACK):
                self._send(byte)
        elif command == GET_ID:
            self._say(self.chip_id >> 8, self.chip_id & 0xFF)
        elif command == READ_MEMORY:
            yield from self._read()
        elif command == WRITE_MEMORY:
            yield from self._write()
        elif command == GO:
            yield from self._go()
        elif command == EXTENDED_ERASE:
            yield from self._erase()
        else:
            self._answer(False)  # protection is not modelled

    def _say(self, *data: int) -> None:
        self._answer(True)
        for byte in (len(data) - 1, *data, ACK):
            self._send(byte)

    def _take(self, count: int) -> Generator[None, int, bytes]:
        taken = bytearray()
        while len(taken) < count:
            taken.append((yield))
        return bytes(taken)

    def _address(self) -> Generator[None, int, int | None]:
        """Four bytes and their checksum; None if it is wrong."""
        taken = yield from self._take(5)
        return None if reduce(xor, taken) else int.from_bytes(taken[:4], "big")

    def _read(self) -> Talk:
        self._answer(True)
        address = yield from self._address()
        if not self._answer(address is not None and self.memory.read(address, 1) is not None):
            return
        count, check = yield from self._take(2)
        data = self.memory.read(address or 0, count + 1) if count ^ check == 0xFF else None
        if self._answer(data is not None):
            for byte in data or b"":
                self._send(byte)

    def _write(self) -> Talk:
        self._answer(True)
        address = yield from self._address()
        if not self._answer(address is not None and self.memory.read(address, 1) is not None):
            return
        (count,) = yield from self._take(1)
        data = yield from self._take(count + 1)
        (check,) = yield from self._take(1)
        sound = count ^ reduce(xor, data) ^ check == 0 and len(data) % 4 == 0
        self._answer(sound and (address or 0) % 4 == 0 and self.memory.write(address or 0, data))

    def _go(self) -> Talk:
        self._answer(True)
        address = yield from self._address()
        self.left = self._answer(address is not None and self.memory.go(address))

    def _erase(self) -> Talk:
        self._answer(True)
        head = yield from self._take(2)
        count = int.from_bytes(head, "big")
        whole = count in (MASS_ERASE, BANK_1, BANK_2)
        body = b"" if whole or count > 0xFFF0 else (yield from self._take(2 * (count + 1)))
        (check,) = yield from self._take(1)
        if reduce(xor, head + body) != check or count in (BANK_1, BANK_2):
            self._answer(False)
            return
        sectors = [int.from_bytes(body[i : i + 2], "big") for i in range(0, len(body), 2)]
        self._answer(self.memory.erase(None if whole else sectors))

"""The wire between a UART and the link, with the time that bytes take."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from mcutrain_host.virtual.bus import Board
from mcutrain_host.virtual.link import UartLink

SEND_BYTES = 512
"""Bytes from the board that are handed over at once; fewer when it waits or time passes."""
IDLE_POLLS = 2
"""Looks at an empty receiver in a row, without sending, that mean the firmware waits."""


class Wire(Protocol):
    """What a UART sees of the wire."""

    overruns: int

    def ready(self) -> bool:
        """Is there a byte in the receiver? Waits a little if the firmware asks again and again."""

    def take(self) -> int:
        """The next byte of the receiver."""

    def send(self, byte: int) -> None:
        """A byte to the world."""


class SerialLine:
    """Bytes between link and UART.

    depth: bytes that the receiver holds. instructions_per_byte: 0 means that bytes wait on the line
    until the receiver has room; otherwise each takes that long and is lost if there is none.
    """

    def __init__(
        self, board: Board, link: UartLink, depth: int, instructions_per_byte: int = 0
    ) -> None:
        self.board, self.link, self.depth = board, link, depth
        self.instructions_per_byte = instructions_per_byte
        self.overruns = 0
        self._receiver: deque[int] = deque()
        self._line: deque[tuple[int, int]] = deque()
        self._sent = bytearray()
        self._last_arrival = self._sender_free = 0
        self._empty_polls = 0

    @property
    def holds(self) -> bool:
        """Is there a byte in the receiver, as far as it looked?"""
        return bool(self._receiver)

    def reset(self) -> None:
        """The receiver forgets its bytes."""
        self._receiver.clear()
        self._empty_polls = 0

    def ready(self) -> bool:
        """Is there a byte in the receiver?"""
        if self._receiver:
            return True
        self.pump()
        if self._receiver:
            return True
        self.wait()
        return bool(self._receiver)

    def take(self) -> int:
        """The next byte of the receiver, or 0."""
        self._empty_polls = 0
        return self._receiver.popleft() if self._receiver else 0

    def has_come(self) -> bool:
        """Is there a byte in the receiver? Whoever asks does not wait for one."""
        self.pump()
        return bool(self._receiver)

    def take_all(self, most: int) -> list[int]:
        """The next bytes of the receiver, at most so many."""
        return [self.take() for _ in range(min(most, len(self._receiver)))]

    def wait(self) -> None:
        """The firmware looks again and again, and not for a byte."""
        self._empty_polls += 1
        if self._empty_polls >= IDLE_POLLS:
            self._wait()

    def send(self, byte: int) -> None:
        """A byte to the world."""
        self._empty_polls = 0
        self._sent.append(byte)
        if self.instructions_per_byte:
            self._take_time()
        if len(self._sent) >= SEND_BYTES:
            self.flush()

    def _take_time(self) -> None:
        """The core waits until the byte before is on its way, as it would for the status bit."""
        now = self.board.now
        self.board.skip(self._sender_free - now)
        self._sender_free = max(self._sender_free, now) + self.instructions_per_byte

    def flush(self) -> None:
        """Hand over what was sent."""
        if self._sent:
            data = bytes(self._sent)
            self._sent.clear()
            self.link.send(data)

    def pump(self) -> None:
        """Take what came over the link, and let it arrive when its time has come."""
        data = self.link.receive()
        if not self.instructions_per_byte:
            self._receiver.extend(data)
            return
        if data:
            self._last_arrival = max(self._last_arrival, self.board.now)
        for byte in data:
            self._last_arrival += self.instructions_per_byte
            self._line.append((self._last_arrival, byte))
        now = self.board.now if self._line else 0
        while self._line and self._line[0][0] <= now:
            self._arrive(self._line.popleft()[1])

    def _arrive(self, byte: int) -> None:
        if len(self._receiver) < self.depth:
            self._receiver.append(byte)
        else:
            self.overruns += 1

    def _wait(self) -> None:
        self.flush()
        if self._line:  # nothing else happens until the byte arrives
            self.board.skip(max(0, self._line[0][0] - self.board.now))
        else:
            self.board.idle()
        self.pump()

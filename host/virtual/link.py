"""The other end of a board's serial port: a pseudo-terminal, a TCP port, or this process."""

from __future__ import annotations

import os
import random
import select
import socket
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from mcutrain_host.dataclass import dataclass
from mcutrain_host.virtual.errors import VirtualBoardError

if sys.platform != "win32":
    import pty
    import tty

READ_BYTES = 65536
MOST_PORT = 65_535
WAITING_BYTES = 1 << 20
"""Bytes kept for a reader that does not read; older ones are lost, as on a real port."""


class UartLink(Protocol):
    """Carries bytes between the board's UART and the world. Used by one thread, the board's."""

    @property
    def url(self) -> str:
        """What pyserial opens to talk with the board."""

    def receive(self) -> bytes:
        """All bytes that came for the board; does not wait."""

    def send(self, data: bytes) -> None:
        """Bytes from the board; does not wait."""

    def wait(self, seconds: float) -> None:
        """Until bytes came for the board, at most for some time."""

    def close(self) -> None:
        """Nobody can talk with the board any more."""


class LoopbackLink:
    """Both ends in this process; safe between two threads."""

    url = "loopback"

    def __init__(self) -> None:
        self._to_board, self._to_host = bytearray(), bytearray()
        self._changed = threading.Condition()
        self.plugged = True

    def receive(self) -> bytes:
        """All bytes that came for the board."""
        if not self._to_board:
            return b""
        return self._take(self._to_board)

    def send(self, data: bytes) -> None:
        """Bytes from the board."""
        with self._changed:
            if self.plugged:
                self._to_host += data
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Until bytes came for the board."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._to_board), seconds)

    def close(self) -> None:
        """Unplug."""
        self.unplug()

    def unplug(self) -> None:
        """Bytes in both directions are lost until `plug`."""
        with self._changed:
            self.plugged = False
            self._to_board.clear()
            self._to_host.clear()

    def plug(self) -> None:
        """Connect again."""
        self.plugged = True

    def host_write(self, data: bytes) -> None:
        """Bytes for the board."""
        with self._changed:
            if self.plugged:
                self._to_board += data
            self._changed.notify_all()

    def host_read(self) -> bytes:
        """All bytes that the board has sent."""
        return self._take(self._to_host)

    def _take(self, buffer: bytearray) -> bytes:
        with self._changed:
            data = bytes(buffer)
            buffer.clear()
        return data


class FileLink:
    """What a pseudo-terminal and a TCP connection share: file descriptors and a queue of output."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def _reader(self) -> int | None:
        """The descriptor to read, or None while nobody is connected."""
        raise NotImplementedError

    def _awaited(self) -> list[int]:
        """Descriptors that become readable when something happens."""
        reader = self._reader()
        return [] if reader is None else [reader]

    def _lost(self) -> None:
        """The other end is gone."""

    def receive(self) -> bytes:
        """All bytes that came for the board; also sends what waits."""
        self._flush()
        reader = self._reader()
        if reader is None:
            return b""
        try:
            data = os.read(reader, READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self._lost()
        return data

    def send(self, data: bytes) -> None:
        """Bytes from the board; lost while nobody is connected."""
        self._waiting += data
        if len(self._waiting) > WAITING_BYTES:
            del self._waiting[:-WAITING_BYTES]
        self._flush()

    def wait(self, seconds: float) -> None:
        """Until bytes came for the board."""
        self._flush()
        awaited = self._awaited()
        if awaited:
            writers = awaited[:1] if self._waiting else []
            with suppress(OSError, ValueError):
                select.select(awaited, writers, [], seconds)
        else:
            time.sleep(seconds)

    def _flush(self) -> None:
        reader = self._reader()
        if reader is None:
            self._waiting.clear()
        while self._waiting and reader is not None:
            try:
                sent = os.write(reader, self._waiting)
            except BlockingIOError:
                return
            except OSError:
                self._lost()
                return
            del self._waiting[:sent]


class PtyLink(FileLink):
    """A pseudo-terminal behind a name that stays while it is unplugged and plugged again."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        if sys.platform == "win32":
            raise VirtualBoardError("Windows has no pseudo-terminals: use the link tcp")
        self._folder = None if path else Path(tempfile.mkdtemp(prefix="mcutrain-board-"))
        self.path = path or Path(str(self._folder)) / "tty"
        self._master: int | None = None
        self._slave: int | None = None
        self.plug()

    @property
    def url(self) -> str:
        """The path that a serial program opens."""
        return str(self.path)

    def plug(self) -> None:
        """Make the terminal, unless it is there."""
        if self._master is not None:
            return
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)  # kept open, so that no client's leaving is an error here
        os.set_blocking(self._master, False)
        with suppress(FileNotFoundError):
            self.path.unlink()
        try:
            self.path.symlink_to(os.ttyname(self._slave))
        except OSError as error:
            raise VirtualBoardError(f"cannot make the serial port {self.path}: {error}") from error

    def unplug(self) -> None:
        """Take the terminal away, as if the cable was pulled."""
        for descriptor in (self._slave, self._master):
            if descriptor is not None:
                os.close(descriptor)
        self._master = self._slave = None
        self._waiting.clear()
        with suppress(FileNotFoundError):
            self.path.unlink()

    def close(self) -> None:
        """Unplug for good."""
        self.unplug()
        if self._folder is not None:
            with suppress(OSError):
                self._folder.rmdir()

    def _reader(self) -> int | None:
        return self._master


class TcpLink(FileLink):
    """A TCP port of this computer, for one client at a time, any number one after another.

    Who comes while another is there is turned away: the connection is closed at once.
    """

    def __init__(self, port: int = 0) -> None:
        super().__init__()
        self._client: socket.socket | None = None
        self._server: socket.socket | None = None
        self.port = port
        self.plug()

    @property
    def url(self) -> str:
        """The URL that pyserial opens."""
        return f"socket://127.0.0.1:{self.port}"

    def plug(self) -> None:
        """Take clients, unless it does."""
        if self._server is not None:
            return
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("127.0.0.1", self.port))
        except OSError as error:
            server.close()
            raise VirtualBoardError(f"cannot listen on port {self.port}: {error}") from error
        server.listen(1)
        server.setblocking(False)
        self.port = int(server.getsockname()[1])
        self._server = server

    def unplug(self) -> None:
        """End the connection and take no other, as if the cable was pulled."""
        self._lost()
        if self._server is not None:
            self._server.close()
            self._server = None

    def close(self) -> None:
        """Unplug for good."""
        self.unplug()

    def receive(self) -> bytes:
        """All bytes that came for the board; also takes a new client, or turns it away."""
        if self._client is None:
            self._client = self._accept()
        if self._client is not None and hasattr(socket, "TCP_QUICKACK"):
            # Linux forgets it; without, a client that writes in small pieces waits 40 ms for each
            with suppress(OSError):
                self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        data = super().receive()
        if not data:
            self._look_for_others()
        return data

    def _look_for_others(self) -> None:
        other = self._accept()
        if other is None:
            return
        if self._client_is_there():
            other.close()
        else:
            self._lost()
            self._client = other

    def _client_is_there(self) -> bool:
        """It may have left since it was read last, and before the next one came."""
        if self._client is None:
            return False
        try:
            return bool(self._client.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _accept(self) -> socket.socket | None:
        if self._server is None:
            return None
        with suppress(OSError):
            client, _ = self._server.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setblocking(False)
            return client
        return None

    def _reader(self) -> int | None:
        return None if self._client is None else self._client.fileno()

    def _awaited(self) -> list[int]:
        newcomers = [] if self._server is None else [self._server.fileno()]
        return super()._awaited() + newcomers

    def _lost(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        self._waiting.clear()


@dataclass(frozen=True)
class LinkFaults:
    """Probabilities for each byte. A delayed byte holds those behind it up for `delay_seconds`."""

    drop: float = 0.0
    corrupt: float = 0.0
    double: float = 0.0
    delay: float = 0.0
    delay_seconds: float = 0.02


class _Mangler:
    """One direction of a bad cable."""

    def __init__(self, faults: LinkFaults, seed: str) -> None:
        self.faults = faults
        self._random = random.Random(seed)
        self._held: deque[tuple[float, int]] = deque()
        self._until = 0.0
        self.carried = self.changes = 0

    def put(self, data: bytes) -> None:
        faults, draw = self.faults, self._random.random
        self.carried += len(data)
        for byte in data:
            if draw() < faults.drop:
                self.changes += 1
                continue
            if draw() < faults.corrupt:
                self.changes += 1
                byte ^= 1 << self._random.randrange(8)
            if draw() < faults.delay:
                self._until = max(self._until, time.monotonic()) + faults.delay_seconds
            copies = 2 if draw() < faults.double else 1
            self.changes += copies - 1
            self._held.extend([(self._until, byte)] * copies)

    def get(self) -> bytes:
        now = time.monotonic()
        data = bytearray()
        while self._held and self._held[0][0] <= now:
            data.append(self._held.popleft()[1])
        return bytes(data)

    @property
    def holds(self) -> bool:
        return bool(self._held)


class FaultyLink:
    """A bad cable in front of another link: loses, changes, doubles and delays bytes.

    The same seed gives the same faults for the same bytes.
    """

    def __init__(
        self, inner: UartLink, to_board: LinkFaults, to_host: LinkFaults, seed: int = 0
    ) -> None:
        self.inner = inner
        self._to_board = _Mangler(to_board, f"{seed} to board")
        self._to_host = _Mangler(to_host, f"{seed} to host")

    @property
    def url(self) -> str:
        """URL of the link behind."""
        return self.inner.url

    @property
    def carried(self) -> int:
        """How many bytes were put into the cable, at both ends."""
        return self._to_board.carried + self._to_host.carried

    @property
    def changes(self) -> int:
        """How often a byte was lost, changed or doubled. A delay is none."""
        return self._to_board.changes + self._to_host.changes

    def receive(self) -> bytes:
        """Return what came through for the board."""
        self._to_board.put(self.inner.receive())
        self._pass_on()
        return self._to_board.get()

    def send(self, data: bytes) -> None:
        """Bytes from the board."""
        self._to_host.put(data)
        self._pass_on()

    def wait(self, seconds: float) -> None:
        """Until something may have come for the board."""
        self._pass_on()
        held = self._to_board.holds or self._to_host.holds
        self.inner.wait(min(seconds, 0.005) if held else seconds)

    def close(self) -> None:
        """Close the link behind."""
        self.inner.close()

    def _pass_on(self) -> None:
        data = self._to_host.get()
        if data:
            self.inner.send(data)


def make_link(kind: str) -> UartLink:
    """`pty`, `pty:PATH`, `tcp`, `tcp:PORT` or `loopback`. Raises VirtualBoardError."""
    name, _, argument = kind.partition(":")
    if name == "pty":
        return PtyLink(Path(argument) if argument else None)
    if name == "tcp" and (argument.isdecimal() or not argument):
        if int(argument or 0) > MOST_PORT:
            raise VirtualBoardError(f"there is no TCP port {argument}: the last is {MOST_PORT}")
        return TcpLink(int(argument or 0))
    if kind == "loopback":
        return LoopbackLink()
    raise VirtualBoardError(f"there is no link {kind!r}; give pty, pty:PATH, tcp or tcp:PORT")

"""A TCP line to a board that is cut at a byte, and can be taken anew."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

POLL_SECONDS = 0.05


class Cutter:
    """Cuts a line once. passed: bytes of the last connection, to the board and to the host."""

    def __init__(self) -> None:
        self.passed = [0, 0]
        self.cuts = 0
        self.way: int | None = None

    def cut_at(self, way: int, byte: int, action: Callable[[], None] = lambda: None) -> None:
        """way: 0 to the board, 1 to the host. byte: of a connection. action: done with the cut."""
        self.way, self.byte, self.action, self.cuts = way, byte, action, 0

    def let_through(self, way: int, data: bytes) -> tuple[bytes, bool]:
        """What passes of data, and whether the line is cut behind it."""
        left = self.byte - self.passed[way] if way == self.way else len(data) + 1
        self.passed[way] += len(data)
        if left > len(data):
            return data, False
        self.way, self.cuts = None, self.cuts + 1
        return data[:left], True


@contextmanager
def cut_line(url: str) -> Iterator[tuple[str, Cutter]]:
    """Another way to a board, one connection after the other. Yields its URL."""
    host, _, port = url.removeprefix("socket://").partition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(POLL_SECONDS)
    stop, cutter = threading.Event(), Cutter()

    def talk(ours: socket.socket, theirs: socket.socket) -> bool:
        """Whether it ended by a cut."""
        cutter.passed = [0, 0]
        while not stop.is_set():
            for line in select.select([ours, theirs], [], [], POLL_SECONDS)[0]:
                data = line.recv(4096)
                if not data:
                    return False
                passed, is_cut = cutter.let_through(int(line is theirs), data)
                (theirs if line is ours else ours).sendall(passed)
                if is_cut:
                    return True
        return False

    def serve() -> None:
        while not stop.is_set():
            with suppress(OSError):
                ours, _ = listener.accept()
                with ours, socket.create_connection((host, int(port))) as theirs:
                    is_cut = talk(ours, theirs)
                    theirs.shutdown(socket.SHUT_WR)
                    while theirs.recv(4096):
                        pass  # until the board has noticed: it takes one connection at a time
                if is_cut:
                    cutter.action()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"socket://127.0.0.1:{listener.getsockname()[1]}", cutter
    finally:
        stop.set()
        thread.join()
        listener.close()

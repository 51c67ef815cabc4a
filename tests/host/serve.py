"""A fake device behind a real pseudo-terminal or TCP port, in a thread."""

from __future__ import annotations

import os
import pty
import select
import socket
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Receive = Callable[[bytes], bytes]
POLL_SECONDS = 0.05


@contextmanager
def on_pty(receive: Receive) -> Iterator[str]:
    """Answers on a pseudo-terminal. Yields its path."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    path = os.ttyname(theirs)
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            if select.select([ours], [], [], POLL_SECONDS)[0]:
                with suppress(OSError):
                    os.write(ours, receive(os.read(ours, 4096)))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield path
    finally:
        stop.set()
        thread.join()
        os.close(ours)
        os.close(theirs)


@contextmanager
def on_tcp(receive: Receive, connections: int = 1000) -> Iterator[str]:
    """Answers on a TCP port, one connection after the other. Yields pyserial's URL.

    connections: how many there are; after them the port is closed.
    """
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(POLL_SECONDS)

    def talk(line: socket.socket) -> None:
        line.settimeout(POLL_SECONDS)
        while not stop.is_set():
            try:
                data = line.recv(4096)
                if not data:
                    return
                line.sendall(receive(data))
            except TimeoutError:
                continue
            except OSError:
                return

    def serve() -> None:
        left = connections
        while left and not stop.is_set():
            with suppress(TimeoutError):
                line, _ = listener.accept()
                left -= 1
                with line:
                    talk(line)
        listener.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"socket://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        thread.join()
        listener.close()


@contextmanager
def behind(url: str, to_board: Receive, to_host: Receive) -> Iterator[str]:
    """Another way to a TCP port, on which bytes are changed. Yields its URL; one connection."""
    host, _, port = url.removeprefix("socket://").partition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve() -> None:
        with suppress(OSError):
            ours, _ = listener.accept()
            with ours, socket.create_connection((host, int(port))) as theirs:
                ways = {ours: (theirs, to_board), theirs: (ours, to_host)}
                while not stop.is_set():
                    for line in select.select(list(ways), [], [], POLL_SECONDS)[0]:
                        data = line.recv(4096)
                        if not data:
                            return
                        other, change = ways[line]
                        other.sendall(change(data))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"socket://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        listener.close()
        thread.join()

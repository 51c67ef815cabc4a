"""The way to a board: whatever pyserial opens, and its troubles as our errors."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol
from urllib.parse import urlsplit

import serial
from mcutrain_host.errors import HostError, PortError, UnpluggedError

BAUD = 115_200
WRITE_SECONDS = 5.0
"""After which bytes that nobody takes are given up; a request is then sent again."""
POLL_SECONDS = 0.05
"""Longest single read; to change it would set the port up anew each time."""
READ_BYTES = 4096
try:
    import termios

    SYSTEM_ERRORS: tuple[type[Exception], ...] = (OSError, termios.error)
except ImportError:  # not on Windows
    SYSTEM_ERRORS = (OSError,)
PORTS_ARE_FILES = os.name == "posix"
GONE = (serial.SerialException, *SYSTEM_ERRORS)
"""What pyserial and the system raise when a port is gone."""


class Link(Protocol):
    """Carries bytes, and may lose, change or double some."""

    @property
    def name(self) -> str:
        """For sentences."""

    def write(self, data: bytes) -> None:
        """Send all, or lose it. Raises UnpluggedError or PortError."""

    def read(self, seconds: float) -> bytes:
        """Return what has come, waiting for its first byte at most `seconds`.

        Raises UnpluggedError or PortError.
        """

    def clear(self) -> None:
        """Forget what has come."""

    def close(self) -> None:
        """Give the port free; a later `open` takes it again."""

    def open(self) -> None:
        """Take the port. Raises PortError."""


class SerialLink:
    """A path such as /dev/ttyACM0 or COM3, or a URL such as socket://127.0.0.1:5000."""

    def __init__(self, url: str, baud: int = BAUD) -> None:
        self.url, self.baud = url, baud
        self._port: serial.SerialBase | None = None
        self._heard = False
        self.open()

    @property
    def name(self) -> str:
        """The path or URL."""
        return self.url

    def open(self) -> None:
        """Take the port for this program alone. Raises PortError."""
        self.close()
        self._port, self._heard = open_port(self.url, self.baud), False

    def write(self, data: bytes) -> None:
        """Send all, or lose it if nobody takes it. Raises UnpluggedError or PortError."""
        try:
            with suppress(serial.SerialTimeoutException):  # as if lost on the way
                self._opened().write(data)
        except GONE as error:
            raise self._gone() from error

    def read(self, seconds: float) -> bytes:
        """Return what has come, waiting for its first byte at most `seconds`.

        Raises UnpluggedError; PortError if a connection was closed before anything came.
        """
        port = self._opened()
        until = time.monotonic() + seconds
        try:
            first = bytes(port.read(1))
            while not first and time.monotonic() < until:
                first = bytes(port.read(1))
            self._heard = self._heard or bool(first)
            waiting = min(port.in_waiting, READ_BYTES) if first else 0
            return first + bytes(port.read(waiting)) if waiting else first
        except GONE as error:
            raise self._gone() from error

    def clear(self) -> None:
        """Forget what has come. Raises UnpluggedError or PortError."""
        try:
            self._opened().reset_input_buffer()
        except GONE as error:
            raise self._gone() from error

    def close(self) -> None:
        """Give the port free."""
        port, self._port = self._port, None
        if port is None:
            return
        connection = getattr(port, "_socket", None)
        with suppress(*GONE):  # it may be gone already
            port.close()
        if connection is not None:  # which pyserial leaves open if the other end closed first
            connection.close()

    def __enter__(self) -> SerialLink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, t: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> serial.SerialBase:
        if self._port is None:
            raise UnpluggedError(self.url)
        return self._port

    def _gone(self) -> HostError:
        return UnpluggedError(self.url) if self._heard else turned_away(self.url)


def open_port(url: str, baud: int, parity: str = serial.PARITY_NONE) -> serial.SerialBase:
    """Open a pyserial port for this program alone, where the system can see to that.

    Raises PortError.
    """
    try:
        return serial.serial_for_url(
            url,
            baudrate=baud,
            parity=parity,
            timeout=POLL_SECONDS,
            write_timeout=WRITE_SECONDS,
            exclusive=None if "://" in url else True,
        )
    except (ValueError, TypeError, serial.SerialException, *SYSTEM_ERRORS) as error:
        raise PortError(url, _reason(url, error)) from error


def check_port(url: str) -> None:
    """Raise PortError for what cannot be a port here. It is not opened: that restarts some boards.

    So a command can fail before it reads samples, searches a learning rate or compiles.
    """
    if "://" in url:
        if url.startswith("socket://") and not _has_port(url):
            raise PortError(url, AS_SOCKET)
        try:
            serial.serial_for_url(url, do_not_open=True)
        except (ValueError, serial.SerialException, *SYSTEM_ERRORS) as error:
            raise PortError(url, _reason(url, error)) from error
    elif WITHOUT_SCHEME.fullmatch(url):
        raise PortError(url, f"give it as socket://{url}")
    elif PORTS_ARE_FILES:
        try:
            is_device = stat.S_ISCHR(Path(url).stat().st_mode)
        except (OSError, ValueError) as error:
            raise PortError(url, _reason(url, error)) from error
        if not is_device:
            raise PortError(url, REASONS[errno.ENOTTY])


def turned_away(url: str) -> HostError:
    """Return why a port is gone that nothing ever came from."""
    if not url.startswith("socket://"):
        return UnpluggedError(url)
    return PortError(
        url, f"{IN_USE} (it closed the connection at once, as a tunnel to nowhere does too)"
    )


def _reason(url: str, error: Exception) -> str:
    """Return why a port cannot be opened, in few words."""
    if url.startswith("socket://") and not _has_port(url):
        return AS_SOCKET
    if "exclusively lock" in str(error):
        return IN_USE
    cause = error.__context__ or error
    number = getattr(error, "errno", None) or getattr(cause, "errno", None) or _first(cause)
    if number in REASONS:
        return REASONS[number]
    for name, reason in REASONS_OF_WINDOWS.items():
        if name in str(error):
            return reason
    text = getattr(cause, "strerror", None) or str(error)
    return str(text).rpartition("ould not open port ")[2] or type(error).__name__


AS_SOCKET = "give it as socket://HOST:PORT"
WITHOUT_SCHEME = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d+")
IN_USE = "it is in use by another program; end that one, or wait for it"
REASONS = {
    errno.EACCES: "permission denied; on Linux, add yourself to the group dialout",
    errno.EAGAIN: IN_USE,
    errno.EBUSY: IN_USE,
    errno.ECONNREFUSED: "nothing listens there",
    errno.ENOENT: "there is no such port; `mcutrain ports` lists them",
    errno.EISDIR: "it is no serial port",
    errno.ENOTTY: "it is no serial port",
}


REASONS_OF_WINDOWS = {
    "PermissionError": IN_USE,  # the system lets one program have a port, and nobody else
    "FileNotFoundError": REASONS[errno.ENOENT],
}
"""There pyserial says the system's error as text alone."""


def _has_port(url: str) -> bool:
    try:
        return urlsplit(url).port is not None
    except ValueError:
        return False


def _first(error: BaseException) -> object:
    """termios.error has its number there."""
    return error.args[0] if error.args else None

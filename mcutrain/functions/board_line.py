"""The line to a project's board, found where it is not given."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mcutrain_host.client import Device
from mcutrain_host.errors import HostError
from mcutrain_host.finding import FoundPort, find_board
from mcutrain_host.flashing.local import EXAMPLE_PORT, Local
from mcutrain_host.link import check_port
from mcutrain_host.manifest import BoardProject
from mcutrain_host.ports import connect

from mcutrain.functions.board_options import LineOptions
from mcutrain.functions.listener import Listener

DEFAULT_BAUD = 115_200


def find_port(project: BoardProject, port: str | None, tell: Callable[[str], None]) -> str:
    """The given port, or that of the only board with the project's firmware.

    tell: hears which port was taken, and why. Raises HostError if it is none or several, PortError
    if the given one cannot be one.
    """
    if port is not None:
        check_port(port)
        return port
    if Local.name in project.board.flash.ways:
        program = shlex.quote(str(project.folder / "build" / "firmware"))
        raise HostError(
            f"the firmware is a program: start it with `{program} --port tcp:{EXAMPLE_PORT}`, and "
            f"give --port socket://127.0.0.1:{EXAMPLE_PORT} here"
        )
    board = project.board
    return _told(find_board(board.name, board.uart.usb, project.model_hash), tell)


def find_any_port(port: str | None, tell: Callable[[str], None]) -> str:
    """The given port, or that of the only board that answers. Raises HostError."""
    return _told(find_board(), tell) if port is None else port


def _told(found: FoundPort, tell: Callable[[str], None]) -> str:
    tell(found.why)
    return found.path


def find_baud(project: BoardProject, baud: int | None) -> int:
    """The given speed, or that of the board's firmware."""
    return baud or project.board.uart.baud or DEFAULT_BAUD


@contextmanager
def connected(project: BoardProject, line: LineOptions, listener: Listener) -> Iterator[Device]:
    """The project's board, which has said who it is. Raises HostError."""
    device = connect(find_port(project, line.port, listener.detail), find_baud(project, line.baud))
    try:
        yield device
    finally:
        device.close()


def may_be_virtual(project: BoardProject, port: str) -> bool:
    """Return whether it may be a `mcutrain board`, whose firmware is the same: it has no cable."""
    emulate = project.board.emulate
    has_twin = bool(emulate.unicorn or emulate.qemu)
    return has_twin and ("://" in port or Path(port).resolve().is_relative_to("/dev/pts"))

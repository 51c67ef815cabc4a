"""Flags of the commands that talk to a board, and finding it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mcutrain_host.manifest import BoardProject

DEFAULT_BAUD = 115_200

Project = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="What `mcutrain generate --board` wrote.", show_default=False
    ),
]
BoardPort = Annotated[
    str | None,
    typer.Option(
        "--port",
        metavar="PORT",
        help="Where the board is: /dev/ttyACM0, COM3, socket://127.0.0.1:5000 or another URL of "
        "pyserial; found by its USB adapter if only one fits.",
        show_default=False,
    ),
]
Port = Annotated[
    str,
    typer.Option(
        metavar="PORT",
        help="Where the board is: /dev/ttyACM0, COM3, socket://127.0.0.1:5000 or another URL of "
        "pyserial.",
        show_default=False,
    ),
]
BoardBaud = Annotated[
    int | None,
    typer.Option("--baud", min=1, help="In the place of the board's own.", show_default=False),
]
Baud = Annotated[
    int | None,
    typer.Option(min=1, help="The line's speed; tried out if not given.", show_default=False),
]


def find_port(project: BoardProject, port: str | None) -> str:
    """The given port, or the only one that fits the board. Raises HostError."""
    from mcutrain_host.errors import HostError
    from mcutrain_host.flashing.local import EXAMPLE_PORT, Local
    from mcutrain_host.ports import port_of_board

    if port is None and Local.name in project.board.flash.ways:
        program = project.folder / "build" / "firmware"
        raise HostError(
            f"the firmware is a program: start it with `{program} --port tcp:{EXAMPLE_PORT}`, and "
            f"give --port socket://127.0.0.1:{EXAMPLE_PORT} here"
        )
    return port or port_of_board(project.board.uart.usb)


def find_baud(project: BoardProject, baud: int | None) -> int:
    """The given speed, or that of the board's firmware."""
    return baud or project.board.uart.baud or DEFAULT_BAUD


@dataclass(frozen=True)
class LineFlags:
    """Flags of the line to a project's board."""

    port: BoardPort = None
    baud: BoardBaud = None

    def of(self, project: BoardProject) -> tuple[str, int]:
        """Port and speed, found where they are not given. Raises HostError."""
        return find_port(project, self.port), find_baud(project, self.baud)

"""Flags of the commands that talk to a board, and finding it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli.output import say
from mcutrain.functions import board_options

if TYPE_CHECKING:
    from mcutrain_host.manifest import BoardProject

Project = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="What `mcutrain generate --board` wrote.", show_default=False
    ),
]
BoardPort = board_options.Port
Baud = Annotated[
    int | None,
    typer.Option(min=1, help="The line's speed; tried out if not given.", show_default=False),
]


def find_port(project: BoardProject, port: str | None) -> str:
    """The given port, or that of the only board with the project's firmware. Raises HostError."""
    from mcutrain.functions import board_line

    return board_line.find_port(project, port, _tell)


def find_any_port(port: str | None) -> str:
    """The given port, or that of the only board that answers. Raises HostError."""
    from mcutrain.functions import board_line

    return board_line.find_any_port(port, _tell)


def _tell(note: str) -> None:
    say(f"mcutrain: note: {note}")


def find_baud(project: BoardProject, baud: int | None) -> int:
    """The given speed, or that of the board's firmware."""
    from mcutrain.functions import board_line

    return board_line.find_baud(project, baud)


@dataclass(frozen=True, kw_only=True)
class LineFlags(board_options.LineOptions):
    """The line to a project's board, for the commands."""

    def of(self, project: BoardProject) -> tuple[str, int]:
        """Port and speed, found where they are not given. Raises HostError."""
        return find_port(project, self.port), find_baud(project, self.baud)

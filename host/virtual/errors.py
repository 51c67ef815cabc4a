"""What goes wrong on a virtual board.

HostError
├── VirtualBoardError  the board cannot be set up: a chip that is not modelled, a bad file
└── BoardFault         the firmware did what would not work on the chip
"""

from __future__ import annotations

from mcutrain_host.errors import HostError
from mcutrain_host.packages import OPTIONAL


class VirtualBoardError(HostError):
    """The virtual board cannot be set up."""


def check_installed() -> None:
    """Raise VirtualBoardError if the CPU emulator is missing, before anything is built for it."""
    if not OPTIONAL["unicorn"].is_installed:
        raise VirtualBoardError(OPTIONAL["unicorn"].missing)


class BoardFault(HostError):  # noqa: N818  # the firmware's, not the caller's
    """The firmware did something that would not work on the chip; the run ends here.

    pc: where, if it is known.
    """

    def __init__(self, what: str, where: str = "", pc: int | None = None) -> None:
        super().__init__(f"{what}, at {where}" if where else what)
        self.what, self.where, self.pc = what, where, pc

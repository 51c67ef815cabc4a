"""mcutrain board: a virtual board on a port of this computer, until Ctrl-C."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from types import FrameType

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import say, show
from mcutrain.functions.board_options import EmulationOptions

POLL_SECONDS = 0.2


def board(folder: shared_flags.Project, *, how: EmulationOptions) -> None:
    """Run a built firmware on a virtual board: the same ELF file, the same bits.

    It prints the port that other commands take with --port, and runs until Ctrl-C.

    Example: `mcutrain board project --link tcp:5000`
    """
    from mcutrain.functions.firmware import virtual_board

    signal.signal(signal.SIGTERM, _exit)  # so that the board ends in order with this process
    with virtual_board(folder, how=how, listener=OnScreen()) as running:
        show(f"port {running.port}")
        port = shlex.quote(running.port)
        say(f"Ctrl-C ends it. In another terminal: mcutrain monitor --port {port}")
        while running.is_running:
            time.sleep(POLL_SECONDS)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)

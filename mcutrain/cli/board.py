"""mcutrain board: a virtual board on a port of this computer, until Ctrl-C."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from mcutrain.cli import boards
from mcutrain.cli.output import say, show

POLL_SECONDS = 0.2
EMULATORS = ("unicorn", "qemu")


def board(
    folder: boards.Project,
    link: Annotated[
        str,
        typer.Option(help="pty (a new pseudo-terminal), pty:PATH (a link to it), tcp or tcp:PORT."),
    ] = "pty",
    flash: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keeps the content of the flash from one run to the next.",
            show_default=False,
        ),
    ] = None,
    empty: Annotated[
        bool,
        typer.Option(
            "--empty",
            help="With nothing in the flash and the boot button held, for `mcutrain flash`.",
        ),
    ] = False,
    noise: Annotated[
        float,
        typer.Option(
            min=0,
            max=0.1,
            metavar="SHARE",
            help="Share of bytes that the line loses, changes or doubles, each way.",
        ),
    ] = 0.0,
    emulator: Annotated[
        str, typer.Option(help="unicorn, or qemu for the boards that it knows.")
    ] = "unicorn",
) -> None:
    """Run a built firmware on a virtual board: the same ELF file, the same bits.

    It prints the port that other commands take with --port, and runs until Ctrl-C.

    Example: `mcutrain board project --link tcp:5000`
    """
    from mcutrain_host.virtual.errors import check_installed
    from mcutrain_host.virtual.link import LinkFaults
    from mcutrain_host.virtual.qemu import QemuBoard

    def ready(port: str) -> None:
        show(f"port {port}")
        say(f"Ctrl-C ends it. In another terminal: mcutrain monitor --port {shlex.quote(port)}")

    if emulator not in EMULATORS:
        raise typer.BadParameter(
            f"{emulator!r} is none of {', '.join(EMULATORS)}", param_hint="--emulator"
        )
    if emulator == "qemu":
        if flash is not None or empty or noise or link != "pty":
            raise typer.BadParameter(
                "--link, --flash, --empty and --noise are for Unicorn: QEMU has a TCP port and no "
                "flash controller",
                param_hint="--emulator",
            )
        signal.signal(signal.SIGTERM, _exit)  # so that QEMU ends with this process
        with QemuBoard.from_folder(folder) as qemu:
            ready(qemu.port)
            while qemu.running:
                time.sleep(POLL_SECONDS)
        return
    check_installed()
    from mcutrain_host.virtual.board import serve

    fault = LinkFaults(drop=noise / 3, corrupt=noise / 3, double=noise / 3)
    faults = (fault, fault) if noise else None
    serve(folder, link, flash_file=flash, loaded=not empty, ready=ready, faults=faults)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)

"""mcutrain flash: built firmware onto its board."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli import boards, options
from mcutrain.cli.output import count_bar, show, show_json

if TYPE_CHECKING:
    from mcutrain_host.manifest import BoardProject
    from mcutrain_host.protocol import Identity

START_SECONDS = 3.0
"""Seconds in which new firmware must answer."""


def flash(
    folder: boards.Project,
    port: Annotated[
        str | None,
        typer.Option(
            metavar="PORT",
            help="The serial port of the chip's bootloader, or of a board over USB that restarts "
            "into it (that may be left out where one board fits); and where the firmware is asked "
            "who it is afterwards.",
            show_default=False,
        ),
    ] = None,
    way: Annotated[
        str | None,
        typer.Option(
            help="stm32, pyocd, uf2, scp or local; the first of the board's that has what it needs "
            "if not given.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="uf2: the folder of the board's drive; scp: USER@HOST; local: a folder or file.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Write built firmware to its board. What was trained and saved there stays, unless the project
    was generated with --slots off.

    Example: `mcutrain flash project --port /dev/ttyUSB0`
    """
    from mcutrain_host.flashing import Job, choose
    from mcutrain_host.manifest import BoardProject

    project = BoardProject.read(folder)
    project.built_elf()
    with count_bar(json) as bar:
        task = bar.add_task("")

        def progress(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of)

        port = port or _that_restarts(project)
        job = Job(project, port, to, progress)
        chosen = choose(job, way)
        done = chosen.run(job)
        identity = _ask(project, port) if port is not None and chosen.talks else None
    if json:
        show_json(
            {
                "way": chosen.name,
                "done": done,
                "answered": identity is not None,
                "position": identity.position if identity else None,
            }
        )
        return
    show(f"{chosen.name}: {done}.")
    if identity is not None:
        show(
            f"{identity.board} answers: {identity.model}, scheme {identity.scheme}, "
            f"{identity.position:,} samples learnt."
        )
    elif port is not None and chosen.talks:
        where = project.board.uart.pins or "another port"
        show(f"The firmware does not answer at {port}; it talks on {where}.")


def _that_restarts(project: BoardProject) -> str | None:
    """The port of the one board of this kind that runs, and restarts into its bootloader by it."""
    from mcutrain_host.finding import ports_that_fit

    fitting = ports_that_fit(project.board.uart.usb) if project.board.flash.touch_baud else []
    return fitting[0].path if len(fitting) == 1 else None


def _ask(project: BoardProject, port: str) -> Identity | None:
    """Who the new firmware is; None if it does not talk at this port. Raises ModelMismatchError."""
    from mcutrain_host.errors import LinkError, ModelMismatchError, PortError
    from mcutrain_host.ports import PROBE, connect

    until = time.monotonic() + START_SECONDS
    baud = boards.find_baud(project, None)
    while True:
        try:
            device = connect(port, baud, PROBE)
        except (LinkError, PortError):
            if time.monotonic() > until:
                return None
            continue
        device.close()
        if device.identity.model_hash != project.model_hash:
            raise ModelMismatchError(
                f"the firmware that answers at {port}",
                device.identity.model_hash,
                project.model_hash,
                "is another board connected there?",
            )
        return device.identity

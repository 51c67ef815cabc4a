"""mcutrain teach: a board that listens is told what it has just heard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show, show_json
from mcutrain.functions.board_options import ClassOptions, LessonOptions, LineOptions


def teach(
    folder: shared_flags.Project,
    name: Annotated[
        str,
        typer.Option(
            "--class",
            metavar="NAME",
            help="Class of what the board has heard or seen.",
            show_default=False,
        ),
    ] = "",
    *,
    undo: Annotated[
        bool, typer.Option("--undo", help="Go back to before the last lesson.")
    ] = False,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Go back to what was flashed; with --class, of that class."),
    ] = False,
    button: Annotated[
        bool,
        typer.Option(
            "--button", help="Wait for what the board's button teaches or takes back (--record)."
        ),
    ] = False,
    which: ClassOptions,
    how: LessonOptions,
    line: LineOptions,
    hear: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Play this file of sound, rows or an image, or a folder of images, to the board "
            "over the line, before or meanwhile.",
            show_default=False,
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Bring windows, lessons and raw samples there, which `simulate` reads.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare the board's state with the desk's replay of DIR."),
    ] = False,
    json: shared_flags.Json = False,
) -> None:
    """Teach a board what it has just heard or seen, or take that back.

    The loudest window of its history, or the last image, becomes a sample of the class. With
    --samples N the class is new, and the next N windows that stand out are its samples. The project
    must be generated with --board B --listen --history N --app learn.

    Example: `mcutrain teach project --class hello --port /dev/ttyACM0 --record lessons`
    """
    from mcutrain.functions.teaching import teach as taught

    result = taught(
        folder,
        name,
        undo=undo,
        forget=forget,
        button=button,
        which=which,
        how=how,
        line=line,
        hear=hear,
        record=record,
        check=check,
        listener=OnScreen(json),
    )
    if json:
        show_json(result.to_dict())
    else:
        show(f"{result.summary()}.")
        if result.agrees is not None:
            same = "the board's state" if result.agrees else "ANOTHER state than the board"
            show(f"The desk's replay of the lessons has {same}.")
    if result.agrees is False:
        raise typer.Exit(1)

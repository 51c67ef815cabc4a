"""mcutrain pull: what a board has learnt, in a file."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import Annotated

import typer

from mcutrain.cli import boards, options
from mcutrain.cli.output import count_bar, show, show_json
from mcutrain.functions.board_options import STATE
from mcutrain.functions.files import check_writable


def pull(
    folder: boards.Project,
    *,
    line: boards.LineFlags,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help=f"DIR/{STATE} if not given.", show_default=False
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Bring what a board has learnt to this computer. The board only answers.

    `mcutrain train` does so by itself at its end; this is for a board that was away, and learnt
    from its own sensor. A file that has learnt more is not replaced.

    Example: `mcutrain pull project --port /dev/ttyACM0`
    """
    from mcutrain_host import pull as board
    from mcutrain_host.manifest import BoardProject
    from mcutrain_host.ports import connect

    project = BoardProject.read(folder)
    file = output or folder / STATE
    check_writable(file)
    device = connect(*line.of(project))
    try:
        with count_bar(json) as bar:
            task = bar.add_task("reading the state")
            state = board.pull(
                device,
                project.firmware,
                file,
                lambda done, of: bar.update(task, completed=done, total=of),
                project.manifest.recipe_text(_learnt_names(folder / STATE)),
            )
    finally:
        device.close()
    position = state.position(device.identity.samples_per_update)
    if json:
        digest = hashlib.sha256(state.raw).hexdigest()
        facts = {"state": str(file), "position": position, "state_sha256": digest}
        show_json({**facts, "has_slots": device.identity.has_slots})
        return
    show(f"{file}: {len(state.raw):,} bytes, learnt from {position:,} samples.")
    if not device.identity.has_slots:
        show("The board has no slots to save into: without power it forgets what it has learnt.")
    if output is None:
        show("To make a model file of it:")
        show(f"    mcutrain export MODEL --state {shlex.quote(str(folder))} -o trained.tflite")


def _learnt_names(state: Path) -> tuple[str, ...]:
    """Names of the classes, if the run that left this state knew them; else none."""
    from mcutrain.errors import McutrainError
    from mcutrain.trained.state import read_state

    try:
        recipe = read_state(state).recipe
    except McutrainError:
        return ()
    return () if recipe is None else recipe.options.class_names

"""mcutrain pull: what a board has learnt, in a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show, show_json
from mcutrain.functions.board_options import STATE, LineOptions


def pull(
    folder: shared_flags.Project,
    *,
    line: LineOptions,
    output: Annotated[
        Path | None,
        shared_flags.written("FILE", f"DIR/{STATE} if not given."),
    ] = None,
    json: shared_flags.Json = False,
) -> None:
    """Bring what a board has learnt to this computer. The board only answers.

    `mcutrain train` does so by itself at its end; this is for a board that was away, and learnt
    from its own sensor. A file that has learnt more is not replaced.

    Example: `mcutrain pull project --port /dev/ttyACM0`
    """
    from mcutrain.functions.pulling import pull as pulled

    found = pulled(folder, output, line=line, listener=OnScreen(json))
    if json:
        show_json(found.to_dict())
        return
    show(f"{found.summary()}.")
    if not found.has_slots:
        show("The board has no slots to save into: without power it forgets what it has learnt.")
    if output is None:
        show("To make a model file of it:")
        show(f"    mcutrain export MODEL --state {shlex.quote(str(folder))} -o trained.tflite")

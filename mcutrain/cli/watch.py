"""mcutrain watch: learn images as they arrive in a folder, on a Raspberry Pi or this computer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show_json, show_prose
from mcutrain.functions.run_options import WatchOptions


def watch(
    model: shared_flags.Model,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A folder of images for each class; more arrive while it runs."
        ),
    ],
    *,
    output: Annotated[
        Path,
        shared_flags.option(
            "The folder for the state, the trained model, and the list of what was learnt; the "
            "same command goes on there.",
            "--output",
            "-o",
            metavar="DIR",
        ),
    ],
    scheme: Annotated[
        str, shared_flags.option("What to train.", "--scheme", metavar="SCHEME")
    ] = "head",
    learning: WatchOptions,
    once: Annotated[bool, typer.Option("--once", help="Learn what is there, and end.")] = False,
    seed: shared_flags.Seed = 0,
    json: shared_flags.Json = False,
) -> None:
    """Learn images as they arrive in the folders of their classes, until Ctrl-C.

    One step for each image, then steps on images learnt before. The state is saved as it goes on,
    the trained model at the end; nothing is learnt twice, also after a power cut.

    Example: `mcutrain watch model.int8.tflite inbox/ -o learnt --scheme last:2`
    """
    from mcutrain.functions.folder_watching import watch as watched

    found = watched(
        model,
        folder,
        output,
        scheme,
        learning=learning,
        once=once,
        seed=seed,
        listener=OnScreen(json),
    )
    if json:
        show_json(found.to_dict())
    else:
        show_prose(found.summary())

"""mcutrain fit: a model and data in, a folder with a trained model and a project out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcutrain.cli import INTERRUPTED, shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import say, show, show_json
from mcutrain.functions.board_options import OptionalLine
from mcutrain.functions.options import MemoryOptions, Seed
from mcutrain.functions.run_options import DataOptions, FitOptions

Model = Annotated[
    Path,
    shared_flags.argument("MODEL", "A float or int8 .tflite or .onnx file."),
]
GOES_ON = "mcutrain: interrupted; the same command goes on"


def fit(
    model: Model,
    data: Annotated[
        Path,
        shared_flags.argument(
            "DATA",
            "Labelled data: a folder with a folder of images, sounds or tables for each class, a "
            "CSV or Parquet file, or an .npz file, as --data of `mcutrain simulate` takes it.",
        ),
    ],
    output: Annotated[
        Path | None,
        shared_flags.written(
            "DIR", "The folder to write; MODEL-fit by default. An earlier fit in it goes on."
        ),
    ] = None,
    scheme: shared_flags.AutoScheme = None,
    classes: shared_flags.AutoClasses = shared_flags.AUTO,
    *,
    training: FitOptions,
    hardware: MemoryOptions,
    reading: DataOptions,
    line: OptionalLine,
    seed: Seed = 0,
    json: shared_flags.Json = False,
) -> None:
    """Do all of it: quantize, choose, train, export and generate, in about five minutes.

    Every choice is a line that names the flag to change it. The folder's README.md has the commands
    that do each part by hand. After Ctrl-C the same command goes on. With --port it ends on the
    board, which trains to the same state.

    Example: `mcutrain fit model.onnx images/ --board nucleo-f446re`
    """
    from mcutrain.functions.fitting import fit as fitted

    try:
        result = fitted(
            model,
            data,
            output,
            scheme,
            classes=shared_flags.as_classes(classes),
            training=training,
            hardware=hardware,
            reading=reading,
            line=line,
            seed=seed,
            listener=OnScreen(json),
        )
    except KeyboardInterrupt:
        say(GOES_ON)
        raise typer.Exit(INTERRUPTED) from None
    if json:
        show_json(result.to_dict())
    if result.board is not None and result.board.is_interrupted:
        say(GOES_ON)
        raise typer.Exit(INTERRUPTED)
    if json:
        return
    say(
        f"done in {result.seconds / 60:.1f} minutes; {result.folder / 'README.md'} says what is "
        "where"
    )
    show(str(result.trained))

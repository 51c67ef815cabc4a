"""mcutrain latents: samples as what the front of a network makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import show, show_json
from mcutrain.functions.run_options import DataOptions


def latents(
    project: Annotated[
        Path,
        shared_flags.argument("PROJECT", "A folder that `mcutrain generate --part tail` wrote."),
    ],
    model: shared_flags.Model,
    data: shared_flags.Data,
    output: Annotated[
        Path,
        shared_flags.written("FILE", "The .npz file to write, a data set for `mcutrain train`."),
    ],
    *,
    seed: shared_flags.Seed = 0,
    reading: DataOptions,
    json: shared_flags.Json = False,
) -> None:
    """Write the latents of a data set, which a project of --part tail takes as samples.

    MODEL is the file that the project was generated from; its front runs on this computer, with the
    bits that it has on a chip.

    Example: `mcutrain latents project model.tflite --data images/ -o latents.npz`
    """
    from mcutrain.functions.latent_data import latents as computed

    if output.suffix != ".npz":
        raise typer.BadParameter(f"{output} must end with .npz", param_hint="--output")
    found = computed(
        project, model, data, output, reading=reading, seed=seed, listener=OnScreen(json)
    )
    if json:
        show_json(found.to_dict())
    else:
        show(f"{output}: {found.summary()}")

"""mcutrain export: what was trained, as a model file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli import shared_flags
from mcutrain.cli.flags import given_by_hand
from mcutrain.cli.output import show, show_json
from mcutrain.functions.files import check_writable
from mcutrain.functions.options import StepRequest

if TYPE_CHECKING:
    from mcutrain.trained import Export


def export(
    context: typer.Context,
    model: shared_flags.Model,
    output: shared_flags.ModelOutput,
    state: Annotated[
        Path | None,
        shared_flags.option(
            "The trained state: a checkpoint of `mcutrain simulate`, a state (.mcts), or a "
            "project of `mcutrain train`. Without it the model is written as it is.",
            metavar="FILE|DIR",
        ),
    ] = None,
    scheme: Annotated[
        str | None,
        shared_flags.option(
            "The scheme of the training. Needed, as the training's other flags are, only for a "
            "state that does not say how it was trained."
        ),
    ] = None,
    classes: shared_flags.Classes = shared_flags.KEEP,
    merge: Annotated[
        bool,
        typer.Option(
            "--merge",
            help="Fold low-rank updates and gains into the weights beside them: fewer operators, "
            "and slightly different outputs.",
        ),
    ] = False,
    *,
    request: StepRequest,
    json: shared_flags.Json = False,
) -> None:
    """Write the trained model: the original with its trained weights and biases.

    A state says how it was trained, so it needs none of the training's flags. States of earlier
    versions and of your own firmware do not say it: give --scheme and the others again. Names,
    metadata, signatures and quantization stay; a new head takes the old one's place. The file is
    read back, and computes the same bits as the device; in TFLite that needs its reference kernels,
    see docs/export.md.

    Example: `mcutrain export model.tflite --state project -o trained.tflite`
    """
    from mcutrain.functions.models import export_file
    from mcutrain.functions.preparing import Asked

    check_writable(output)
    result = export_file(
        model,
        output,
        state,
        Asked.of(request, scheme or "head"),
        shared_flags.new_classes(classes),
        given_by_hand(context),
        is_merged=merge,
    )
    if json:
        show_json({"model": str(model), **result.to_dict()})
    else:
        _print(model, result)


def _print(model: Path, result: Export) -> None:
    count = len(result.changed)
    changed = f"{count} tensors are new" if count else "nothing was trained"
    how = f"written anew: {result.reason}" if result.reason else f"all else is as in {model}"
    show(f"{result.path}: {result.size_bytes:,} bytes; {changed}, {how}.")
    if result.merged:
        show(f"{result.merged}.")
    if result.frontend:
        show(
            "Note: it was trained on raw samples, and the file cannot say so: give "
            f"--frontend {result.frontend} to the commands that take it."
        )
    if result.other_bits:
        show(f"Note: {result.other_bits}.")
    else:
        show("It was read back, and computes the same bits.")
    if count:
        show("What changed, and by how much:")
        show(f"    mcutrain diff {shlex.quote(str(model))} {shlex.quote(str(result.path))}")

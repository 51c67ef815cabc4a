"""mcutrain export: what was trained, as a model file."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import options
from mcutrain.cli.flags import given_by_hand
from mcutrain.cli.output import check_writable, show, show_json

if TYPE_CHECKING:
    from mcutrain.ir.graph import Graph
    from mcutrain.trained import Export
    from mcutrain.trained.state import SavedRun


def export(
    context: typer.Context,
    model: options.Model,
    output: options.ModelOutput,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR",
            help="What was trained: a checkpoint of `mcutrain simulate`, a trained state (.mcts), "
            "or a project of `mcutrain train`. Without it the model is written as it is.",
            show_default=False,
        ),
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option(
            help="As in the training, as all other flags of it; only for a state that does not say "
            "how it was trained.",
            show_default=False,
        ),
    ] = None,
    classes: options.Classes = options.KEEP,
    merge: Annotated[
        bool,
        typer.Option(
            "--merge",
            help="Fold low-rank updates and gains into the weights that they stand at: fewer "
            "operators, and outputs that are a little different.",
        ),
    ] = False,
    pet: options.Pet = None,
    *,
    step_flags: options.StepFlags,
    no_qas: options.NoQas = False,
    adaptive: options.AdaptiveFlags,
    part: options.Part = "whole",
    latent: options.Begin = options.AUTO,
    ladder: options.LadderFlags,
    json: options.Json = False,
) -> None:
    """Write the trained model: the original with its trained weights and biases.

    A state says how it was trained, so none of the training's flags is needed; states of earlier
    versions and of firmware of your own do not, and --scheme and the others are given again.
    Names, metadata, signatures and quantization stay; a new head takes the old one's place. The
    file is read back, and computes the same bits as the device; in TFLite that needs its reference
    kernels, see docs/export.md.

    Example: `mcutrain export model.tflite --state project -o trained.tflite`
    """
    from mcutrain.formats import format_of
    from mcutrain.functions.models import check_export, merged_model
    from mcutrain.pipeline import load
    from mcutrain.trained import export as write
    from mcutrain.trained.state import read_state

    format_of(output)
    check_writable(output)
    check_export(model, output)
    own = load(model)
    original = trained = own
    if state is not None:
        flags = ladder.of(adaptive.of(step_flags.asked(scheme or "head", no_qas)))
        flags = replace(flags, pet=pet).having(part=part, latent=latent)
        original, trained = _trained(
            read_state(state), flags, options.new_classes(classes), own, given_by_hand(context)
        )
    text = ""
    if merge:
        trained, text = merged_model(trained)
    is_put = len(original.nodes) != len(own.nodes)
    result = write(model, original, trained, output, merged=text, has_modules_put=is_put)
    if json:
        show_json(_facts(model, trained, result))
    else:
        _print(model, trained, result)


def _trained(
    run: SavedRun, flags: options.StepRequest, classes: int | None, own: Graph, by_hand: list[str]
) -> tuple[Graph, Graph]:
    """The graph that was trained, and what became of it: as the state says, else as the flags do.

    own: of the model's file. by_hand: the flags that are given. Raises StateError where they
    contradict the state.
    """
    from mcutrain.errors import StateError
    from mcutrain.pipeline.recipe import contradiction
    from mcutrain.trained import trained_by, trained_in

    if run.recipe is not None:
        given = replace(flags, pet=run.recipe.pet or flags.pet) if "--pet" not in by_hand else flags
        found = contradiction(run.recipe, given.recipe(classes), by_hand)
        if found:
            raise StateError(
                f"{run.where} was trained with {found}: leave the flags of the training out, the "
                "state says them itself"
            )
        return trained_by(run, run.recipe, own)
    if not {"--scheme", "--pet"} & set(by_hand):
        raise StateError(
            f"{run.where} does not say how it was trained; give --scheme and the other flags of "
            "the training, or --state with the checkpoint or the project"
        )
    return own, trained_in(run, flags.prepare(own, classes), own)


def _facts(model: Path, trained: Graph, result: Export) -> dict[str, Any]:
    return {
        "model": str(model),
        "file": str(result.path),
        "bytes": result.size_bytes,
        "outputs": [list(trained.tensors[n].type.shape) for n in trained.outputs],
        "changed": list(result.changed),
        "kept_the_file": result.is_original,
        "written_anew_because": result.reason or None,
        "other_bits_because": result.other_bits or None,
        "merged": result.merged or None,
    }


def _print(model: Path, trained: Graph, result: Export) -> None:
    count = len(result.changed)
    changed = f"{count} tensors are new" if count else "nothing was trained"
    how = f"written anew: {result.reason}" if result.reason else f"all else is as in {model}"
    show(f"{result.path}: {result.size_bytes:,} bytes; {changed}, {how}.")
    if result.merged:
        show(f"{result.merged}.")
    if result.other_bits:
        show(f"Note: {result.other_bits}.")
    else:
        show("It was read back, and computes the same bits.")
    if count:
        show("What changed, and by how much:")
        show(f"    mcutrain diff {shlex.quote(str(model))} {shlex.quote(str(result.path))}")

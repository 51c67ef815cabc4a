"""mcutrain export: what was trained, as a model file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import options
from mcutrain.cli.output import check_writable, show, show_json

if TYPE_CHECKING:
    from mcutrain.ir.graph import Graph
    from mcutrain.pipeline.recipe import Recipe
    from mcutrain.trained import Export
    from mcutrain.trained.state import SavedRun


def export(
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
            help="As in the training; only for a state that does not say how it was trained.",
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
    *,
    step_flags: options.StepFlags,
    no_qas: options.NoQas = False,
    json: options.Json = False,
) -> None:
    """Write the trained model: the original with its trained weights and biases.

    Names, metadata, signatures and quantization stay; a new head takes the old one's place. The
    file is read back, and computes the same bits as the device; in TFLite that needs its reference
    kernels, see docs/export.md.

    Example: `mcutrain export model.tflite --state project -o trained.tflite`
    """
    from mcutrain.formats import format_of
    from mcutrain.functions.models import check_export, merged_model
    from mcutrain.pipeline import load
    from mcutrain.trained import export as write
    from mcutrain.trained import step_of, trained_graph
    from mcutrain.trained.state import read_state

    format_of(output)
    check_writable(output)
    check_export(model, output)
    original = load(model)
    trained = original
    if state is not None:
        flags = step_flags.options(scheme or "", no_qas)
        found = read_state(state)
        recipe = _recipe(found, flags, options.new_classes(classes))
        trained = trained_graph(step_of(original, recipe), found.saved, original, str(found.where))
    text = ""
    if merge:
        trained, text = merged_model(trained)
    result = write(model, original, trained, output, merged=text)
    if json:
        show_json(_facts(model, trained, result))
    else:
        _print(model, trained, result)


def _recipe(run: SavedRun, flags: options.StepOptions, classes: int | None) -> Recipe:
    """How it was trained: what the state says, else what the flags say."""
    from mcutrain.errors import StateError

    if run.recipe is not None and not flags.scheme:
        return run.recipe
    if not flags.scheme:
        raise StateError(
            f"{run.where} does not say how it was trained; give --scheme and the other flags of "
            "the training, or --state with the checkpoint or the project"
        )
    return flags.recipe(classes)


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

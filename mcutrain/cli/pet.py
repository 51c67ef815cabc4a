"""What --pet does before a step is prepared: modules beside a model's layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli.output import count_bar, say

if TYPE_CHECKING:
    from mcutrain.cli.samples import DataSource
    from mcutrain.data import Split
    from mcutrain.functions.modules import Progress
    from mcutrain.ir.graph import Graph
    from mcutrain.modules import Pet
    from mcutrain.pipeline.recipe import PutModules

SaveModel = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the model with the modules of --pet there, for `mcutrain export`.",
        show_default=False,
    ),
]


def wanted_modules(model: Path, pet: str | None, save_model: Path | None) -> Pet | None:
    """Parse --pet. Fails with a sentence where --save-model does not fit it."""
    from mcutrain.formats import format_of
    from mcutrain.functions.modules import check_augmented
    from mcutrain.modules import parse_pet

    wanted = None if pet is None else parse_pet(pet)
    if save_model is not None:
        if wanted is None:
            raise typer.BadParameter(
                "is of a model with the modules of --pet: give that, too", param_hint="--save-model"
            )
        if not wanted.specs:
            raise typer.BadParameter(
                f"is of a model with modules, and --pet {pet} puts none in: leave it out",
                param_hint="--save-model",
            )
        format_of(save_model)
        check_augmented(model, save_model)
    return wanted


def with_modules(
    graph: Graph, wanted: Pet, split: Split, source: DataSource, save_model: Path | None
) -> tuple[Graph, PutModules | None]:
    """The graph with modules from training samples, and what they are made of, if there are any.

    The graph is as the file has it, if it is written.
    """
    from mcutrain.functions.modules import with_pet, write_augmented
    from mcutrain.pipeline import load
    from mcutrain.pipeline.recipe import PutModules

    if not wanted.specs:
        return graph, None
    with calibrating() as tell:
        made = with_pet(graph, wanted, split, source.normalization, source.seed, tell)
    if save_model is not None:
        note = write_augmented(made, save_model)
        if note:
            say(f"mcutrain: note: {note}")
        made = load(save_model)
    return made, PutModules.into(graph, wanted.text, made)


@contextmanager
def calibrating(is_quiet: bool = False) -> Iterator[Progress]:
    """A bar of the samples that modules are made of; what tells it how far they are."""
    with count_bar(is_quiet) as bar:
        task = bar.add_task("")
        yield lambda what, done, of: bar.update(task, description=what, completed=done, total=of)

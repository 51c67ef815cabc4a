"""What --pet does before a step is prepared: modules beside a model's layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli.output import count_bar

if TYPE_CHECKING:
    from mcutrain.functions.modules import Progress

SaveModel = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the model with the modules of --pet there, for `mcutrain export`.",
        show_default=False,
    ),
]


@contextmanager
def calibrating(is_quiet: bool = False) -> Iterator[Progress]:
    """A bar of the samples that modules are made of; what tells it how far they are."""
    with count_bar(is_quiet) as bar:
        task = bar.add_task("")
        yield lambda what, done, of: bar.update(task, description=what, completed=done, total=of)

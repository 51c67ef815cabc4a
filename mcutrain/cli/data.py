"""mcutrain data: what a data set holds, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcutrain.cli import shared_flags
from mcutrain.cli.listening import OnScreen
from mcutrain.cli.output import say, show_json, show_prose, show_table
from mcutrain.functions.run_options import DataOptions

if TYPE_CHECKING:
    from mcutrain.functions.data_describing import DataInfo

MOST_PAIRS = 8
"""Pairs of equal samples, and unreadable files, that are printed; --json has all."""


def data(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="A data set, as `simulate --data` takes it.", show_default=False
        ),
    ],
    *,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Read samples as this model takes them, and say which output stands for which "
            "class.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write a contact sheet there: some samples of each class, as pictures.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    reading: DataOptions,
    seed: shared_flags.Seed = 0,
    json: shared_flags.Json = False,
) -> None:
    """Look at a data set: samples by class and part, ranges, equal samples, unreadable files.

    Exit code 2 if something would stop training.

    Example: `mcutrain data images/ --model model.tflite --html sheet.html`
    """
    from mcutrain.errors import DataError
    from mcutrain.functions.data_describing import describe_data
    from mcutrain.functions.files import check_writable

    if html is not None:
        check_writable(html)
    result = describe_data(str(data), model, reading=reading, seed=seed, listener=OnScreen(json))
    if json:
        show_json(result.to_dict())
    else:
        _print(result)
    if result.refusal:
        raise DataError(result.refusal)
    if html is not None:
        result.write_html(html)
        say(f"mcutrain: wrote {html}")


def _print(described: DataInfo) -> None:
    if described.classes:
        columns: dict[str, list[str | int | None]] = {
            "class": [c.name for c in described.classes],
            "output": [c.output for c in described.classes],
            "training": [c.train for c in described.classes],
            "test": [c.test for c in described.classes],
            "validation": [c.validation or None for c in described.classes],
        }
        told = {name: cells for name, cells in columns.items() if set(cells) != {None}}
        show_table(tuple(told), list(zip(*told.values(), strict=True)), names=(0,))
    if described.targets:
        ranges = [
            (t.name, *(f"{n:.6g}" for n in (t.low, t.mean, t.high))) for t in described.targets
        ]
        show_table(("target", "lowest", "mean", "highest"), ranges, names=(0,))
    if not described.refusal:
        show_prose(f"total   {described.summary()}")
        show_prose(f"values  {described.low:.6g} to {described.high:.6g}")
    for file in described.unreadable[:MOST_PAIRS]:
        show_prose(f"unread  {file.file}: {file.why}")
    _more(len(described.unreadable), "unread")
    if described.twins:
        across = sum(not pair.are_of_one_part for pair in described.twins)
        show_prose(
            f"twins   {len(described.twins):,} equal to an earlier sample; {across:,} of them "
            "equal one of another part, which makes the test too easy"
        )
    for pair in described.twins[:MOST_PAIRS]:
        show_prose(f"        {pair.other} = {pair.one}")
    _more(len(described.twins), "")
    for note in described.notes:
        show_prose(f"note    {note}")


def _more(count: int, title: str) -> None:
    if count > MOST_PAIRS:
        show_prose(f"{title:7} and {count - MOST_PAIRS:,} more; --json lists all")

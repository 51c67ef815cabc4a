"""mcutrain operators: which operators are read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from mcutrain.cli.output import show, show_json, show_table
from mcutrain.cli.shared_flags import Json


def operators(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="As docs/operators.md has them.")
    ] = False,
    json: Json = False,
) -> None:
    """List the operators that are read: of int8 models to train, of float models to quantize.

    Example: `mcutrain operators`
    """
    from mcutrain.formats import operators as found

    if markdown:
        show(found.markdown().rstrip())
        return
    known = found.known()
    if json:
        show_json({name: [asdict(one) for one in every] for name, every in known.items()})
        return
    for name, every in known.items():
        rows = [[one.name, *one.cells] for one in every]
        show_table((f"operator in {name}", "int8", "float"), rows, left=3)

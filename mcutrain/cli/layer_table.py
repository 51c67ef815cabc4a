"""The layers of a model as a table, int8 or float."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcutrain.cli.output import show_table

COLUMNS = ("layer", "name", "operator", "weight", "input → output", "weights", "MACs", "bytes")


def show_layers(facts: dict[str, Any]) -> None:
    """Print a row for each of the layers of `mcutrain info --json`."""
    rows = []
    for layer in facts["layers"]:
        is_head = layer["name"] == facts["head"] and layer["weights"]
        number = "head" if is_head else layer["index"]
        rows.append(
            [
                "" if number is None else number,
                layer["name"],
                layer["operator"],
                times(layer["weight_shape"]),
                f"{times(layer['input'][1:])} → {times(layer['output'][1:])}",
                layer["weights"] or None,
                layer["macs"] or None,
                layer["bytes"] or None,
            ]
        )
    show_table(COLUMNS, rows, left=5)


def times(shape: Sequence[int | None] | None) -> str:
    """A shape such as 3×3×8; ? is a length that is not fixed."""
    return "×".join("?" if n is None else str(n) for n in shape or [])

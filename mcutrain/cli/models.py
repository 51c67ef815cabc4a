"""The model file of a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mcutrain.cli.output import say

if TYPE_CHECKING:
    from mcutrain.ir.graph import Graph


def load_model(path: Path) -> Graph:
    """The int8 graph of a model file; a note where that is not the file's to the bit."""
    from mcutrain.formats import rounding_of
    from mcutrain.pipeline import load

    graph = load(path)
    if changed := rounding_of(path):
        say(f"mcutrain: note: {path}: {changed}")
    return graph

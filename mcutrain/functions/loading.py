"""A model from its file, with what there is to say of the file: little is imported for it."""

from __future__ import annotations

from pathlib import Path

from mcutrain import formats
from mcutrain.arguments import PathLike
from mcutrain.functions.listener import Listener
from mcutrain.ir.graph import Graph
from mcutrain.ir.verify import verify


def loaded(model: Graph | PathLike, listener: Listener) -> Graph:
    """The model; the listener hears where a file's own runtime computes other bits."""
    if isinstance(model, Graph):
        return model
    path = Path(model)
    graph = verify(formats.load(path))
    if changed := formats.rounding_of(path):
        listener.detail(f"{model}: {changed}")
    return graph

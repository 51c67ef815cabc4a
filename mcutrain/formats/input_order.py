"""How the input of an int8 file relates to the samples of the file that it was quantized from.

The file's metadata say under KEY, as JSON, how its input was turned (see `mcutrain.data.layout`).
They have the name of the original file, the shape of its input without the batch, and these axes in
this file's order. If a front end makes samples of raw ones, they name it. A file without the entry
takes samples in its own order.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from mcutrain.data.layout import InputOrder
from mcutrain.errors import DataError, ModelError
from mcutrain.formats.metadata import read_metadata, with_entries
from mcutrain.ir.graph import Graph

KEY = "mcutrain.input"
MOST_NAME = 255
MOST_RANK = 8


def with_input_order(graph: Graph, path: Path) -> Graph:
    """The graph with the order in which a user of the file has samples.

    Raises ModelError where the file's metadata does not fit its input.
    """
    (name, *others) = graph.inputs
    if others:
        return graph
    shape = graph.tensors[name].type.shape[1:]
    entry = read_metadata(path).get(KEY)
    axes = graph.input_axes
    if entry is None:
        return replace(graph, input_order=_order(path.name, shape, axes)) if axes else graph
    said, frontend = _parsed(entry, path)
    there = [int(a) - 1 for a in np.argsort(axes)[1:]] if axes else range(len(shape))
    if len(said.axes) != len(shape):
        raise _unfit(path, said, shape)
    found = replace(said, axes=tuple(said.axes[axis] for axis in there))
    if found.model_shape != shape:
        raise _unfit(path, said, shape)
    try:
        return replace(graph, input_order=found.with_frontend(frontend))
    except DataError as error:
        raise _unread(path) from error


def order_of_file(path: Path, shape: tuple[int, ...], axes: tuple[int, ...] | None) -> InputOrder:
    """Return a float model's input order. shape: of our input; axes: see `FloatGraph.file_axes`."""
    return _order(path.name, shape[1:], axes or tuple(range(len(shape))))


def file_axes_of_input(graph: Graph) -> tuple[int, ...] | None:
    """The axes of the input, batch first, in the order of the file that it was read from.

    None where no such file is known.
    """
    if graph.input_order is None:
        return None
    return (0, *(1 + int(axis) for axis in np.argsort(graph.input_order.axes)))


def order_metadata(graph: Graph, stored: tuple[int, ...]) -> dict[str, bytes]:
    """What a file says of its input; nothing where samples are taken in the file's own order.

    stored: the axes of the graph's input, batch first, in the order in which the file has them.
    """
    if len(graph.inputs) != 1:
        return {}
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    order = graph.input_order or InputOrder.own(shape, graph.name)
    said = replace(order, axes=tuple(order.axes[axis - 1] for axis in stored[1:]))
    is_needed = said.is_turned if graph.input_order else said.is_square
    if not is_needed and said.frontend is None:
        return {}
    entry: dict[str, object] = {"file": said.file, "shape": said.shape, "axes": said.axes}
    if said.frontend is not None:
        entry["frontend"] = said.frontend.text
    return {KEY: json.dumps(entry).encode()}


def saying_order(path: Path, graph: Graph) -> bytes:
    """The bytes of a file that says the input order of its graph, front end and all.

    graph: of this file, with an input order of its own. Raises ModelError.
    """
    rank = len(graph.tensors[graph.inputs[0]].type.shape)
    return with_entries(path, order_metadata(graph, graph.input_axes or tuple(range(rank))))


def _order(file: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> InputOrder:
    """axes: of ours, batch first, in the order of the file."""
    there = tuple(shape[axis - 1] for axis in axes[1:])
    return InputOrder(file, there, tuple(int(axis) - 1 for axis in np.argsort(axes)[1:]))


def _parsed(entry: bytes, path: Path) -> tuple[InputOrder, str]:
    """What an entry says, and the text of its front end, which takes our order of axes."""
    try:
        values = json.loads(entry)
        file, shape, axes = values["file"], values["shape"], values["axes"]
        numbers = [n for found in (shape, axes) for n in found]
        if not isinstance(file, str) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError
        if len(shape) > MOST_RANK:
            raise ValueError
        name = "".join(c for c in file[:MOST_NAME] if c.isprintable())
        said = InputOrder(name, tuple(shape), tuple(axes))
        frontend = values.get("frontend", "")
        if not isinstance(frontend, str) or ".toml" in frontend:
            raise ValueError
        return said, frontend
    except (DataError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise _unread(path) from error


def _unread(path: Path) -> ModelError:
    return ModelError(
        f"{path}: its metadata {KEY} says no order of axes: quantize the model anew, or remove "
        "the entry"
    )


def _unfit(path: Path, said: InputOrder, shape: tuple[int, ...]) -> ModelError:
    return ModelError(
        f"{path}: its metadata {KEY} is of samples {said.shape}, but the input is {shape}: "
        "quantize the model anew, or remove the entry"
    )

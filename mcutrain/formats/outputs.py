"""Which outputs of a model file are meant, where it has several.

The choice holds while `choosing` is entered, in worker processes as well: so every reading of the
file, also by its own runtime, means the same outputs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, count
from typing import TypeVar

from mcutrain.errors import ModelError, some_of
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ops.several import MOST_OUTPUTS, OutputRow

FLAG = "--model-output"
CHOSEN = "MCUTRAIN_MODEL_OUTPUT"
"""The environment variable that holds the choice."""

Part = TypeVar("Part")
Name = TypeVar("Name", bound=Hashable)


@contextmanager
def choosing(name: str | None) -> Iterator[None]:
    """Model files of several outputs are read as if they had this one; None: as they are.

    name: or several, joined by commas, which are trained together.
    """
    before = os.environ.get(CHOSEN)
    if name is not None:
        os.environ[CHOSEN] = name
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(CHOSEN, None)
        else:
            os.environ[CHOSEN] = before


def kept(names: Sequence[str]) -> tuple[int, ...]:
    """Positions of the outputs that are meant: the chosen ones in their order, or all.

    Raises ModelError if no output has the chosen name.
    """
    wanted = os.environ.get(CHOSEN)
    if wanted is None:
        return tuple(range(len(names)))
    several = (wanted,) if wanted in names else tuple(wanted.split(","))
    missing = next((name for name in several if name not in names), None)
    if missing is not None:
        raise ModelError(
            f"the model has no output {missing!r}, it has {some_of(map(repr, names))}: name one of "
            f"these by {FLAG}"
        )
    if len(set(several)) < len(several):
        raise ModelError(f"{FLAG} {wanted} names an output twice: name it once")
    return tuple(names.index(name) for name in several)


def in_a_row(graph: Graph) -> Graph:
    """The graph with one output, a row of the chosen ones; itself where one is chosen, or none.

    Raises ModelError for more than can be trained together.
    """
    chosen = os.environ.get(CHOSEN, "").split(",")
    if len(graph.outputs) < 2 or len(chosen) != len(graph.outputs):
        return graph
    if len(chosen) > MOST_OUTPUTS:
        raise ModelError(f"{FLAG} names {len(chosen)} outputs: {MOST_OUTPUTS} are the most")
    op, taken = OutputRow(1), {*graph.tensors, *(node.name for node in graph.nodes)}
    name = next(n for n in chain(["outputs"], (f"outputs{i}" for i in count(2))) if n not in taken)
    (shape,) = (one.shape for one in op.infer(*graph.types(graph.outputs)))
    row = Tensor(name, TensorType(shape, "int8", (1.0,)))
    return replace(
        graph,
        tensors={**graph.tensors, name: row},
        nodes=(*graph.nodes, Node(name, op, graph.outputs, (name,))),
        outputs=(name,),
        output_axes=(),
        class_names=(),
        row=graph.outputs,
        output_names=tuple(chosen),
    )


def apart(graph: Graph) -> Graph:
    """What in_a_row made a row of, as it was."""
    if not graph.row:
        return graph
    nodes = [node for node in graph.nodes if node.outputs != graph.outputs]
    return replace(graph, outputs=graph.row, row=(), output_names=()).with_nodes(nodes)


def needed(
    parts: Sequence[Part],
    outputs: Iterable[Name],
    edges: Callable[[Part], tuple[Iterable[Name], Iterable[Name]]],
) -> list[Part]:
    """Return the nodes that the outputs need, in order. edges: what a node reads and computes."""
    wanted, found = set(outputs), []
    for part in reversed(parts):
        read, computed = edges(part)
        if wanted.intersection(computed):
            wanted.update(read)
            found.append(part)
    return found[::-1]

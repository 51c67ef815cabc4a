"""The chosen outputs of a model file: a graph with one of them, or a row of several.

Which are chosen, mcutrain.chosen_outputs knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import TypeVar

from mcutrain.chosen_outputs import CHOSEN, FLAG, choosing, kept
from mcutrain.errors import ModelError
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ops.several import MOST_OUTPUTS, OutputRow

__all__ = ["CHOSEN", "FLAG", "apart", "choosing", "in_a_row", "kept", "needed"]

Part = TypeVar("Part")
Name = TypeVar("Name", bound=Hashable)


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
    """Return what in_a_row made a row of, as it was."""
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

"""Run a graph by the reference meaning of its operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import Graph, Node

Array = npt.NDArray[Any]
See: TypeAlias = Callable[[Node, Sequence[Array], Sequence[Array]], None]
"""Is told of a node that has run: the node, what it read, what it gave."""


def interpret(
    graph: Graph,
    inputs: Mapping[str, Array],
    keep: Iterable[str] | None = None,
    see: See | None = None,
) -> dict[str, Array]:
    """The values of the graph's outputs, or of the tensors named in `keep`.

    inputs: a value for every graph input. Values are dropped after their last use. see: told of
    each node.
    """
    wanted = set(graph.outputs if keep is None else keep)
    values: dict[str, Array] = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    values.update({name: np.asarray(inputs[name]) for name in graph.inputs})
    last_use = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
    for i, node in enumerate(graph.nodes):
        arguments = [values[name] for name in node.inputs]
        results = node.op.reference(*arguments)
        if see is not None:
            see(node, arguments, results)
        values.update(zip(node.outputs, results, strict=True))
        for name in {*node.inputs, *node.outputs}:
            if last_use.get(name, -1) <= i and name not in wanted:
                values.pop(name, None)
    return {name: values[name] for name in wanted}

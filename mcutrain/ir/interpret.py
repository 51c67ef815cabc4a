"""Run a graph by the reference meaning of its operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import Graph

Array = npt.NDArray[Any]


def interpret(
    graph: Graph, inputs: Mapping[str, Array], keep: Iterable[str] | None = None
) -> dict[str, Array]:
    """The values of the graph's outputs, or of the tensors named in `keep`.

    inputs: a value for every graph input. Values are dropped after their last use.
    """
    wanted = set(graph.outputs if keep is None else keep)
    values: dict[str, Array] = {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    values.update({name: np.asarray(inputs[name]) for name in graph.inputs})
    last_use = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
    for i, node in enumerate(graph.nodes):
        arguments = [values[name] for name in node.inputs]
        results = node.op.reference(*arguments)
        values.update(zip(node.outputs, results, strict=True))
        for name in {*node.inputs, *node.outputs}:
            if last_use.get(name, -1) <= i and name not in wanted:
                values.pop(name, None)
    return {name: values[name] for name in wanted}

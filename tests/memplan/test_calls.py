"""A kernel call that was asked for before is that of the same operator and the same types."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcutrain.ir.graph import Graph
from mcutrain.memplan import calls
from mcutrain.memplan.calls import node_call
from mcutrain.ops.lookup import Lookup
from tests.simulation.networks import modern_network


def taller(graph: Graph, names: tuple[str, ...], rows: int) -> Graph:
    """With so many rows in the named tensors."""
    tensors = dict(graph.tensors)
    for name in names:
        type_ = tensors[name].type
        shape = (type_.shape[0], rows, *type_.shape[2:])
        tensors[name] = replace(tensors[name], type=replace(type_, shape=shape))
    return replace(graph, tensors=tensors)


@pytest.mark.parametrize("most", [1, calls.ASKED_AT_MOST])
def test_a_call_is_of_the_operator_and_the_types(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "ASKED_AT_MOST", most)
    graph = modern_network()
    node = next(n for n in graph.nodes if isinstance(n.op, Lookup))
    graphs = [taller(graph, (*node.inputs, *node.outputs), rows) for rows in (3, 4, 5)]
    for some in (*graphs, *graphs):
        types = some.types(node.inputs), some.types(node.outputs)
        assert node_call(some, node) == node.op.kernel(*types)
    assert len({repr(node_call(some, node).params) for some in graphs}) == len(graphs)

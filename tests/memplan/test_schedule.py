"""The order of a step's nodes: what is moved, and that nothing is moved past what it needs."""

from __future__ import annotations

import pytest

from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.verify import verify
from mcutrain.memplan.schedule import schedule, view_roots
from mcutrain.sparse import UpdateScheme
from tests.simulation.networks import (
    Network,
    residual_network,
    same,
    shortcuts_network,
    training_graph,
)


def branches() -> Graph:
    """Two layers that read one image."""
    net = Network((6, 6, 3), 1)
    y = net.conv(net.x, 8, same(3), relu=True)
    y = net.add(net.conv(y, 4), net.conv(y, 4, same(3)))
    return net.graph(net.conv(net.mean(y), 3, rounds_once=True))


def scheduled(graph: Graph, scheme: UpdateScheme) -> list[Node]:
    return list(verify(schedule(training_graph(graph, scheme).graph)).nodes)


@pytest.mark.parametrize(
    ("graph", "shares", "digests"),
    [(residual_network(), {"2": 0.5, "3": 0.5}, 2), (branches(), {"1": 0.5, "2": 0.25}, 2)],
    ids=["one after the other", "side by side"],
)
def test_a_digest_is_made_right_behind_the_last_other_use_of_its_source(
    graph: Graph, shares: dict[str, float], digests: int
) -> None:
    nodes = scheduled(graph, UpdateScheme("shares", 0, shares))
    places = [i for i, node in enumerate(nodes) if node.op.is_digest]
    assert len(places) == digests
    for place in places:
        (source,) = nodes[place].inputs
        uses = [
            i
            for i, node in enumerate(nodes)
            if source in (*node.inputs, *node.outputs) and not node.op.is_digest
        ]
        assert max(uses) < place
        assert all(node.op.is_digest for node in nodes[max(uses) + 1 : place])


def test_a_view_of_a_view_shows_the_memory_of_the_first() -> None:
    net = Network((4, 4, 3), 1)
    flat = net.reshape(net.x, (1, 1, 1, 48))
    again = net.reshape(flat, (1, 4, 4, 3))
    graph = net.graph(net.conv(again, 2))
    assert view_roots(graph) == {flat: net.x, again: net.x}


@pytest.mark.parametrize("bias_bits", [32, 16])
def test_no_update_is_moved_before_a_reader_of_what_it_changes(bias_bits: int) -> None:
    """State is updated where it lies; what a moved update reads of gradients is there already."""
    moved = 0
    for graph in (residual_network(), branches(), shortcuts_network()):
        training = training_graph(graph, UpdateScheme("full", None, {}, None, bias_bits=bias_bits))
        nodes = verify(schedule(training.graph)).nodes
        written: set[str] = set()
        for node in nodes:
            assert written.isdisjoint(node.inputs), node.name
            written.update(node.inputs[place] for place in node.op.updates.values())
        before = [n.name for n in training.graph.nodes if not n.op.is_digest]
        moved += before != [n.name for n in nodes if not n.op.is_digest]
    assert moved

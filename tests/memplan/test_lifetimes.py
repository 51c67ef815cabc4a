"""Tensors that share a buffer: none is written while another one's value is still to be read."""

from __future__ import annotations

import pytest

from mcutrain.memplan import TrainingPlan
from mcutrain.sparse import UpdateScheme
from tests.simulation import networks

SCHEMES = {"head": UpdateScheme(), "full": UpdateScheme("full", None, {}, None)}


def lost(plan: TrainingPlan) -> set[tuple[str, str]]:
    """(written, overwritten): a tensor that is written over another one of which a later node, not
    the one that writes, reads the value, itself or by a view. Replayed node by node."""
    held: dict[str, str] = {}  # buffer → the tensor whose value is in it
    source: dict[str, str] = {}  # view → what it is a view of
    found = set()
    for node in plan.nodes:
        read = [source.get(name, name) for name in node.inputs]
        for name in read:
            buffer = plan.buffer_of.get(name)
            if buffer is not None and held.setdefault(buffer, name) != name:
                found.add((held[buffer], name))
        for name in node.outputs:
            if node.op.is_view:
                source[name] = read[0]
            elif name in plan.buffer_of:
                held[plan.buffer_of[name]] = name
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_is_computed_in_place_of_what_is_read_later(scheme: str) -> None:
    """x stays for add(x, relu(x)) and x * sigmoid(x), whose second operands could lie upon it."""
    graph = networks.shortcuts_network()
    plan = networks.planned(networks.training_graph(graph, SCHEMES[scheme]))
    assert lost(plan) == set()


def test_what_nobody_reads_again_is_overwritten() -> None:
    """Otherwise the test above would show nothing."""
    graph = networks.shortcuts_network()
    plan = networks.planned(networks.training_graph(graph, SCHEMES["head"]))
    shared = [name for name, buffer in plan.buffer_of.items() if name != buffer]
    assert len(shared) >= 2

"""Which tensors share a buffer. That none loses its value by it, test_contents shows."""

from __future__ import annotations

import pytest

from mcutrain.memplan import check_contents
from mcutrain.sparse import UpdateScheme
from tests.memplan.fronts import planned
from tests.simulation import networks

SCHEMES = {"head": UpdateScheme(), "full": UpdateScheme("full", None, {}, None)}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_is_computed_in_place_of_what_is_read_later(scheme: str) -> None:
    """x stays for add(x, relu(x)) and x * sigmoid(x), whose second operands could lie upon it."""
    graph = networks.shortcuts_network()
    check_contents(networks.planned(networks.training_graph(graph, SCHEMES[scheme])))


def test_what_is_another_operand_too_is_not_overwritten() -> None:
    """A product says that it may lie upon its first operand, and here that is its second."""
    net = networks.Network((6, 6, 2), 1)
    y = net.conv(net.x, 4, networks.same(3))
    y = net.mul(y, y)
    planned(net.graph(net.conv(net.mean(net.conv(y, 4)), 3, rounds_once=True)), "off")


def test_what_nobody_reads_again_is_overwritten() -> None:
    """Otherwise the test above would show nothing."""
    graph = networks.shortcuts_network()
    plan = networks.planned(networks.training_graph(graph, SCHEMES["head"]))
    shared = [name for name, buffer in plan.buffer_of.items() if name != buffer]
    assert len(shared) >= 2

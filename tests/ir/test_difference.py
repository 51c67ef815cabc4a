"""What is said of two graphs that compute other bits: where, and how many outputs."""

from __future__ import annotations

from dataclasses import replace

from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.ops.lookup import Lookup
from tests.simulation.networks import Network


def network(table: dict[int, int], function: str = "hard_swish") -> Graph:
    """Two tables, of which the first has these other entries, and both this name."""
    net = Network((3, 4, 5), 1)
    net.activation(net.activation(net.x, "hard_swish"), "hard_swish")
    first, second = net.nodes
    assert isinstance(first.op, Lookup)
    values = [table.get(i, value) for i, value in enumerate(first.op.table)]
    net.nodes[0] = replace(first, op=replace(first.op, table=tuple(values), function=function))
    net.nodes[1] = replace(second, op=replace(second.op, function=function))
    return net.graph(second.outputs[0])


def test_the_name_of_a_function_is_no_difference_between_equal_tables() -> None:
    assert difference(network({}), network({}, "curve")) == ""


def test_the_first_table_that_differs_is_said_and_how_many_outputs() -> None:
    """Not the other one, whose name alone does."""
    changed = {i: -i // 2 for i in range(256)}
    said = difference(network({}), network(changed, "curve"))
    assert said.startswith("node 'node0' (Lookup) has another table; ")
    assert " of 180 outputs of 3 random inputs differ, by " in said

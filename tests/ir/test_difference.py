"""What is said of two graphs that compute other bits: where, and how many outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcutrain.ir.difference import changed, difference, is_rescaled
from mcutrain.ir.graph import Graph
from mcutrain.ops.lookup import Lookup
from tests.simulation.networks import Network, residual_network


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


def difference_of_inputs(first: str, second: str) -> Graph:
    """One of x and z less the other."""
    net = Network((3, 4, 5), 1)
    net.tensors["z"] = replace(net.tensors[net.x], name="z")
    y = net.add(first, second, sign=-1)
    return Graph("network", net.tensors, tuple(net.nodes), ("x", "z"), (y,))


def sum_of(first: int, second: int) -> Graph:
    """Of two layers' outputs, whose tables differ."""
    net = Network((3, 4, 5), 1)
    outputs = [net.activation(net.x, "hard_swish") for _ in range(2)]
    op = net.nodes[1].op
    assert isinstance(op, Lookup)
    net.nodes[1] = replace(net.nodes[1], op=replace(op, table=op.table[::-1]))
    return net.graph(net.add(outputs[first], outputs[second]))


def test_the_name_of_a_function_is_no_difference_between_equal_tables() -> None:
    assert difference(network({}), network({}, "curve")) == ""


def test_the_first_table_that_differs_is_said_and_how_many_outputs() -> None:
    """Not the other one, whose name alone does."""
    entries = {i: -i // 2 for i in range(256)}
    said = difference(network({}), network(entries, "curve"))
    assert said.startswith("node 'node0' (Lookup) has another table; ")
    assert " of 180 outputs of 3 random inputs differ, by " in said


def test_inputs_that_changed_their_places_are_a_difference() -> None:
    graph = difference_of_inputs("x", "z")
    assert difference(graph, difference_of_inputs("x", "z")) == ""
    said = difference(graph, difference_of_inputs("z", "x"))
    assert said.startswith("it reads the input ")
    assert " of 180 outputs of 3 random inputs differ, by " in said


def test_what_is_read_twice_may_not_be_two_things_in_the_other_graph() -> None:
    assert difference(sum_of(0, 0), sum_of(0, 0)) == ""
    said = difference(sum_of(0, 0), sum_of(1, 0))
    assert " stands where " in said
    assert " is read, too; " in said


def with_tensor(graph: Graph, name: str, factor: float = 1, by: int = 0) -> Graph:
    """With another scale of this tensor, or other numbers."""
    tensor = graph.tensors[name]
    scales = tuple(factor * s for s in tensor.type.scales)
    data = None if tensor.data is None else tensor.data ^ np.array(by, tensor.data.dtype)
    other = replace(tensor, type=replace(tensor.type, scales=scales), data=data)
    return replace(graph, tensors={**graph.tensors, name: other})


@pytest.mark.parametrize(("factor", "by"), [(2, 0), (1, 1)], ids=["scales", "numbers"])
def test_a_constant_has_changed_with_its_numbers_or_its_scales(factor: int, by: int) -> None:
    graph = residual_network()
    assert changed(graph, graph) == ()
    trained = with_tensor(graph, "w4", factor, by)
    assert changed(graph, trained) == ("w4",)
    assert not is_rescaled(graph, trained)


def test_only_what_is_computed_makes_a_graph_a_rescaled_one() -> None:
    graph = residual_network()
    other = with_tensor(graph, graph.outputs[0], 2)
    assert is_rescaled(graph, other)
    assert not is_rescaled(graph, graph)
    assert changed(graph, other) == ()

"""What is kept under a digest is found by what is equal, and by nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcutrain.ir.digest import arrays_digest, graph_digest
from mcutrain.ir.graph import Graph
from tests.simulation.networks import residual_network


def with_other_weight(graph: Graph) -> Graph:
    tensor = graph.tensors["w0"]
    assert tensor.data is not None
    data = tensor.data.copy()
    data.flat[-1] ^= 1
    return replace(graph, tensors={**graph.tensors, "w0": replace(tensor, data=data)})


def with_other_scale(graph: Graph) -> Graph:
    tensor = graph.tensors["w0"]
    scales = (2 * tensor.type.scales[0], *tensor.type.scales[1:])
    other = replace(tensor, type=replace(tensor.type, scales=scales))
    return replace(graph, tensors={**graph.tensors, "w0": other})


def without_last_node(graph: Graph) -> Graph:
    return replace(graph, nodes=graph.nodes[:-1])


def test_the_order_in_which_tensors_are_named_is_none_of_a_graph_s() -> None:
    graph = residual_network()
    turned = replace(graph, tensors=dict(reversed(list(graph.tensors.items()))))
    assert graph_digest(turned) == graph_digest(graph)


@pytest.mark.parametrize("change", [with_other_weight, with_other_scale, without_last_node])
def test_a_graph_that_computes_something_else_has_another_digest(change) -> None:
    graph = residual_network()
    assert graph_digest(change(graph)) != graph_digest(graph)


def test_arrays_of_the_same_bytes_are_told_apart_by_shape_and_type() -> None:
    x = np.arange(6, dtype=np.int8)
    others = [x.reshape(2, 3), x.reshape(3, 2), x.view(np.uint8), x[::-1]]
    assert len({arrays_digest(array) for array in (x, *others)}) == 5
    assert len({arrays_digest(*arrays) for arrays in ((x, x), (x,), (x[:3], x[3:]))}) == 3
    assert arrays_digest(np.asfortranarray(others[0])) == arrays_digest(others[0])

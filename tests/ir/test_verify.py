"""The verifier names the first rule that a graph breaks."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mcutrain.errors import ModelError
from mcutrain.ir.graph import Graph, Tensor, TensorType
from mcutrain.ir.interpret import interpret
from mcutrain.ir.op import Op
from mcutrain.ir.text import dump
from mcutrain.ir.verify import proven, verify
from tests.simulation.networks import residual_network, samples


@pytest.fixture
def graph() -> Graph:
    return residual_network()


def with_tensor(graph: Graph, tensor: Tensor, under: str | None = None) -> Graph:
    return replace(graph, tensors={**graph.tensors, under or tensor.name: tensor})


def test_a_sound_graph_is_returned_as_it_is(graph: Graph) -> None:
    assert verify(graph) is graph


def test_a_broken_graph_of_our_own_is_an_assertion_with_the_same_sentence(graph: Graph) -> None:
    assert proven(graph) is graph
    broken = replace(graph, nodes=graph.nodes[:-1])
    with pytest.raises(ModelError) as refused:
        verify(broken)
    with pytest.raises(AssertionError) as failed:
        proven(broken)
    assert str(failed.value) == str(refused.value)


def test_two_nodes_of_one_name_are_refused(graph: Graph) -> None:
    first, second, *rest = graph.nodes
    with pytest.raises(ModelError, match="two nodes of graph 'network' are named 'node0'"):
        verify(replace(graph, nodes=(first, replace(second, name="node0"), *rest)))


def test_a_tensor_under_a_foreign_name_is_refused(graph: Graph) -> None:
    with pytest.raises(ModelError, match="'w0' is filed under the name 'other'"):
        verify(with_tensor(graph, graph.tensors["w0"], "other"))


@pytest.mark.parametrize(
    "data", [np.zeros((2, 2), np.int8), np.zeros((6, 3, 3, 3), np.int16)], ids=["shape", "type"]
)
def test_a_constant_that_is_not_what_its_type_says_is_refused(
    graph: Graph, data: np.ndarray
) -> None:
    with pytest.raises(ModelError, match=r"constant 'w0' is .* its type says"):
        verify(with_tensor(graph, replace(graph.tensors["w0"], data=data)))


def test_a_name_that_no_tensor_has_is_refused(graph: Graph) -> None:
    first, *rest = graph.nodes
    bad = replace(first, inputs=("nowhere", *first.inputs[1:]))
    with pytest.raises(ModelError, match="'node0' names the unknown tensor 'nowhere'"):
        verify(replace(graph, nodes=(bad, *rest)))


def test_reading_before_writing_is_refused(graph: Graph) -> None:
    first, second, *rest = graph.nodes
    with pytest.raises(ModelError, match="'node1' reads 'conv2d0' before it is computed"):
        verify(replace(graph, nodes=(second, first, *rest)))


def test_writing_twice_is_refused(graph: Graph) -> None:
    first, *rest = graph.nodes
    with pytest.raises(ModelError, match="'again' writes 'conv2d0', which has a value already"):
        verify(replace(graph, nodes=(first, replace(first, name="again"), *rest)))


def test_writing_a_constant_is_refused(graph: Graph) -> None:
    first, *rest = graph.nodes
    with pytest.raises(ModelError, match="writes 'b0', which has a value already"):
        verify(replace(graph, nodes=(replace(first, outputs=("b0",)), *rest)))


def test_an_output_that_nothing_computes_is_refused(graph: Graph) -> None:
    with pytest.raises(ModelError, match=r"output .* of graph 'network' is never computed"):
        verify(replace(graph, nodes=graph.nodes[:-1]))


def test_inputs_that_do_not_fit_an_operator_are_refused_by_its_sentence(graph: Graph) -> None:
    first, *rest = graph.nodes
    bad = replace(first, inputs=("x", "w2", "b0"))
    with pytest.raises(ModelError, match=r"node 'node0' \(Conv2D\): .* do not fit each other"):
        verify(replace(graph, nodes=(bad, *rest)))


def test_a_declared_type_that_infer_contradicts_is_refused(graph: Graph) -> None:
    wrong = Tensor("conv2d0", TensorType((1, 9, 9, 6)))
    with pytest.raises(ModelError, match=r"computes .* but its output 'conv2d0' is declared"):
        verify(with_tensor(graph, wrong))


def test_interpreting_returns_what_is_asked_for(graph: Graph) -> None:
    x, _ = samples(graph, 1, 4)
    every = [name for node in graph.nodes for name in node.outputs]
    kept = interpret(graph, {"x": x}, every)
    assert sorted(kept) == sorted(every)
    only = interpret(graph, {"x": x})
    assert list(only) == list(graph.outputs)
    np.testing.assert_array_equal(only[graph.outputs[0]], kept[graph.outputs[0]])


class Watched:
    """An operator that looks who is alive before it computes."""

    def __init__(self, op: Op, look: Callable[[], None], made: list[weakref.ref[Any]]) -> None:
        self.op, self.look, self.made = op, look, made

    def reference(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        self.look()
        results = tuple(np.array(result) for result in self.op.reference(*inputs))
        self.made += map(weakref.ref, results)
        return results


def test_a_value_is_in_memory_until_its_last_reader_has_run(graph: Graph) -> None:
    made: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def look() -> None:
        alive.append(sum(value() is not None for value in made))

    nodes = tuple(replace(n, op=Watched(n.op, look, made)) for n in graph.nodes)  # type: ignore
    x, _ = samples(graph, 1, 4)
    interpret(replace(graph, nodes=nodes), {"x": x})
    needed = [
        {t for n in graph.nodes[:i] for t in n.outputs}
        & {t for n in graph.nodes[i:] for t in n.inputs}
        for i in range(len(nodes))
    ]
    assert alive == list(map(len, needed))
    assert max(alive) == 2 < len(made)


def test_a_dump_has_a_line_per_node_and_shortens_tables(graph: Graph) -> None:
    text = dump(graph)
    assert text == dump(residual_network())
    assert len(text.splitlines()) == len(graph.nodes) + 3
    assert max(map(len, text.splitlines())) < 600
    assert "node" not in text or "… 6" in text


def test_a_graph_cannot_be_changed_through_its_tensors(graph: Graph) -> None:
    with pytest.raises(TypeError):
        graph.tensors["x"] = graph.tensors["w0"]  # type: ignore[index]

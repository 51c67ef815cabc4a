"""The frozen front: where networks are cut, and that cutting changes no bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain import pipeline
from mcutrain.analysis import front
from mcutrain.analysis.candidates import Candidate, weight_candidate
from mcutrain.analysis.cut_step import cut_step
from mcutrain.analysis.front import (
    Activations,
    all_cuts,
    behind,
    cut_before,
    trunk,
    worthwhile_cuts,
)
from mcutrain.analysis.problem import Problem
from mcutrain.analysis.trial import compiled
from mcutrain.ir.interpret import interpret
from tests.simulation.networks import Network, rates

STEPS = 20
LAYERS = 6
CANDIDATES = (
    Candidate(0),
    Candidate(2),
    Candidate(6),
    weight_candidate(LAYERS, 5, 1.0),
    weight_candidate(LAYERS, 5, 0.5),
    weight_candidate(LAYERS, 4, 0.25),
    weight_candidate(LAYERS, 3, 0.5),
    weight_candidate(LAYERS, 0, 0.5),
    Candidate(4, ((2, 0.5), (3, 0.25), (5, 1.0)), 8),
    Candidate(1, ((3, 0.5),), 0),
)


@pytest.mark.draws(4)
@pytest.mark.parametrize("candidate", CANDIDATES, ids=str)
def test_training_behind_a_cut_ends_with_the_bits_of_the_whole_network(
    candidate: Candidate, residual: Problem, cache: Path
) -> None:
    graph = residual.trunk()
    cuts = all_cuts(graph)
    layers = residual.layers
    first = candidate.first_layer(LAYERS)
    names = [n.name for n in graph.nodes]
    position = names.index(layers[first].name) if first < LAYERS else len(names) - 1
    cut = cut_before(cuts, position)
    step = cut_step(graph, candidate.scheme(), cut)
    activations = Activations(graph, cuts, residual.train_x, cache / "fronts")
    short = compiled(step, seed=3)
    whole = pipeline.prepare(residual.model, candidate.scheme()).simulator(seed=4)
    x, y = residual.train_x[:STEPS], residual.train_y[:STEPS]
    found = short.train(step.ordered(activations.at(cut)[:STEPS]), y, rates(STEPS))
    expected = whole.train(x, y, rates(STEPS))
    assert [list(v) for v in found] == [list(v) for v in expected]
    assert short.counters == whole.counters
    assert short.state.keys() == whole.state.keys()
    for name, value in whole.state.items():
        np.testing.assert_array_equal(short.state[name], value, err_msg=name)
    np.testing.assert_array_equal(
        short.infer(step.ordered(activations.at(cut)[:STEPS])), whole.infer(x)
    )


def test_some_of_these_candidates_are_cut_late_and_some_reorder_the_activations(
    residual: Problem,
) -> None:
    """Otherwise the test above would show nothing."""
    graph = residual.trunk()
    late = all_cuts(graph)[-1]
    assert late.position == len(graph.nodes) - 1
    steps = [cut_step(graph, c.scheme(), cut_before(all_cuts(graph), 3)) for c in CANDIDATES[4:7]]
    assert any(step.order is not None for step in steps)


def test_no_cut_lies_inside_a_residual_block(residual: Problem) -> None:
    graph = residual.trunk()
    block = range(4, 6)  # two nodes behind the one whose output is added, before the addition
    assert [cut.position for cut in all_cuts(graph)] == [0, 1, 2, 3, 7, 8]
    assert not {cut.position for cut in all_cuts(graph)}.intersection(block)


def test_worthwhile_cuts_begin_with_the_input_and_end_with_the_last(residual: Problem) -> None:
    graph = residual.trunk()
    found = worthwhile_cuts(graph)
    assert found[0] == all_cuts(graph)[0]
    assert found[-1] == all_cuts(graph)[-1]
    assert set(found) <= set(all_cuts(graph))
    assert sum(n.op.macs(graph.types(n.inputs), graph.types(n.outputs)) for n in graph.nodes) == (
        graph.macs()
    )


def test_activations_are_those_of_the_operators_reference(residual: Problem, cache: Path) -> None:
    graph = residual.trunk()
    cuts = worthwhile_cuts(graph)
    found = Activations(graph, cuts, residual.test_x, cache / "reference").at(cuts[-1])
    name = cuts[-1].tensor
    for sample, value in zip(residual.test_x, found, strict=True):
        expected = interpret(graph, {graph.inputs[0]: sample[None]}, [name])[name]
        np.testing.assert_array_equal(value, expected[0])


def test_activations_are_computed_once_per_content(
    residual: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = residual.trunk()
    cuts = worthwhile_cuts(graph)
    first = Activations(graph, cuts, residual.test_x, tmp_path).at(cuts[-1]).copy()
    monkeypatch.setattr(front, "FrontProgram", lambda *_: pytest.fail("computed again"))
    again = Activations(graph, cuts, residual.test_x.copy(), tmp_path)
    np.testing.assert_array_equal(again.at(cuts[-1]), first)
    other = Activations(graph, cuts, residual.train_x, tmp_path)
    assert not other.path(cuts[-1]).exists()
    again.forget()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_computation_leaves_no_file(residual: Problem, tmp_path: Path) -> None:
    graph = residual.trunk()
    cuts = worthwhile_cuts(graph)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    activations = Activations(graph, cuts, residual.test_x, tmp_path, interrupt)
    with pytest.raises(KeyboardInterrupt):
        activations.at(cuts[1])
    assert [path.name for path in tmp_path.iterdir()] == [activations.path(cuts[0]).name]


def test_a_trunk_ends_with_the_mean_of_a_head_and_is_cut_no_later_than_before_the_head() -> None:
    net = Network((4, 4, 3), 5)
    y = net.conv(net.conv(net.x, 4), 5, relu=True)
    graph = trunk(net.graph(net.softmax(net.reshape(net.mean(y), (1, 5)))))
    assert [type(node.op).__name__ for node in graph.nodes] == ["Conv2D", "Conv2D", "Mean"]
    assert [cut.position for cut in all_cuts(graph)] == [0, 1]


def test_a_trunk_ends_with_the_head(residual: Problem) -> None:
    whole, cut = residual.model, trunk(residual.model)
    assert len(cut.nodes) == len(whole.nodes) - 1
    assert behind(cut, all_cuts(cut)[-1]).nodes == cut.nodes[-1:]

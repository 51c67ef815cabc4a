"""How fast a head learns that is new, and one that the model brought."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcutrain import data, pipeline, prepare
from mcutrain.analysis import training
from mcutrain.analysis.problem import Problem
from mcutrain.analysis.progress import Times
from mcutrain.analysis.training import TrainingSettings
from mcutrain.analysis.workers import Execution, workers
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation.rates import LearningRate, Schedule
from mcutrain.sparse import UpdateScheme, arrange, find_head
from mcutrain.sparse.scheme import NEW_HEAD_RATE
from tests.simulation.networks import residual_network, samples


@pytest.fixture(scope="module")
def graph() -> Graph:
    return residual_network()


def factor(step: TrainingStep) -> float:
    """Of the head's rate, over quantization-aware scaling."""
    _, updates = arrange(step.scheme, step.graph)
    head = find_head(step.graph)
    assert step.recipe is not None
    assert step.recipe.scheme == step.scheme
    scales = np.array(step.graph.tensors[head.bias].type.scales)
    factors = updates[head.bias].rate * scales**2
    assert np.ptp(factors) < 1e-9
    return float(factors[0])


@pytest.mark.parametrize("scheme", ["head", "last:2", "full"])
def test_a_new_head_learns_faster_than_the_layers_before_it(graph: Graph, scheme: str) -> None:
    assert factor(prepare(graph, scheme, classes=3)) == pytest.approx(NEW_HEAD_RATE)
    assert factor(prepare(graph, scheme)) == pytest.approx(1)
    assert factor(prepare(graph, scheme, added=["another"])) == pytest.approx(1)


@pytest.mark.parametrize("classes", [None, 3])
def test_a_rate_of_the_head_that_is_given_stays(graph: Graph, classes: int | None) -> None:
    given = UpdateScheme("given", 1, head_rate=0.5)
    assert factor(prepare(graph, given, classes=classes)) == pytest.approx(0.5)


def test_what_a_recipe_says_makes_the_same_step(graph: Graph) -> None:
    step = prepare(graph, "last:2", classes=3)
    assert step.recipe is not None
    again = pipeline.prepare(graph, step.recipe.scheme, step.recipe.options)
    assert again.project.digest == step.project.digest
    slower = replace(step.recipe.scheme, head_rate=1.0)
    assert prepare(graph, slower, classes=3).project.digest != step.project.digest


def test_an_analysis_trains_a_new_head_as_a_run_does(graph: Graph) -> None:
    x, y = samples(graph, 36, 3, seed=5)
    labels = y.astype(np.int64)
    problem = Problem(graph, 3, x[:24], labels[:24], x[24:], labels[24:])
    assert problem.head_rate == NEW_HEAD_RATE
    assert replace(problem, classes=None).head_rate == 1
    settings = TrainingSettings(1, 0.01)
    analysis = training._Analysis(problem, settings, lambda _: None, Times())
    with workers(Execution(jobs=1)) as pool:
        found = analysis.outcomes((training.HEAD,), pool)[training.HEAD]
    step = prepare(graph, "head", classes=3)
    simulator = step.simulator()
    order = data.order(24, 0, 0)
    schedule = Schedule(LearningRate.of(0.01), "cosine", 2, 24)
    rates = [schedule.at(i) for i in range(24)]
    simulator.train(x[:24][order], labels[:24][order], rates)
    right = simulator.infer(x[24:]).reshape(12, -1).argmax(axis=1) == labels[24:]
    assert found["accuracy"] == right.mean()

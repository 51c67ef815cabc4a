"""Networks whose one output, a sigmoid or its logit, tells two classes apart."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mcutrain
from mcutrain import prepare
from mcutrain.analysis.cut_step import cut_step
from mcutrain.analysis.front import all_cuts, trunk
from mcutrain.analysis.problem import Problem
from mcutrain.analysis.trial import compiled, evaluate
from mcutrain.autodiff.classifier import Classifier
from mcutrain.codegen import Interface
from mcutrain.data import Dataset, Split
from mcutrain.errors import DataError, SchemeError, UnsupportedError
from mcutrain.formats import load, with_class_names, write
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ops.lookup import lookup
from mcutrain.pipeline.losses import ONE_OUTPUT, fit_to_data
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import find_head, parse_scheme
from mcutrain.trained import trained_graph
from mcutrain.trained.graph import trained_by
from mcutrain.trained.state import read_state
from tests.simulation import networks
from tests.simulation.networks import Network, same

QUICK = ("-O1",)


def network(has_sigmoid: bool = True, outputs: int = 1, seed: int = 3) -> Graph:
    net = Network((6, 6, 2), seed)
    y = net.mean(net.conv(net.x, 8, same(3, 2), relu=True))
    y = net.reshape(net.conv(y, outputs, rounds_once=True), (1, outputs))
    if has_sigmoid:
        kind = net.type(y)
        y = net._add(
            lookup("logistic", kind, replace(kind, scales=(1 / 256,), zero_point=-128)),
            (y,),
            (1 / 256, -128),
        )
    return net.graph(y, "wake")


def lessons(graph: Graph, count: int = 400, seed: int = 1) -> Split:
    """Of class 1 what has more in its first channel."""
    rng = np.random.default_rng(seed)
    shape = graph.tensors[graph.inputs[0]].type.shape
    y = rng.integers(0, 2, count)
    x = rng.normal(0, 40, (count, *shape[1:]))
    x[..., 0] += (80 * y - 40).reshape(-1, 1, 1)
    data = Dataset(np.clip(np.rint(x), -128, 127).astype(np.int8), y, ("no", "yes"))
    return Split(data, data)


@pytest.mark.draws(4)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("has_sigmoid", [True, False])
def test_c_and_reference_hold_the_same_bits(has_sigmoid: bool, accumulate: int, dtype: str) -> None:
    step = prepare(network(has_sigmoid), "last:1", gradient_dtype=dtype, accumulate=accumulate)
    training = step.plan.training
    assert (training.classes, training.output_exponent) == (2, None)
    reference = ReferenceSimulator(training, seed=5)
    compiled = CompiledSimulator(step.plan, seed=5, portable=accumulate == 3, extra_flags=QUICK)
    data = lessons(step.graph, 24).train
    for i, rate in enumerate(networks.rates(24, 1.0)):
        one = slice(i, i + 1)
        expected = reference.train(data.x[one], data.y[one], [rate])
        found = compiled.train(data.x[one], data.y[one], [rate])
        assert [list(v) for v in found] == [list(v) for v in expected], f"step {i}"
        assert networks.states_differ(compiled.state, reference.state) == [], f"step {i}"
    np.testing.assert_array_equal(compiled.infer(data.x[:3]), reference.infer(data.x[:3]))


@pytest.mark.parametrize("classes", ["auto", 2])
@pytest.mark.parametrize("has_sigmoid", [True, False])
def test_it_learns_what_its_one_output_says(
    has_sigmoid: bool, classes: int | str, tmp_path: Path
) -> None:
    graph, kept = network(has_sigmoid), tmp_path / "run.npz"
    split = lessons(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the loss is
        found = mcutrain.simulate(
            graph, split, "last:1", classes=classes, epochs=2, learning_rate=0.05, checkpoint=kept
        )
    assert found.accuracy > 0.95
    assert found.before < 0.9
    run = read_state(kept)
    assert run.recipe is not None
    trained = trained_by(run, run.recipe, graph)[1]
    assert trained.outputs == graph.outputs
    step = prepare(graph, "last:1", classes=None if classes == "auto" else 2)
    threshold = step.plan.training.threshold if classes == "auto" or not has_sigmoid else 0
    scores = [interpret(trained, {"x": x[None]})[trained.outputs[0]] for x in split.test.x[:100]]
    said = np.concatenate(scores).ravel() > threshold
    assert (said == split.test.y[:100]).mean() > 0.9


def test_the_answer_is_what_the_loss_says_of_the_sample() -> None:
    """By the sign of the sums, where the output has not rounded them to the middle."""
    for has_sigmoid in (True, False):
        step = prepare(network(has_sigmoid), "head")
        training = step.plan.training
        assert training.threshold == (
            0
            if has_sigmoid
            else training.forward.tensors[training.forward.outputs[0]].type.zero_point
        )
        data = lessons(step.graph, 200).train
        simulator = step.simulator(1)
        simulator.train(data.x, data.y, [LearningRate.of(0.02)] * len(data.y))
        y = simulator.infer(data.x).ravel().astype(int)
        _, said = simulator.train(data.x, data.y, [LearningRate.of(0.0)] * len(data.y))
        sure = abs(y - training.threshold) > 1
        assert sure.sum() > 100
        assert ((y > training.threshold) == said)[sure].all()
        assert 0 < said.mean() < 1


def test_auto_takes_it_for_two_classes_and_says_so() -> None:
    graph = network()
    split = lessons(graph)
    found = fit_to_data(graph, split, "auto", "auto", ())
    assert (found.classes, found.loss, found.class_names) == (None, "cross-entropy", ("no", "yes"))
    assert ONE_OUTPUT in found.notes
    three = Dataset(split.train.x, np.arange(400) % 3, ("a", "b", "c"))
    assert fit_to_data(graph, Split(three, three), "auto", "auto", ()).classes == 3


def test_other_numbers_of_classes_get_a_head_of_their_own_which_the_file_cannot() -> None:
    graph = network()
    step = prepare(graph, "head", classes=3)
    assert step.plan.training.classes == 3
    with pytest.raises(UnsupportedError, match="is the sigmoid of one output, which 3 classes"):
        trained_graph(step, step.simulator(1).save(), graph)
    with pytest.raises(SchemeError, match=r"one output for two classes.*--classes 3"):
        prepare(graph, "head", added=("more",))
    assert find_head(network(outputs=2)).weight == find_head(network(False, 2)).weight


def test_a_new_head_of_class_means_tells_both_apart_before_the_first_step() -> None:
    graph = network()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the loss is
        found = mcutrain.simulate(
            graph, lessons(graph), "head", classes=2, epochs=0, head_start="prototypes"
        )
    assert found.before > 0.95


@pytest.mark.parametrize("has_sigmoid", [True, False])
def test_trials_of_schemes_measure_the_sigmoid(has_sigmoid: bool) -> None:
    graph = network(has_sigmoid)
    problem = Problem.of(graph, lessons(graph, 80))
    assert problem.outputs == 2
    plain = trunk(graph)
    step = cut_step(plain, parse_scheme("head"), all_cuts(plain)[0])
    found = evaluate(compiled(step, 1), step, problem.test_x, problem.test_y)
    kind = plain.tensors[plain.outputs[0]].type
    q = np.array([interpret(plain, {"x": x[None]})[plain.outputs[0]] for x in problem.test_x])
    z = (q.reshape(-1) - float(kind.zero_point)) * kind.scale
    assert found["accuracy"] == ((z > 0) == problem.test_y).mean()
    assert found["loss"] == pytest.approx(np.logaddexp(0, (1 - 2 * problem.test_y) * z).mean())


def test_two_names_are_of_its_one_output_and_stay_in_its_file(tmp_path: Path) -> None:
    graph = with_class_names(network(), ("no", "yes"))
    write(graph, tmp_path / "m.onnx")
    assert load(tmp_path / "m.onnx").class_names == ("no", "yes")
    with pytest.raises(DataError, match="3 class names"):
        with_class_names(graph, ("a", "b", "c"))


def test_it_is_not_imprinted_and_learns_nothing_at_positions() -> None:
    with pytest.raises(SchemeError, match="one output for two classes, which have no row each"):
        Classifier.of(prepare(network(), "head").plan.training)
    net = Network((4, 4, 2), 1)
    with pytest.raises(SchemeError, match=r"one number at each position.*--classes 2"):
        prepare(net.graph(net.conv(net.x, 1)), "head")


def test_the_header_says_what_is_predicted() -> None:
    for outputs, part in ((1, "class 1 where its probability"), (3, "the class of the largest")):
        step = prepare(network(outputs == 1, outputs), "last:1")
        assert part in step.library(Interface()).files["src/mct_model.h"]

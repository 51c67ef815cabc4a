"""Learning to reproduce the input: equal bits in numpy and C, true gradients, a falling loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcutrain import prepare
from mcutrain.autodiff import TrainOptions
from mcutrain.errors import DataError, SchemeError
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ops.gradients import EXPONENT, STEP
from mcutrain.ops.mean_squared_error import MeanSquaredError
from mcutrain.pipeline.losses import choose_loss, choose_loss_for_data
from mcutrain.simulation import (
    CompiledSimulator,
    Reconstruction,
    ReferenceSimulator,
    area_under_roc,
)
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import find_head
from tests.simulation import autoencoders, networks

QUICK = ("-O1",)
GRAPHS = {"dense": autoencoders.dense(), "convolutional": autoencoders.convolutional()}
GRADIENT_STEP = 1.0
"""Of a sum when the derivative is measured: the loss is a parabola, so its size does not matter."""
ROUNDING_Q16 = 2**-15
"""An error is rounded down to 2**-16 steps of the input, its square again."""


@pytest.mark.draws(4)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_c_and_reference_hold_the_same_bits(name: str, accumulate: int, dtype: str) -> None:
    graph = GRAPHS[name]
    training = autoencoders.training_graph(graph, None, TrainOptions(dtype, accumulate))
    reference = ReferenceSimulator(training, seed=5)
    portable = (accumulate == 1) == (dtype == "int8")
    plan = networks.planned(training)
    compiled = CompiledSimulator(plan, seed=5, portable=portable, extra_flags=QUICK)
    x = autoencoders.normal(graph, 24)
    for i, rate in enumerate(networks.rates(len(x), 1.0)):
        expected = reference.train(x[i : i + 1], [0], [rate])
        found = compiled.train(x[i : i + 1], [0], [rate])
        assert [list(v) for v in found] == [list(v) for v in expected], f"step {i}"
        assert networks.states_differ(compiled.state, reference.state) == [], f"step {i}"
    np.testing.assert_array_equal(compiled.infer(x[:3]), reference.infer(x[:3]))
    assert set(training.parameters) <= set(
        networks.states_differ(reference.state, dict(training.state))
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_the_input_stays_in_memory_until_the_loss(name: str) -> None:
    plan = networks.planned(autoencoders.training_graph(GRAPHS[name]))
    reader = next(i for i, n in enumerate(plan.nodes) if isinstance(n.op, MeanSquaredError))
    buffer = plan.buffer_of[plan.training.x]
    (found,) = (b for b in plan.arena.buffers if b.name == buffer)
    assert found.first == 0
    assert found.last >= reader


# ------------------------------------------------------------------------- the loss, the gradient


def sums_of(graph: Graph, x: np.ndarray) -> np.ndarray:
    """The last layer's int32 sums."""
    head = find_head(graph).node
    bare = replace(head, op=replace(head.op, requantize=None))
    before = graph.nodes[: graph.nodes.index(head)]
    cut = replace(graph, nodes=(*before, bare), outputs=bare.outputs)
    shape = graph.tensors[graph.inputs[0]].type.shape
    return interpret(cut, {graph.inputs[0]: x.reshape(shape)})[bare.outputs[0]]


def real_loss(graph: Graph, sums: np.ndarray, x: np.ndarray) -> float:
    """mean((y - x)**2) of real numbers, from the tensors' scales alone."""
    kind = graph.tensors[graph.inputs[0]].type
    y = sums * np.array(graph.tensors[find_head(graph).bias].type.scales)
    wanted = (x.astype(np.float64) - kind.zero_point) * kind.scale
    return float(((y.ravel() - wanted.ravel()) ** 2).mean())


def computed(graph: Graph, x: np.ndarray, dtype: str) -> tuple[np.ndarray, float]:
    """The derivative by the sums, averaged over the rounding's random numbers, and the loss."""
    kind, sums = graph.tensors[graph.inputs[0]].type, sums_of(graph, x)
    op = MeanSquaredError.of(kind)(graph.tensors[find_head(graph).bias].type.scales, dtype, True, 1)
    op.infer(STEP, replace(kind, shape=sums.shape, dtype="int32"), kind, EXPONENT)
    found = []
    for key in range(1, 65):
        step = np.array([key, 0, 0, 0, 0], np.int64)
        gradient, exponent, loss, _ = op.reference(step, sums, x[None], np.zeros(3, np.int8))
        found.append(gradient * 2.0 ** int(exponent[0]) * op.gradient_scale)
    return np.mean(found, axis=0), int(loss[0]) / 65536


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("name", GRAPHS)
def test_gradient_and_loss_are_those_of_real_numbers(name: str, dtype: str) -> None:
    graph = GRAPHS[name]
    x = autoencoders.normal(graph, 1)[0]
    sums = sums_of(graph, x).astype(np.float64)
    expected = np.empty(sums.shape)
    for i in np.ndindex(sums.shape):
        more, less = sums.copy(), sums.copy()
        more[i] += GRADIENT_STEP
        less[i] -= GRADIENT_STEP
        change = real_loss(graph, more, x) - real_loss(graph, less, x)
        expected[i] = change / (2 * GRADIENT_STEP)
    found, loss = computed(graph, x, dtype)
    largest = np.abs(expected).max()
    # the mean of 64 stochastic roundings of a 127th or 32767th; the largest are not all alike
    tolerance = largest / {"int8": 64, "int16": 16384}[dtype]
    np.testing.assert_allclose(found, expected, atol=tolerance, rtol=1e-4)
    step = graph.tensors[graph.inputs[0]].type.scale
    real = real_loss(graph, sums, x) / step**2
    assert abs(loss - real) < ROUNDING_Q16 * (1 + 2 * np.sqrt(real))


def test_a_perfect_output_has_no_loss_and_no_gradient() -> None:
    kind = replace(GRAPHS["dense"].tensors["x"].type, shape=(1, 4), scales=(0.5,), zero_point=3)
    op = MeanSquaredError.of(kind)((0.25,), "int8", True, 1)
    x = np.array([[3, 4, -100, 127]], np.int8)
    sums = (x.astype(np.int32) - 3).reshape(1, 1, 1, 4) * 2
    step = np.array([9, 0, 0, 0, 0], np.int64)
    gradient, _, loss, prediction = op.reference(step, sums, x, np.zeros(3, np.int8))
    assert not gradient.any()
    assert (int(loss[0]), int(prediction[0])) == (0, 0)


def test_an_enormous_loss_saturates() -> None:
    kind = replace(GRAPHS["dense"].tensors["x"].type, shape=(1, 2), scales=(1e-6,))
    op = MeanSquaredError.of(kind)((1.0,), "int8", True, 1)
    sums = np.full((1, 1, 1, 2), 2**30, np.int32)
    step = np.array([9, 0, 0, 0, 0], np.int64)
    found = op.reference(step, sums, np.zeros((1, 2), np.int8), np.zeros(3, np.int8))
    assert int(found[2][0]) == 2**31 - 1
    assert (found[0] == 64).all()  # 2**30 in Q16 is 64 * 2**8


# ------------------------------------------------------------------------------------- whole runs


@pytest.mark.parametrize(
    ("scheme", "share"), [("head", 0.9), ("1:0.5,2:1,bias:2", 0.5), ("full", 0.15)]
)
def test_training_lowers_the_loss_of_samples_it_did_not_see(scheme: str, share: float) -> None:
    graph = GRAPHS["dense"]
    step = prepare(graph, scheme, loss="auto")
    assert step.plan.training.classes == 1
    assert not step.plan.training.has_labels
    simulator = CompiledSimulator(step.plan, portable=True, extra_flags=QUICK)
    x, unseen = autoencoders.normal(graph, 400), autoencoders.normal(graph, 50, seed=1)
    of = Reconstruction.of(*(graph.tensors[n].type for n in (graph.inputs[0], graph.outputs[0])))
    before = of.losses(unseen, simulator.infer(unseen)).mean()
    rate = LearningRate.of(0.3)
    losses, predictions = simulator.train(x, np.zeros(len(x)), [rate] * len(x))
    after = of.losses(unseen, simulator.infer(unseen)).mean()
    assert after < share * before
    assert losses.min() > 0
    assert not predictions.any()


def test_the_label_must_be_0() -> None:
    graph = GRAPHS["dense"]
    plan = prepare(graph, "head", loss="mse").plan
    simulator = CompiledSimulator(plan, portable=True, extra_flags=QUICK)
    with pytest.raises(DataError, match="label 1 is not one of 1 classes"):
        simulator.train(autoencoders.normal(graph, 1), [1], [LearningRate.of(0.1)])


def test_the_header_says_what_loss_and_label_are() -> None:
    header = prepare(GRAPHS["dense"], "head", loss="mse").project.files["src/mct_model.h"]
    assert "mct_train(0, MCT_RATE(0.03), &result);" in header
    assert "The label is 0 always" in " ".join(header.replace("\n *", " ").split())
    assert "(output - input)^2 / MCT_INPUT_SCALE^2" in header
    classifier = prepare(networks.residual_network(), "head").project.files["src/mct_model.h"]
    assert "cross-entropy in nats * 65536" in classifier


# --------------------------------------------------------------------------------- which loss it is


def test_auto_is_mse_for_a_network_that_reproduces_its_input() -> None:
    classifier = networks.residual_network()
    assert choose_loss(GRAPHS["dense"]) == "mse"
    assert choose_loss(classifier) == "cross-entropy"
    assert choose_loss(GRAPHS["dense"], "cross-entropy") == "cross-entropy"
    assert choose_loss_for_data(GRAPHS["dense"], "auto", None) == "mse"
    assert choose_loss_for_data(GRAPHS["dense"], "auto", 2) == "mse"
    assert choose_loss_for_data(GRAPHS["dense"], "auto", 24) == "cross-entropy"
    assert choose_loss_for_data(classifier, "auto", 4) == "cross-entropy"


def test_a_loss_that_does_not_fit_is_refused_with_its_reason() -> None:
    classifier = networks.residual_network()
    with pytest.raises(SchemeError, match="it has 4 outputs and 192 inputs"):
        choose_loss(classifier, "mse")
    with pytest.raises(SchemeError, match="no loss 'l1'"):
        choose_loss(classifier, "l1")
    with pytest.raises(DataError, match="cannot learn without, because it has 4 outputs"):
        choose_loss_for_data(classifier, "auto", None)
    with pytest.raises(DataError, match="no labels, which cross-entropy needs"):
        choose_loss_for_data(GRAPHS["dense"], "cross-entropy", None)


def test_probabilities_are_no_copy_of_the_input() -> None:
    net = networks.Network((1, 1, 3), 1)
    graph = net.graph(net.softmax(net.reshape(net.conv(net.x, 3), (1, 3))))
    assert choose_loss(graph) == "cross-entropy"
    with pytest.raises(SchemeError, match="probabilities"):
        choose_loss(graph, "mse")


# ---------------------------------------------------------------------------------------- its score


def test_the_area_under_the_curve_counts_pairs() -> None:
    rng = np.random.default_rng(3)
    scores, kinds = rng.integers(0, 12, 60) / 4, rng.integers(0, 2, 60)
    pairs = [(a, n) for a in scores[kinds == 1] for n in scores[kinds == 0]]
    expected = np.mean([(a > n) + 0.5 * (a == n) for a, n in pairs])
    assert area_under_roc(scores, kinds) == pytest.approx(expected, abs=1e-12)
    assert area_under_roc(scores, np.zeros(60)) is None
    assert area_under_roc(np.arange(4.0), np.array([0, 0, 1, 1])) == 1.0

"""Training that keeps the answers of the classifier in flash: bits, gradients, what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mcutrain
from mcutrain import prepare
from mcutrain.errors import ArgumentError, SchemeError
from mcutrain.ir.graph import Graph, TensorType
from mcutrain.ops.distilled_cross_entropy import DistilledCrossEntropy
from mcutrain.ops.gradients import EXPONENT
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator
from tests.autodiff.measure import cosine, integer_derivatives, raw_training, size_ratio
from tests.simulation import networks
from tests.simulation.networks import Network, residual_network, same, samples

QUICK = ("-O1",)
Array = np.ndarray
STEPS = 12


def mean_behind_the_head() -> Graph:
    """Logits that are the mean of the head's outputs over positions."""
    net = Network((6, 5, 3), 4)
    return net.graph(net.mean(net.conv(net.conv(net.x, 8, same(3), relu=True), 4)))


@pytest.mark.parametrize(
    ("graph", "scheme", "asked"),
    [
        (residual_network(), "last:2", {"gradient_dtype": "int8"}),
        (residual_network(), "head", {"gradient_dtype": "int16", "accumulate": 3}),
        (residual_network(), "last:1", {"added": ("new",)}),
        (mean_behind_the_head(), "last:1", {}),
    ],
)
def test_c_and_reference_hold_the_same_bits(graph: Graph, scheme: str, asked: Any) -> None:
    step = prepare(graph, scheme, distill=0.4, **asked)
    training = step.plan.training
    x, y = samples(graph, STEPS, training.classes)
    reference = ReferenceSimulator(training, seed=5)
    is_portable = "accumulate" in asked
    compiled = CompiledSimulator(step.plan, seed=5, portable=is_portable, extra_flags=QUICK)
    for i, rate in enumerate(networks.rates(STEPS, 0.5)):
        one = slice(i, i + 1)
        expected = reference.train(x[one], y[one], [rate])
        found = compiled.train(x[one], y[one], [rate])
        assert [list(v) for v in found] == [list(v) for v in expected], f"step {i}"
        assert networks.states_differ(compiled.state, reference.state) == [], f"step {i}"
    plain = prepare(graph, scheme, **asked)
    assert step.plan.state_bytes == plain.plan.state_bytes
    assert step.plan.constant_bytes > plain.plan.constant_bytes
    assert step.project.model_hash != plain.project.model_hash


def loss_of(z: Array, taught: Array, label: int, share: float, known: int) -> float:
    """(1 - share) CE + share * 2 KL(q || p) at a temperature of 2, in float64."""

    def log_softmax(v: Array) -> Array:
        return v - v.max() - np.log(np.exp(v - v.max()).sum())

    p, q = log_softmax(z[:known] / 2), log_softmax(taught[:known] / 2)
    apart = float((np.exp(q) * (q - p)).sum())
    return (1 - share) * float(-log_softmax(z)[label]) + share * 2 * apart


@pytest.mark.parametrize(("dtype", "least"), [("int8", 0.99), ("int16", 0.9999)])
@pytest.mark.parametrize(("share", "known"), [(0.3, 9), (0.8, 6), (1.0, 9), (0.0, 3)])
def test_loss_and_gradient_are_those_of_real_numbers(
    share: float, known: int, dtype: str, least: float
) -> None:
    random, count, label, scale = np.random.default_rng(2), 9, 7, 2.0**-12
    op = DistilledCrossEntropy.of(share, known)((scale,), dtype, True, 3)
    sums, taught = (
        random.integers(-12000, 12000, (1, 1, 1, count)).astype(np.int32) for _ in range(2)
    )
    step = np.array([1, 0, 0, 0, 0], np.int64)
    state = np.zeros(EXPONENT.elements, np.int8)
    gradient, exponent, loss, _ = op.reference(step, sums, np.array([label]), state, taught)
    z, t = sums.ravel() * scale, taught.ravel() * scale
    assert abs(loss[0] / 65536 - loss_of(z, t, label, share, known)) < 1e-3
    around = [(z + m, z - m) for m in 1e-5 * np.eye(count)]
    losses = np.array([[loss_of(v, t, label, share, known) for v in pair] for pair in around])
    wanted = (losses[:, 0] - losses[:, 1]) * scale / 2e-5
    found = gradient.ravel() * 2.0 ** float(exponent[0]) * op.gradient_scale
    assert found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted) > least
    assert abs(np.linalg.norm(found) / np.linalg.norm(wanted) - 1) < 0.02


def test_at_first_the_gradient_is_the_labels_share() -> None:
    graph = residual_network()
    x, _ = samples(graph, 1, 4)
    of_label = integer_derivatives(raw_training(graph, "int16", SoftmaxCrossEntropy), x, 2)
    loss = DistilledCrossEntropy.of(0.75, 4)
    found = integer_derivatives(raw_training(graph, "int16", loss), x, 2)
    assert found.keys() == of_label.keys()
    for name, value in found.items():
        assert cosine(value, of_label[name]) > 0.999, name
        assert abs(size_ratio(value, of_label[name]) - 0.25) < 0.01, name


def test_a_share_of_1_leaves_everything_as_it_is() -> None:
    graph = residual_network()
    step = prepare(graph, "last:2", distill=1.0)
    simulator = CompiledSimulator(step.plan, seed=5, extra_flags=QUICK)
    x, y = samples(graph, STEPS, 4)
    before = {name: simulator.state[name].copy() for name in step.plan.training.parameters}
    losses, _ = simulator.train(x, y, networks.rates(STEPS, 1.0))
    assert not losses.any()
    assert all((simulator.state[name] == value).all() for name, value in before.items())


def test_old_classes_are_kept_where_new_samples_have_none_of_them() -> None:
    graph = residual_network()
    x, _ = samples(graph, 300, 4)
    own = CompiledSimulator(prepare(graph, "head").plan, extra_flags=QUICK).infer(x)
    own = own.reshape(len(x), -1).argmax(axis=1)
    kept = {}
    for share in (0.0, 0.9):
        simulator = prepare(graph, "head", distill=share).simulator(1)
        simulator.train(x, np.zeros(len(x), np.int32), networks.rates(len(x), 0.001))
        answers = simulator.infer(x).reshape(len(x), -1).argmax(axis=1)
        kept[share] = float((answers == own).mean())
    assert kept[0.9] > 0.9
    assert kept[0.0] < 0.7


def test_what_has_no_answers_to_keep_gets_a_sentence() -> None:
    graph = residual_network()
    x, y = samples(graph, 8, 4)
    for asked, says in (
        ({"classes": 6}, "a new one says nothing"),
        ({"label_smoothing": 0.1}, "does not go with class_weights"),
        ({"loss": "binary-cross-entropy"}, "one class of several"),
    ):
        with pytest.raises(SchemeError, match=says):
            prepare(graph, "head", distill=0.5, **asked)
    how: dict[str, Any] = {"loss": "mse", "distill": 0.5, "epochs": 1}
    with pytest.raises(SchemeError, match="a model of real targets lacks"):
        mcutrain.simulate(graph, (x, y / np.float32(3)), "head", **how)
    with pytest.raises(ArgumentError, match="distill"):
        prepare(graph, "head", distill=1.5)
    bad = TensorType((1, 1, 1, 3), "int32"), TensorType((1, 1, 1, 4), "int32")
    with pytest.raises(ValueError, match="classes of a teacher"):
        DistilledCrossEntropy.of(0.5, 3)((1.0,), "int8", True, 1).infer(bad[0], bad[0], bad[1])

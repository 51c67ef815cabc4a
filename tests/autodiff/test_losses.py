"""Gradients of networks under other losses than the softmax's, against the float model."""

from __future__ import annotations

import numpy as np
import pytest

from mcutrain.data import IGNORED
from mcutrain.ops.sigmoid_cross_entropy import SigmoidCrossEntropy
from mcutrain.ops.weighted_cross_entropy import WeightedCrossEntropy
from tests.autodiff.measure import (
    cosine,
    float_derivatives,
    integer_derivatives,
    raw_training,
    size_ratio,
)
from tests.autodiff.test_gradients import LEAST_COSINE, SIZE_TOLERANCE
from tests.simulation.networks import Network, same, samples

Array = np.ndarray
OUTPUTS = 5
WEIGHTS = (1.0, 3.0, 0.5, 0.5, 1.0, 8.0, 2.0, 1.0, 1.0, 1.0)


def sigmoid_error(labels: Array, weights: Array, smoothing: float, logits: Array) -> Array:
    """dL/dlogits: by weights [channels, 2], in float64, without a line of the operator's."""
    given = labels.reshape(logits.shape).astype(int)
    known = given != IGNORED
    given = np.where(known, given, 0)
    wanted = given * (1 - smoothing) + smoothing / 2
    each = weights[np.arange(logits.shape[1]), given]
    return known * each * (1 / (1 + np.exp(-logits)) - wanted) / len(logits)


@pytest.mark.draws(4)
@pytest.mark.parametrize("dtype", ["int16", "int8"])
@pytest.mark.parametrize(
    ("weights", "smoothing"), [((), 0.0), (WEIGHTS, 0.0), ((), 0.2), (WEIGHTS, 0.1)]
)
def test_gradients_of_sigmoids_agree_with_the_float_model(
    weights: tuple[float, ...], smoothing: float, dtype: str
) -> None:
    net = Network((5, 6, 2), seed=3)
    y = net.mean(net.conv(net.conv(net.x, 6, same(3), relu=True), 8, relu=True))
    graph = net.graph(net.conv(y, OUTPUTS))
    x, _ = samples(graph, 1, OUTPUTS)
    labels = np.array([1, 0, IGNORED, 1, 0], np.uint8)
    pairs = np.array(weights or (1.0,) * (2 * OUTPUTS)).reshape(-1, 2)
    loss = SigmoidCrossEntropy.of((OUTPUTS,), OUTPUTS, weights, smoothing)
    expected = float_derivatives(
        graph, x, 0, error=lambda z: sigmoid_error(labels, pairs, smoothing, z)
    )
    assert_agrees(graph, dtype, loss, x, labels, expected)


@pytest.mark.parametrize("dtype", ["int16", "int8"])
@pytest.mark.parametrize("channels", [1, 3])
def test_gradients_of_sigmoids_at_positions_agree_with_the_float_model(
    channels: int, dtype: str
) -> None:
    net = Network((5, 6, 2), seed=3)
    graph = net.graph(net.conv(net.conv(net.x, 4, same(3), relu=True), channels))
    x, _ = samples(graph, 1, channels)
    shape = (5, 6, channels) if channels > 1 else (5, 6)
    labels = np.random.default_rng(1).integers(0, 2, shape).astype(np.uint8)
    labels[0] = IGNORED
    loss = SigmoidCrossEntropy.of(shape, channels)
    even = np.ones((channels, 2))
    expected = float_derivatives(graph, x, 0, error=lambda z: sigmoid_error(labels, even, 0.0, z))
    assert_agrees(graph, dtype, loss, x, labels, expected)


def assert_agrees(graph, dtype, loss, x, labels, expected) -> None:  # type: ignore[no-untyped-def]
    found = integer_derivatives(raw_training(graph, dtype, loss), x, labels)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert cosine(value, expected[name]) > LEAST_COSINE[dtype], name
        assert abs(size_ratio(value, expected[name]) - 1) < SIZE_TOLERANCE, name


def softmax_error(label: int, weights: Array, smoothing: float, logits: Array) -> Array:
    """dL/dlogits of a smoothed, weighted cross-entropy, in float64."""
    pair = logits.shape[1] == 1
    z = np.hstack((np.zeros((1, 1)), logits)) if pair else logits
    p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
    wanted = np.full(z.shape, smoothing / z.size)
    wanted[0, label] += 1 - smoothing
    return (weights[label] * (p - wanted))[:, int(pair) :]


@pytest.mark.draws(8)
@pytest.mark.parametrize("dtype", ["int16", "int8"])
@pytest.mark.parametrize(
    ("weights", "smoothing"), [((), 0.2), ((1.0, 4.0, 0.5, 2.0), 0.0), ((1.0, 0.5, 0.5, 2.0), 0.1)]
)
@pytest.mark.parametrize("label", [1, 2])
@pytest.mark.parametrize("outputs", [4, 1])
def test_gradients_of_weighted_classes_agree_with_the_float_model(
    outputs: int, label: int, weights: tuple[float, ...], smoothing: float, dtype: str
) -> None:
    net = Network((5, 6, 2), seed=3)
    y = net.mean(net.conv(net.conv(net.x, 6, same(3), relu=True), 8, relu=True))
    graph = net.graph(net.conv(y, outputs))
    x, _ = samples(graph, 1, outputs)
    pair = outputs == 1
    weights, label = (weights[:2], label - 1) if pair else (weights, label)
    loss = WeightedCrossEntropy.of(weights, smoothing, pair)
    even = np.array(weights or (1.0,) * (outputs + pair))
    expected = float_derivatives(
        graph, x, 0, error=lambda z: softmax_error(label, even, smoothing, z)
    )
    assert_agrees(graph, dtype, loss, x, label, expected)

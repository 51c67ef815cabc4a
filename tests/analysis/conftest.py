"""Small problems that are analysed."""

from __future__ import annotations

import numpy as np
import pytest

from mcutrain.analysis.problem import Problem
from mcutrain.analysis.training import TrainingSettings
from mcutrain.ir.graph import Graph
from tests.simulation.networks import Network, residual_network, same, samples

CLASSES = 4
SETTINGS = TrainingSettings(epochs=1, learning_rate=0.05, head_epochs=2)


def problem(graph: Graph, train: int = 24, test: int = 12) -> Problem:
    """Random samples and labels."""
    x, y = samples(graph, train + test, CLASSES, seed=5)
    labels = y.astype(np.int64)
    return Problem(graph, None, x[:train], labels[:train], x[train:], labels[train:])


def two_layers() -> Graph:
    net = Network((5, 5, 3), seed=2)
    y = net.conv(net.conv(net.x, 4, same(3), relu=True), 6, relu=True)
    return net.graph(net.conv(net.mean(y), CLASSES))


@pytest.fixture(scope="session")
def small() -> Problem:
    """Two layers: 11 candidates of the head, biases and weights."""
    return problem(two_layers())


@pytest.fixture(scope="session")
def residual() -> Problem:
    """Six layers, a residual block, and a reshape behind the head."""
    return problem(residual_network(classes=CLASSES))

"""Layers whose sums are beyond int32, and heads that no loss can read: trained as they are, or a
sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcutrain.autodiff import TrainGraph
from mcutrain.errors import UnsupportedError
from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.ir.graph import Graph
from mcutrain.memplan import plan_training
from mcutrain.ops.add_difference import AddDifference
from mcutrain.ops.bounds import BIAS_LIMIT
from mcutrain.ops.pooling import Mean
from mcutrain.simulation import CompiledSimulator, ReferenceSimulator
from mcutrain.sparse import UpdateScheme
from tests.simulation import networks

FULL = UpdateScheme("full", None, {}, None)
STEPS = 4


def assert_same_bits(
    training: TrainGraph, rate: float, builds: tuple[bool, ...] = (True, False)
) -> ReferenceSimulator:
    """Constant images, so that nothing in a sum cancels. builds: portable or not."""
    shape = training.forward.tensors[training.x].type.shape
    x = np.full((STEPS, *shape[1:]), 127, np.int8)
    labels, rates = [0, 1, 0, 0], networks.rates(STEPS, rate)
    reference = ReferenceSimulator(training, seed=3)
    losses, predictions = reference.train(x, labels, rates)
    for portable in builds:
        compiled = CompiledSimulator(plan_training(training), seed=3, portable=portable)
        found = compiled.train(x, labels, rates)
        assert [list(v) for v in found] == [list(losses), list(predictions)]
        assert networks.states_differ(compiled.state, reference.state) == []
        np.testing.assert_array_equal(compiled.infer(x[:1]), reference.infer(x[:1]))
    return reference


def wide_nodes(training: TrainGraph) -> set[str]:
    nodes = (*training.graph.nodes, *training.forward.nodes)
    return {type(n.op).__name__ for n in nodes if getattr(n.op, "wide", False)}


@pytest.mark.slow
def test_a_layer_with_90000_positions_is_trained_with_the_same_bits() -> None:
    """Until the exponents have settled all gradients are 127 or -127, so that sums pass 2^31."""
    net = networks.Network((300, 300, 1), 4)
    y = net.depthwise(net.conv(net.x, 6), networks.POINT)
    t = net.type(y)
    y = net._add(Mean(t.zero_point, 4, *quantize_multiplier(1 / 90_000)), (y,), (t.scale, 4))
    graph = net.graph(net.conv(y, 2, rounds_once=True))
    first, *others = graph.nodes
    first = replace(first, op=replace(first.op, x_zero_point=-128))
    training = networks.training_graph(replace(graph, nodes=(first, *others)), FULL)
    assert wide_nodes(training) == {"Conv2DGradWeight", "DepthwiseConv2DGradWeight"}
    after = assert_same_bits(training, 1e9, (True,)).state
    assert {"w0", "w1"} <= set(networks.states_differ(after, training.state))


def features_network(features: int, weight: int) -> Graph:
    net = networks.Network((1, 1, features), 5)
    graph = net.graph(net.conv(net.x, 2, rounds_once=True))
    w = graph.tensors["w0"]
    data = np.full(w.type.shape, weight, np.int8)
    return replace(graph, tensors={**graph.tensors, "w0": replace(w, data=data)})


def test_weights_of_a_fan_in_of_100000_may_be_at_their_limits() -> None:
    training = networks.training_graph(features_network(100_000, 127), FULL)
    assert wide_nodes(training) == {"Conv2D"}
    w = assert_same_bits(training, 1e6).state["w0"]
    rows = sorted(np.unique(np.abs(row)).tolist() for row in w)
    assert rows == [[119], [127]]  # one update moves a weight by 8 at most
    assert np.abs(w.sum(axis=(1, 2, 3), dtype=np.int64)).max() * 127 > 2**30


def test_a_fan_in_of_30000_takes_the_same_kernels_as_ever() -> None:
    assert wide_nodes(networks.training_graph(features_network(30_000, 127), FULL)) == set()


def test_a_bias_beyond_its_limit_starts_at_it() -> None:
    graph = features_network(4, 9)
    b = graph.tensors["b0"]
    data = np.array([2**31 - 9000, -(2**31) + 9000], np.int32)
    graph = replace(graph, tensors={**graph.tensors, "b0": replace(b, data=data)})
    training = networks.training_graph(graph, FULL)
    assert training.state["b0"].tolist() == [BIAS_LIMIT, -BIAS_LIMIT]
    assert_same_bits(training, 0.1)


def test_a_difference_keeps_a_bias_within_its_limits() -> None:
    net = networks.Network((1, 1, 4), 6)
    graph = net.graph(net.conv(net.conv(net.x, 2), 2, rounds_once=True))
    data = np.array([2**31 - 9000, -(2**31) + 9000], np.int32)
    b = replace(graph.tensors["b0"], data=data)
    scheme = UpdateScheme("bias", None, bias_bits=16)
    training = networks.training_graph(replace(graph, tensors={**graph.tensors, "b0": b}), scheme)
    frozen, difference = training.graph.tensors["b0.frozen"], training.state["b0.difference"]
    assert frozen.data.tolist() == [BIAS_LIMIT, -BIAS_LIMIT]
    (op,) = (n.op for n in training.graph.nodes if isinstance(n.op, AddDifference))
    for moved in (-(2**15), 2**15 - 1):
        (total,) = op.reference(frozen.data, np.full_like(difference, moved))
        assert np.abs(total.astype(np.int64)).max() == BIAS_LIMIT
    assert_same_bits(training, 0.1)


def test_a_sum_that_nothing_can_split_is_refused_with_its_node_and_sizes() -> None:
    net = networks.Network((1, 1, 1), 6)
    y = net.conv(net.conv(net.x, 2), 132_105)
    graph = net.graph(net.conv(y, 2, rounds_once=True))
    with pytest.raises(UnsupportedError, match=r"'node1/dx2' .* 132,105 products of gradients"):
        networks.training_graph(graph, FULL)
    networks.training_graph(graph, UpdateScheme())


def test_a_head_with_positions_is_refused_with_a_sentence() -> None:
    net = networks.Network((4, 4, 2), 7)
    graph = net.graph(net.conv(net.x, 3))
    with pytest.raises(UnsupportedError, match=r"node 'node0' .* 3 at each of 16 positions; put"):
        networks.training_graph(graph, UpdateScheme())


def test_a_depthwise_head_is_refused_with_a_sentence() -> None:
    net = networks.Network((1, 1, 2), 8)
    graph = net.graph(net.depthwise(net.x, networks.POINT))
    with pytest.raises(UnsupportedError, match=r"'node0' .*: DepthwiseConv2D cannot be the last"):
        networks.training_graph(graph, UpdateScheme())

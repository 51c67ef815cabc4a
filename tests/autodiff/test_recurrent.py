"""Gradients through time against the float model, which knows none of the gradient rules."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from mcutrain import prepare
from mcutrain.autodiff import TrainGraph, TrainOptions, differentiate
from mcutrain.errors import UnsupportedError
from mcutrain.ir.graph import Graph
from mcutrain.ops.gradients import OutputStage
from mcutrain.ops.gru import Gru, GruGradGates
from mcutrain.ops.lstm import Lstm
from mcutrain.ops.recurrent import Recurrent
from mcutrain.pipeline.losses import loss_of
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme, find_head, layers_of, parse_scheme, resolve
from tests.autodiff.measure import cosine, float_derivatives, integer_derivatives, size_ratio
from tests.simulation.networks import Network, raw_updates, same, samples

CLASSES = 3
LEAST_COSINE = {"int16": 0.998, "int8": 0.99}


def network(kind: type[Recurrent], **own: Any) -> Graph:
    """A convolution, a recurrent layer of twelve steps, a head that sees all that it gives."""
    net = Network((4, 3, 2), seed=5)
    x = net.reshape(net.conv(net.x, 5, same(3)), (1, 12, 5))
    y = net.recurrent(x, kind, 6, **own)
    return net.graph(net.conv(net.reshape(y, (1, 1, 1, math.prod(net.type(y).shape))), CLASSES))


def trained(graph: Graph, dtype: str, names: set[str] | None = None) -> TrainGraph:
    """All parameters but the bias of products with the state; or those named."""
    names = names or {name for name in raw_updates(graph) if not name.endswith(".c")}
    updates = {name: update for name, update in raw_updates(graph).items() if name in names}
    head, loss = find_head(graph).name, loss_of(graph, "cross-entropy")
    return differentiate(graph, head, updates, loss, TrainOptions(dtype, accumulate=2))


@lru_cache
def expected(kind: type[Recurrent], is_last: bool) -> tuple[Graph, dict[str, np.ndarray]]:
    """Of both widths: a layer of each step forward, one of the last step backward."""
    graph = network(kind, is_last=is_last, direction="reverse" if is_last else "forward")
    x, labels = samples(graph, 1, CLASSES)
    return graph, float_derivatives(graph, x, int(labels[0]))


@pytest.mark.slow
@pytest.mark.draws(4)
@pytest.mark.parametrize("dtype", ["int16", "int8"])
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("kind", [Lstm, Gru])
def test_gradients_through_time_agree_with_the_float_model(kind, is_last, dtype) -> None:
    graph, wanted = expected(kind, is_last)
    x, labels = samples(graph, 1, CLASSES)
    found = integer_derivatives(trained(graph, dtype), x, int(labels[0]), updates=8)
    assert len(found) == 7
    for name, value in found.items():
        angle = cosine(value, wanted[name])
        assert angle > LEAST_COSINE[dtype], f"{name}: cosine {angle:.5f}"
        assert abs(size_ratio(value, wanted[name]) - 1) < 0.05, name


@pytest.mark.parametrize("kind", [Lstm, Gru])
def test_c_trains_through_time_as_numpy_does(kind) -> None:
    """Each step and the last one, forward and in reverse, groups of samples and single ones."""
    for is_last, share, accumulate in ((True, 1.0, 1), (False, 0.5, 3)):
        graph = network(kind, is_last=is_last, direction="reverse" if is_last else "forward")
        scheme = UpdateScheme(name="through", bias_depth=2, weights={"1": share})
        step = prepare(graph, scheme, accumulate=accumulate)
        x, labels = samples(graph, 9, CLASSES)
        rates = [LearningRate.of(0.2)] * len(x)
        in_c, in_numpy = step.simulator(7), step.reference(7)
        losses, _ = in_c.train(x, labels, rates)
        assert losses.tolist() == in_numpy.train(x, labels, rates)[0].tolist()
        assert in_c.save() == in_numpy.save()
        trained_now = {name.split(".t")[0] for name in step.plan.training.parameters}
        assert {"2.w", "2.u"} < trained_now


def test_a_recurrent_layer_is_a_layer_of_schemes() -> None:
    graph = network(Gru)
    assert [layer.others for layer in layers_of(graph, find_head(graph))] == [(), ("2.u",)]
    names = set(resolve(parse_scheme("last:1"), graph))
    assert names == {"2.w", "2.u", "2.b", *(find_head(graph).weight, find_head(graph).bias)}
    assert resolve(parse_scheme("1:0.5"), graph).keys() - names == set()


def test_what_is_not_trained_through_is_refused() -> None:
    graph = network(Lstm, direction="bidirectional")
    assert [layer.index for layer in layers_of(graph, find_head(graph))] == [0]
    with pytest.raises(UnsupportedError, match="both directions is not trained through"):
        trained(graph, "int8", {graph.nodes[0].inputs[1]})
    graph = network(Gru)
    with pytest.raises(UnsupportedError, match="bias of products with the state stays"):
        trained(graph, "int8", {"2.c"})
    graph = network(Lstm)
    layer = graph.nodes[2]
    assert isinstance(layer.op, Lstm)
    none = replace(layer.op, of_x=((0, *layer.op.of_x[0][1:]), layer.op.of_x[1]))
    nodes = tuple(replace(node, op=none) if node is layer else node for node in graph.nodes)
    with pytest.raises(UnsupportedError, match="products with the input are all 0; quantize"):
        trained(replace(graph, nodes=nodes), "int8", {layer.inputs[2]})


def test_a_frozen_layer_passes_gradients_on_and_one_in_front_of_all_is_plain() -> None:
    graph = network(Gru, is_last=True)
    first, head = graph.nodes[0].inputs[1], find_head(graph).weight
    through = trained(graph, "int8", {first})
    assert any(isinstance(node.op, GruGradGates) for node in through.graph.nodes)
    behind = trained(graph, "int8", {head})
    assert not any(getattr(node.op, "saves_history", False) for node in behind.graph.nodes)


@pytest.mark.parametrize("kind", [Lstm, Gru])
def test_outputs_and_cells_at_their_limits_pass_nothing(kind) -> None:
    """The second of two steps, where an output clamps, a cell is limited, or neither."""
    gates, y_of_state = kind.gates, 9 - kind.largest_state.bit_length()
    stages = ((2**30,) * gates, (0,) * gates)
    w, u = np.full((gates, 1), 64), np.full((gates, 1), 1)
    biases = [np.zeros(n, np.int64) for n in (gates, 1)[: 1 + kind.has_h_bias]]
    states, h = np.full((2, 1), 2**12), np.full((2, 1), 10)
    read = (np.full((1, 2, 1), 100), w, u, *biases, states, h)

    def derivatives(y_zero_point: int, **own: int) -> np.ndarray:
        layer = kind(0, stages, stages, (2**30, y_of_state), y_zero_point, **own)
        op = kind.gates_gradient(OutputStage((1.0,), False, "int8", 1), (1, 2, gates), layer)
        return op.sums(np.full((1, 2, 1), 100, np.int8), *read)[0, 1]

    assert derivatives(0).all()
    assert not derivatives(127).any()
    if kind is Lstm:
        limited = derivatives(0, cell_limit=5)
        assert not limited[:3].any()
        assert limited[3]

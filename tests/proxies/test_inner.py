"""Channels of which no trunk knows: which they are, and networks with fewer of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ops.add import Add
from mcutrain.proxies import Inner, inner_channels, keep_channels
from tests.proxies.ladders import first_channels, front_of, step


def whole() -> Graph:
    return front_of(step())[0]


def run(graph: Graph, seed: int = 0) -> np.ndarray:
    (x,) = graph.inputs
    drawn = np.random.default_rng(seed).integers(-128, 128, graph.tensors[x].type.shape)
    return interpret(graph, {x: drawn.astype(np.int8)})[graph.outputs[0]]


def without_effect(graph: Graph, groups: tuple[Inner, ...], channels: np.ndarray) -> Graph:
    """The same network whose readers do not look at these channels."""
    tensors = dict(graph.tensors)
    for node in graph.nodes:
        if any(node.name in group.readers for group in groups):
            weight = tensors[node.inputs[1]]
            data = np.array(weight.data)
            data[..., channels] = 0
            tensors[weight.name] = replace(weight, data=data)
    return replace(graph, tensors=tensors)


def test_no_inner_channels_are_of_a_trunk_or_of_the_latent() -> None:
    graph = whole()
    found = inner_channels(graph)
    trunk = {n for node in graph.nodes if isinstance(node.op, Add) for n in node.inputs}
    assert found
    for inner in found:
        assert trunk.isdisjoint(inner.tensors)
        assert graph.outputs[0] not in inner.tensors


def test_fixed_tensors_keep_their_channels() -> None:
    graph = whole()
    first, *others = inner_channels(graph)
    assert inner_channels(graph, first.tensors[:1]) == tuple(others)


def test_fewer_channels_cost_less_and_make_a_latent_of_the_same_type() -> None:
    graph = whole()
    half = first_channels(graph, 0.5)
    assert half.macs() < 0.75 * graph.macs()
    assert half.tensors[half.outputs[0]].type == graph.tensors[graph.outputs[0]].type
    for inner in inner_channels(graph):
        for name in inner.tensors:
            assert half.tensors[name].type.shape[-1] == inner.channels // 2


def test_channels_that_have_no_effect_go_without_another_bit() -> None:
    graph = whole()
    groups = tuple(inner for inner in inner_channels(graph) if inner.channels % 4 == 0)
    for inner in groups:
        gone = np.arange(1, inner.channels, 3)
        blind = without_effect(graph, (inner,), gone)
        stay = np.setdiff1d(np.arange(inner.channels), gone)
        fewer = keep_channels(blind, [(inner, stay)])
        assert np.array_equal(run(blind), run(fewer))
        assert not np.array_equal(run(graph), run(fewer))

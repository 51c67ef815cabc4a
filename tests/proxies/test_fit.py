"""Which channels go, and that what is left is fitted to the whole network."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from mcutrain import demo
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ops.add import Add
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.proxies import inner_channels, keep_channels
from mcutrain.proxies.fit import _Fit, fit, least_squares
from mcutrain.proxies.inner import Inner
from mcutrain.proxies.layer_values import Positions, weights_of
from mcutrain.proxies.making import Distances
from mcutrain.proxies.rank import BLOCK, Ranking, allocate, rank, removal_order
from mcutrain.simulation import RunSettings, Samples
from mcutrain.sparse.groups import ChannelGroup
from tests.proxies.ladders import front_of, step

EXACT = 1e-9
"""Of sums of a few hundred numbers of about 1, in double precision."""


@lru_cache(maxsize=1)
def whole() -> Graph:
    return front_of(step())[0]


@lru_cache(maxsize=1)
def samples() -> np.ndarray:
    """Images of the demo."""
    graph = whole()
    kind = graph.tensors[graph.inputs[0]].type
    split = demo.deployed(demo.upright(demo.Size(train=40, test=10)))
    prepared = Samples.prepare(split, kind.shape[1:], kind.scale, kind.zero_point, RunSettings())
    return prepared.train(np.arange(40), 0, 0)


@lru_cache(maxsize=1)
def rankings() -> tuple[Ranking, ...]:
    graph = whole()
    return rank(graph, inner_channels(graph), samples()[:16], lambda g: float(g.macs()))


def latents(graph: Graph, x: np.ndarray) -> np.ndarray:
    (name,), (y,) = graph.inputs, graph.outputs
    shape = graph.tensors[name].type.shape
    return np.array([interpret(graph, {name: sample.reshape(shape)})[y] for sample in x])


def cosine(graph: Graph, x: np.ndarray) -> float:
    zero_point = graph.tensors[graph.outputs[0]].type.zero_point
    wanted, found = latents(whole(), x), latents(graph, x)
    return float(Distances.of(wanted, found, zero_point).cosines.mean())


def drawn(channels: int, samples_: int = 400) -> tuple[np.ndarray, np.random.Generator]:
    random = np.random.default_rng(3)
    return random.normal(size=(samples_, channels)), random


@pytest.mark.parametrize("taps", [1, 4])
def test_a_channel_that_others_can_stand_in_for_goes_first_and_without_error(taps: int) -> None:
    x, random = drawn(6 * taps)
    x = x.reshape(-1, taps, 6)
    x[:, :, 4] = 0.5 * x[:, :, 1] - 2 * x[:, :, 3]
    x = x.reshape(len(x), -1)
    moments = np.cov(x, rowvar=False) + EXACT * np.eye(6 * taps)
    order, errors = removal_order(moments, random.normal(size=(6 * taps, 5)), taps)
    assert order[0] in (1, 3, 4)
    assert errors[0] < 1e-6 < errors[1]
    assert sorted(order) == list(range(6))


def test_the_errors_are_those_of_the_best_weights_that_are_left() -> None:
    x, random = drawn(7)
    x = x @ random.normal(size=(7, 7))
    x -= x.mean(axis=0)
    w = random.normal(size=(7, 3))
    order, errors = removal_order(x.T @ x / len(x), w)
    for gone in range(1, 7):
        left = sorted(order[gone:])
        best = np.linalg.lstsq(x[:, left], x @ w, rcond=None)[0]
        error = ((x[:, left] @ best - x @ w) ** 2).sum() / len(x)
        assert sum(errors[:gone]) == pytest.approx(error, rel=1e-6)
    dead = w.copy()
    dead[2] = 0
    assert removal_order(np.eye(7), dead)[0][0] == 2


def test_least_squares_finds_the_weights_and_keeps_those_that_samples_do_not_tell() -> None:
    x, random = drawn(5)
    x[:, 2] = 1.0
    w = random.normal(size=(3, 5))
    start = w + random.normal(size=w.shape) * (np.arange(5) != 2)
    found = least_squares(x, x @ w.T + 4.0, start)
    assert np.abs(found - w).max() < 0.01
    assert found[:, 2] == pytest.approx(w[:, 2], abs=EXACT)


def test_weights_go_a_thousandth_less_far_than_samples_say() -> None:
    """The ridge, which keeps those that hardly differ in the samples from growing without end."""
    x, _ = drawn(1)
    assert least_squares(x, 2.0 * x, np.zeros((1, 1)))[0, 0] == pytest.approx(2 / 1.001, abs=1e-6)


def test_a_bias_makes_up_for_what_rounding_the_weights_does_in_the_mean() -> None:
    both = _Fit(whole(), allocate(rankings(), 0.5), samples()[:1])
    node = next(n for n in both.graph.nodes if isinstance(n.op, Conv2D))
    w, _ = weights_of(both.graph, node)
    w = np.random.default_rng(0).normal(size=w.shape) * np.abs(w).max()
    mean_x, mean_y = np.full(w.shape[1], 100.0), np.linspace(-1, 1, len(w))
    both._with(node, w, mean_x, mean_y)
    codes, bias = weights_of(both.graph, node)
    step = np.array(both.graph.tensors[node.inputs[2]].type.scales)
    assert (np.abs(codes @ mean_x + bias - mean_y) <= 0.51 * step).all()
    assert (np.abs((codes - w) @ mean_x) > 2 * step).any()


def test_shares_that_cost_less_keep_some_of_the_same_channels() -> None:
    most, least = (allocate(rankings(), share) for share in (0.75, 0.4))
    assert sum(len(c) for _, c in least) < sum(len(c) for _, c in most)
    for (_, many), (_, few) in zip(most, least, strict=True):
        assert set(few) <= set(many)
        assert len(few) > 0
    prunable = sum(r.cost * r.inner.channels for r in rankings())
    saved = whole().macs() - keep_channels(whole(), most).macs()
    assert saved >= 0.9 * 0.25 * prunable


def test_all_channels_make_the_same_network() -> None:
    kept = [(inner, np.arange(inner.channels)) for inner in inner_channels(whole())]
    found = fit(whole(), kept, samples()[:4])
    assert found.nodes == whole().nodes
    assert np.array_equal(latents(found, samples()[:4]), latents(whole(), samples()[:4]))


def test_fitting_brings_a_pruned_front_near_the_whole_one_on_other_samples() -> None:
    kept, unseen = allocate(rankings(), 0.5), samples()[30:]
    fitted = fit(whole(), kept, samples()[:16])
    pruned = keep_channels(whole(), kept)
    (y,) = fitted.outputs
    assert fitted.tensors[y].type == whole().tensors[y].type
    assert fitted.macs() == pruned.macs() < 0.8 * whole().macs()
    assert cosine(pruned, unseen) < cosine(fitted, unseen)
    assert cosine(fitted, unseen) > 0.85


def test_a_layer_makes_up_for_what_the_trunk_lacks_that_it_is_added_to() -> None:
    """Its target and the trunk that there is make what the whole network's sums and trunk make."""
    both = _Fit(whole(), allocate(rankings(), 0.5), samples()[:4])
    seen = 0
    for wanted, node in zip(both.whole.nodes, both.graph.nodes, strict=True):
        (*_, reader) = both.graph.consumers(node.outputs[0]) or (node,)
        trunks = [n for n in reader.inputs if n in both.differs and n != node.outputs[0]]
        if isinstance(node.op, Conv2D) and isinstance(reader.op, Add) and trunks:
            positions = Positions.drawn(both.graph, node, both.found.count)
            w, b = weights_of(both.whole, wanted)
            sums = positions.patches(wanted.op, both.wanted[wanted.inputs[0]]) @ w.T + b
            scale = both.graph.tensors[trunks[0]].type.scale
            there, left = (positions.at(v[trunks[0]]) * scale for v in (both.wanted, both.found))
            assert np.abs(there - left).max() > 0
            target = both._target(wanted, node, positions)
            assert target + left == pytest.approx(sums + there, abs=EXACT)
            seen += 1
        both.wanted.run(wanted)
        both.found.run(node, both.graph)
        if both._is_another(wanted, node):
            both.differs.add(node.outputs[0])
    assert seen > 0


def ranked(channels: int, error: float = 1.0, cost: float = 1.0) -> Ranking:
    """The last channel is needed least."""
    inner = Inner(ChannelGroup(channels, {}), ("reader",), ("x",))
    return Ranking(inner, tuple(range(channels))[::-1], (error,) * channels, cost)


def test_those_stay_that_are_needed_most() -> None:
    assert ranked(6).without(2).tolist() == [0, 1, 2, 3]
    assert ranked(6).without(0).tolist() == [0, 1, 2, 3, 4, 5]


def test_never_all_channels_of_a_group_go() -> None:
    few, many = ranked(BLOCK), ranked(2 * BLOCK)
    kept = dict(zip("fm", (c.tolist() for _, c in allocate((few, many), 0.0)), strict=True))
    assert kept == {"f": list(range(BLOCK)), "m": list(range(BLOCK))}


def test_those_go_first_that_err_least_for_what_they_cost() -> None:
    steady, loose = ranked(12, 2.0), ranked(12, 1.0)
    assert [len(c) for _, c in allocate((steady, loose), 1 - 8 / 24)] == [12, 4]
    dear = ranked(12, 2.0, cost=3.0)
    assert [len(c) for _, c in allocate((dear, loose), 1 - 12 / 48)] == [8, 12]

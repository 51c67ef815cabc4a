"""Costs are sums: what each choice adds alone is what all of them add together."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from mcutrain import demo
from mcutrain.cost.schemes import scheme_cost
from mcutrain.pipeline import load
from mcutrain.selection.choices import Choices
from mcutrain.selection.contribution import SHARES, Gains
from mcutrain.selection.cost import CostFunction
from mcutrain.selection.option import Depth, Option
from mcutrain.selection.timeline import Timeline
from mcutrain.selection.units import Structure, joined
from tests.ops.drawing import SeededSource
from tests.selection.networks import KINDS, graph_of, scheme_of
from tests.simulation.networks import draw_network

BITS = (0, 2, 4, 8)


def choices_of(graph, cost: CostFunction, shares=SHARES, bias_bits=32) -> Choices:
    """All choices, as if every one had a gain."""
    count = Structure.of(graph).count
    gains = Gains((0.0,) * (count + 1), {i: dict.fromkeys(shares, 1.0) for i in range(count)})
    return Choices(graph, gains, dict.fromkeys(BITS, 1.0), cost, bias_bits=bias_bits)


def draw(rng: np.random.Generator, depth: Depth) -> list[Option]:
    density = rng.choice([0.2, 0.6, 1.0])
    return [u[rng.integers(len(u))] for u in depth.units if rng.random() < density]


def check(choices: Choices, cost: CostFunction, rng: np.random.Generator, count: int) -> None:
    """Of random schemes: memory at every step, state and instructions are the sums, flash at
    least that."""
    for _ in range(count):
        depth = choices.depths[rng.integers(len(choices.depths))]
        chosen, bits = draw(rng, depth), int(rng.choice(BITS))
        shares = tuple(sorted(pair for option in chosen for pair in option.shares))
        real = cost(scheme_of(depth.depth, shares, bits, choices.bias_bits))
        expected = depth.memory + sum(option.memory for option in chosen)
        assert np.array_equal(choices.book.timeline.memory(real), expected), (shares, depth.depth)
        state = depth.state_bytes + sum(option.state[bits] for option in chosen)
        assert sum(real.state.values()) == state
        work = depth.instructions + sum(option.instructions[bits] for option in chosen)
        assert real.instructions == work
        flash = depth.flash_bytes + sum(option.flash[bits] for option in chosen)
        assert flash <= sum(part.size_bytes for part in real.flash.values())


@pytest.mark.draws(3)
@pytest.mark.parametrize("kind", KINDS)
def test_costs_of_small_networks_add_up(kind):
    graph = graph_of(kind, 1)
    cost = scheme_cost(graph, "dsp")
    choices = choices_of(graph, cost, (0.25, 1.0))
    assert choices.exact
    check(choices, cost, np.random.default_rng(0), 15)


@pytest.mark.parametrize("kind", ["inverted", "shortcut"])
def test_costs_with_biases_of_16_bits_add_up(kind):
    graph = graph_of(kind, 1)
    cost = scheme_cost(graph, "dsp")
    choices = choices_of(graph, cost, (0.25, 1.0), bias_bits=16)
    whole = choices_of(graph, cost, (0.25, 1.0))
    assert choices.exact
    check(choices, cost, np.random.default_rng(0), 15)
    for half, full in zip(choices.depths[1:], whole.depths[1:], strict=True):
        assert half.state_bytes < full.state_bytes
        assert half.instructions > full.instructions


@pytest.mark.draws(3)
@pytest.mark.parametrize("seed", range(5))
def test_costs_of_drawn_networks_add_up(seed):
    graph = draw_network(SeededSource(seed), 4)
    cost = scheme_cost(graph, "portable")
    check(choices_of(graph, cost, (0.5, 1.0)), cost, np.random.default_rng(seed), 15)


@pytest.mark.slow
def test_costs_of_the_demo_add_up():
    graph = demo.network()
    cost = scheme_cost(graph, "dsp")
    choices = choices_of(graph, cost, (0.25,))
    assert choices.units == joined(choices.structure.count, ())
    check(choices, cost, np.random.default_rng(1), 10)


@pytest.mark.slow
@pytest.mark.shared
def test_costs_of_a_resnet_whose_shortcuts_share_their_input_add_up(shared):
    graph = load(shared / "models" / "pretrainedResnet_quant.tflite")
    cost = scheme_cost(graph, "dsp")
    choices = choices_of(graph, cost, (0.25, 1.0))
    assert [unit for unit in choices.units if len(unit) > 1] == [(3, 5), (6, 8)]
    check(choices, cost, np.random.default_rng(2), 15)


def test_layers_that_read_the_same_tensor_are_chosen_together():
    choices = choices_of(graph_of("shortcut", 1), scheme_cost(graph_of("shortcut", 1)))
    assert (1, 2) in choices.units
    depth = choices.depths[-1]
    unit = next(u for u in depth.units if len({i for o in u for i, _ in o.shares}) == 2)
    both = {o.shares: o for o in unit}
    together = both[(1, 1.0), (2, 1.0)].memory
    assert together.max() < (both[((1, 1.0),)].memory + both[((2, 1.0),)].memory).max()


def test_too_many_interacting_layers_get_a_bound_that_is_never_too_high(monkeypatch):
    monkeypatch.setattr("mcutrain.selection.choices.MOST_COMBINATIONS", 3)
    graph = graph_of("three_branches", 1)
    cost = scheme_cost(graph)
    choices = choices_of(graph, cost, (0.25, 1.0))
    assert not choices.exact
    rng = np.random.default_rng(0)
    for _ in range(20):
        depth = choices.depths[rng.integers(len(choices.depths))]
        chosen = draw(rng, depth)
        shares = tuple(sorted(pair for option in chosen for pair in option.shares))
        real = cost(scheme_of(depth.depth, shares, 8))
        peak = Timeline([real.steps]).memory(real).max()
        assert (depth.memory + sum(option.memory for option in chosen)).max() <= peak


def test_units_are_what_pairs_connect():
    assert joined(5, [(0, 2), (2, 3)]) == ((0, 2, 3), (1,), (4,))
    assert joined(3, combinations(range(3), 2)) == ((0, 1, 2),)

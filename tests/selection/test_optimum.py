"""Selection finds what enumerating and planning every scheme finds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.optimize

from mcutrain.errors import PlanError
from mcutrain.selection import milp as milp_module
from mcutrain.selection.contribution import SHARES, Contributions
from mcutrain.selection.cost import CostModel, Limits, Needs
from mcutrain.selection.select import Selector
from mcutrain.sparse.scheme import UpdateScheme
from tests.selection.networks import (
    KINDS,
    all_schemes,
    cached_device,
    contributions,
    gain_of,
    graph_of,
    measured,
    scheme_of,
)

SUM_ORDER = 1e-9
"""Gains are sums of a few floats near 0.1; their order changes the last digits."""
SEEDS = (1, 2)
INSTANCES = 17
"""Per network: 12 networks, 204 instances."""


def fits(limits: Limits, found: Needs) -> bool:
    names = ("sram_bytes", "flash_bytes", "instructions")
    pairs = [(getattr(limits, name), getattr(found, name)) for name in names]
    return all(limit is None or value <= limit for limit, value in pairs)


def brute_force(
    costs: CostModel, found: Contributions, shares: tuple[float, ...], limits: Limits
) -> float | None:
    """The largest gain of all schemes that fit when planned; weights must have a gain."""
    weights = found.gain().weights
    best = None
    for (depth, chosen, bits), bias_bits in product(all_schemes(found, shares), costs.bias_bits):
        if any(weights[i][s] <= 0 for i, s in chosen):
            continue
        if fits(limits, measured(costs, depth, chosen, bits, bias_bits)):
            gain = gain_of(found, depth, chosen, bits)
            best = gain if best is None else max(best, gain)
    return best


def draw_limits(rng: np.random.Generator, everything: list[Needs], on_board: bool) -> Limits:
    """Somewhere between the cheapest and the most expensive scheme, or just below."""

    def draw(name: str) -> int:
        values = sorted(getattr(m, name) for m in everything)
        if rng.random() < 0.5:  # exactly what some scheme needs, or a byte less
            return int(values[rng.integers(len(values))]) - int(rng.integers(2))
        return int(rng.uniform(0.99 * values[0], 1.01 * values[-1]))

    names = ("sram_bytes", "flash_bytes", "instructions") if on_board else ("sram_bytes",)
    chosen = {name: draw(name) for name in names if not on_board or rng.random() < 0.6}
    return Limits(**chosen)


@pytest.mark.slow
@pytest.mark.draws(4)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_selection_is_as_good_as_trying_every_scheme(kind, seed):
    check_optimum(kind, seed, (32,))


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("kind", ["inverted", "residual"])
def test_selection_of_biases_of_any_bits_is_as_good_as_trying_every_scheme(kind):
    chosen = check_optimum(kind, 2, (32, 16))
    assert set(chosen) == {32, 16}


@pytest.mark.slow
@pytest.mark.draws(1)
@pytest.mark.parametrize("kind", ["chain", "shortcut"])
def test_selection_of_layers_own_bits_is_as_good_as_trying_every_scheme(kind):
    """In `shortcut` two layers are chosen together, as they read the same tensor."""
    rng, graph = np.random.default_rng(5), graph_of(kind, 2)
    costs = replace(cached_device(kind, 2, True), layer_bits=True, bias_bits=(32, 16))
    factors = {0: 0.6, 2: 0.95, 4: 1.0}
    example = contributions(graph, rng, (1.0,), factors)
    every = list(schemes_of_own_bits(example, costs.bias_bits))
    needs = [costs.plan(scheme) for scheme in every]
    own = 0
    for instance in range(14):
        found = contributions(graph, rng, (1.0,), factors)
        exactly = Limits(needs[rng.integers(len(needs))].sram_bytes)
        limits = exactly if instance % 3 else draw_limits(rng, needs, True)
        gains = [
            gain_of_own_bits(found, scheme)
            for scheme, need in zip(every, needs, strict=True)
            if fits(limits, need)
            and all(found.gain().weights[int(i)][s] > 0 for i, s in scheme.weights.items())
        ]
        if not gains:
            continue
        selection = Selector(graph, found, costs).select(limits, with_next=False)
        assert selection.gain == pytest.approx(max(gains), rel=0, abs=SUM_ORDER)
        assert selection.gain == pytest.approx(
            gain_of_own_bits(found, selection.scheme), rel=0, abs=SUM_ORDER
        )
        assert selection.optimal
        assert fits(limits, costs.plan(selection.scheme))
        assert sum(layer.gain for layer in selection.layers) == pytest.approx(
            selection.gain - selection.bias_gain, rel=0, abs=SUM_ORDER
        )
        own += bool(selection.scheme.layer_residual_bits)
    assert own


def schemes_of_own_bits(found, bias_bits):
    """Every bias depth, bits of biases, and for each layer within it nothing or any bits."""
    count = len(found.layers)
    for depth, biases in product(range(count + 1), bias_bits):
        for bits in product((None, *found.residual_factor), repeat=depth):
            layers = {str(count - depth + i): b for i, b in enumerate(bits) if b is not None}
            weights = dict.fromkeys(layers, 1.0)
            yield UpdateScheme("any", depth, weights, bias_bits=biases, layer_residual_bits=layers)


def gain_of_own_bits(found, scheme):
    gains = found.gain()
    bits = {i: scheme.layer_residual_bits.get(i, scheme.residual_bits) for i in scheme.weights}
    return gains.bias[scheme.bias_depth] + sum(
        found.residual_factor[bits[i]] * gains.weights[int(i)][s] for i, s in scheme.weights.items()
    )


def check_optimum(kind, seed, bias_bits):
    """Of many limits; the bits of biases of the schemes that were found."""
    rng = np.random.default_rng(seed)
    graph = graph_of(kind, seed)
    on_board = seed % 2 == 0
    costs = replace(cached_device(kind, seed, on_board), bias_bits=bias_bits)
    chosen = []
    shares = SHARES if len(contributions(graph, rng).layers) < 3 else (0.25, 1.0)
    factors = {0: 0.7, 4: 1.0} if seed == 1 else {4: 1.0, 8: 1.02}
    example = contributions(graph, rng, shares, factors)
    every = product(all_schemes(example, shares), bias_bits)
    everything = [measured(costs, *s, bits) for s, bits in every]
    nothing = 0
    for _ in range(INSTANCES):
        digits = int(rng.choice([2, 6]))
        found = contributions(graph, rng, shares, factors, digits)
        limits = draw_limits(rng, everything, on_board)
        best = brute_force(costs, found, shares, limits)
        selector = Selector(graph, found, costs)
        if best is None:
            nothing += 1
            with pytest.raises(PlanError, match="nothing can be trained: the head alone needs"):
                selector.select(limits, with_next=False)
            continue
        selection = selector.select(limits, with_next=False)
        assert selection.gain == pytest.approx(best, rel=0, abs=SUM_ORDER)
        assert selection.optimal
        assert selection.bound == selection.gain
        assert fits(limits, selection.measured)
        assert fits(limits, costs.plan(selection.scheme))
        weights = found.gain().weights
        assert all(weights[int(i)][s] > 0 for i, s in selection.scheme.weights.items())
        chosen.append(selection.scheme.bias_bits)
    assert nothing < INSTANCES
    return chosen


def test_a_selection_is_found_where_presolving_fails(monkeypatch):
    """HiGHS' presolve ended in an error for a network whose tangents had coefficients of 6e-8."""
    solve, asked = scipy.optimize.milp, []

    def failing(*arguments, options, **more):
        asked.append(dict(options))
        found = solve(*arguments, options=options, **more)
        if options.get("presolve", True) or "node_limit" in asked[-1]:  # nor is there a proof
            found.status, found.x, found.message = 4, None, "HiGHS Status 4: Solve error"
        return found

    graph, costs = graph_of("chain", 1), cached_device("chain", 1, False)
    found = contributions(graph, np.random.default_rng(0))
    sizes = sorted(measured(costs, *scheme).sram_bytes for scheme in all_schemes(found, (0.5,)))
    limits = Limits(sizes[len(sizes) // 2])
    wanted = Selector(graph, found, costs).select(limits)
    monkeypatch.setattr(scipy.optimize, "milp", failing)
    assert Selector(graph, found, costs).select(limits).scheme == wanted.scheme
    assert asked[::3] == [milp_module.EFFORTS[0]] * (len(asked) // 3)  # also after the first
    assert len(asked) > 3


def test_of_equal_gains_the_smallest_is_taken():
    graph = graph_of("chain", 1)
    costs = cached_device("chain", 1, False)
    found = contributions(graph, np.random.default_rng(0))
    gains = replace(
        found.gain(),
        bias=(0.0, 0.1, 0.1, 0.1),
        weights={2: {0.125: 0.2, 1.0: 0.2}, 1: {1.0: 0.0}, 0: {1.0: -1.0}},
    )
    found = replace(found, gains={"accuracy": gains})
    selection = Selector(graph, found, costs).select(Limits(10**6))
    assert dict(selection.scheme.weights) == {"2": 0.125}
    assert selection.scheme.bias_depth == 1
    assert selection.binding == "nothing: all that has a gain is trained"
    assert selection.next is None


def test_what_more_memory_buys_is_true():
    graph, costs = graph_of("inverted", 1), cached_device("inverted", 1, False)
    found = contributions(graph, np.random.default_rng(3))
    selector = Selector(graph, found, costs)
    least = costs.plan(scheme_of(0, (), 4)).sram_bytes
    selection = selector.select(Limits(least))
    assert selection.next is not None
    assert selection.binding.startswith("SRAM at step ")
    more = Limits(least + selection.next.more_bytes)
    again = selector.select(more)
    assert again.gain == pytest.approx(selection.gain + selection.next.more_gain, abs=SUM_ORDER)
    assert again.measured.sram_bytes == more.sram_bytes
    assert "bytes more: " in selection.next.text


def test_the_same_question_gets_the_same_answer():
    graph, costs = graph_of("three_branches", 2), cached_device("three_branches", 2, True)
    found = contributions(graph, np.random.default_rng(5), digits=2)
    least = costs.plan(scheme_of(0, (), 4))
    limits = Limits(least.sram_bytes + 300, least.flash_bytes + 20_000, least.instructions * 2)
    answers = [Selector(graph, found, costs).select(limits).to_dict() for _ in range(2)]
    assert answers[0] == answers[1]

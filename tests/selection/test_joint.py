"""Selection by what schemes learn as a whole finds what trying every scheme finds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from mcutrain.errors import PlanError
from mcutrain.selection.contribution import JOINT, SHARES, Contributions, Gains
from mcutrain.selection.cost import Limits
from mcutrain.selection.fitting import fitting
from mcutrain.selection.joint import TOLERANCE, Joint
from mcutrain.selection.kernels import HALVINGS, LEAST_PACE, Kernels, products_of
from mcutrain.selection.select import Selector
from mcutrain.selection.units import Structure
from mcutrain.sparse.scheme import USUAL_BITS
from tests.selection.networks import (
    KINDS,
    all_schemes,
    cached_device,
    contributions,
    graph_of,
    measured,
)
from tests.selection.test_optimum import draw_limits, fits

SAMPLES = 6
ROUNDING = 1e-9


def products(rng: np.random.Generator, elements: int, size: float) -> np.ndarray:
    g = size * rng.normal(size=(SAMPLES, elements)) * rng.exponential(size=(SAMPLES, 1))
    return (g @ g.T).astype(np.float32)


def kernels(rng: np.random.Generator, layers: int, rate: float) -> Kernels:
    """Few directions, of very different steepness, and larger shares contain smaller ones."""
    weights = {}
    for i in range(layers):
        size, total = float(rng.exponential()), np.zeros((SAMPLES, SAMPLES), np.float32)
        weights[i] = {}
        for share in SHARES:
            total = total + products(rng, 1, size)
            weights[i][share] = total
    biases = tuple(products(rng, 1, float(rng.exponential()) / 2) for _ in range(layers))
    return Kernels(rate, 1.5 * rate, 100, biases, weights)


def analysis(example: Contributions, made: Kernels) -> Contributions:
    count = len(example.layers)
    alone = {i: dict.fromkeys(by, 1.0) for i, by in made.weights.items()}
    gains = {JOINT: Gains((0.0,) * (count + 1), alone)}
    return replace(example, gains=gains, kernels=made, residual_factor={USUAL_BITS: 1.0})


@pytest.mark.slow
@pytest.mark.draws(4)
@pytest.mark.parametrize("rate", [0.02, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_selection_is_as_good_as_trying_every_scheme(kind: str, rate: float) -> None:
    """At the larger rate most schemes overshoot."""
    rng = np.random.default_rng(7)
    seed = 2 if rate < 0.1 else 1
    graph, costs = graph_of(kind, seed), cached_device(kind, seed, seed == 2)
    example = contributions(graph, rng, SHARES)
    count = len(example.layers)
    shares = SHARES if count < 3 else (0.25, 1.0)
    every = all_schemes(example, shares)
    needs = [measured(costs, *scheme) for scheme in every]
    sums = []
    for _ in range(8):
        made = kernels(rng, count, rate)
        made = replace(
            made, weights={i: {s: w[s] for s in shares} for i, w in made.weights.items()}
        )
        found = analysis(example, made)
        joint = Joint(made, Structure.of(graph))
        limits = draw_limits(rng, needs, seed == 2)
        values = [
            joint.gain(d, c) for (d, c, _), n in zip(every, needs, strict=True) if fits(limits, n)
        ]
        selector = Selector(graph, found, costs)
        if not values:
            with pytest.raises(PlanError, match="nothing can be trained"):
                selector.select(limits, with_next=False)
            continue
        selection = selector.select(limits, with_next=False)
        assert max(values) - TOLERANCE * SAMPLES <= selection.gain <= max(values) + ROUNDING
        assert selection.optimal
        assert max(values) <= selection.bound + ROUNDING
        assert fits(limits, costs.plan(selection.scheme))
        sums.append(len(selection.layers))
    assert max(sums) > 1


@pytest.mark.slow
@pytest.mark.draws(2)
@pytest.mark.parametrize("kind", KINDS)
def test_later_searches_of_what_fits_alone_are_as_good_as_trying_every_scheme(kind: str) -> None:
    """A selector knows what its earlier searches looked at, and only choices that fit by
    themselves are costed."""
    rng = np.random.default_rng(11)
    graph, costs = graph_of(kind, 1), cached_device(kind, 1, False)
    example = contributions(graph, rng, SHARES)
    shares = SHARES if len(example.layers) < 3 else (0.25, 1.0)
    every = all_schemes(example, shares)
    sizes = [measured(costs, *scheme).sram_bytes for scheme in every]
    made = kernels(rng, len(example.layers), 0.02)
    made = replace(made, weights={i: {s: w[s] for s in shares} for i, w in made.weights.items()})
    found = analysis(example, made)
    joint = Joint(made, Structure.of(graph))
    values = [joint.gain(depth, chosen) for depth, chosen, _ in every]
    least, most = min(sizes), max(sizes)
    left_out = 0
    for share in (0.2, 0.5, 0.8):
        room = int(least + share * (most - least))
        kept = fitting(found, graph, costs, room)
        left_out += sum(len(w) for w in found.gain(JOINT).weights.values())
        left_out -= sum(len(w) for w in kept.gain(JOINT).weights.values())
        selector = Selector(graph, kept, costs)
        for limit in (least, (least + room) // 2, room, (least + room) // 2):
            best = max(v for v, size in zip(values, sizes, strict=True) if size <= limit)
            chosen = selector.find(Limits(limit))
            assert best - TOLERANCE * SAMPLES <= chosen.gain <= best + ROUNDING
            assert chosen.measured == costs.plan(chosen.scheme)
            assert chosen.measured.sram_bytes <= limit
            assert best <= chosen.bound + ROUNDING
    assert left_out > 0


def test_kernels_at_another_rate_learn_what_an_analysis_at_that_rate_says() -> None:
    made = kernels(np.random.default_rng(5), 3, 0.2)
    quarter = replace(made, rate=0.05, disturbing_rate=0.075)
    products_of_all = made.of(3, {0: 1.0})
    assert made.at(0.25).learnable(products_of_all) == pytest.approx(
        quarter.learnable(products_of_all), rel=1e-12
    )
    assert made.at(0.25).learnable(products_of_all) != made.learnable(products_of_all)


def test_a_tangent_is_above_what_any_scheme_learns() -> None:
    """And touches it where it was taken."""
    rng = np.random.default_rng(3)
    made = kernels(rng, 4, 0.02)
    schemes = [
        sum(products(rng, 2, size).astype(np.float64) for size in rng.exponential(size=3) / 2)
        for _ in range(12)
    ]
    learning = [k for k in schemes if made.pace(made.trace(k)) > LEAST_PACE]
    assert len(learning) > 6
    for one, other in product(learning, repeat=2):
        tangent = made.tangent(one)
        assert tangent is not None
        scaled = made.pace(made.trace(other)) * other
        gap = tangent.offset + (tangent.slope * scaled).sum() - made.learnable(other)
        assert gap >= -ROUNDING
        assert one is not other or gap <= ROUNDING


def test_of_gradients_that_have_nothing_in_common_it_is_the_sum() -> None:
    """Each part has a sample of its own, and steps are too short to disturb."""
    rng = np.random.default_rng(4)
    graph, costs = graph_of("residual", 2), cached_device("residual", 2, True)
    example = contributions(graph, rng, SHARES)
    count = len(example.layers)
    samples = 2 * count

    def own(place: int, size: float) -> np.ndarray:
        return np.diag(size * np.eye(samples)[place]).astype(np.float32)

    sizes = {i: np.cumsum(rng.exponential(size=len(SHARES))).tolist() for i in range(count)}
    made = Kernels(
        1e-9,
        1e-9,
        10**8,
        tuple(own(i, rng.exponential()) for i in range(count)),
        {i: {s: own(count + i, v) for s, v in zip(SHARES, sizes[i], strict=True)} for i in sizes},
    )
    bias = tuple(made.learnable(behind) for behind in made.behind)
    weights = {i: {s: made.learnable(k) for s, k in by.items()} for i, by in made.weights.items()}
    whole = analysis(example, made)
    gains = {"accuracy": Gains(bias, weights)}
    added = replace(example, gains=gains, residual_factor={USUAL_BITS: 1.0})
    least = measured(costs, 0, (), 4).sram_bytes
    most = measured(costs, count, tuple((i, 1.0) for i in range(count)), 4).sram_bytes
    for limit in np.linspace(least, most, 5).astype(int).tolist():
        one, other = (
            Selector(graph, found, costs).select(Limits(limit), with_next=False)
            for found in (whole, added)
        )
        assert other.gain - TOLERANCE * samples <= one.gain <= other.gain + 1e-6


def test_what_is_learnable_counts_directions_at_the_rate_that_is_left() -> None:
    """Two samples, of squared gradients 8 and 0: rates of 1/4 make steps half as fast."""
    made = Kernels(0.125, 0.25, 32, (np.array([[8.0, 0], [0, 0]], np.float32),), {0: {}})
    assert made.pace(made.trace(made.biases[0])) == 0.5
    assert made.learnable(made.biases[0]) == pytest.approx(2 / (2 + 1 / (0.125 * 32)))
    assert made.learnable(2 * made.biases[0]) == 0.0
    assert made.tangent(2 * made.biases[0]) is None


def test_what_trains_more_reaches_as_much_at_a_smaller_rate() -> None:
    """Gradients twice as large, squared: a rate of a quarter takes the same steps."""
    made = kernels(np.random.default_rng(1), 3, 0.02)
    whole = made.of(2, {1: 0.5, 2: 1.0})
    expected = made.behind[2] + made.weights[1][0.5] + made.weights[2][1.0]
    np.testing.assert_array_equal(whole, expected)
    rates = [0.02 / 2**k for k in range(HALVINGS + 1)]
    each = [replace(made, rate=r, disturbing_rate=1.5 * r).learnable(whole) for r in rates]
    assert made.reachable(whole) == max(each)
    steep = whole * (2 / made.disturbing_rate / made.trace(whole))
    assert made.learnable(steep) == 0 < made.reachable(steep)


def test_kernels_are_read_as_they_were_written() -> None:
    made = kernels(np.random.default_rng(0), 2, 0.02)
    text = made.to_dict()["weights"]["1"]["0.25"]
    np.testing.assert_array_equal(products_of(text, SAMPLES), made.weights[1][0.25])
    for wrong in (text[:-8], text + "AAAA", ""):
        with pytest.raises(ValueError, match="bytes for 6 samples"):
            products_of(wrong, SAMPLES)
    with pytest.raises(ValueError, match="base64"):
        products_of("?", SAMPLES)
    endless = np.full((SAMPLES, SAMPLES), np.inf, np.float32)
    text = replace(made, weights={0: {1.0: endless}}).to_dict()["weights"]["0"]["1.0"]
    with pytest.raises(ValueError, match="not all are numbers"):
        products_of(text, SAMPLES)


def test_what_a_layer_gains_is_lost_without_it() -> None:
    rng = np.random.default_rng(1)
    graph, costs = graph_of("chain", 1), cached_device("chain", 1, False)
    found = analysis(contributions(graph, rng, SHARES), kernels(rng, 3, 0.02))
    selector = Selector(graph, found, costs)
    selection = selector.select(Limits(10**6))
    assert selection.binding == "nothing: all that has a gain is trained"
    assert selection.next is None
    joint = Joint(found.kernels, Structure.of(graph))  # type: ignore[arg-type]
    shares = tuple((layer.index, layer.share) for layer in selection.layers)
    depth = selection.scheme.bias_depth
    assert selection.bias_gain == joint.gain(depth, ())
    for layer in selection.layers:
        rest = tuple(pair for pair in shares if pair[0] != layer.index)
        assert layer.gain == pytest.approx(selection.gain - joint.gain(depth, rest))


def test_a_given_scheme_learns_what_it_learns_as_a_whole() -> None:
    """The same as if it had been chosen; only that it is not said to be the best."""
    rng = np.random.default_rng(1)
    graph, costs = graph_of("chain", 1), cached_device("chain", 1, False)
    found = analysis(contributions(graph, rng, SHARES), kernels(rng, 3, 0.02))
    selector = Selector(graph, found, costs)
    chosen = selector.select(Limits(10**6))
    given = selector.given(replace(chosen.scheme, name="p"), Limits(10**6), chosen.bound)
    assert given is not None
    assert (given.layers, given.scheme, given.gain) == (chosen.layers, chosen.scheme, chosen.gain)
    assert (given.bias_gain, given.bound) == (chosen.bias_gain, chosen.bound)
    assert (given.optimal, given.published) == (False, "p")


def test_more_memory_lets_more_be_learnt() -> None:
    rng = np.random.default_rng(2)
    graph, costs = graph_of("inverted", 1), cached_device("inverted", 1, False)
    found = analysis(contributions(graph, rng, SHARES), kernels(rng, 3, 0.02))
    selector = Selector(graph, found, costs)
    least = measured(costs, 0, (), 4).sram_bytes
    selection = selector.select(Limits(least))
    assert selection.binding.startswith("SRAM at step ")
    assert selection.next is not None
    again = selector.select(Limits(least + selection.next.more_bytes))
    assert again.gain >= selection.gain + selection.next.more_gain - ROUNDING

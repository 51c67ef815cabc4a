"""Contribution by gradient: against an independent derivative, and numbers known beforehand."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from mcutrain.analysis.dimension import (
    InnerProducts,
    effective_dimension,
    learnable,
    nested_groups,
    product_gains,
)
from mcutrain.analysis.gradient import (
    GradientSettings,
    Moments,
    by_gradient,
    chosen_samples,
    learning_head,
    parameter_moments,
    per_channel,
    rate_note,
)
from mcutrain.analysis.problem import Problem
from mcutrain.errors import DataError
from mcutrain.ir.graph import Graph
from mcutrain.selection.contribution import SHARES, Contributions, Gains
from mcutrain.sparse import UpdateScheme, find_head, resolve
from tests.analysis.conftest import CLASSES
from tests.autodiff.measure import cosine, float_derivatives, size_ratio

SAMPLES = 4
LEAST_COSINE = 0.99
"""int16 gradients without the mean over repeated steps that tests/autodiff takes."""
SIZE_TOLERANCE = 0.1
"""Of a norm of squares: twice that of a gradient, in single samples."""
SUM_TOLERANCE = 0.03
"""Of the samples' norms: their sum nearly cancels, so it is no measure of its own errors."""
SETTINGS = GradientSettings(samples=SAMPLES, learning_rate=0.01, head_epochs=1)


def test_moments_are_those_of_the_float_model(residual: Problem) -> None:
    graph = residual.trunk()
    index = np.arange(SAMPLES)
    found = parameter_moments(graph, residual, index, SETTINGS)
    squares: dict[str, np.ndarray] = {}
    sums: dict[str, np.ndarray] = {}
    for i in index.tolist():
        derivatives = float_derivatives(
            graph, residual.train_x[i : i + 1], int(residual.train_y[i])
        )
        for name, derivative in derivatives.items():
            g = derivative / _scales(graph.tensors[name].type, derivative.ndim)
            squares[name] = squares.get(name, 0) + per_channel(g**2)
            sums[name] = sums.get(name, 0) + g
    assert found.keys() == sums.keys()
    head = find_head(graph)
    for name, moments in found.items():
        if name == head.bias:
            continue  # one position: its sum keeps 7 bits of 15, and nobody asks for it
        error = np.linalg.norm(moments.sums - sums[name])
        assert error < SUM_TOLERANCE * np.sqrt(squares[name].sum()), name
        assert cosine(moments.squares, squares[name]) > LEAST_COSINE, name
        assert abs(size_ratio(moments.squares, squares[name]) - 1) < SIZE_TOLERANCE, name


def _scales(t: object, dimensions: int) -> np.ndarray:
    """Shaped to divide a derivative by the stored integers."""
    scales = np.array(t.scales)  # type: ignore[attr-defined]
    if len(scales) == 1:
        return scales
    axis = t.axis % dimensions  # type: ignore[attr-defined]
    return scales.reshape([-1 if i == axis else 1 for i in range(dimensions)])


def test_first_order_has_no_bias_from_noise() -> None:
    """E[g] is 0 for one channel and 3 for the other; the noise has variance 1."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(2000):
        g = rng.normal([0.0, 3.0], 1.0, (8, 5, 2))
        moments = Moments(8, per_channel(g**2), g.sum(axis=0), learning_rate=0.5)
        found.append(moments.by("first_order"))
    np.testing.assert_allclose(np.mean(found, axis=0), [0.0, 0.5 * 5 * 9], atol=0.15)


def test_fisher_is_the_mean_of_squares() -> None:
    g = np.arange(24.0).reshape(4, 3, 2)
    moments = Moments(4, per_channel(g**2), g.sum(axis=0), 1.0)
    np.testing.assert_allclose(moments.by("fisher"), (g**2).sum(axis=1).mean(axis=0))


def test_gains_add_up_over_the_channels_of_a_share(residual: Problem) -> None:
    found = by_gradient(residual, SETTINGS)
    assert list(found.gains) == ["learnable", "joint", "dimension", "fisher", "first_order"]
    graph = residual.trunk()
    gains = found.gain("fisher")
    assert np.all(np.diff(gains.bias) > 0)
    for layer in residual.layers:
        importance = np.array(found.channels[layer.index])
        assert gains.weights[layer.index][1.0] == pytest.approx(importance.sum())
        for share in SHARES:
            scheme = UpdateScheme(weights={str(layer.index): share})
            picked = resolve(scheme, graph)[layer.weight].channels
            expected = importance if picked is None else importance[list(picked)]
            assert gains.weights[layer.index][share] == pytest.approx(expected.sum())


def test_the_same_analysis_gives_the_same_numbers(small: Problem) -> None:
    first, again = (by_gradient(small, SETTINGS) for _ in range(2))
    assert first.gains == again.gains
    other = by_gradient(small, dataclasses.replace(SETTINGS, seed=1))
    assert other.gains != first.gains


def test_the_head_learns_from_other_samples_than_those_measured() -> None:
    for count, wanted in ((10, 4), (4, 100), (5, 3)):
        settings = GradientSettings(samples=wanted)
        measured, others = chosen_samples(count, settings)
        assert sorted([*measured, *others]) == list(range(count))
        assert len(measured) % 2 == 0
        assert len(others) >= len(measured)
    with pytest.raises(DataError, match="3 training samples are too few"):
        chosen_samples(3, GradientSettings())


def test_a_new_head_has_as_many_classes_as_the_data(small: Problem) -> None:
    found = by_gradient(dataclasses.replace(small, classes=CLASSES + 3), SETTINGS)
    assert found.classes == CLASSES + 3


def test_effective_dimension_counts_directions() -> None:
    """One of three is 100 times as steep: it counts once. A flat one counts little."""
    g = np.array([[1.0, 0, 0], [0, 100, 0], [0, 0, 1e-4]])
    ridge = 1e-3
    expected = sum(v / (v + ridge) for v in np.array([1.0, 1e4, 1e-8]) / 3)
    assert effective_dimension(g @ g.T, ridge) == pytest.approx(expected)
    assert 1.9 < expected < 2.0


def test_inner_products_are_those_of_the_picked_channels() -> None:
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(5, 2, 3, 6)).astype(np.float32)
    groups, counts = nested_groups([(4,), (4,), (1, 4), range(6)])
    assert [g.tolist() for g in groups] == [[4], [1], [0, 2, 3, 5]]
    assert counts == (1, 1, 2, 3)
    products = InnerProducts({"w": groups})
    for g in samples:
        products.add({"w": g, "other": g})
    for found, channels in zip(products.of("w"), ([4], [1, 4], list(range(6))), strict=True):
        flat = samples[..., channels].reshape(5, -1).astype(np.float64)
        np.testing.assert_allclose(found, flat @ flat.T, rtol=1e-6)


def test_dimensions_of_weights_are_what_they_add_to_the_biases(residual: Problem) -> None:
    gains = by_gradient(residual, SETTINGS).gain("dimension")
    assert np.all(np.diff(gains.bias) > 0)
    for by_share in gains.weights.values():
        values = [by_share[share] for share in SHARES]
        assert all(0 <= a <= b + 1e-9 for a, b in itertools.pairwise(values))


def test_what_is_learnable_is_the_dimension_at_a_slower_rate() -> None:
    """Two samples, of squared gradients 8 and 0: at a rate of 1/4 steps learn half as fast."""
    products = np.array([[8.0, 0], [0, 0]])
    mean_rate, slowed, steps = 0.125, 1 - 0.25 / 2 * 4, 32
    assert slowed == 0.5
    expected = effective_dimension(products, 1 / (mean_rate * slowed * steps))
    assert learnable(products, 0.25, steps) == pytest.approx(expected)
    assert expected == pytest.approx(4 / (4 + 0.5))


def test_nothing_is_learnable_where_steps_overshoot() -> None:
    """Samples that agree, with ever larger gradients: more to learn, until a step is too long."""
    rng = np.random.default_rng(0)
    g = 1 + 0.1 * rng.normal(size=(8, 5))
    found = [learnable(size * g @ g.T, 0.1, 32) for size in (0.01, 0.1, 1.0, 10.0)]
    assert 0 < found[0] < found[1] < found[2]
    assert found[3] == 0


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[InnerProducts]:
    """The inner products that an analysis by gradient takes."""
    found: list[InnerProducts] = []

    class Kept(InnerProducts):
        def __init__(self, parts: Mapping[str, Sequence[np.ndarray]]) -> None:
            super().__init__(parts)
            found.append(self)

    monkeypatch.setattr("mcutrain.analysis.gradient.InnerProducts", Kept)
    return found


def test_kernels_are_inner_products_of_what_may_be_trained(
    residual: Problem, seen: list[InnerProducts]
) -> None:
    """And with a schedule of cosine form the disturbing rate is 3/4 of the largest."""
    made = by_gradient(residual, SETTINGS).kernels
    assert made is not None
    assert made.rate == SETTINGS.learning_rate / 2
    assert made.disturbing_rate == pytest.approx(0.75 * SETTINGS.learning_rate)
    assert made.steps == SETTINGS.epochs * len(residual.train_y)
    for layer in residual.layers:
        of = seen[0].of(layer.weight)
        np.testing.assert_allclose(made.biases[layer.index], seen[0].of(layer.bias)[-1], rtol=1e-6)
        np.testing.assert_allclose(made.weights[layer.index][1.0], of[-1], rtol=1e-6)
        np.testing.assert_allclose(made.weights[layer.index][0.125], of[0], rtol=1e-6)
    rates = [SETTINGS.learning_rate * (1 + np.cos(x)) / 2 for x in np.linspace(0, np.pi, 10_001)]
    assert np.mean(rates) == pytest.approx(made.rate, rel=1e-3)
    assert np.mean(np.square(rates)) / np.mean(rates) == pytest.approx(
        made.disturbing_rate, rel=1e-3
    )


def test_late_weights_get_no_credit_for_what_biases_before_them_do() -> None:
    """Products of both layers' biases, and of the last one's weights, along the same directions."""
    rng = np.random.default_rng(1)
    first, last, weight = (g @ g.T for g in rng.normal(size=(3, 4, 6)))
    products = {"b0": (first,), "b1": (last,), "w0": (first,), "w1": (weight / 2, weight)}
    names = {0: ("w0", "b0"), 1: ("w1", "b1")}
    shares = {0: {1.0: 1}, 1: {0.25: 1, 0.5: 1, 1.0: 2}}

    def measure(p: np.ndarray) -> float:
        return effective_dimension(p, 0.5)

    both = first + last
    for base, behind in ((0, last), (1, last), (2, both)):
        found = product_gains(products, names, shares, (), measure, base)
        assert found.bias == pytest.approx((0, measure(last), measure(both)))
        assert found.weights[0][1.0] == pytest.approx(measure(both + first) - measure(both))
        half, whole = (measure(behind + w) - measure(behind) for w in products["w1"])
        assert dict(found.weights[1]) == pytest.approx({0.25: half, 0.5: half, 1.0: whole})


def test_weights_are_measured_over_at_least_the_last_biases(
    residual: Problem, seen: list[InnerProducts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last layers' learnable gain is what they add to those, not what they add alone."""
    monkeypatch.setattr("mcutrain.analysis.gradient.least_biases", lambda layers: layers - 3)
    gains = by_gradient(residual, SETTINGS).gain("learnable")
    layers = residual.layers
    last = layers[3:]
    behind = sum(seen[0].of(layer.bias)[-1] for layer in last)
    more = behind + seen[0].of(layers[-1].weight)[-1]
    rate, steps = SETTINGS.learning_rate, SETTINGS.epochs * len(residual.train_y)
    added = learnable(more, rate, steps) - learnable(behind, rate, steps)
    assert gains.weights[layers[-1].index][1.0] == pytest.approx(added)
    assert gains.bias[len(last)] == pytest.approx(learnable(behind, rate, steps))


@pytest.mark.parametrize(
    ("is_found", "learns_at", "rate", "tried"),
    [
        (True, 1.0, 1.0, [1.0]),
        (True, 0.07, 0.0625, [1.0, 0.25, 0.0625]),
        (True, 0.001, 1.0, [1.0, 0.25, 0.0625, 0.015625]),
        (False, 0.07, 1.0, [1.0]),
    ],
)
def test_a_searched_rate_is_lowered_until_the_head_alone_learns(
    small: Problem, is_found: bool, learns_at: float, rate: float, tried: list[float]
) -> None:
    seen: list[float] = []

    def taught(at: float) -> tuple[Graph, dict[str, float]]:
        seen.append(at)
        return small.model, {"loss": math.log(CLASSES) * (0.9 if at <= learns_at else 1.0)}

    wanted = GradientSettings(learning_rate=1.0, is_found=is_found)
    settings, (_, head) = learning_head(taught, wanted, math.log(CLASSES))
    assert (settings.learning_rate, seen) == (rate, tried)
    assert head == taught(rate)[1]


@pytest.mark.parametrize(
    ("loss", "used", "note"),
    [
        (1.60, 0.5, "nothing was learnt at a learning rate of 0.5"),
        (1.20, 0.125, "gradients are taken at 0.125"),
        (1.20, 0.5, ""),
    ],
)
def test_a_rate_at_which_the_head_learns_nothing_is_said(
    loss: float, used: float, note: str
) -> None:
    gains = {"fisher": Gains((0.0,), {})}
    head, settings = {"loss": -loss}, {"learning_rate": used}
    found = Contributions("m", "", 5, "gradient", (), head, gains, settings=settings)
    said = rate_note(found, 0.5)
    assert note in said
    assert bool(said) == bool(note)


@pytest.mark.slow
def test_the_head_is_trained_at_the_best_of_several_rates(small: Problem) -> None:
    rates = (1e-6, 0.02, 100.0)
    settings = dataclasses.replace(SETTINGS, head_epochs=3)
    losses = [
        by_gradient(small, dataclasses.replace(settings, head_rates=(rate,))).head["loss"]
        for rate in rates
    ]
    assert len(set(losses)) == len(rates)
    found = by_gradient(small, dataclasses.replace(settings, head_rates=rates))
    assert found.head["loss"] == max(losses)  # a reduction: the largest is the least loss
    assert found.settings["learning_rate"] == SETTINGS.learning_rate

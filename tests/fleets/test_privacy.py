"""Norms that are clipped in integers, and noise that is exactly a discrete Gaussian's."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.errors import ArgumentError
from mcutrain.fleets import Contribution
from mcutrain.fleets.privacy import (
    MOST_NORM,
    PRIVATE_UPDATES,
    NoiseSource,
    clipped,
    epsilon,
    with_noise,
)
from tests.fleets.fleet import fleet


def board(values: list[int], weight: int = 1) -> Contribution:
    half = len(values) // 2
    sums = {"a": np.array(values[:half], np.int64), "b": np.array(values[half:], np.int64)}
    return Contribution(
        1, "ab" * 32, ("x",), weight, 5, 3, {n: v * weight for n, v in sums.items()}
    )


def flat(one: Contribution) -> list[int]:
    return [int(v) for value in one.sums.values() for v in value]


NUMBERS = st.lists(st.integers(-(2**32), 2**32), min_size=1, max_size=30)


@given(NUMBERS, st.integers(1, MOST_NORM), st.integers(1, 2**20))
def test_a_norm_is_clipped_and_never_above(values: list[int], most: int, weight: int) -> None:
    one = clipped(board(values, weight), most, 2)
    found, square = flat(one), sum(v**2 for v in values)
    assert sum(v**2 for v in found) <= most**2
    assert (one.weight, one.updates, one.output_exponent) == (1, PRIVATE_UPDATES, 2)
    if square <= most**2:
        assert found == values
        return
    for v, f in zip(values, found, strict=True):
        assert f * v >= 0
        assert f**2 * square <= v**2 * most**2 < (abs(f) + 1) ** 2 * square


@pytest.mark.parametrize("most", [0, -1, MOST_NORM + 1])
def test_a_norm_has_limits(most: int) -> None:
    with pytest.raises(ArgumentError, match="norm"):
        clipped(board([1, 2]), most, 0)


def share_of(counts: dict[int, int], expected: dict[int, float], drawn: int) -> None:
    """Each value is there as often as it should be, within five deviations."""
    for value, share in expected.items():
        deviation = math.sqrt(share * (1 - share) * drawn) + 1
        assert abs(counts.get(value, 0) - share * drawn) < 5 * deviation, value


@pytest.mark.parametrize("square", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)])
def test_noise_is_a_discrete_gaussian(square: Fraction) -> None:
    drawn, source = 20_000, NoiseSource(b"seed %d" % square.numerator)
    values = [source.gaussian(square) for _ in range(drawn)]
    counts = {v: values.count(v) for v in range(-8, 9)}
    weights = {v: math.exp(-(v**2) / (2 * float(square))) for v in range(-60, 61)}
    whole = sum(weights.values())
    share_of(counts, {v: weights[v] / whole for v in counts}, drawn)
    assert abs(np.mean(values)) < 5 * math.sqrt(float(square) / drawn)


def test_events_and_laplace_numbers_have_their_probabilities() -> None:
    source, drawn = NoiseSource(b"events"), 20_000
    for over, under in ((0, 1), (1, 3), (1, 1), (5, 2)):
        happened = sum(source.is_below_exp(over, under) for _ in range(drawn))
        share_of({1: happened}, {1: math.exp(-over / under)}, drawn)
    for scale in (1, 3):
        values = [source.laplace(scale) for _ in range(drawn)]
        ratio = math.exp(-1 / scale)
        expected = {v: (1 - ratio) / (1 + ratio) * ratio ** abs(v) for v in range(-4, 5)}
        share_of({v: values.count(v) for v in expected}, expected, drawn)
    evenly = [source.below(5) for _ in range(drawn)]
    share_of({v: evenly.count(v) for v in range(5)}, dict.fromkeys(range(5), 0.2), drawn)
    assert source.below(1) == 0


def test_noise_follows_from_its_seed_and_is_large_where_asked() -> None:
    one = replace(fleet().contributions()[0], weight=1)
    few = replace(one, sums={n: v[:300] for n, v in one.sums.items()})
    first, again, other = (with_noise(few, Fraction(1000), s) for s in (b"a", b"a", b"b"))
    noise = np.concatenate([first.sums[n] - few.sums[n] for n in few.sums])
    assert all(np.array_equal(first.sums[n], again.sums[n]) for n in few.sums)
    assert any(not np.array_equal(first.sums[n], other.sums[n]) for n in few.sums)
    assert abs(noise.std() / 1000 - 1) < 5 / math.sqrt(2 * noise.size)
    assert len(set(noise.tolist())) > noise.size // 3


@pytest.mark.slow
def test_an_accountant_says_epsilon() -> None:
    """Against Mironov's bound by hand: ε = min over a of R a / (2 z²) + log(1/δ) / (a - 1)."""
    pytest.importorskip("dp_accounting", reason="needs the extra privacy")
    for noise, rounds in ((1.0, 1), (4.0, 10), (20.0, 100)):
        orders = np.linspace(1.01, 400, 40_000)
        bound = orders * rounds / (2 * noise**2) + math.log(1e5) / (orders - 1)
        found = epsilon(noise, rounds, 1e-5)
        assert 0.5 * bound.min() < found <= bound.min() * 1.001
    assert epsilon(2.0, 10, 1e-5) < epsilon(1.0, 10, 1e-5)

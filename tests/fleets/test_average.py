"""The mean of a fleet against a reader of states that shares no code with it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcutrain_host.saved import HEADER_BYTES, SavedState

from mcutrain.errors import ArgumentError, PlanError, StateError
from mcutrain.fleets import Contribution, FleetLayout, averaged, trimmed, with_momentum
from mcutrain.pipeline import StepOptions, prepare
from mcutrain.simulation.rates import LearningRate
from tests.fleets.fleet import SAMPLES, Fleet, fleet


def whole_numbers(whose: Fleet, saved: bytes) -> dict[str, list[int]]:
    """Trained numbers by the state's table alone: each int8 with the bits below it."""
    table, state = whose.step.plan.state.table, saved[HEADER_BYTES:]
    sections = {section.name: section for section in table.sections}
    residual = {one.name: one.residual for one in whose.layout.numbers}
    found = {}
    for name, section in sections.items():
        if section.kind not in ("weights", "biases"):
            continue
        values = list(section.read(state))
        if residual[name]:
            packed = bytes(sections[residual[name]].read(state))
            bits = 8 * len(packed) // len(values)
            stream = int.from_bytes(packed, "little")
            values = [v * 2**bits + (stream >> (bits * i)) % 2**bits for i, v in enumerate(values)]
        found[name] = values
    return found


def test_the_table_of_a_state_has_exactly_the_numbers_that_are_shared() -> None:
    assert set(whole_numbers(fleet(), fleet().base.raw)) == {
        one.name for one in fleet().layout.numbers
    }


def test_the_mean_is_that_of_fractions_rounded_half_up() -> None:
    ours = fleet()
    new = averaged(ours.layout, ours.base, total_of(ours.contributions()))
    before = whole_numbers(ours, ours.base.raw)
    after = [whole_numbers(ours, state.raw) for state in ours.states]
    found = whole_numbers(ours, new)
    moved = 0
    for name, values in before.items():
        for i, value in enumerate(values):
            sums = sum(
                w * (state[name][i] - value) for w, state in zip(SAMPLES, after, strict=True)
            )
            mean = floor(Fraction(sums, sum(SAMPLES)) + Fraction(1, 2))
            assert found[name][i] == value + mean, (name, i)
            moved += mean != 0
    assert moved > 1000


def test_what_boards_do_not_share_is_the_bases() -> None:
    ours = fleet()
    new = averaged(ours.layout, ours.base, total_of(ours.contributions()))
    parsed = ours.layout.saved(new, "the mean")
    assert parsed.updates == ours.base.updates + max(SAMPLES)
    table = ours.step.plan.state.table
    name = ours.step.plan.training.output_exponent
    for section in table.sections:
        if section.kind in ("weights", "residual_bits", "biases", "counters"):
            continue
        if section.name == name:
            largest = max(section.read(s.raw[HEADER_BYTES:])[0] for s in ours.states)
            assert section.read(new[HEADER_BYTES:])[0] == largest
        else:
            was = section.read(ours.base.raw[HEADER_BYTES:])
            assert section.read(new[HEADER_BYTES:]) == was, section.name


def test_the_generated_c_goes_on_from_a_mean() -> None:
    ours = fleet()
    new = averaged(ours.layout, ours.base, total_of(ours.contributions()))
    simulator, reference = ours.step.simulator(1), ours.step.reference(1)
    simulator.load(new)
    reference.load(new)
    assert simulator.save() == reference.save() == new


@pytest.mark.slow
@settings(max_examples=15)
@given(st.permutations(range(len(SAMPLES))), st.integers(1, 4), st.sampled_from([0, 1, 2]))
def test_any_order_and_any_tree_gives_the_same_bytes(order: list[int], cut: int, via: int) -> None:
    ours = fleet()
    parts = [ours.contributions()[i] for i in order]
    groups = [total_of(parts[:cut]), total_of(parts[cut:])]
    if via:  # through files, in this or the other order
        groups = [Contribution.parse(group.to_bytes(), "a sum") for group in groups]
    total = total_of(groups if via < 2 else groups[::-1])
    straight = total_of(ours.contributions())
    assert total.to_bytes() == straight.to_bytes()
    for rounding in ("nearest", "stochastic"):
        a = averaged(ours.layout, ours.base, total, rounding, 3)
        assert a == averaged(ours.layout, ours.base, straight, rounding, 3)


def test_stochastic_rounding_keeps_the_mean_of_small_moves() -> None:
    """A quarter of a last bit, everywhere: nearest loses it, stochastic moves a quarter of all."""
    ours = fleet()
    one = ours.contributions()[0]
    small = replace(one, weight=4, sums={n: np.ones_like(v) for n, v in one.sums.items()})
    assert whole_numbers(ours, averaged(ours.layout, ours.base, small)) == whole_numbers(
        ours, ours.base.raw
    )
    drawn = averaged(ours.layout, ours.base, small, "stochastic", 5)
    moves = np.concatenate(
        [
            np.subtract(new, old)
            for new, old in zip(
                whole_numbers(ours, drawn).values(),
                whole_numbers(ours, ours.base.raw).values(),
                strict=True,
            )
        ]
    )
    assert set(moves) == {0, 1}
    first, second = (np.array(whole_numbers(ours, drawn)[n]) for n in ours_largest(ours))
    old = [np.array(whole_numbers(ours, ours.base.raw)[n]) for n in ours_largest(ours)]
    most = min(len(first), len(second))
    assert np.any((first - old[0])[:most] != (second - old[1])[:most])  # drawn apart
    assert abs(moves.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / moves.size)
    assert drawn != averaged(ours.layout, ours.base, small, "stochastic", 6)


def ours_largest(ours: Fleet) -> list[str]:
    """The two tensors with the most numbers."""
    sums = ours.contributions()[0].sums
    return sorted(sums, key=lambda name: -sums[name].size)[:2]


def test_a_mean_begins_a_new_update() -> None:
    """The base was in the middle of a group of samples."""
    step = prepare(fleet().step.graph, "head", StepOptions(accumulate=2))
    layout, reference = FleetLayout(step), step.reference(1)
    x, rate = np.zeros((3, *step.input_type.shape[1:]), np.int8), [LearningRate.of(0.1)] * 3
    reference.train(x, [1, 2, 3], rate)
    base = layout.saved(reference.save(), "the base")
    assert (base.updates, base.samples) == (1, 1)
    reference.train(x, [4, 5, 6], rate)
    state = layout.saved(reference.save(), "a state")
    new = averaged(layout, base, Contribution.of(layout, base, state, "a", 3))
    assert (layout.saved(new, "").updates, layout.saved(new, "").samples) == (3, 0)
    simulator = step.simulator(1)
    for one in (reference, simulator):
        one.load(new)
        one.train(x, [7, 8, 9], rate)
    assert reference.save() == simulator.save()


def test_numbers_saturate_where_updates_do() -> None:
    ours = fleet()
    one = ours.contributions()[0]
    for sign in (-1, 1):
        far = {n: np.full_like(v, sign * 2**31 * one.weight) for n, v in one.sums.items()}
        new = averaged(ours.layout, ours.base, replace(one, sums=far))
        tensors = ours.step.plan.state.unpack(new[HEADER_BYTES:])
        ends = {"int8": (-127, 127), "int16": (-32767, 32767), "int32": (-(2**30), 2**30)}
        for number in ours.layout.numbers:
            end = ends[str(tensors[number.name].dtype)][sign > 0]
            assert np.all(tensors[number.name] == end), number.name


def test_a_trimmed_mean_bounds_what_a_liar_does() -> None:
    ours = fleet()
    parts = ours.contributions()
    honest = trimmed(ours.layout, ours.base, parts, 0)
    liar = replace(parts[2], sums={n: v * -50 + 9000 for n, v in parts[2].sums.items()})
    lied = [*parts[:2], liar, *parts[3:]]
    numbers = {
        n: np.array(v)
        for n, v in whole_numbers(ours, trimmed(ours.layout, ours.base, lied, 1)).items()
    }
    others = [whole_numbers(ours, s.raw) for i, s in enumerate(ours.states) if i != 2]
    for name, values in numbers.items():
        among = np.array([state[name] for state in others])
        assert np.all((among.min(axis=0) <= values) & (values <= among.max(axis=0))), name
    assert honest != trimmed(ours.layout, ours.base, lied, 0)


def test_a_trimmed_mean_bounds_exponents_and_counts_too() -> None:
    ours = fleet()
    parts = ours.contributions()
    lied = [*parts[:2], replace(parts[2], output_exponent=31, updates=2**31), *parts[3:]]
    made = ours.layout.saved(trimmed(ours.layout, ours.base, lied, 1), "the mean")
    honest = [part for i, part in enumerate(parts) if i != 2]
    assert ours.layout.output_exponent(made) <= max(p.output_exponent for p in honest)
    assert made.updates - ours.base.updates == max(p.updates for p in honest)


def test_a_trimmed_mean_can_be_rounded_at_random() -> None:
    ours = fleet()
    near, *drawn = (
        trimmed(ours.layout, ours.base, ours.contributions(), 1, rounding, seed)
        for rounding, seed in (("nearest", 0), ("stochastic", 1), ("stochastic", 2))
    )
    numbers = [whole_numbers(ours, made) for made in (near, *drawn)]
    assert numbers[1] != numbers[2]
    for name, values in numbers[0].items():
        apart = np.abs(np.subtract(values, numbers[1][name]))
        assert np.all(apart <= 1), name


def test_boards_of_a_trimmed_mean_are_of_one_round() -> None:
    ours = fleet()
    parts = ours.contributions()
    later = Contribution.of(ours.layout, ours.states[0], ours.states[1], "later", 5)
    with pytest.raises(StateError, match="give the base of their round"):
        trimmed(ours.layout, ours.base, [*parts, later], 1)
    with pytest.raises(StateError, match="'board0' is there twice"):
        trimmed(ours.layout, ours.base, [*parts, parts[0]], 1)


def test_a_trimmed_mean_is_that_of_sorted_numbers() -> None:
    ours = fleet()
    found = whole_numbers(ours, trimmed(ours.layout, ours.base, ours.contributions(), 1))
    before = whole_numbers(ours, ours.base.raw)
    states = [whole_numbers(ours, state.raw) for state in ours.states]
    for name, values in before.items():
        for i, value in enumerate(values):
            kept = sorted(state[name][i] - value for state in states)[1:-1]
            assert found[name][i] == value + floor(Fraction(sum(kept), 3) + Fraction(1, 2))


def test_more_boards_must_stay_than_are_left_out() -> None:
    ours = fleet()
    with pytest.raises(ArgumentError, match="at most 2"):
        trimmed(ours.layout, ours.base, ours.contributions(), 3)
    with pytest.raises(ArgumentError, match="at most 1"):
        trimmed(ours.layout, ours.base, ours.contributions()[:4], 2)
    whole = total_of(ours.contributions()[:2])
    with pytest.raises(ArgumentError, match="own contribution"):
        trimmed(ours.layout, ours.base, [whole, *ours.contributions()[2:]], 1)


@given(
    st.lists(
        st.lists(st.integers(-(2**32), 2**32), min_size=3, max_size=3), min_size=1, max_size=4
    ),
    st.integers(1, 2**30),
    st.sampled_from([0.0, 0.25, 0.5, 0.9]),
)
def test_momentum_is_what_is_left_of_rounds_before(
    rounds: list[list[int]], weight: int, momentum: float
) -> None:
    velocity: dict[str, np.ndarray] = {}
    exact = [Fraction(0)] * 3
    for differences in rounds:
        sums = {"w": np.array(differences, np.int64) * weight + weight // 3}
        one = Contribution(1, "ab" * 32, ("a", "b"), weight, 1, 0, sums)
        moved, velocity = with_momentum(one, velocity, momentum)
        share = Fraction(round(256 * momentum), 256)
        exact = [
            e * share + Fraction(int(s), weight) for e, s in zip(exact, sums["w"], strict=True)
        ]
        assert (moved.weight, moved.sums) == (2**16, velocity)
        for found, wanted in zip(velocity["w"], exact, strict=True):
            assert 0 <= wanted * 2**16 - int(found) < 2 / (1 - share)


def mixed_rounds(ours: Fleet) -> tuple[Contribution, Contribution]:
    other = Contribution.of(ours.layout, ours.states[0], ours.states[1], "later", 5)
    return ours.contributions()[0], other


def too_heavy(ours: Fleet) -> tuple[Contribution, Contribution]:
    first, second, *_ = ours.contributions()
    return replace(first, weight=2**30), second


REFUSED: list[tuple[Callable[[Fleet], tuple[Contribution, Contribution]], str]] = [
    (lambda ours: (ours.contributions()[0],) * 2, "'board0' is there twice"),
    (mixed_rounds, "only contributions of one round"),
    (too_heavy, "divide all of them"),
    (
        lambda ours: (
            ours.contributions()[0],
            replace(ours.contributions()[1], model_hash=1),
        ),
        "other models or schemes",
    ),
]


@pytest.mark.parametrize(("pair", "sentence"), REFUSED)
def test_what_cannot_be_added_gets_a_sentence(
    pair: Callable[[Fleet], tuple[Contribution, Contribution]], sentence: str
) -> None:
    first, second = pair(fleet())
    with pytest.raises(StateError, match=sentence):
        first + second


def test_a_mean_of_another_base_or_model_is_refused() -> None:
    ours = fleet()
    total = total_of(ours.contributions())
    with pytest.raises(StateError, match="give the base of their round"):
        averaged(ours.layout, ours.states[0], total)
    with pytest.raises(StateError, match="another model"):
        averaged(ours.layout, ours.base, replace(total, model_hash=5))
    fewer = dict(list(total.sums.items())[1:])
    with pytest.raises(StateError, match="other tensors"):
        averaged(ours.layout, ours.base, replace(total, sums=fewer))


def test_resampled_columns_are_refused() -> None:
    step = fleet().step
    swapped = prepare(step.graph, "22:0.5", StepOptions(swap="drawn"))
    with pytest.raises(PlanError, match="without it"):
        FleetLayout(swapped)


def total_of(parts: list[Contribution]) -> Contribution:
    total = parts[0]
    for part in itertools.islice(parts, 1, None):
        total = total + part
    return total


def test_a_state_of_another_step_is_refused() -> None:
    ours = fleet()
    other = FleetLayout(prepare(ours.step.graph, "head"))
    with pytest.raises(StateError, match="another model"):
        other.saved(ours.base.raw, "a state")
    assert isinstance(ours.base, SavedState)

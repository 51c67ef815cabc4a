"""Boards that come back rounds later: what they learnt counts half as much with each round."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcutrain_host.saved import SavedState

from mcutrain.demo import MODEL
from mcutrain.errors import StateError
from mcutrain.fleets import Contribution, averaged, on_time, trimmed
from mcutrain.fleets.contribution import MOST_WEIGHT
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.fleets.fleet import fleet
from tests.fleets.test_average import total_of


@cache
def bases() -> tuple[SavedState, ...]:
    """Of this round, and of the two before."""
    return (fleet().base, *fleet().states[:2])


@cache
def names() -> tuple[str, ...]:
    return tuple(sha256(base.raw).hexdigest() for base in bases())


def learnt(age: int, board: int, weight: int) -> Contribution:
    ours = fleet()
    return Contribution.of(ours.layout, bases()[age], ours.states[board], f"b{board}", weight)


@pytest.mark.slow
@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(2, 4), st.integers(1, 1000)),
        min_size=1,
        max_size=6,
        unique_by=lambda one: one[:2],
    )
)
def test_a_late_board_counts_half_as_much_with_each_round(given_: list[tuple[int, ...]]) -> None:
    ours, parts = fleet(), [learnt(*one) for one in given_]
    total = total_of(on_time(parts, names()))
    largest = max(age for age, _, _ in given_)
    shares = [weight * 2 ** (largest - age) for age, _, weight in given_]
    assert total.weight == sum(shares)
    for name, sums in total.sums.items():
        expected = np.zeros_like(sums)
        for (age, board, _), share in zip(given_, shares, strict=True):
            before, after = (ours.layout.read(s)[name] for s in (bases()[age], ours.states[board]))
            expected += share * (after - before)
        assert np.array_equal(sums, expected)
    again = total_of(on_time(parts[::-1], names()))
    assert again.to_bytes() == total.to_bytes()
    averaged(ours.layout, ours.base, total)  # is of this round


def test_boards_on_time_are_as_without_late_ones() -> None:
    parts = [learnt(0, 2, 5), learnt(0, 3, 7)]
    assert [p.to_bytes() for p in on_time(parts, names())] == [p.to_bytes() for p in parts]
    assert on_time([], names()) == []


def test_a_board_may_be_there_late_and_on_time_but_never_twice_of_a_round() -> None:
    both = total_of(on_time([learnt(0, 2, 5), learnt(1, 2, 5)], names()))
    assert both.boards == ("b2", "b2 (1 late)")
    with pytest.raises(StateError, match=r"'b2 \(1 late\)' is there twice"):
        total_of(on_time([learnt(1, 2, 5), learnt(1, 2, 5)], names()))


def test_what_is_too_late_gets_a_sentence() -> None:
    with pytest.raises(StateError, match=r"'b2' began with the base .* too late, or of another"):
        on_time([learnt(0, 3, 5), learnt(2, 2, 5)], names()[:2])


def test_weights_stay_within_64_bits() -> None:
    heavy = learnt(0, 2, MOST_WEIGHT // 2)
    assert on_time([heavy, learnt(1, 3, 1)], names())[0].weight == MOST_WEIGHT
    with pytest.raises(StateError, match="divide all weights"):
        on_time([heavy, learnt(2, 3, 1)], names())


def test_a_trimmed_mean_takes_late_boards_too() -> None:
    ours = fleet()
    parts = on_time([learnt(0, 2, 1), learnt(0, 3, 1), learnt(1, 4, 1)], names())
    middle = trimmed(ours.layout, ours.base, parts, 1)
    found, before = ours.layout.read(ours.layout.saved(middle, "")), ours.layout.read(ours.base)
    for name, value in found.items():
        moves = np.sort([part.differences[name] for part in parts], axis=0)[1]
        assert np.array_equal(value - before[name], moves)


def test_average_takes_the_bases_of_former_rounds(run: Run, tmp_path: Path) -> None:
    ours = fleet()
    for name, state in zip(("now", "before", "first"), bases(), strict=True):
        (tmp_path / f"{name}.mcts").write_bytes(ours.file(state))
    for i in (2, 3, 4):
        (tmp_path / f"b{i}.mcts").write_bytes(ours.file(ours.states[i]))
    sums = ("average", MODEL, "first.mcts", "b4.mcts", "-o", "late.mctd", "--weights", 6)
    assert run(*sums).code == 0
    flags = ("b2.mcts", "b3.mcts", "-o", "next.mcts")
    refused = run("average", MODEL, "now.mcts", "late.mctd", *flags).sentence
    assert "only contributions of one round can be added" in refused
    refused = run("average", MODEL, "now.mcts", "late.mctd", *flags, "--former", "before.mcts")
    assert "too late" in refused.sentence
    former = ("--former", "before.mcts", "--former", "first.mcts")
    sums = ("average", MODEL, "now.mcts", "b2.mcts", "-o", "now.mctd", "--weights", 5)
    assert run(*sums).code == 0
    done = run("average", MODEL, "now.mcts", "now.mctd", "late.mctd", "-o", "n.mcts", *former)
    assert done.code == 0, done.err
    expected = total_of(on_time([learnt(0, 2, 5), learnt(2, 4, 6)], names()))
    made = averaged(ours.layout, ours.base, expected)
    assert (tmp_path / "n.mcts").read_bytes()[: len(made)] == made

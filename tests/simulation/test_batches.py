"""Samples of one level together: none is lost, none comes twice, batches are as pure as can be."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.simulation.batches import by_level, mixed_batches

level_lists = st.lists(st.integers(0, 3), min_size=1, max_size=60)


@pytest.mark.slow
@given(levels=level_lists, size=st.integers(1, 9), begun=st.integers(0, 8), seed=st.integers(0, 9))
def test_an_epoch_has_its_samples_once_each_and_few_mixed_batches(
    levels: list[int], size: int, begun: int, seed: int
) -> None:
    begun %= size
    order = np.random.default_rng(seed).permutation(len(levels))
    known = np.array(levels)
    found = by_level(order, known, size, begun)
    assert sorted(found) == list(range(len(levels)))
    first = -begun % size
    assert found[:first].tolist() == order[:first].tolist()
    pure = sum(count // size for count in Counter(known[order[first:]].tolist()).values())
    batches = found[first : first + pure * size].reshape(-1, size)
    assert all(len(set(known[batch].tolist())) == 1 for batch in batches)
    whole = max(len(levels) - first, 0) // size
    assert mixed_batches(known[found], size, begun) <= whole - pure + 1
    for level in range(4):  # what a level collects stays in its order
        own = [i for i in found[first:].tolist() if levels[i] == level]
        assert own == [i for i in order[first:].tolist() if levels[i] == level]


def test_batches_follow_as_they_fill_and_the_rest_is_at_the_end() -> None:
    levels = np.array([0, 1, 0, 1, 0, 2, 1])
    found = by_level(np.arange(7), levels, 2, 0)
    assert found.tolist() == [0, 2, 1, 3, 4, 6, 5]
    assert mixed_batches(levels[found], 2, 0) == 1
    assert by_level(np.arange(7), levels, 2, 1).tolist() == [0, 1, 3, 2, 4, 6, 5]


@pytest.mark.parametrize(
    ("levels", "size", "begun", "mixed"),
    [
        ([0, 0, 1, 1], 2, 0, 0),
        ([0, 1, 1, 1], 2, 0, 1),
        ([0, 0, 1, 1], 2, 1, 2),  # the first ends a batch of the epoch before
        ([0, 0, 0], 2, 0, 0),  # the last waits for the next epoch
        ([0], 4, 1, 0),  # so does the whole batch
        ([0, 1, 2], 4, 1, 1),
    ],
)
def test_mixed_batches_are_counted_where_they_end(
    levels: list[int], size: int, begun: int, mixed: int
) -> None:
    assert mixed_batches(np.array(levels), size, begun) == mixed

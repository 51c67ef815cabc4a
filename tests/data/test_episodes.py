"""Few-shot episodes: what is drawn, by which seed, and what cannot be drawn."""

from dataclasses import replace

import numpy as np
import pytest

from mcutrain.data import Dataset, Episodes, Split, episode, order
from mcutrain.data.dataset import unlabelled
from mcutrain.errors import DataError

NAMES = ("ant", "bee", "cat", "dog", "elk", "fox")


def part(of_each: int, seed: int) -> Dataset:
    """Samples that say their class (in tens of 20) and are mixed."""
    y = np.repeat(np.arange(len(NAMES)), of_each)[order(len(NAMES) * of_each, 0, seed)]
    x = np.stack([y * 20, np.arange(len(y)) + seed], axis=1).astype(np.uint8)
    return Dataset(x, y, NAMES)


@pytest.fixture(scope="module")
def split() -> Split:
    return Split(part(7, 0), part(3, 60), part(2, 100))


def test_an_episode_has_its_classes_and_samples(split: Split) -> None:
    for seed in range(20):
        found = episode(split, 3, 4, seed)
        assert found.names == tuple(sorted(found.names))
        assert np.bincount(found.train.y).tolist() == [4, 4, 4]
        assert np.bincount(found.test.y).tolist() == [3, 3, 3]
        assert found.validation is not None
        assert np.bincount(found.validation.y).tolist() == [2, 2, 2]
        for own, whole in zip(
            (found.train, found.test, found.validation),
            (split.train, split.test, split.validation),
            strict=True,
        ):
            assert whole is not None
            rows = {(int(a), int(b)) for a, b in whole.x}
            assert {(int(a), int(b)) for a, b in own.x} <= rows
            assert len(np.unique(own.x[:, 1])) == len(own)
            assert [own.names[label] for label in own.y] == [NAMES[x // 20] for x in own.x[:, 0]]


def test_seeds_draw_classes_and_samples_alike(split: Split) -> None:
    drawn = [episode(split, 3, 4, seed) for seed in range(300)]
    assert len({found.names for found in drawn}) == 20  # all there are
    classes = {name: sum(name in found.names for found in drawn) for name in NAMES}
    assert all(120 < count < 180 for count in classes.values()), classes
    taken = np.bincount(np.concatenate([found.train.x[:, 1] for found in drawn]), minlength=42)
    mean = 300 * 12 / 42
    assert ((0.6 * mean < taken) & (taken < 1.4 * mean)).all(), taken
    again = episode(split, 3, 4, 7)
    assert again.names == drawn[7].names
    assert again.train.x.tolist() == drawn[7].train.x.tolist()


def test_the_draw_stays_as_it_is(split: Split) -> None:
    found = episode(split, 3, 2, 0)
    assert found.names == ("bee", "cat", "elk")
    assert found.train.x[:, 1].tolist() == [9, 25, 29, 31, 34, 39]


def test_more_hold_the_fewer(split: Split) -> None:
    few, more = episode(split, 3, 2, 5), episode(split, 5, 4, 5)
    assert set(few.names) < set(more.names)
    assert set(few.train.x[:, 1].tolist()) < set(more.train.x[:, 1].tolist())
    everything = episode(split, 6, 7, 5)
    assert everything.train.x.tolist() == split.train.x.tolist()
    assert everything.train.y.tolist() == split.train.y.tolist()


def test_a_validation_part_without_these_classes_is_left_out(split: Split) -> None:
    names = episode(split, 2, 2, 1).names
    assert split.validation is not None
    others = [name not in names for name in (NAMES[y] for y in split.validation.y)]
    without = replace(split, validation=split.validation.take(np.flatnonzero(others)))
    assert episode(without, 2, 2, 1).validation is None
    assert episode(replace(split, validation=None), 2, 2, 1).validation is None


def test_what_cannot_be_drawn_is_a_sentence(split: Split) -> None:
    for ways, shots, says in (
        (1, 5, "ways = 1: an episode tells classes apart, give 2 or more"),
        (0, 5, "ways = 0: an episode"),
        (5, 0, "shots = 0: an episode learns, give 1 sample or more"),
        (7, 2, "an episode of 7 classes is asked for, but the data has 6: give 2 to 6"),
        (2, 8, "takes 8 training samples of each class, but there are fewer of 'ant', 'bee'"),
    ):
        with pytest.raises(DataError, match=says):
            episode(split, ways, shots, 0)
    short = replace(split, train=split.train.take(np.flatnonzero(split.train.y != 2)))
    with pytest.raises(DataError, match="there are fewer of 'cat': give fewer shots"):
        episode(short, 2, 1, 0)
    untested = replace(split, test=split.test.take(np.flatnonzero(split.test.y != 3)))
    with pytest.raises(DataError, match="there is no test sample of 'dog'"):
        episode(untested, 2, 1, 0)
    bare = split.each(lambda part: unlabelled(part.x))
    with pytest.raises(DataError, match="episodes are of classes, but the data has no labels"):
        episode(bare, 2, 1, 0)


def test_ways_and_shots_belong_together() -> None:
    assert Episodes.of(None, None, None) is None
    assert Episodes.of(5, 2, None) == Episodes(5, 2, 5)
    assert Episodes.of(5, 2, 3) == Episodes(5, 2, 3)
    for ways, shots, count in ((5, None, None), (None, 5, None), (None, None, 5), (5, None, 1)):
        with pytest.raises(DataError, match=r"an episode has ways, .* give both"):
            Episodes.of(ways, shots, count)
    for count in (0, -1, 1001):
        with pytest.raises(DataError, match="episodes: give 1 to 1,000"):
            Episodes.of(5, 2, count)

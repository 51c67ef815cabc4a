"""A part of a data set holds every class, wherever the file or folder begins."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.analysis.problem import held_out
from mcutrain.data import AtMost, Dataset, ModelInput, drawn
from mcutrain.data.unlabelled import load_samples
from mcutrain.errors import DataError
from mcutrain.functions.chosen import samples_for
from mcutrain.functions.listener import SILENT
from mcutrain.functions.run_options import DataOptions

CLASSES, EACH = 10, 12
SORTED = np.repeat(np.arange(CLASSES), EACH)
"""Labels of samples that lie class by class, as a folder's do."""


def numbered(y: np.ndarray) -> np.ndarray:
    """A sample (2,) per label that says which label it has, and its number within the class."""
    number = [int((y[:i] == label).sum()) for i, label in enumerate(y)]
    return np.stack((y, number), axis=1).astype(np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten classes of images; the first pixel is the class, the second the image's number."""
    image = pytest.importorskip("PIL.Image", reason="image folders need Pillow")
    for label, number in numbered(SORTED).tolist():
        path = tmp_path / "digits" / f"{label:02}" / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.array([[label, number]], np.uint8)).save(path)
    return tmp_path / "digits"


def read(path: Path, samples: int | None, tests: int | None, seed: int = 0):
    reading = DataOptions(samples=samples, test_samples=tests, test_share=0.25)
    model = ModelInput((1, 2, 1), 1 / 255, -128)
    return samples_for(model, path, reading, seed, SILENT, is_partial=False)


def test_few_samples_of_a_folder_are_of_every_class(folder: Path) -> None:
    split = read(folder, 30, 20)
    assert Counter(split.train.y.tolist()) == dict.fromkeys(range(CLASSES), 3)
    assert Counter(split.test.y.tolist()) == dict.fromkeys(range(CLASSES), 2)
    for part in (split.train, split.test):
        assert part.x[:, 0, 0, 0].tolist() == part.y.tolist()


def test_the_seed_draws_and_the_format_does_not_matter(folder: Path, tmp_path: Path) -> None:
    first, again, other = (read(folder, 30, 20, seed).train.x for seed in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()
    x = numbered(SORTED).reshape(-1, 1, 2, 1)
    np.savez(tmp_path / "same.npz", x=x, y=SORTED)
    assert read(tmp_path / "same.npz", 30, 20, 1).train.x.tolist() == first.tolist()


def test_of_a_folder_only_what_is_drawn_is_read(folder: Path) -> None:
    whole = read(folder, None, None)
    used = read(folder, 30, 20)
    drawn_paths = {(label, number) for label, number in used.train.x.reshape(-1, 2).tolist()}
    for label, number in whole.train.x.reshape(-1, 2).tolist():
        if (label, number) not in drawn_paths:
            (folder / f"{label:02}" / f"{number:02}.png").write_bytes(b"no image")
    assert read(folder, 30, 20).train.x.tolist() == used.train.x.tolist()
    with pytest.raises(DataError, match="is no readable image"):
        read(folder, None, None)


LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=60)


@given(LABELS, st.integers(1, 60), st.integers(0, 9))
def test_a_class_gets_its_share_and_at_least_one(labels: list[int], count: int, seed: int) -> None:
    count = min(count, len(labels))
    y = np.array(labels, np.int64)
    index = drawn(y, count, seed)
    assert len(set(index.tolist())) == count
    assert index.tolist() == sorted(index.tolist())
    sizes, found = Counter(labels), Counter(y[index].tolist())
    assert len(found) == min(count, len(sizes))
    for label in found:
        assert abs(found[label] - count * sizes[label] / len(y)) < len(sizes)
    assert set(drawn(y, max(count - 1, 1), seed).tolist()) <= set(index.tolist())


@pytest.mark.parametrize("seed", range(5))
def test_a_rare_class_is_not_left_out(seed: int) -> None:
    y = np.array([0] * 50 + [1] + [2] * 40 + [3])
    assert set(y[drawn(y, 4, seed)].tolist()) == {0, 1, 2, 3}
    assert np.bincount(y[drawn(y, 20, seed)]).tolist() == [10, 1, 8, 1]


@pytest.mark.parametrize("count", [10, 15, 95])
def test_equal_classes_get_equal_parts(count: int) -> None:
    found = np.bincount(SORTED[drawn(SORTED, count, 0)], minlength=CLASSES)
    assert found.max() - found.min() <= 1


def test_how_classes_follow_each_other_does_not_matter() -> None:
    mixed = np.random.default_rng(0).permutation(SORTED)
    chosen = [sorted(numbered(y)[drawn(y, 37, 5)].tolist()) for y in (SORTED, mixed)]
    assert chosen[0] == chosen[1]


def test_fewer_samples_than_classes_are_not_always_of_the_first() -> None:
    assert {label for seed in range(40) for label in SORTED[drawn(SORTED, 2, seed)]} == set(
        range(CLASSES)
    )


def test_the_draw_is_the_same_in_every_version() -> None:
    assert drawn(SORTED[:60], 12, 7).tolist() == DRAWN_12_SEED_7


DRAWN_12_SEED_7 = [0, 3, 7, 14, 17, 25, 33, 37, 44, 45, 49, 57]


@pytest.mark.parametrize("count", [0, -1, 121])
def test_more_than_there_is_is_refused_with_both_numbers(count: int) -> None:
    with pytest.raises(DataError, match=rf"{count} samples .* has 120"):
        drawn(SORTED, count, 0)


def test_both_parts_of_an_analysis_hold_every_class() -> None:
    whole = Dataset(numbered(SORTED), SORTED, tuple("abcdefghij"))
    split = held_out(whole, 20, 10, 3)
    assert Counter(split.train.y.tolist()) == dict.fromkeys(range(CLASSES), 2)
    assert Counter(split.test.y.tolist()) == dict.fromkeys(range(CLASSES), 1)
    parts = [{tuple(x) for x in part.x.tolist()} for part in (split.train, split.test)]
    assert not parts[0] & parts[1]


def test_calibration_sees_every_class(folder: Path, tmp_path: Path) -> None:
    found = load_samples(folder, 20, input_shape=(1, 2, 1))
    assert Counter(found[:, 0, 0, 0].tolist()) == dict.fromkeys(range(CLASSES), 2)
    np.savez(tmp_path / "set.npz", x=numbered(SORTED), y=SORTED, split=numbered(SORTED)[:, 1] > 7)
    found = load_samples(tmp_path / "set.npz", 30)
    assert Counter(found[:, 0].tolist()) == dict.fromkeys(range(CLASSES), 3)
    assert found[:, 1].max() <= 7, "calibration took test samples"
    assert len(set(found[:10, 0].tolist())) > 4, "the first samples are of the first classes"


@pytest.mark.parametrize("y", [SORTED[:3], np.float32(1), np.arange(120) / 7, SORTED.astype("U2")])
def test_calibration_does_not_mind_odd_labels(tmp_path: Path, y: np.ndarray) -> None:
    np.savez(tmp_path / "set.npz", x=numbered(SORTED), y=y)
    assert len(load_samples(tmp_path / "set.npz", 30)) == 30


@pytest.mark.parametrize("count", [1, 7, 8, 9, 10**6])
def test_at_most_so_many_are_all_where_there_are_fewer(count: int) -> None:
    y = np.array([0, 0, 0, 0, 1, 1, 1, 2])
    expected = drawn(y, min(count, 8), 3)
    assert np.array_equal(drawn(y, AtMost(count), 3), expected)
    if count > 8:
        with pytest.raises(DataError, match="the set has 8"):
            drawn(y, count, 3)

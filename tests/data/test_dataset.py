"""Data sets are sound values; splits and orders are seeded, fair and stable."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcutrain.data import Dataset, Split, Transform, check, order, stratified
from mcutrain.errors import DataError


def dataset(n: int = 6, shape: tuple[int, ...] = (4, 4, 3), classes: int = 3) -> Dataset:
    x = np.arange(n * int(np.prod(shape))).reshape(n, *shape).astype(np.uint8)
    names = tuple("abcdefgh"[:classes])
    return Dataset(x, np.arange(n, dtype=np.int64) % classes, names)


@given(st.integers(1, 300), st.integers(0, 50), st.integers(0, 2**63))
def test_the_order_of_an_epoch_visits_every_sample_once(n: int, epoch: int, seed: int) -> None:
    assert sorted(order(n, epoch, seed).tolist()) == list(range(n))


def test_the_order_changes_with_epoch_and_seed_only() -> None:
    first = order(100, epoch=0, seed=1)
    assert first.dtype == np.int64
    assert (first == order(100, epoch=0, seed=1)).all()
    assert (first != order(100, epoch=1, seed=1)).any()
    assert (first != order(100, epoch=0, seed=2)).any()


def test_the_order_is_the_same_in_every_version() -> None:
    assert order(10, epoch=3, seed=7).tolist() == ORDER_10_EPOCH_3_SEED_7


ORDER_10_EPOCH_3_SEED_7 = [2, 4, 7, 3, 5, 1, 8, 9, 0, 6]


LABELS = st.lists(st.integers(0, 4), min_size=2, max_size=80).filter(
    lambda labels: len(set(labels)) < len(labels)
)


@given(LABELS, st.floats(0.01, 0.99), st.integers(0, 9))
def test_a_stratified_split_uses_each_sample_once_and_each_class_by_its_share(
    labels: list[int], share: float, seed: int
) -> None:
    y = np.array(labels, dtype=np.int64)
    train, test = stratified(y, share, seed)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(y)))
    for label in set(labels):
        count, tested = labels.count(label), int((y[test] == label).sum())
        assert tested < count
        assert abs(tested - share * count) <= 1
        assert tested >= 1 or count == 1


def test_a_stratified_split_depends_on_its_seed() -> None:
    y = np.zeros(100, dtype=np.int64)
    assert (stratified(y, 0.5, 1)[1] == stratified(y, 0.5, 1)[1]).all()
    assert not np.array_equal(stratified(y, 0.5, 1)[1], stratified(y, 0.5, 2)[1])


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(DataError, match="test share"):
        stratified(np.zeros(4, dtype=np.int64), share, 0)


def test_a_set_without_two_samples_of_any_class_cannot_be_split() -> None:
    with pytest.raises(DataError, match="no class has two samples"):
        stratified(np.arange(3, dtype=np.int64), 0.2, 0)


def test_subset_keeps_the_first_samples_and_the_names() -> None:
    first = dataset(6).subset(2)
    assert len(first) == 2
    assert (first.x == dataset(6).x[:2]).all()
    assert first.names == ("a", "b", "c")


@pytest.mark.parametrize("count", [0, 7, -1])
def test_a_subset_outside_the_set_is_refused_with_both_numbers(count: int) -> None:
    with pytest.raises(DataError, match=rf"{count} samples .* has 6"):
        dataset(6).subset(count)


def test_samples_cannot_be_written_through_a_dataset() -> None:
    x = np.zeros((2, 3), dtype=np.float32)
    made = Dataset(x, np.array([0, 1]), ("a", "b"))
    with pytest.raises(ValueError, match="read-only"):
        made.x[0, 0] = 1
    x[0, 0] = 2  # the caller's own array is left as it was


def test_grey_images_get_a_channel_axis() -> None:
    assert dataset(2, (5, 4)).x.shape == (2, 5, 4, 1)


BAD = {
    "float64": (np.zeros((2, 3)), np.array([0, 1]), "x is float64"),
    "rank 1": (np.zeros(2, np.uint8), np.array([0, 1]), r"x has the shape \(2,\)"),
    "rank 5": (np.zeros((2, 1, 1, 1, 1), np.uint8), np.array([0, 1]), "x has the shape"),
    "empty": (np.zeros((2, 0), np.uint8), np.array([0, 1]), "holds no value"),
    "nan": (np.full((2, 3), np.nan, np.float32), np.array([0, 1]), "NaN"),
    "infinite": (np.full((2, 3), np.inf, np.float32), np.array([0, 1]), "infinite"),
    "float labels": (np.zeros((2, 3), np.uint8), np.array([0.0, 1.0]), "y is float64"),
    "bool labels": (np.zeros((2, 3), np.uint8), np.array([False, True]), "y is bool"),
    "rank of y": (np.zeros((2, 3), np.uint8), np.array([[0], [1]]), r"y has the shape \(2, 1\)"),
    "negative": (np.zeros((2, 3), np.uint8), np.array([0, -1]), "from -1 to 0"),
    "huge": (np.zeros((2, 3), np.uint8), np.array([0, 2**64 - 1], np.uint64), "labels from 0"),
    "lengths": (np.zeros((3, 3), np.uint8), np.array([0, 1]), "3 samples but y has 2 labels"),
    "unnamed": (np.zeros((2, 3), np.uint8), np.array([0, 2]), "label 2 but there are 2 class"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_unsound_dataset_is_refused_in_one_sentence(case: str) -> None:
    x, y, message = BAD[case]
    with pytest.raises(DataError, match=message) as caught:
        Dataset(x, y, ("a", "b"))
    assert is_one_sentence(str(caught.value))


def is_one_sentence(message: str) -> bool:
    return "\n" not in message and ": " in message and not re.search(r"\. [A-Z]", message)


@pytest.mark.parametrize("names", [("a", ""), ("a", "\ud800"), ("a", "b\nc"), ("a", "a")])
def test_class_names_that_cannot_be_told_apart_or_printed_are_refused(
    names: tuple[str, ...],
) -> None:
    with pytest.raises(DataError, match="class name") as caught:
        Dataset(np.zeros((2, 3), np.uint8), np.array([0, 1]), names)
    assert is_one_sentence(str(caught.value).encode("utf-8").decode())


def test_both_parts_of_a_split_have_the_same_classes() -> None:
    with pytest.raises(DataError, match="different classes"):
        Split(dataset(classes=3), dataset(classes=4))


def test_a_fitting_split_passes_the_check() -> None:
    split = Split(dataset(), dataset())
    check(split, input_shape=(4, 4, 3), classes=3)
    check(split, input_shape=(8, 8, 1), classes=5, transform=Transform(8, 8, 1))


def test_a_wrong_shape_is_refused_with_both_shapes() -> None:
    with pytest.raises(DataError, match=r"\(4, 4, 3\).*\(8, 8, 3\)"):
        check(Split(dataset(), dataset()), input_shape=(8, 8, 3), classes=3)
    with pytest.raises(DataError, match=r"\(9, 8, 3\).*\(8, 8, 3\)"):
        check(
            Split(dataset(), dataset()),
            input_shape=(8, 8, 3),
            classes=3,
            transform=Transform(9, 8, 3),
        )


def test_a_label_beyond_the_model_is_refused_with_both_numbers() -> None:
    with pytest.raises(DataError, match=r"up to 2 \(c\).* 2 classes"):
        check(Split(dataset(), dataset()), input_shape=(4, 4, 3), classes=2)


def test_features_are_no_images_for_a_transform() -> None:
    split = Split(dataset(shape=(7,)), dataset(shape=(7,)))
    check(split, input_shape=(7,), classes=3)
    with pytest.raises(DataError, match="no images"):
        check(split, input_shape=(8, 8, 3), classes=3, transform=Transform(8, 8, 3))

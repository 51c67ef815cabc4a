"""Data sets without labels, classes in another order, and windows that are no images."""

from __future__ import annotations

import numpy as np
import pytest

from mcutrain.data import Dataset, Split, check
from mcutrain.errors import DataError
from mcutrain.simulation import RunSettings, Samples

X = np.arange(12 * 5 * 3, dtype=np.uint8).reshape(12, 5, 3)


def labelled(classes: int, *names: str) -> Split:
    y = np.arange(12) % classes
    part = Dataset(X, y, names or tuple("abcdef"[:classes]))
    return Split(part, part.take(np.arange(8)))


def test_labels_of_classes_are_dropped_those_of_anomalies_stay_in_the_test() -> None:
    for classes in (2, 3):
        split = labelled(classes).without_labels()
        assert not split.is_labelled
        assert not split.train.y.any()
        assert split.test.is_labelled == (classes == 2)
        assert split.test.y.any() == (classes == 2)


def test_learning_classes_from_data_without_labels_is_refused_in_a_sentence() -> None:
    split = labelled(3).without_labels()
    with pytest.raises(DataError, match="the training samples have no labels"):
        check(split, input_shape=(5, 3, 1), classes=2)
    check(split, input_shape=(5, 3, 1), classes=None)


def test_added_classes_go_behind_the_others() -> None:
    split = labelled(4, "cat", "dog", "bird", "fish").with_classes_last(("dog",), 3)
    assert split.names == ("cat", "bird", "fish", "dog")
    assert split.train.y[:4].tolist() == [0, 3, 1, 2]
    assert split.test.names == split.names


@pytest.mark.parametrize(("added", "old"), [(("cow",), 3), (("dog",), 4), (("dog", "cat"), 3)])
def test_added_classes_that_the_data_lacks_are_named(added: tuple[str, ...], old: int) -> None:
    split = labelled(4, "cat", "dog", "bird", "fish")
    with pytest.raises(DataError, match=r"the data has 4: 'cat', 'dog', 'bird', 'fish'"):
        split.with_classes_last(added, old)


@pytest.mark.parametrize("shape", [(5, 3), (1, 5, 3), (5, 3, 1), (5, 1, 3)])
def test_windows_take_the_shape_of_the_models_input(shape: tuple[int, ...]) -> None:
    """(n, time, channels) is an image (n, height, width) only where the model takes one."""
    samples = Samples.prepare(labelled(2), shape, 1.0, -128, RunSettings())
    found = samples.test(0, 4)
    assert found.size == 4 * np.prod(shape)
    assert found.shape[1:] == (*shape, *(1,) * (3 - len(shape)))
    check(samples.split, input_shape=shape, classes=2)
    np.testing.assert_array_equal(found.ravel(), (X[:4].astype(int) - 128).ravel())


def test_grey_images_are_still_resized() -> None:
    samples = Samples.prepare(labelled(2), (10, 6, 1), 1.0, -128, RunSettings())
    assert samples.test(0, 2).shape == (2, 10, 6, 1)


def test_windows_of_another_length_are_refused_in_a_sentence() -> None:
    x = X.astype(np.float32)
    part = Dataset(x, np.zeros(12, np.int64), ("a",))
    samples = Samples.prepare(Split(part, part), (1, 7, 3), 1.0, 0, RunSettings())
    with pytest.raises(DataError, match=r"the model takes \(1, 7, 3\)"):
        check(samples.split, input_shape=(1, 7, 3), classes=1)


def test_only_images_are_flipped() -> None:
    with pytest.raises(DataError, match="flips and crops are of images"):
        Samples.prepare(labelled(2), (5, 3), 1.0, 0, RunSettings(flip=True))

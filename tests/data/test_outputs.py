"""Labels are numbers of a model's outputs: by name, or by a guess that is said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from mcutrain.data import Dataset, Outputs, Split, better_order
from mcutrain.data.outputs import FAR_BELOW, FITS
from mcutrain.errors import DataError

WORDS = ("yes", "no", "up", "down")


def split_of(names: tuple[str, ...], are_sorted: bool = True) -> Split:
    y = np.arange(3 * len(names)) % len(names)
    part = Dataset(np.zeros((len(y), 2), np.int8), y, names, are_sorted=are_sorted)
    return Split(part, part, part)


def named(split: Split) -> list[list[str]]:
    """Of each part, what its labels say in words."""
    assert split.validation is not None
    parts = split.train, split.test, split.validation
    return [[part.names[label] for label in part.y] for part in parts]


def test_some_of_the_models_classes_get_their_own_outputs() -> None:
    split = split_of(("down", "no"))
    found = Outputs.of(4, WORDS).labelled(split)
    assert found.names == WORDS
    assert found.train.y.tolist() == [3, 1, 3, 1, 3, 1]
    assert named(found) == named(split)
    assert Outputs.of(4, WORDS).guess(split) == ""


def test_classes_that_the_model_does_not_know_are_refused_with_the_ways_out() -> None:
    with pytest.raises(DataError) as error:
        Outputs.of(4, WORDS).labelled(split_of(("left", "no", "right")))
    said = str(error.value)
    assert "does not know the classes 'left', 'right' of the data" in said
    assert "its outputs are 'yes', 'no', 'up', 'down', by the model's own list" in said
    assert "--add-class left --add-class right" in said
    assert "--classes 3" in said
    assert "--class-names" in said


def test_given_names_count_before_the_models_own() -> None:
    given = ("no", "yes", "down", "up")
    found = Outputs.of(4, WORDS, given).labelled(split_of(WORDS))
    assert found.names == given
    assert found.train.y[:4].tolist() == [1, 0, 3, 2]
    with pytest.raises(DataError, match=r"by --class-names"):
        Outputs.of(4, WORDS, given).labelled(split_of(("left", "yes")))


def test_there_is_a_given_name_for_each_output_or_a_sentence() -> None:
    with pytest.raises(DataError, match=r"3 class names but the model has 4 classes"):
        Outputs.of(4, (), WORDS[:3])
    with pytest.raises(DataError, match=r"2 class names .* or 4 without those of --add-class"):
        Outputs.of(5, (), ("a", "b"), ("new",))
    assert Outputs.of(5, (), WORDS, ("new",)).names == (*WORDS, "new")
    assert Outputs.of(5, (), (*WORDS, "new"), ("new",)).names == (*WORDS, "new")


def test_names_in_a_model_that_are_not_one_for_each_output_count_as_none() -> None:
    assert Outputs.of(4, ("a", "b", "c")).names == ()


def test_without_names_the_alphabets_order_is_taken_and_said() -> None:
    split = split_of(("circle", "square"))
    outputs = Outputs.of(2)
    assert outputs.guess(split).startswith("output 0 = circle, output 1 = square: ")
    found = outputs.labelled(split)
    assert found.train.y.tolist() == split.train.y.tolist()
    assert outputs.guess(found) == ""  # it is decided, and not said twice


@pytest.mark.parametrize(
    ("outputs", "names", "are_sorted"),
    [
        (Outputs.of(2, is_new=True), ("circle", "square"), True),
        (Outputs.of(2), ("circle", "square"), False),
        (Outputs.of(2), ("0", "1"), True),
        (Outputs.of(2, ("circle", "square")), ("circle", "square"), True),
    ],
)
def test_nothing_is_said_where_the_order_is_certain(
    outputs: Outputs, names: tuple[str, ...], are_sorted: bool
) -> None:
    assert outputs.guess(split_of(names, are_sorted)) == ""


def test_numbers_are_numbers_of_outputs_whatever_these_are_called() -> None:
    found = Outputs.of(4, WORDS).labelled(split_of(("0", "1", "2")))
    assert found.names == WORDS
    assert found.train.y.tolist() == [0, 1, 2] * 3


def test_folders_of_numbers_are_found_by_name_where_outputs_have_such_names() -> None:
    digits = ("1", "0", "2")
    found = Outputs.of(3, digits).labelled(split_of(("0", "1", "2")))
    assert found.train.y[:3].tolist() == [1, 0, 2]


def test_an_added_class_alone_gets_the_last_output() -> None:
    for outputs in (Outputs.of(5, WORDS, (), ("new",)), Outputs.of(5, (), (), ("new",))):
        found = outputs.labelled(split_of(("new",)))
        assert found.train.y.tolist() == [4, 4, 4]
        assert len(found.names) == 5
        assert "any of the 4 classes" in outputs.forgets(found)


def test_added_and_some_known_classes_get_their_outputs_and_the_others_may_be_forgotten() -> None:
    outputs = Outputs.of(5, WORDS, (), ("new",))
    found = outputs.labelled(split_of(("down", "new")))
    assert found.train.y[:2].tolist() == [3, 4]
    assert "no training sample of 3 of the 4 classes" in outputs.forgets(found)
    for names in ((*WORDS, "new"), WORDS):  # a class that is new cannot be forgotten
        assert outputs.forgets(outputs.labelled(split_of(names))) == ""


def test_a_class_that_is_known_cannot_be_added() -> None:
    with pytest.raises(DataError, match=r"'no' is in the model's own list already"):
        Outputs.of(5, WORDS, (), ("no",))


def test_some_of_the_old_classes_without_names_are_refused() -> None:
    with pytest.raises(DataError, match=r"if the model names these \(--class-names\)"):
        Outputs.of(5, (), (), ("new",)).labelled(split_of(("down", "new")))


# ---------------------------------------------------------------- what the first test says of it


def answers(labels: np.ndarray, order: list[int], wrong: int = 0) -> np.ndarray:
    found = np.array(order)[labels]
    found[:wrong] = (found[:wrong] + 1) % max(order)
    return found


def test_an_order_that_fits_far_better_is_said() -> None:
    labels = np.arange(30) % 3
    said = better_order(labels, answers(labels, [7, 0, 2]), WORDS)
    assert said.startswith("before training 33.3 % of the test samples are right")
    assert "100.0 % would be with output 0 = no, output 2 = up, output 7 = yes" in said
    said = better_order(labels, answers(labels, [1, 2, 0]), WORDS)
    assert "0.0 % of the test samples are right (far below chance, 33 %)" in said


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (np.arange(30) % 3, np.arange(30) % 3),
        (np.arange(30) % 3, np.zeros(30, int)),
        (np.arange(4) % 2, (np.arange(4) + 1) % 2),
        (np.zeros(30, int), np.ones(30, int)),
        (np.arange(32) % 4, np.array([9, 7, 9, 7])[np.arange(32) % 4]),
    ],
    ids=["right", "one answer to all", "too few", "one class", "half of the classes"],
)
def test_no_other_order_is_said_where_none_fits_far_better(
    labels: np.ndarray, found: np.ndarray
) -> None:
    assert better_order(labels, found, WORDS) == ""


@given(st.integers(2, 6), st.integers(5, 60), st.floats(0, 1), st.integers(0, 2**31))
def test_an_order_is_said_where_the_best_of_all_fits_far_better(
    classes: int, samples: int, right: float, seed: int
) -> None:
    """The best is searched only where counts allow one; SciPy takes half a second to import."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=samples)
    by_order = rng.permutation(classes + 1)[labels]
    found = np.where(rng.random(samples) < right, by_order, rng.integers(classes, size=samples))
    counts = np.zeros((classes, classes + 1))
    np.add.at(counts, (labels, found), 1)
    share = counts[linear_sum_assignment(counts, maximize=True)].sum() / samples
    chance = 1 / len(np.unique(labels))
    is_far_better = (labels == found).mean() <= FAR_BELOW * share
    is_far_better &= share >= chance + FITS * (1 - chance) and chance < 1
    names = tuple(map(str, range(classes + 1)))
    assert bool(better_order(labels, found, names)) == is_far_better


def test_answers_by_chance_suggest_no_order() -> None:
    rng = np.random.default_rng(0)
    names = tuple(map(str, range(10)))
    for _ in range(50):
        labels = rng.integers(10, size=200)
        assert better_order(labels, rng.integers(10, size=200), names) == ""

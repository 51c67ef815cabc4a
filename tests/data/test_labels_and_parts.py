"""Labels as people have them, splits of three parts, and axes in another order."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcutrain.analysis.problem import held_out
from mcutrain.data import Dataset, Split, arranged, check, load
from mcutrain.data.unlabelled import load_samples
from mcutrain.errors import DataError
from mcutrain.experiments.finalists import part
from mcutrain.simulation import RunSettings, Samples

X = np.arange(24 * 4, dtype=np.uint8).reshape(24, 4)
Y = np.arange(24) % 3
WORDS = np.array(["cat", "ant", "bee"])[Y]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "set.npz"


def read(file: Path, **arrays: Any) -> Split:
    np.savez(file, **arrays)
    return load(file)


@pytest.mark.parametrize("y", [WORDS, WORDS.astype("S"), WORDS.reshape(-1, 1)])
def test_class_names_are_labels(file: Path, y: Any) -> None:
    split = read(file, x=X, y=y, split=Y == 0)
    assert split.names == ("ant", "bee", "cat")
    assert set(split.test.y.tolist()) == {2}
    named = read(file, x=X, y=y, names=np.array(["cat", "ant", "bee", "cow"]))
    assert named.names == ("cat", "ant", "bee", "cow")
    assert (named.train.y == named.train.x[:, 0] // 4 % 3).all()


@pytest.mark.parametrize("dtype", [bool, "u1", "f4", "f8"])
def test_one_hot_rows_are_labels(file: Path, dtype: Any) -> None:
    split = read(file, x=X, y=np.eye(4)[Y].astype(dtype))
    assert split.names == ("0", "1", "2", "3")
    assert (split.train.y == split.train.x[:, 0] // 4 % 3).all()
    assert read(file, x=X, y=np.eye(3)[Y], names=["c", "a", "b"]).names == ("c", "a", "b")


def test_numbers_may_stand_in_a_column(file: Path) -> None:
    assert read(file, x=X, y=Y[:, None]).train.classes == 3


HALVES = {"x_train": X[:12], "x_test": X[12:]}
BAD_LABELS = {
    "two ones": ({"x": X, "y": np.ones((24, 3))}, "row 0 is not one-hot"),
    "unnamed": ({"x": X, "y": WORDS, "names": ["ant", "bee"]}, "the class 'cat', which is not"),
    "new in the test": (
        {**HALVES, "y_train": WORDS[:12], "y_test": ["cow"] * 12},
        "y_test holds the class 'cow', which is not among the 3 of the training part",
    ),
    "mixed": ({**HALVES, "y_train": WORDS[:12], "y_test": Y[12:]}, "y_test is int64 of shape"),
    "mixed rows": (
        {**HALVES, "y_train": np.eye(3)[Y[:12]], "y_test": Y[12:]},
        "save one-hot rows of 3 classes",
    ),
    "rows beside numbers": (
        {**HALVES, "y_train": Y[:12], "y_test": np.eye(3, dtype=np.uint8)[Y[12:]]},
        r"y_test has the shape \(12, 3\): save one label per sample",
    ),
    "no column": ({**HALVES, "y_train": Y[:12], "y_test": np.zeros((12, 0), int)}, r"\(12, 0\)"),
    "empty": ({"x": X, "y": np.array([""] * 24)}, "class name '' is empty"),
    "no text": ({"x": X, "y": np.array([b"\xff"] * 24)}, "no UTF-8"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_other_labels_are_refused_in_a_sentence(file: Path, case: str) -> None:
    arrays, message = BAD_LABELS[case]
    with pytest.raises(DataError, match=message) as caught:
        read(file, **arrays)
    assert "\n" not in str(caught.value)


def test_anomalies_may_be_named(file: Path) -> None:
    split = read(file, **HALVES, y_test=np.array(["normal", "anomaly"] * 6))
    assert split.test.y.tolist() == [0, 1] * 6


# ---- three parts ----


def test_the_validation_part_is_neither_trained_on_nor_tested(file: Path) -> None:
    cuts = {"train": slice(0, 12), "val": slice(12, 18), "test": slice(18, 24)}
    arrays = {f"x_{k}": X[c] for k, c in cuts.items()} | {f"y_{k}": Y[c] for k, c in cuts.items()}
    split = read(file, **arrays)
    words = np.repeat(["train", "val", "test"], (12, 6, 6))
    for found in (split, read(file, x=X, y=Y, split=words)):
        assert found.validation is not None
        parts = (found.train, found.validation, found.test)
        assert [p.x.tolist() for p in parts] == [X[c].tolist() for c in cuts.values()]
    bare = read(file, **{k: v for k, v in arrays.items() if k[0] == "x"})
    assert [len(p) for p in (bare.train, bare.validation, bare.test)] == [12, 6, 6]


def test_a_validation_part_serves_as_test_where_there_is_none(file: Path) -> None:
    arrays = {"x_train": X[:12], "y_train": Y[:12], "x_val": X[12:], "y_val": Y[12:]}
    for split in (read(file, **arrays), read(file, x=X, y=Y, split=["train", "val"] * 12)):
        assert split.validation is None
        assert len(split.test) == 12


@pytest.mark.parametrize("name", ["val", "validation"])
def test_folders_of_three_parts(tmp_path: Path, name: str) -> None:
    image = pytest.importorskip("PIL.Image", reason="image folders need Pillow")
    for i, root in enumerate(("train", name, "test")):
        for label in ("a", "b"):
            for number in range(3 - i):
                path = tmp_path / root / label / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                image.new("L", (2, 2), 10 * i + number).save(path)
    split = load(tmp_path, input_shape=(2, 2, 1))
    assert split.validation is not None
    firsts = [p.x[:, 0, 0, 0].tolist() for p in (split.train, split.validation, split.test)]
    assert firsts == [[0, 1, 2, 0, 1, 2], [10, 11, 10, 11], [20, 20]]
    assert sorted(load_samples(tmp_path, 99)[:, 0, 0, 0].tolist()) == [0, 0, 1, 1, 2, 2]


def three_parts() -> Split:
    parts = [Dataset(X[c], Y[c], ("a", "b", "c")) for c in (slice(0, 12), slice(12, 24))]
    return Split(parts[0], parts[1].part(0, 6), parts[1].part(6, 12))


def test_analysis_and_finalists_test_on_the_validation_part() -> None:
    split = three_parts()
    for found in (
        held_out(split.train, None, None, 0, split.validation),
        part(split.train, None, 0, split.validation),
    ):
        assert found.train.x.tolist() == X[:12].tolist()
        assert found.test.x.tolist() == X[18:].tolist()
    few = held_out(split.train, 6, 3, 0, split.validation)
    assert (len(few.train), len(few.test)) == (6, 3)


def test_a_validation_part_that_does_not_fit_the_model_is_a_sentence() -> None:
    split = three_parts()
    assert split.validation is not None
    shape = split.train.x.shape[1:]
    beyond = replace(split.validation, y=np.full(6, 2))
    narrow = Split(*(replace(p, y=p.y % 2) for p in (split.train, split.test)), beyond)
    with pytest.raises(DataError, match="the validation labels go up to 2"):
        check(narrow, input_shape=shape, classes=2)
    wide = replace(split, validation=replace(split.validation, x=np.zeros((6, 9, 9, 1), np.uint8)))
    with pytest.raises(DataError, match="the validation samples have the shape"):
        check(wide, input_shape=shape, classes=3)


def test_whatever_changes_a_split_keeps_its_validation_part() -> None:
    split = three_parts()
    for changed in (
        split.without_labels(),
        split.with_classes_last(("a",), 2),
        split.drawn(6, 3, 0),
    ):
        assert changed.validation is not None
        assert changed.validation.x.tolist() == X[18:].tolist()


# ---- the order of axes ----


@pytest.mark.parametrize(
    ("given", "model", "dtype", "turned"),
    [
        ((3, 8, 8), (8, 8, 3), "u1", True),
        ((3, 9, 7), (8, 8, 3), "u1", True),
        ((1, 9, 7), (8, 8, 1), "u1", True),
        ((3, 8, 8), (8, 8, 3), "f4", True),
        ((9, 7, 3), (8, 8, 3), "u1", False),
        ((8, 8, 3), (8, 8, 3), "u1", False),
        ((3, 8, 3), (8, 8, 3), "u1", False),
        ((6, 128), (1, 128, 6), "f4", True),
        ((6, 128), (128, 1, 6), "i1", True),
        ((6, 128), (128, 6), "u1", True),
        ((6, 128, 1), (1, 128, 6), "f4", True),
        ((128, 6), (1, 128, 6), "f4", False),
        ((10, 49), (49, 10, 1), "i1", True),
        ((28, 20), (20, 28, 1), "u1", False),
        ((5, 128), (1, 128, 6), "f4", False),
        ((3, 9, 7), (8, 8, 3), "f4", False),
    ],
)
def test_channels_go_last_where_only_that_fits(
    given: tuple[int, ...], model: tuple[int, ...], dtype: str, turned: bool
) -> None:
    x = np.arange(2 * np.prod(given)).reshape(2, *given).astype(dtype)
    x = x[..., np.newaxis] if x.ndim == 3 else x  # as a data set holds it
    found = arranged(x, model)
    if not turned:
        assert found is x
        return
    wanted = np.moveaxis(x.reshape(2, *given), 1, -1)
    assert found.reshape(wanted.shape).tolist() == wanted.tolist()
    assert arranged(found, model).tolist() == found.tolist()


def test_quantize_and_simulate_take_the_same_images() -> None:
    """Channels first, of another size than the model's."""
    x = np.random.default_rng(0).integers(0, 256, (4, 3, 9, 7), np.uint8)
    pair = [
        Samples.prepare(Split(part, part), (8, 8, 3), 1.0, -128, RunSettings()).test(0, 4)
        for part in (
            Dataset(x, np.zeros(4, np.int64), ("a",)),
            Dataset(x.transpose(0, 2, 3, 1), np.zeros(4, np.int64), ("a",)),
        )
    ]
    assert pair[0].tolist() == pair[1].tolist()

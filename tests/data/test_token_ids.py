"""Data sets of token ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.data import Dataset, InputOrder, ModelInput, Normalization, Split, load, of_arrays
from mcutrain.data.unlabelled import load_samples
from mcutrain.errors import DataError
from mcutrain.runs.sample_reading import prepare_samples
from mcutrain.simulation import RunSettings

IDS, TOKENS = 300, 5
MODEL = ModelInput((TOKENS,), 1.0, 0, ids=IDS)
ORDER = MODEL.known_order


def drawn(count: int = 12) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).integers(0, IDS, (count, TOKENS))
    return x, np.arange(count) % 2


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32", "int64", "float64"])
def test_ids_of_any_type_become_int16(tmp_path: Path, dtype: str) -> None:
    x, y = drawn()
    np.savez(tmp_path / "d.npz", x=x.astype(dtype), y=y, split=np.arange(12) // 9)
    for split in (
        load(tmp_path / "d.npz", order=ORDER),
        of_arrays({"x": x.astype(dtype), "y": y, "split": np.arange(12) // 9}, order=ORDER),
    ):
        samples = prepare_samples(split, RunSettings(), MODEL, classes=2)
        found = samples.train(np.arange(9), 0, 0)
        assert found.dtype == np.int16
        assert (found == x[:9]).all()
        assert (samples.test(0, 3) == x[9:]).all()
    assert sorted(map(tuple, load_samples(tmp_path / "d.npz", 9, order=ORDER))) == sorted(
        map(tuple, x[:9])
    )


def test_bytes_are_ids_and_no_pixels() -> None:
    x, y = drawn()
    split = of_arrays((x.astype(np.uint8), y), order=ORDER)
    samples = prepare_samples(split, RunSettings(), MODEL, classes=2)
    assert (np.sort(samples.split.train.x, 0) <= 255).all()
    assert samples.split.train.x.dtype == np.int16


def test_a_csv_has_a_row_of_ids_for_each_sample(tmp_path: Path) -> None:
    x, y = drawn()
    parts = np.where(np.arange(12) < 9, "train", "test")
    rows = [f"{','.join(map(str, r))},{c},{p}" for r, c, p in zip(x, y, parts, strict=True)]
    text = "\n".join(["a,b,c,d,e,label,split", *rows])
    (tmp_path / "d.csv").write_text(text, encoding="utf-8")
    samples = prepare_samples(load(tmp_path / "d.csv", order=ORDER), RunSettings(), MODEL)
    assert sorted(map(tuple, samples.split.train.x)) == sorted(map(tuple, x[:9]))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (IDS, rf"x holds {IDS} \(sample 2, token 3\), but the model has rows for the token ids 0"),
        (-1, r"x holds -1 \(sample 2, token 3\)"),
        (1.5, r"x holds 1.5 \(sample 2, token 3\)"),
        (np.nan, "x holds nan"),
    ],
)
def test_what_has_no_row_is_said_with_its_place(value: float, said: str) -> None:
    x, y = drawn()
    x = x.astype(type(value))
    x[2, 3] = value
    with pytest.raises(DataError, match=said):
        of_arrays((x, y), order=ORDER)


def test_text_and_ids_for_a_model_of_numbers_get_a_sentence() -> None:
    x, y = drawn()
    with pytest.raises(DataError, match="the model takes token ids: save them as integers"):
        of_arrays((np.array([["a"] * TOKENS] * 12), y), order=ORDER)
    part = Dataset(x.astype(np.int16), y, ("0", "1"))
    numbers = ModelInput((TOKENS,), 0.1, 0)
    with pytest.raises(DataError, match="int16, token ids, but the model takes numbers"):
        prepare_samples(Split(part, part), RunSettings(), numbers)
    with pytest.raises(DataError, match="int16, raw samples"):
        of_arrays((x.astype(np.int16), y), order=InputOrder.own((TOKENS,)))


def test_ids_are_not_varied_and_not_normalized() -> None:
    split = of_arrays(drawn(), order=ORDER)
    with pytest.raises(DataError, match="no numbers to vary or to normalize"):
        prepare_samples(split, RunSettings(augment=("noise",)), MODEL)
    with pytest.raises(DataError, match="no numbers to vary or to normalize"):
        prepare_samples(split, RunSettings(), MODEL, normalization=Normalization((0.5,), (0.5,)))

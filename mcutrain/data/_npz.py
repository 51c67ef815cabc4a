"""Reads .npz data sets from files that nobody vouches for (see mcutrain.data.array_file)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from mcutrain_host.reading import read_file

from mcutrain.data._raw_images import camera_of, raw_arrays
from mcutrain.data.array_file import TooLargeError, array_file, parsed, why
from mcutrain.data.dataset import (
    NORMAL_AND_ANOMALY,
    SPLIT_WORDS,
    Dataset,
    Indices,
    Labels,
    Samples,
    Split,
    as_labels,
    as_names,
    as_samples,
    as_texts,
    class_numbers,
    unlabelled,
)
from mcutrain.data.groups import Drawing
from mcutrain.data.ids import as_ids
from mcutrain.data.layout import InputOrder
from mcutrain.data.targets import as_targets
from mcutrain.errors import DataError
from mcutrain.frontends import KINDS

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

PARTS = ("x_train", "y_train", "x_val", "y_val", "x_test", "y_test")
KEYS = ("x", "y", "split", "names", *PARTS)
TARGETS = "targets"
"""A key that no file has: there are real targets, also where y looks like labels."""
NONE: Indices = np.zeros(0, np.int64)

FREE_BYTES = 64 << 20
MAX_RATIO = 100
"""A member may unpack to FREE_BYTES + MAX_RATIO * (bytes of the file); images stay far below."""
MAX_NPY_BYTES = 8 << 30


def split_of(arrays: Arrays, drawing: Drawing) -> Split:
    """The Split in arrays by their keys; what is drawn for the test where they name no split.

    Raises DataError for everything that is not a sound data set.
    """
    if "split" in arrays or any(key in arrays for key in PARTS):
        drawing.check_none()
    if any(key in arrays for key in PARTS):
        return _given_parts(arrays)
    whole = _whole(arrays)
    if "split" in arrays:
        return _split_at(whole, *given_split(arrays["split"], len(whole)))
    groups = _groups(arrays, drawing.by, len(whole)) if drawing.by else ()
    return _split_at(whole, *drawing.parts(whole.y, groups))


def _groups(arrays: Arrays, key: str, n: int) -> list[str]:
    """The group of each of `n` samples. Raises DataError where no array of this name says it."""
    values = arrays.get(key)
    if values is None or key in KEYS or values.shape != (n,) or values.dtype.kind not in "iuUS":
        what = (
            "there is no array"
            if values is None or key in KEYS
            else f"{values.dtype} {values.shape} is"
        )
        raise DataError(
            f"{what} {key[:40]!a} to split by: save a number or name of its group for each sample, "
            f"({n},), under this name"
        )
    if values.dtype.kind not in "US":
        return [str(value) for value in values.tolist()]
    groups = as_texts(values, key)
    if "" in groups:
        raise DataError(f"sample {groups.index('')} has no group in {key[:40]!a}: name it")
    return groups


def in_rows(arrays: Arrays, names: Sequence[str]) -> Arrays:
    """The arrays with y, real targets, where several of these names are: side by side, in order.

    Raises DataError where one is missing or no array of numbers. Without names nothing changes.
    """
    parts = [part for part in ("", "_train", "_val", "_test") if f"x{part}" in arrays]
    found = dict(arrays)
    for part in parts if names else ():
        rows = []
        for key in (f"{name}{part}" for name in names):
            y = arrays.get(key)
            if y is None or y.dtype.kind not in "biuf" or y.ndim == 0 or len(y) == 0:
                what = "no" if y is None else f"{y.dtype} of shape {y.shape} in"
                raise DataError(
                    f"there is {what} {key}: save x{part} and an array of numbers named after each "
                    f"target or output, {', '.join(f'{name}{part}' for name in names)}"
                )
            _check_lengths(f"x{part}", arrays[f"x{part}"], key, y)
            rows.append(as_targets(y.reshape(len(y), -1).astype(np.float64), key))
        found |= {f"y{part}": np.hstack(rows), TARGETS: np.ones(1, bool)}
    return found


def of_raw(arrays: Arrays, order: InputOrder | None) -> tuple[Arrays, bool]:
    """Arrays whose raw samples have become those of the model; and whether there were any.

    Token ids of any integers become int16. Raises DataError for raw samples that no front end makes
    something of.
    """
    if order is not None and order.ids:
        is_x = {k for k in arrays if k.startswith("x")}
        return {k: as_ids(v, order.ids, k) if k in is_x else v for k, v in arrays.items()}, False
    camera = camera_of(order)
    if camera is not None:
        seen = {k: raw_arrays(x, camera) for k, x in arrays.items() if k.startswith("x")}
        arrays = {**arrays, **{k: x for k, x in seen.items() if x is not None}}
    raw = [k for k, x in arrays.items() if k.startswith("x") and x.dtype == np.int16]
    if raw and (order is None or order.frontend is None):
        raise DataError(
            f"{raw[0]} is int16, raw samples: say what makes features of them (--frontend "
            f"{', '.join(KINDS)}), or save uint8 pixels, int8 or float32"
        )
    if not raw or order is None:
        return arrays, False
    return {**arrays, **{k: order.of_raw(arrays[k], k) for k in raw}}, True


def _split_at(whole: Dataset, train: Indices, test: Indices, validation: Indices = NONE) -> Split:
    checked = whole.take(validation) if len(validation) else None
    return Split(whole.take(train), whole.take(test), checked)


def _whole(arrays: Arrays) -> Dataset:
    if "y" not in arrays and "x" in arrays:
        return unlabelled(as_samples(arrays["x"], "x"))
    _require(arrays, ("x", "y"))
    return _datasets(arrays, [""])[0]


def _given_parts(arrays: Arrays) -> Split:
    """The part that is named test, or val where there is none; val is else for validation."""
    has_val = "x_val" in arrays or "y_val" in arrays
    has_test = "x_test" in arrays or "y_test" in arrays or not has_val
    parts = ["_train", *(["_test"] if has_test else []), *(["_val"] if has_val else [])]
    if "y_train" not in arrays and all(f"x{part}" in arrays for part in parts):
        return _parts_without_labels(arrays, parts)
    _require(arrays, tuple(f"{key}{part}" for part in parts for key in "xy"))
    return Split(*_datasets(arrays, parts))


def _datasets(arrays: Arrays, parts: list[str]) -> list[Dataset]:
    """Make a data set of each part, all with the same classes."""
    x = [as_samples(arrays[f"x{part}"], f"x{part}") for part in parts]
    for part, samples in zip(parts, x, strict=True):
        _check_alike(f"x{parts[0]}", x[0], f"x{part}", samples)
    saved = _saved_names(arrays["names"]) if "names" in arrays else None
    y = {f"y{part}": arrays[f"y{part}"] for part in parts}
    labels, names = class_numbers(y, saved, TARGETS in arrays)
    for part, samples in zip(parts, x, strict=True):
        _check_lengths(f"x{part}", samples, f"y{part}", labels[f"y{part}"])
    are_sorted = saved is None and arrays[f"y{parts[0]}"].dtype.kind in "US"
    return [
        Dataset(s, labels[f"y{part}"], names, are_sorted=are_sorted)
        for part, s in zip(parts, x, strict=True)
    ]


def _parts_without_labels(arrays: Arrays, parts: list[str]) -> Split:
    """Samples to train on; those of the test may have labels, 0 = normal and 1 = anomaly."""
    found = [unlabelled(as_samples(arrays[f"x{part}"], f"x{part}")) for part in parts]
    for part, dataset in zip(parts, found, strict=True):
        _check_alike("x_train", found[0].x, f"x{part}", dataset.x)
    split = Split(*found)
    if "y_test" in arrays and "x_test" in arrays:
        given = arrays["y_test"]
        names = NORMAL_AND_ANOMALY if given.dtype.kind in "US" else None
        y = (
            class_numbers({"y_test": given}, names)[0]["y_test"]
            if names
            else as_labels(given, "y_test")
        )
        _check_lengths("x_test", split.test.x, "y_test", y)
        if y.max() > 1:
            raise DataError(
                f"y_test without y_train says 0 = normal or 1 = anomaly, but holds {y.max()}: save "
                "y_train too, or only 0 and 1"
            )
        split = replace(split, test=replace(split.test, y=y, is_labelled=True))
    return split


def _check_alike(first_key: str, first: Samples, key: str, x: Samples) -> None:
    if (first.shape[1:], first.dtype) != (x.shape[1:], x.dtype):
        raise DataError(
            f"{first_key} has samples {first.shape[1:]} {first.dtype} but {key} "
            f"{x.shape[1:]} {x.dtype}: save both alike"
        )


def _require(arrays: Arrays, keys: tuple[str, ...]) -> None:
    missing = [key for key in keys if key not in arrays]
    if missing:
        raise DataError(
            f"there is no {' and no '.join(missing)}: save x and y (and split), "
            "or x_train, y_train, x_test and y_test; without labels, x, or x_train and x_test"
        )


def _check_lengths(x_key: str, x: Samples, y_key: str, y: Labels) -> None:
    if len(x) != len(y):
        raise DataError(
            f"{x_key} has {len(x)} samples but {y_key} has {len(y)} labels: save one label each"
        )


def _saved_names(names: npt.NDArray[Any]) -> tuple[str, ...]:
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise DataError(
            f"names is {names.dtype} of shape {names.shape}: save a list of class names, "
            "np.array(['cat', 'dog'])"
        )
    return as_names(as_texts(names, "names"))


def given_split(split: npt.NDArray[Any], n: int) -> tuple[Indices, Indices, Indices]:
    """Indices (train, test, validation) of `n` samples, as the key `split` says.

    Where nothing is for the test, the validation part is.
    """
    if split.shape != (n,):
        raise DataError(f"split has the shape {split.shape} but x has {n} samples: save ({n},)")
    part = _part_of_each(split)
    train, test, validation = (np.flatnonzero(part == which) for which in (0, 1, 2))
    if len(test) == 0:
        test, validation = validation, test
    if not (len(train) and len(test)):
        missing = "test" if len(train) else "training"
        raise DataError(f"split leaves the {missing} part empty: mark samples of both parts")
    return train, test, validation


def _part_of_each(split: npt.NDArray[Any]) -> npt.NDArray[np.int8]:
    if split.dtype.kind in "US":
        words = as_texts(split, "split")
        unknown = sorted(set(words) - SPLIT_WORDS.keys())
        if unknown:
            raise DataError(f"split holds {unknown[0][:40]!a}: use 'train', 'val' and 'test'")
        return np.array([SPLIT_WORDS[word] for word in words], dtype=np.int8)
    if split.dtype.kind not in "biu" or not np.isin(split, (0, 1)).all():
        raise DataError(f"split ({split.dtype}) holds more than 0 and 1: use 0 = train, 1 = test")
    return split.astype(np.int8)


def read_arrays(path: Path, more: Sequence[str] = ()) -> Arrays:
    """The arrays of KEYS in an .npz file or a folder of .npy files; one .npy file holds `x`.

    more: names of others, perhaps with `_train`, `_val` or `_test` behind.

    Raises DataError where a file is not sound.
    """
    keys = (*KEYS, *(f"{name}{part}" for name in more for part in ("", "_train", "_val", "_test")))
    if path.is_dir():
        files = {key: path / f"{key}.npy" for key in keys}
        return {key: _read_npy(file) for key, file in files.items() if file.is_file()}
    if path.suffix.lower() == ".npy":
        return {"x": _read_npy(path)}
    try:
        limit_bytes = FREE_BYTES + MAX_RATIO * path.stat().st_size
        with array_file(path) as file:
            return {key: file.array(key, limit_bytes) for key in keys if key in file}
    except TooLargeError as error:
        raise DataError(f"{error} in a file of this length: save it with np.savez") from error
    except OSError as error:
        raise DataError(f"no sound .npz file ({why(error)}): save it again") from error


def _read_npy(path: Path) -> npt.NDArray[Any]:
    try:
        content = bytearray(read_file(path, MAX_NPY_BYTES))
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {why(error)}; save fewer samples") from error
    found: npt.NDArray[Any] = parsed(path.name, content)
    return found

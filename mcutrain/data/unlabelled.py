"""Samples without labels, as calibration takes them: an .npz file, or a folder of images."""

import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data._folders import (
    IMAGES,
    Kind,
    Listing,
    Progress,
    _folders,
    _list_files,
    _parts,
    files_in,
    kind_of,
    left_out_files,
    require_pillow,
)
from mcutrain.data._load import KINDS, read_files, windows_of
from mcutrain.data._npz import Arrays, given_split, of_raw, read_arrays
from mcutrain.data._place import read_place
from mcutrain.data._raw_rows import of_rows, raw_windows, takes_rows
from mcutrain.data._tables import (
    TABLES,
    check_label_column,
    check_windows,
    dataset_of,
    read_series,
)
from mcutrain.data.dataset import Indices, Labels, Samples, as_samples, drawn, order
from mcutrain.data.groups import Drawing
from mcutrain.data.layout import InputOrder, Note, in_order
from mcutrain.errors import DataError


def load_samples(
    path: str | PathLike[str],
    count: int,
    *,
    seed: int = 0,
    input_shape: tuple[int, ...] | None = None,
    order: InputOrder | None = None,
    stride: int | None = None,
    progress: Progress | None = None,
    note: Note = lambda _: None,
    left_out: Note = warnings.warn,
    targets: str = "",
    split_by: str = "",
    label_column: str = "",
    labels: Callable[[Labels], None] = lambda _: None,
) -> Samples:
    """Load at most `count` training samples of the data set at `path`, of every class alike.

    An .npz file holds `x_train` or `x`, as `load` reads it; labels and `split` are not needed. A
    folder holds files, a folder of files per class, or `train/` with such folders. `seed` chooses,
    see `drawn`. `input_shape`, `order`, `stride`, `note`, `left_out`, `targets`,
    `label_column` and `split_by` (of a CSV file, columns that are no channels) are as for `load`.
    `labels` is called with those of the samples, where they have some.

    Raises DataError for everything that cannot be used; the message starts with the path.
    """
    known = order or (None if input_shape is None else InputOrder.own(input_shape))

    def told(sentence: str) -> None:
        left_out(f"{path}: {sentence}")

    def of_folder(root: Path) -> Samples:
        if any(entry.suffix == ".npy" for entry in root.iterdir()):
            return of_arrays(root)
        kind = kind_of(root, KINDS)
        if kind is TABLES:
            return of_tables(root)
        if kind is IMAGES:
            require_pillow()
        chosen = _some_files(root, kind, count, seed, told)
        return as_samples(read_files(kind, chosen, known, progress), "x")

    def of_tables(place: Path) -> Samples:
        found, names = read_series(
            place,
            progress,
            note=told,
            targets=targets,
            drawing=Drawing(by=split_by),
            label_column=label_column,
        )
        windows = windows_of(None if known is None else known.model_shape, stride)
        is_raw = takes_rows(known)
        if is_raw and known is not None:
            windows = raw_windows(found, known, stride)
        train = [series for series in found if not series.part]
        check_windows(train, windows.length(found[0].rows.shape[1]), "training")
        part = dataset_of(train, names, windows)
        part = part.take(_mixed(part.y, count, seed))
        labels(part.y)
        return of_rows(part, known).x if is_raw and known is not None else part.x

    def of_file(place: Path) -> Samples:
        is_table = place.suffix.lower() in TABLES.suffixes
        return of_tables(place) if is_table else of_arrays(place)

    def of_arrays(place: Path) -> Samples:
        return ordered_samples(read_arrays(place), count, seed, order, note, labels)

    check_label_column(path, label_column)
    return read_place(path, of_folder, of_file, "a folder of images")


def _some_files(root: Path, kind: Kind, count: int, seed: int, note: Note) -> Listing:
    train = _parts(root)[0]
    classes = tuple(folder.name for folder in _folders(train))
    if classes:
        found = _list_files(train, classes, kind)
    else:
        paths = tuple(files_in(root, kind))
        found = Listing(paths, (0,) * len(paths))
    if said := left_out_files([train], kind, is_flat=not classes):
        note(said)
    return found.take(_mixed(found.numbers, count, seed))


def ordered_samples(
    arrays: Arrays,
    count: int,
    seed: int,
    order: InputOrder | None,
    note: Note,
    labels: Callable[[Labels], None] = lambda _: None,
) -> Samples:
    """Draw samples of arrays, as the model has them; raw ones by its front end."""
    if "x_train" in arrays:
        arrays = {k: v for k, v in arrays.items() if k in ("x_train", "y_train")}
    arrays, was_raw = of_raw(arrays, order)
    x = drawn_samples(arrays, count, seed, labels)
    return x if order is None or was_raw else in_order(x, order, note)


def drawn_samples(
    arrays: Arrays,
    count: int,
    seed: int,
    told: Callable[[Labels], None] = lambda _: None,
) -> Samples:
    """Draw samples of arrays with the names that they have in a file."""
    key = next((k for k in ("x_train", "x") if k in arrays), None)
    if key is None:
        raise DataError("there is no x and no x_train: save the samples as x")
    x = as_samples(arrays[key], key)
    index = np.arange(len(x))
    if key == "x" and "split" in arrays:
        index = given_split(arrays["split"], len(x))[0]
    y = arrays.get(key.replace("x", "y"))
    index = index[_mixed(_class_numbers(y, len(x))[index], count, seed)]
    if y is not None and len(np.atleast_1d(y)) == len(x):
        told(y[index])
    return x[index]


def _mixed(y: Labels, count: int, seed: int) -> Indices:
    """Draw at most `count` indices in random order: some passes look at the first samples only."""
    index = drawn(y, min(count, len(y)), seed)
    return index[order(len(index), 0, seed)]


def _class_numbers(y: npt.NDArray[Any] | None, n: int) -> Labels:
    """Return what tells classes apart, whatever it is; one class where there are no labels."""
    if y is None or len(np.atleast_1d(y)) != n:
        return np.zeros(n, np.int64)
    return np.unique(y.reshape(n, -1), axis=0, return_inverse=True)[1].reshape(n).astype(np.int64)

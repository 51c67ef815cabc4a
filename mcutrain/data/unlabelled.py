"""Samples without labels, as calibration takes them: an .npz file, or a folder of images."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data._folders import (
    IMAGES,
    ImageShape,
    Listing,
    Progress,
    _folders,
    _list_files,
    _parts,
    _read_images,
    _require_pillow,
    files_in,
)
from mcutrain.data._npz import given_split, read_arrays
from mcutrain.data._place import read_place
from mcutrain.data.dataset import Indices, Labels, Samples, as_samples, drawn, order
from mcutrain.errors import DataError


def load_samples(
    path: str | PathLike[str],
    count: int,
    *,
    seed: int = 0,
    image_shape: ImageShape | None = None,
    progress: Progress | None = None,
) -> Samples:
    """At most `count` training samples of the data set at `path`, of every class alike.

    An .npz file holds `x_train` or `x`, as `load` reads it; labels and `split` are not needed. A
    folder holds images, a folder of images per class, or `train/` with such folders. `seed`
    chooses, see `drawn`. With `image_shape` (height, width, channels) images are centre-cropped
    and resized.

    Raises DataError for everything that cannot be used; the message starts with the path.
    """
    return read_place(
        path,
        lambda place: _of_folder(place, count, seed, image_shape, progress),
        lambda place: _of_npz(place, count, seed),
        "a folder of images",
    )


def _of_npz(path: Path, count: int, seed: int) -> Samples:
    arrays = read_arrays(path)
    key = next((k for k in ("x_train", "x") if k in arrays), None)
    if key is None:
        raise DataError("there is no x and no x_train: save the samples as x")
    x = as_samples(arrays[key], key)
    index = np.arange(len(x))
    if key == "x" and "split" in arrays:
        index = given_split(arrays["split"], len(x))[0]
    labels = _class_numbers(arrays.get(key.replace("x", "y")), len(x))[index]
    return x[index[_mixed(labels, count, seed)]]


def _mixed(y: Labels, count: int, seed: int) -> Indices:
    """At most `count` indices in random order: some passes look at the first samples only."""
    index = drawn(y, min(count, len(y)), seed)
    return index[order(len(index), 0, seed)]


def _class_numbers(y: npt.NDArray[Any] | None, n: int) -> Labels:
    """What tells classes apart, whatever it is; one class where there are no labels."""
    if y is None or len(np.atleast_1d(y)) != n:
        return np.zeros(n, np.int64)
    return np.unique(y.reshape(n, -1), axis=0, return_inverse=True)[1].reshape(n).astype(np.int64)


def _of_folder(
    root: Path, count: int, seed: int, image_shape: ImageShape | None, progress: Progress | None
) -> Samples:
    _require_pillow()
    train = _parts(root)[0]
    classes = tuple(folder.name for folder in _folders(train))
    if classes:
        found = _list_files(train, classes, IMAGES)
    else:
        paths = tuple(files_in(root, IMAGES))
        found = Listing(paths, (0,) * len(paths))
    chosen = found.take(_mixed(found.numbers, count, seed))
    return _read_images(chosen, image_shape, progress)

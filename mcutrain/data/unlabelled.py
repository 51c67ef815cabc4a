"""Samples without labels, as calibration takes them: an .npz file, or a folder of images."""

from os import PathLike
from pathlib import Path

from mcutrain.data._folders import (
    ImageShape,
    Listing,
    Progress,
    _images,
    _list_images,
    _parts,
    _read_images,
    _require_pillow,
)
from mcutrain.data._npz import _read_arrays
from mcutrain.data._place import read_place
from mcutrain.data.dataset import Samples, as_samples, order
from mcutrain.errors import DataError


def load_samples(
    path: str | PathLike[str],
    count: int,
    *,
    seed: int = 0,
    image_shape: ImageShape | None = None,
    progress: Progress | None = None,
) -> Samples:
    """At most `count` samples, drawn by `seed`, of the data set at `path`.

    An .npz file holds `x_train` or `x`, as `load` reads it; labels are not looked at. A folder
    holds images, a folder of images per class, or `train/` with such folders. With `image_shape`
    (height, width, channels) images are centre-cropped and resized.

    Raises DataError for everything that cannot be used; the message starts with the path.
    """
    return read_place(
        path,
        lambda place: _of_folder(place, count, seed, image_shape, progress),
        lambda place: _of_npz(place, count, seed),
        "a folder of images",
    )


def _of_npz(path: Path, count: int, seed: int) -> Samples:
    arrays = _read_arrays(path)
    key = next((k for k in ("x_train", "x") if k in arrays), None)
    if key is None:
        raise DataError("there is no x and no x_train: save the samples as x")
    x = as_samples(arrays[key], key)
    return x[order(len(x), 0, seed)[:count]]


def _of_folder(
    root: Path, count: int, seed: int, image_shape: ImageShape | None, progress: Progress | None
) -> Samples:
    _require_pillow()
    train, _ = _parts(root)
    folders = [f.name for f in sorted(train.iterdir()) if f.is_dir() and f.name[:1] not in "._"]
    paths = list(_list_images(train, tuple(folders)).paths) if folders else _images(root)
    chosen = [paths[i] for i in order(len(paths), 0, seed)[:count]]
    return _read_images(Listing(tuple(chosen), (0,) * len(chosen)), image_shape, progress)

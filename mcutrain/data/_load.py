"""A path becomes a Split: an .npz or CSV file, a folder of images, sounds, CSV files or arrays."""

from __future__ import annotations

import warnings
from dataclasses import replace
from os import PathLike
from pathlib import Path

from mcutrain_host.dataclass import dataclass

from mcutrain.data._folders import (
    IMAGES,
    Kind,
    Listing,
    Progress,
    kind_of,
    list_parts,
    read_images,
    require_pillow,
    split_at,
    used_of,
)
from mcutrain.data._npz import in_rows, of_raw, read_arrays, split_of
from mcutrain.data._place import read_place
from mcutrain.data._raw_images import FRAMES, camera_of, read_raw_images
from mcutrain.data._raw_rows import of_rows, raw_windows, takes_rows
from mcutrain.data._sounds import SOUNDS, read_raw_sounds, read_sounds
from mcutrain.data._tables import (
    TABLES,
    Windows,
    check_label_column,
    read_series,
    split_of_series,
)
from mcutrain.data.dataset import Dataset, Samples, Split
from mcutrain.data.groups import Drawing
from mcutrain.data.layout import InputOrder, Note, split_in_order
from mcutrain.errors import DataError

KINDS = (IMAGES, SOUNDS, TABLES, FRAMES)


@dataclass(frozen=True)
class PlaceReader:
    """How a place is read; see `load`."""

    drawing: Drawing
    order: InputOrder | None
    turns: bool
    stride: int | None
    targets: str
    samples: int | None
    test_samples: int | None
    progress: Progress | None
    note: Note
    least_classes: int
    left_out: Note
    label_column: str = ""

    def of_folder(self, root: Path) -> Split:
        """A folder of arrays, or of class folders."""
        if any(entry.suffix == ".npy" for entry in root.iterdir()):
            return self._arrays(root)
        kind = kind_of(root, KINDS)
        if self.targets and kind is not TABLES:
            raise DataError("targets are columns of a table, which a folder of samples lacks")
        if kind is TABLES:
            return self._of_tables(root)
        if kind is IMAGES:
            require_pillow()
        listings, names = list_parts(root, kind, self.least_classes, self.left_out)
        used = used_of(listings, self.drawing, (self.samples, self.test_samples))
        all_of_them = Listing.of(used)
        x = read_files(kind, all_of_them, self.order, self.progress)
        labels = all_of_them.numbers
        whole = Dataset(x, labels, names, are_sorted=True, is_in_order=self.turns)
        return split_at([len(p.paths) for p in used], whole)

    def of_file(self, path: Path) -> Split:
        """A CSV file, or arrays."""
        if path.suffix.lower() in TABLES.suffixes:
            return self._of_tables(path)
        return self._arrays(path)

    def _arrays(self, path: Path) -> Split:
        names = tuple(filter(None, self.targets.split(",")))
        more = (*names, self.drawing.by) if self.drawing.by else names
        arrays, was_raw = of_raw(in_rows(read_arrays(path, more), names), self.order)
        split = self._drawn(split_of(arrays, self.drawing))
        if self.order is None or not self.turns:
            return split
        if was_raw:
            return split.each(lambda part: replace(part, is_in_order=True))
        return split_in_order(split, self.order, self.note)

    def _of_tables(self, path: Path) -> Split:
        order = self.order
        windows = windows_of(None if order is None else order.model_shape, self.stride)
        if self.targets and path.is_dir():
            raise DataError("the targets are columns of one table: give that, not a folder")
        found, names = read_series(
            path,
            self.progress,
            self.least_classes,
            self.left_out,
            self.targets,
            self.drawing,
            self.label_column,
        )
        is_raw = takes_rows(order)
        if is_raw and order is not None:
            windows = raw_windows(found, order, self.stride)
        split = self._drawn(split_of_series(found, names, windows, self.drawing))
        if is_raw and order is not None:
            return split.each(lambda part: of_rows(part, order))
        return split.each(lambda part: replace(part, is_in_order=self.turns))

    def _drawn(self, split: Split) -> Split:
        return split.drawn(self.samples, self.test_samples, self.drawing.seed)


def read_files(
    kind: Kind,
    listing: Listing,
    order: InputOrder | None,
    progress: Progress | None,
) -> Samples:
    """A sample of each file, as the model has it if one is known."""
    if kind is FRAMES or (kind is IMAGES and camera_of(order) is not None):
        order = InputOrder.own(()) if order is None else order
        return read_raw_images(listing, order, progress)
    if kind is not IMAGES:
        if order is not None and order.frontend is not None:
            return read_raw_sounds(listing, order, progress)
        return read_sounds(listing, None if order is None else order.model_shape, progress)
    if order is None or len(order.shape) < 2:
        return read_images(listing, None, progress)
    if order.image is None:
        raise DataError(
            f"images cannot become {order.model_shape}: give (height, width, channels) "
            "with 1 or 3 channels"
        )
    return order.of_images(read_images(listing, order.image, progress))


def windows_of(input_shape: tuple[int, ...] | None, stride: int | None) -> Windows:
    """Return how CSV files are cut. Raises DataError where no model says it."""
    if input_shape is None:
        raise DataError(
            "a CSV is cut into windows as a model takes them: give the model, or its input_shape"
        )
    return Windows(input_shape, stride)


def load(
    path: str | PathLike[str],
    *,
    test_share: float = 0.2,
    seed: int = 0,
    split_by: str = "",
    input_shape: tuple[int, ...] | None = None,
    order: InputOrder | None = None,
    stride: int | None = None,
    targets: str = "",
    label_column: str = "",
    progress: Progress | None = None,
    samples: int | None = None,
    test_samples: int | None = None,
    note: Note = lambda _: None,
    least_classes: int = 2,
    left_out: Note = warnings.warn,
) -> Split:
    """Read the data set at `path`; docs/data.md says what it may look like.

    An .npz file, or a folder of .npy files with these names, holds `x`, `y` and optionally `split`
    (0 or "train", 1 or "test", "val", per sample). Or it holds `x_train`, `y_train`, `x_test`,
    `y_test` and optionally `x_val`, `y_val`. `names` is optional. Labels are numbers, class names
    or one-hot rows. Without labels it holds `x` (and `split`), or `x_train`, `x_test` and
    optionally `y_test` (0 = normal, 1 = anomaly). It is never unpickled.

    A folder holds a folder per class, or `train/`, `test/` and optionally `val/` with a folder per
    class each; in them images, sounds or tables. Labels follow the sorted folder names. Pillow
    reads images, turns them as their EXIF data says, and makes them grey or RGB. `input_shape` is
    (height, width, channels) as the model's input has it, or (height, width) for grey images; each
    image is then centre-cropped and resized at once. Without it they become RGB and must have one
    size. Sounds become MFCCs (see `mcutrain.data.mfcc`), or what the front end of `order` makes of
    them. Images become frames of its camera, whose bytes .raw files hold. CSV files, or one with a
    column of labels, are cut into windows as `input_shape` says, one every `stride` rows. The front
    end makes its features of those that hold whole numbers, if it takes them. `progress(done,
    total)` is called per file.

    targets: columns of a CSV file by name, joined by commas, or how many of the last ones. Each
    window then has the numbers of its last row as real targets, and no label. For arrays: the names
    of targets that take the place of `y`, as `boxes` or `boxes_train` and `boxes_test`.

    label_column: the name of the column of a CSV file that has the labels, or its number, from 1.

    `order`, of a model, says its input's shape and the order in which its users have samples.
    Arrays are turned as `InputOrder` says, and `note` is called with what is turned.

    Where the data set does not say what is for the test, `test_share` of every class is, chosen by
    `seed` (see `stratified`). `samples` and `test_samples` take so many of each part, of every
    class alike, also chosen by `seed` (see `drawn`); of images and sounds only those are read.
    `split_by` puts whole groups into one part, such as all that a speaker says. It is a regular
    expression of file names with a part (?P<group>…), a column of a CSV file, or an array beside
    `x`. `note` is called with the number of groups. A validation part is kept apart, for choices;
    it is the test part where there is no other.

    least_classes: how many class folders there must be; for a model that knows others 1 will do.
    left_out: called with a sentence on files that are not read; a Python warning by default.

    Raises DataError for everything that cannot be used; the message starts with the path.
    """
    known = order or (None if input_shape is None else InputOrder.own(input_shape))
    turns, drawn = order is not None, (samples, test_samples)

    def told(sentence: str) -> None:
        left_out(f"{path}: {sentence}")

    source = PlaceReader(
        Drawing(test_share, seed, split_by, note),
        *(known, turns, stride, targets, *drawn, progress, note, least_classes, told),
        label_column,
    )
    check_label_column(path, label_column)
    return read_place(path, source.of_folder, source.of_file, "a folder with class folders")

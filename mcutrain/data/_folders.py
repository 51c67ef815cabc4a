"""Reads image folders: one folder per class, images decoded by Pillow, which is optional."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from mcutrain_host.packages import OPTIONAL

from mcutrain.data.dataset import (
    Dataset,
    Indices,
    Labels,
    Samples,
    Split,
    as_names,
    drawn,
    stratified,
)
from mcutrain.data.transform import Pixels, Transform
from mcutrain.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

Progress: TypeAlias = Callable[[int, int], None]
ImageShape: TypeAlias = tuple[int, int, int]
Counts: TypeAlias = tuple[int | None, int | None]

SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".pgm", ".ppm", ".pnm", ".pbm", ".gif", ".webp"}
    | {".tif", ".tiff"}
)
FORMATS = ("PNG", "JPEG", "BMP", "PPM", "GIF", "WEBP", "TIFF")
"""The decoders that may run; in particular not EPS, which starts another program."""
MODES = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"})
MAX_PIXELS = 64_000_000
"""Of one image; a small file can unpack to any size."""
MAX_SET_BYTES = 8 << 30


@dataclass(frozen=True)
class Listing:
    """Files and their labels, in the order of class and file name."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...]

    def take(self, index: Indices) -> "Listing":
        """Those at `index`."""
        chosen = index.tolist()
        return Listing(tuple(self.paths[i] for i in chosen), tuple(self.labels[i] for i in chosen))


def read_folders(
    root: Path,
    test_share: float,
    seed: int,
    image_shape: ImageShape | None,
    progress: Progress | None,
    counts: Counts = (None, None),
) -> Split:
    """The Split in the folder `root`; see `load`. Raises DataError for what cannot be used.

    counts: how many images of the training and test parts are read, None is all.
    """
    _check_shape(image_shape)
    _require_pillow()
    train_root, test_root = _parts(root)
    names = _class_names(train_root)
    train = _list_images(train_root, names)
    test = _list_images(test_root, names) if test_root else Listing((), ())
    both = Listing(train.paths + test.paths, train.labels + test.labels)
    y = np.array(both.labels, dtype=np.int64)
    parts = _split_index(y, len(train.paths), test_share, seed)
    used = [
        part if n is None else part[drawn(y[part], n, seed)]
        for part, n in zip(parts, counts, strict=True)
    ]
    index = np.concatenate(used)
    x = _read_images(both.take(index), image_shape, progress)
    whole, middle = Dataset(x, y[index], names), len(used[0])
    return Split(whole.part(0, middle), whole.part(middle, len(whole)))


def _split_index(
    y: Labels, train_count: int, test_share: float, seed: int
) -> tuple[Labels, Labels]:
    if train_count == len(y):
        return stratified(y, test_share, seed)
    index = np.arange(len(y), dtype=np.int64)
    return index[:train_count], index[train_count:]


def _check_shape(image_shape: ImageShape | None) -> None:
    if image_shape is None:
        return
    if min(image_shape) < 1 or image_shape[2] not in (1, 3):
        raise DataError(
            f"images cannot become {image_shape}: give (height, width, channels) "
            "with 1 or 3 channels"
        )


def _require_pillow() -> None:
    if not OPTIONAL["pillow"].is_installed:
        raise DataError(OPTIONAL["pillow"].missing)


def _folders(root: Path) -> list[Path]:
    """The visible folders in `root`, sorted by name."""
    found = [entry for entry in root.iterdir() if entry.is_dir() and _is_visible(entry)]
    return sorted(found, key=lambda entry: entry.name)


def _is_visible(entry: Path) -> bool:
    return not entry.name.startswith((".", "__MACOSX"))


def _parts(root: Path) -> tuple[Path, Path | None]:
    """Where the training and test classes are; `train` with images in it is just a class."""
    train = root / "train"
    if not (train.is_dir() and _folders(train)):
        return root, None
    for name in ("test", "val"):
        if (root / name).is_dir():
            return train, root / name
    return train, None


def _class_names(root: Path) -> tuple[str, ...]:
    names = [folder.name for folder in _folders(root)]
    if len(names) < 2:
        raise DataError(
            f"{root.name} has {len(names)} class folders: put the images into "
            "a folder per class, at least two"
        )
    return as_names(names)


def _list_images(root: Path, names: tuple[str, ...]) -> Listing:
    """The images below `root`; each folder must be of a class in `names` and hold an image."""
    paths: list[Path] = []
    labels: list[int] = []
    for folder in _folders(root):
        if folder.name not in names:
            raise DataError(
                f"{root.name}/{folder.name!a} is a class without training images: "
                "add it to train/ or remove it"
            )
        found = _images(folder)
        paths += found
        labels += [names.index(folder.name)] * len(found)
    if not paths:
        raise DataError(f"{root.name} has no class folders: put the images into a folder per class")
    return Listing(tuple(paths), tuple(labels))


def _images(folder: Path) -> list[Path]:
    """The images in a class folder, sorted by name; other files are passed over."""
    inner = _folders(folder)
    if inner:
        raise DataError(
            f"the class folder {folder.name} holds the folder {inner[0].name!a}: "
            "put the images directly into the class folder"
        )
    found = [
        entry
        for entry in folder.iterdir()
        if _is_visible(entry) and entry.suffix.lower() in SUFFIXES and entry.is_file()
    ]
    if not found:
        raise DataError(f"the class folder {folder.name} holds no image: add some or remove it")
    return sorted(found, key=lambda entry: entry.name)


def _read_images(
    listing: Listing, image_shape: ImageShape | None, progress: Progress | None
) -> Samples:
    """All images as uint8 (n, height, width, channels)."""
    total = len(listing.paths)
    first = _read_image(listing.paths[0], image_shape)
    if total * first.size > MAX_SET_BYTES:
        raise DataError(
            f"{total} images of {first.shape} need {total * first.size / 1e9:.1f} GB: "
            "give the model's image shape, so that they are resized at once"
        )
    x = np.empty((total, *first.shape), dtype=np.uint8)
    for index, path in enumerate(listing.paths):
        pixels = first if index == 0 else _read_image(path, image_shape)
        if pixels.shape != first.shape:
            raise DataError(
                f"{_place(path)} has {pixels.shape[:2]} pixels but the first image "
                f"{first.shape[:2]}: give the model's image shape, so that they are resized"
            )
        x[index] = pixels
        if progress is not None:
            progress(index + 1, total)
    return x


def _read_image(path: Path, image_shape: ImageShape | None) -> Pixels:
    """One image as uint8 (height, width, channels); DataError names the file."""
    try:
        pixels = _decode(path, 3 if image_shape is None else image_shape[2])
    except DataError as error:
        raise DataError(f"{_place(path)} {error}") from error
    except Exception as error:  # decoders raise anything for damaged files
        raise DataError(
            f"{_place(path)} is no readable image ({type(error).__name__}): replace or remove it"
        ) from error
    if image_shape is None:
        return pixels
    fitted: Pixels = Transform(*image_shape).fit(pixels[np.newaxis])[0]
    return fitted


def _decode(path: Path, channels: int) -> Pixels:
    from PIL import Image, ImageOps  # optional: only image folders need it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(path, formats=FORMATS) as image:
            _check_image(image)
            upright = ImageOps.exif_transpose(image)
            pixels = np.asarray(upright.convert("L" if channels == 1 else "RGB"), dtype=np.uint8)
    return pixels[..., np.newaxis] if channels == 1 else pixels


def _check_image(image: "PillowImage") -> None:
    """Only the header has been read so far."""
    if image.width * image.height > MAX_PIXELS:
        raise DataError(
            f"has {image.width} x {image.height} pixels, more than {MAX_PIXELS}: make it smaller"
        )
    if image.mode not in MODES:
        raise DataError(f"has pixels of mode {image.mode}: save it with 8 bits per channel")


def _place(path: Path) -> str:
    """Class folder and file name, whatever characters they have."""
    return f"{path.parent.name}/{path.name}".encode("utf-8", "backslashreplace").decode()

"""Reads image folders: one folder per class, images decoded by Pillow, which is optional."""

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from mcutrain_host.dataclass import dataclass
from mcutrain_host.packages import OPTIONAL

from mcutrain.data.dataset import (
    Dataset,
    Indices,
    Labels,
    Samples,
    Split,
    as_names,
    drawn,
)
from mcutrain.data.groups import Drawing
from mcutrain.data.transform import Pixels, Transform
from mcutrain.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

Progress: TypeAlias = Callable[[int, int], None]
ImageShape: TypeAlias = tuple[int, int, int]
Counts: TypeAlias = tuple[int | None, int | None]

SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".jif", ".bmp", ".dib", ".gif", ".webp"}
    | {".pgm", ".ppm", ".pnm", ".pbm", ".tif", ".tiff"}
)
FORMATS = ("PNG", "JPEG", "BMP", "PPM", "GIF", "WEBP", "TIFF")
"""The decoders that may run; in particular not EPS, which starts another program."""
MODES = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"})
MAX_PIXELS = 64_000_000
"""Most pixels of one image; a small file can unpack to any size."""
MAX_SET_BYTES = 8 << 30
LITTER = frozenset({"thumbs.db", "desktop.ini", "ehthumbs.db"})
"""What file managers leave in folders, besides hidden files; nobody misses it."""
MOST_ENDINGS = 8
"""Most endings that a sentence lists."""
Note: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Kind:
    """What files hold, in the singular and plural, and how their names end."""

    name: str
    plural: str
    suffixes: frozenset[str]

    @property
    def endings(self) -> str:
        """Endings, for a sentence."""
        return ", ".join(sorted(self.suffixes))


IMAGES = Kind("image", "images", SUFFIXES)


@dataclass(frozen=True)
class Listing:
    """Files and their labels, in the order of class and file name."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...]

    @staticmethod
    def of(parts: "Sequence[Listing]") -> "Listing":
        """All of them, in order."""
        return Listing(
            tuple(path for part in parts for path in part.paths),
            tuple(label for part in parts for label in part.labels),
        )

    @property
    def numbers(self) -> Labels:
        """The labels as an array."""
        return np.array(self.labels, np.int64)

    def take(self, index: Indices) -> "Listing":
        """Return the files at `index`."""
        chosen = index.tolist()
        return Listing(tuple(self.paths[i] for i in chosen), tuple(self.labels[i] for i in chosen))


def read_images(
    listing: Listing, image_shape: ImageShape | None, progress: Progress | None
) -> Samples:
    """uint8 (n, height, width, channels), as a model's input wants them; see `load`."""
    _check_shape(image_shape)
    return _read_images(listing, image_shape, progress)


def list_parts(
    root: Path, kind: Kind, least_classes: int = 2, note: Note = lambda _: None
) -> tuple[list[Listing], tuple[str, ...]]:
    """The files of the training, test and validation part, as many as there are, and the classes.

    note: called with what is to be said of files that are left out. Raises DataError where there
    are no class folders, or unequal ones.
    """
    places = _parts(root)
    where = "" if places[0] == root else f" in {places[0].name}"
    names = _class_names(places[0], kind, where, least_classes)
    listings = [_list_files(place, names, kind) for place in places]
    if said := left_out_files(places, kind):
        note(said)
    return listings, names


def used_of(listings: Sequence[Listing], drawing: Drawing, counts: Counts) -> list[Listing]:
    """Training, test and perhaps validation files; of one part alone some are drawn for the test.

    counts: how many training and test files, drawn of every class alike; None is all.
    """
    used = list(listings)
    if len(used) == 1:
        (one,) = used
        groups = drawing.of_files(one.paths) if drawing.by else ()
        used = [one.take(index) for index in drawing.parts(one.numbers, groups)]
    else:
        drawing.check_none()
    for i, count in enumerate(counts):
        if count is not None:
            used[i] = used[i].take(drawn(used[i].numbers, count, drawing.seed))
    return used


def split_at(lengths: Sequence[int], whole: Dataset) -> Split:
    """Parts of these lengths, one after the other: training, test, and validation if there."""
    ends = list(accumulate(lengths))
    return Split(*(whole.part(end - n, end) for n, end in zip(lengths, ends, strict=True)))


def _check_shape(image_shape: ImageShape | None) -> None:
    if image_shape is None:
        return
    if min(image_shape) < 1 or image_shape[2] not in (1, 3):
        raise DataError(
            f"images cannot become {image_shape}: give (height, width, channels) "
            "with 1 or 3 channels"
        )


def require_pillow() -> None:
    if not OPTIONAL["pillow"].is_installed:
        raise DataError(OPTIONAL["pillow"].missing)


def _folders(root: Path) -> list[Path]:
    """The visible folders in `root`, sorted by name."""
    found = [entry for entry in root.iterdir() if entry.is_dir() and _is_visible(entry)]
    return sorted(found, key=lambda entry: entry.name)


def _is_visible(entry: Path) -> bool:
    return not entry.name.startswith((".", "__MACOSX")) and entry.name.lower() not in LITTER


def left_out_files(places: Sequence[Path], kind: Kind, is_flat: bool = False) -> str:
    """A sentence on files that are not read, by their endings; empty if there are none.

    Those in class folders that are of no known ending, and files of the kind that lie beside the
    class folders. is_flat: the places are no folders of class folders, but hold the files.
    """
    endings, beside = Counter[str](), 0
    for place in places:
        folders = [place] if is_flat else _folders(place)
        for entry in (entry for folder in folders for entry in folder.iterdir()):
            is_file = _is_visible(entry) and not entry.is_dir()
            if is_file and entry.suffix.lower() not in kind.suffixes:
                endings[entry.suffix or "without an ending"] += 1
        if not is_flat:
            beside += sum(is_of(entry, kind) for entry in place.iterdir())
    said = []
    if endings:
        named = [f"{count} {ending}" for ending, count in endings.most_common(MOST_ENDINGS)]
        more = ", …" if len(endings) > MOST_ENDINGS else ""
        said.append(
            f"{_left_out(endings.total(), 'in')} since {kind.plural} end in {kind.endings}: "
            f"{', '.join(named)}{more}"
        )
    if beside:
        said.append(
            f"{_left_out(beside, 'beside')} put each {kind.name} into the folder of its class"
        )
    return "; ".join(said)


def _left_out(count: int, where: str) -> str:
    files, are = ("file", "is") if count == 1 else ("files", "are")
    colon = ":" if where == "beside" else ","
    return f"{count:,} {files} {where} the class folders {are} left out{colon}"


def is_of(entry: Path, kind: Kind) -> bool:
    return _is_visible(entry) and entry.suffix.lower() in kind.suffixes and entry.is_file()


def _parts(root: Path) -> list[Path]:
    """Where the classes of the training part are, and of the test and validation part if given.

    `train` with files in it is just a class; where nothing is for the test, validation is.
    """
    train = root / "train"
    if not (train.is_dir() and _folders(train)):
        return [root]
    others = (("test",), ("val", "validation"))
    found = [next((root / n for n in names if (root / n).is_dir()), None) for names in others]
    return [train, *(place for place in found if place is not None)]


def _class_names(root: Path, kind: Kind, where: str, least: int) -> tuple[str, ...]:
    """where: in which part that is; the sentence begins with the path of the whole."""
    names = [folder.name for folder in _folders(root)]
    if len(names) < least:
        raise DataError(_too_few(root, names, kind, where))
    return as_names(names)


def _too_few(root: Path, names: Sequence[str], kind: Kind, where: str) -> str:
    """Return what was found where there are no two classes, and what is wanted."""

    def counted(folder: Path) -> str:
        count = sum(is_of(entry, kind) for entry in folder.iterdir())
        return f"{count:,} {kind.name if count == 1 else kind.plural}"

    beside = f"; {counted(root)} without one" if any(is_of(e, kind) for e in root.iterdir()) else ""
    of_one = f", {names[0]!a} with {counted(root / names[0])}" if names else ""
    one, other = root / (names[0] if names else "ONE"), root / "ANOTHER"
    return (
        f"there is {'one' if names else 'no'} class folder{where}{of_one}{beside}: training needs "
        f"two classes at least, each with a folder of its {kind.plural}, such as {one} and {other}"
    )


def _list_files(root: Path, names: tuple[str, ...], kind: Kind) -> Listing:
    """The files below `root`; each folder must be of a class in `names` and hold one."""
    paths: list[Path] = []
    labels: list[int] = []
    for folder in _folders(root):
        if folder.name not in names:
            raise DataError(
                f"{root.name}/{folder.name!a} is a class without training {kind.plural}: "
                "add it to train/ or remove it"
            )
        found = files_in(folder, kind)
        paths += found
        labels += [names.index(folder.name)] * len(found)
    if not paths:
        raise DataError(
            f"{root.name} has no class folders: put the {kind.plural} into a folder per class"
        )
    return Listing(tuple(paths), tuple(labels))


def files_in(folder: Path, kind: Kind) -> list[Path]:
    """The files of a kind in a class folder, sorted by name; other files are passed over."""
    inner = _folders(folder)
    if inner:
        raise DataError(
            f"the class folder {folder.name} holds the folder {inner[0].name!a}: "
            f"put the {kind.plural} directly into the class folder"
        )
    found = [entry for entry in folder.iterdir() if is_of(entry, kind)]
    if not found:
        others = left_out_files([folder], kind, is_flat=True)
        raise DataError(
            f"the class folder {folder.name} holds no {kind.name}: add some or remove it"
            f"{f'; {others}' if others else ''}"
        )
    return sorted(found, key=lambda entry: entry.name)


def kind_of(root: Path, kinds: Sequence[Kind]) -> Kind:
    """What most of the files in and two folders below `root` are, the first kind if none is."""
    found: Counter[Kind] = Counter()
    for place in (root, *_folders(root), *(f for part in _folders(root) for f in _folders(part))):
        for entry in place.iterdir():
            found.update(kind for kind in kinds if entry.suffix.lower() in kind.suffixes)
    best = max(found.values(), default=0)
    return next(kind for kind in kinds if found[kind] == best)


def _read_images(
    listing: Listing, image_shape: ImageShape | None, progress: Progress | None
) -> Samples:
    """All images as uint8 (n, height, width, channels)."""
    total = len(listing.paths)
    first = read_image(listing.paths[0], image_shape)
    if total * first.size > MAX_SET_BYTES:
        raise DataError(
            f"{total} images of {first.shape} need {total * first.size / 1e9:.1f} GB: "
            "give the model's image shape, so that they are resized at once"
        )
    x = np.empty((total, *first.shape), dtype=np.uint8)
    for index, path in enumerate(listing.paths):
        pixels = first if index == 0 else read_image(path, image_shape)
        if pixels.shape != first.shape:
            raise DataError(
                f"{place_of(path)} has {pixels.shape[:2]} pixels but the first image "
                f"{first.shape[:2]}: give the model's image shape, so that they are resized"
            )
        x[index] = pixels
        if progress is not None:
            progress(index + 1, total)
    return x


def read_image(path: Path, image_shape: ImageShape | None) -> Pixels:
    """One image as uint8 (height, width, channels); DataError names the file."""
    try:
        pixels = _decode(path, 3 if image_shape is None else image_shape[2])
    except DataError as error:
        raise DataError(f"{place_of(path)} {error}") from error
    except Exception as error:  # decoders raise anything for damaged files
        raise DataError(f"{place_of(path)} is no readable image: replace or remove it") from error
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


def place_of(path: Path) -> str:
    """Class folder and file name, whatever characters they have."""
    return Path(path.parent.name, path.name).as_posix().encode("utf-8", "backslashreplace").decode()

"""Labelled pictures of a camera, in folders of their classes."""

from __future__ import annotations

import io
import time
from dataclasses import asdict
from pathlib import Path

from mcutrain_host.dataclass import dataclass
from mcutrain_host.packages import OPTIONAL

from mcutrain.arguments import PathLike, checked
from mcutrain.data import as_names
from mcutrain.data.names import folder_of
from mcutrain.errors import DataError
from mcutrain.functions.cameras import Picture, opened, picture_of
from mcutrain.functions.files import check_writable_folder, replace_file, writing
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.run_options import SnapOptions
from mcutrain.shown import Record, Shown

LONGEST = 255
"""Bytes of a folder's name, in most file systems."""


@dataclass(frozen=True, repr=False)
class Snapped(Shown):
    """Pictures that were taken. size: their width and height."""

    files: tuple[Path, ...]
    size: tuple[int, int]

    def summary(self) -> str:
        """Return a line that describes it."""
        count, (width, height) = len(self.files), self.size
        pictures = "1 picture" if count == 1 else f"{count:,} pictures"
        return f"{pictures} of {width}x{height}: {self.files[0].parent}"

    def records(self) -> list[Record]:
        """A row for each picture."""
        return [{"file": str(file)} for file in self.files]

    def to_dict(self) -> Record:
        """Return it as `mcutrain snap --json` prints it."""
        return {**asdict(self), "files": [str(file) for file in self.files]}


@with_keywords
@checked
def snap(
    folder: PathLike,
    name: str,
    *,
    taking: SnapOptions = SnapOptions(),
    listener: Listener = SILENT,
) -> Snapped:
    """Take pictures with a camera of this computer, as samples of a class.

    They become PNG files in the folder of the class, numbered behind those that are there. Each
    appears as a whole, so that `watch` can learn them meanwhile; Ctrl-C leaves those taken so far.
    Picamera2 takes them where it can be imported, else OpenCV.

    folder: of the data set. name: of the class, whose folder is made if need be, with - for /.
    taking: its fields are keywords, too.

    Raises DataError for a name that can be no folder's; McutrainError for a camera that is
    missing, busy or gives no picture.

    >>> snap("inbox/", "cat", count=20).files
    """
    if not OPTIONAL["pillow"].is_installed:
        raise DataError(OPTIONAL["pillow"].missing)
    place = Path(folder) / _class_folder(name)
    check_writable_folder(place)
    width, height = taking.size
    files: list[Path] = []
    with opened(taking.camera, taking.size, taking.by) as camera:
        due = time.monotonic()
        while len(files) < taking.count:
            time.sleep(max(0.0, due - time.monotonic()))
            due = time.monotonic() + taking.every  # a late one is not made up for by a hurried one
            picture = picture_of(camera, taking.camera)
            height, width = picture.shape[:2]
            if not files and (width, height) != tuple(taking.size):
                asked = "x".join(map(str, taking.size))
                listener.note(f"the camera gives pictures of {width}x{height}, not of {asked}")
            files.append(_next(place))
            replace_file(files[-1], _png(picture))
            said = f"{place.name}/{files[-1].name}: {len(files):,} of {taking.count:,}"
            listener.decided(said)
    return Snapped(tuple(files), (width, height))


def _class_folder(name: str) -> str:
    """Raise DataError for a name that no folder of a class can have."""
    (name,) = as_names((name.strip(),))
    if name.startswith("."):
        raise DataError(
            f"the class name {name[:40]} begins with a dot: its folder would be hidden, and left "
            "out wherever data is read"
        )
    if len(name.encode()) > LONGEST:
        raise DataError(f"the class name {name[:40]}… is too long for a folder: shorten it")
    return folder_of(name)


def _next(place: Path) -> Path:
    """The file behind those that are there, whose folder is made. Others may come meanwhile."""
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
        stems = [file.stem for file in place.iterdir()]
    known = [int(stem) for stem in stems if stem.isascii() and stem.isdigit()]
    return place / f"{max(known, default=0) + 1:05}.png"


def _png(picture: Picture) -> bytes:
    from PIL import Image  # optional

    content = io.BytesIO()
    Image.fromarray(picture).save(content, format="PNG")
    return content.getvalue()

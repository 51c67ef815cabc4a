"""The files behind the samples of a folder, and which of them cannot be read."""

from __future__ import annotations

from pathlib import Path

from mcutrain_host.dataclass import dataclass

from mcutrain.data._folders import IMAGES, Kind, Listing, kind_of, list_parts, read_images, used_of
from mcutrain.data._sounds import SOUNDS, read_sound
from mcutrain.data._tables import TABLES
from mcutrain.data.groups import Drawing
from mcutrain.errors import DataError

Parts = tuple[tuple[Path, ...], ...]


@dataclass(frozen=True)
class UnreadableFile:
    """A file of a class folder that gives no sample, and why."""

    file: str
    why: str


@dataclass(frozen=True)
class FolderFiles:
    """Files of class folders that give a sample each.

    parts: of the training, test and perhaps validation part, in the order of the samples that
    `load` reads.
    """

    kind: Kind
    parts: Parts

    @staticmethod
    def of(root: Path, drawing: Drawing) -> FolderFiles | None:
        """Return what `load` takes of a folder whose test part is drawn so; None if it is none.

        Raises DataError for class folders that do not fit together.
        """
        if not root.is_dir() or any(entry.suffix == ".npy" for entry in root.iterdir()):
            return None
        kind = kind_of(root, (IMAGES, SOUNDS, TABLES))
        if kind is TABLES:
            return None
        listings, _ = list_parts(root, kind, least_classes=1)
        used = used_of(listings, drawing, (None, None))
        return FolderFiles(kind, tuple(part.paths for part in used))

    def unreadable(self) -> tuple[UnreadableFile, ...]:
        """Files that cannot be read; all are tried, each by itself."""
        found = []
        for path in (path for part in self.parts for path in part):
            try:
                if self.kind is IMAGES:
                    read_images(Listing((path,), (0,)), None, None)
                else:
                    read_sound(path)
            except DataError as error:
                found.append(UnreadableFile(str(path), str(error)))
        return tuple(found)

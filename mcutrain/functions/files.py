"""Files that a function writes, checked before its work begins."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mcutrain_host.files import NOT_OURS, sync, unwritable, write_whole

from mcutrain.errors import McutrainError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What fails while `path` is written is the user's to change: a sentence with its name."""
    try:
        yield
    except OSError as error:
        raise McutrainError(f"cannot write {path}: {unwritable(path, error)}") from error


def replace_file(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all. Raises McutrainError."""
    with writing(path):
        write_whole(path, content)


def check_writable(path: Path) -> None:
    """Raise McutrainError now if a file cannot be written there later."""
    with writing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        with tempfile.TemporaryFile(dir=path.parent):
            pass


def check_writable_folder(path: Path) -> None:
    """Raise McutrainError now if no file can be written into this folder, or it made, later."""
    with writing(path):
        there = next(p for p in (path, *path.absolute().parents) if p.exists())
        with tempfile.TemporaryFile(dir=there):
            pass


def write_all(folder: Path, files: Mapping[str, str]) -> None:
    """All files, each as a whole; none of them changes before all are written beside them.

    The last one is JSON. Raises McutrainError where another of them is there without it, for then
    it is somebody else's.
    """
    with writing(folder):
        *others, mark = files
        strange = [name for name in others if (folder / name).exists()]
        if strange and not (folder / mark).is_file():
            raise FileExistsError(errno.EEXIST, f"{folder / strange[0]} is there: {NOT_OURS}")
        folder.mkdir(parents=True, exist_ok=True)
        parts = {name: folder / f".{name}.part" for name in files}
        try:
            for name, text in files.items():
                parts[name].write_text(text, encoding="utf-8")
                sync(parts[name])
            for name, part in parts.items():
                part.replace(folder / name)
        finally:
            for part in parts.values():
                part.unlink(missing_ok=True)

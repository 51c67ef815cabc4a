"""Files that a function will write, checked before the work begins."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcutrain_host.files import unwritable

from mcutrain.errors import McutrainError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What fails while `path` is written is the user's to change: a sentence with its name."""
    try:
        yield
    except OSError as error:
        raise McutrainError(f"cannot write {path}: {unwritable(path, error)}") from error


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

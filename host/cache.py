"""What is kept from one run to the next: whole, checked before each use, made again if damaged.

A file ends with its seal: a mark, and the SHA-256 of all before it. Linkers, the loader of
libraries and numpy do not look behind what they need, so libraries, objects and arrays are used as
they lie. Any number of processes may read and make the same file at once. A file gets its name when
it is complete and on the disk; whoever has opened the one before keeps it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcutrain_host.errors import CacheError
from mcutrain_host.files import whole
from mcutrain_host.reading import read_file

MARK = b"\nmcutrain sha256\n"
SEAL_BYTES = len(MARK) + hashlib.sha256().digest_size
READ_BYTES = 1 << 20
MOST_BYTES = 1 << 30
"""Most bytes that are read into memory as a whole."""
LIBRARIES = "libraries"
"""The folder of compiled C that is loaded into a process of this computer."""


def cache_folder() -> Path:
    """Return where results are kept: $MCUTRAIN_CACHE, or mcutrain in the user's cache folder.

    Raises CacheError for a user without a home.
    """
    chosen = os.environ.get("MCUTRAIN_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "mcutrain"
    except RuntimeError as error:
        raise CacheError(".cache in your home", str(error)) from error


def check_cache() -> None:
    """Raise CacheError now rather than after long work, if nothing can be kept."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CacheError(folder, error.strerror or str(error)) from error


def is_sound(path: Path) -> bool:
    """Return whether the file is there and is what was written."""
    try:
        with path.open("rb") as file:
            left = os.fstat(file.fileno()).st_size - SEAL_BYTES
            if left < 0:
                return False
            found = hashlib.sha256()
            while left and (block := file.read(min(left, READ_BYTES))):
                found.update(block)
                left -= len(block)
            return not left and file.read() == MARK + found.digest()
    except OSError:
        return False


def read(path: Path) -> bytes | None:
    """Return what `write` was given; None if it is absent or damaged."""
    try:
        content, seal = _split(read_file(path, MOST_BYTES))
    except OSError:
        return None
    return content if seal == MARK + hashlib.sha256(content).digest() else None


def write(path: Path, content: bytes) -> None:
    """Keep bytes. Raises CacheError."""
    with writing(path) as part:
        part.write_bytes(content)


def keep(made: Path, kept: Path) -> None:
    """Keep a copy of a file. Raises CacheError."""
    with writing(kept) as part:
        shutil.copyfile(made, part)


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A file to be written, which is then sealed and gets its name. Raises CacheError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path, name_may_be_lost=True) as part:
            yield part
            _seal(part)
    except OSError as error:
        raise CacheError(path.parent, error.strerror or str(error)) from error


def _seal(path: Path) -> None:
    """Append the seal."""
    found = hashlib.sha256()
    with path.open("r+b") as file:
        while block := file.read(READ_BYTES):
            found.update(block)
        file.write(MARK + found.digest())


def _split(data: bytes) -> tuple[bytes, bytes]:
    return data[:-SEAL_BYTES], data[-SEAL_BYTES:]

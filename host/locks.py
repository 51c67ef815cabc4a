"""One program at a time writes a file: the second is told so, and nothing of the first is lost.

The lock is a file of the cache folder that is named after the path. The system holds it, so a
program that was killed leaves none behind.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mcutrain_host.cache import cache_folder
from mcutrain_host.errors import BusyFileError, CacheError

if sys.platform == "win32":
    import msvcrt

    def _take(number: int) -> None:
        msvcrt.locking(number, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(number: int) -> None:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be the only program that writes `path` meanwhile. Raises BusyFileError if one does already.

    Where no lock can be made, as in a cache folder that cannot be written, there is none.
    """
    number = _opened(path)
    if number is None:
        yield
        return
    try:
        try:
            _take(number)
        except OSError as error:
            raise BusyFileError(path) from error
        yield
    finally:
        os.close(number)  # which gives it free


def _opened(path: Path) -> int | None:
    """A file that stands for the path; None where it cannot be made."""
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    with suppress(OSError, CacheError):
        folder = cache_folder() / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    return None

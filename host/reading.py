"""Files that nobody vouches for, read with a bound: regular ones alone, and no byte more than fits.

A device such as /dev/zero has no end, a pipe may never have one, and a sparse file is as long as
somebody likes. What is too long is an OSError whose strerror is the end of a sentence.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

MOST_TEXT_BYTES = 64 << 20
"""Most bytes of a manifest, a scheme, an analysis or another text; long analyses have millions."""
CHUNK_BYTES = 1 << 20
NO_FILE = "it is no regular file"


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file for reading. Raises OSError for anything else, without waiting for it."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    number = os.open(path, flags)
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, NO_FILE, str(path))
    except BaseException:
        os.close(number)
        raise
    with os.fdopen(number, "rb") as file:
        yield file


def size_of(file: BinaryIO) -> int:
    """The length of an open file in bytes."""
    return os.fstat(file.fileno()).st_size


def read_file(path: Path, most_bytes: int) -> bytes:
    """All bytes of a regular file. Raises OSError, also for one that is longer."""
    with opened(path) as file:
        size = size_of(file)
        content = bytearray()
        while size <= most_bytes and (chunk := file.read(CHUNK_BYTES)):
            content += chunk
            size = max(size, len(content))  # it may grow, and some files do not tell their size
    if size > most_bytes:
        raise OSError(errno.EFBIG, too_long(size, most_bytes), str(path))
    return bytes(content)


def read_text(path: Path, most_bytes: int = MOST_TEXT_BYTES) -> str:
    """The text of a regular file in UTF-8. Raises OSError as `read_file`, UnicodeDecodeError."""
    return read_file(path, most_bytes).decode("utf-8")


def too_long(size: int, most_bytes: int) -> str:
    """The end of a sentence about a file of `size` bytes."""
    return f"it has {size:,} bytes, and no such file has more than {most_bytes:,}"

"""Keeps a C library from printing to stdout, which may be a pipe that expects JSON."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def silenced_stdout() -> Iterator[None]:
    """Drop what C code prints to the process' standard output meanwhile.

    Python's own output is written before. Not for several threads at once.
    """
    sys.stdout.flush()
    _flush_c()
    try:
        saved = os.dup(1)
    except OSError:  # there is no standard output
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        yield
    finally:
        _flush_c()
        os.dup2(saved, 1)
        os.close(saved)
        os.close(null)


def _flush_c() -> None:
    """Write out what C's stdio holds back."""
    library = "ucrtbase" if sys.platform == "win32" else None
    with suppress(AttributeError, OSError, TypeError):  # then it comes out later
        ctypes.CDLL(library).fflush(None)

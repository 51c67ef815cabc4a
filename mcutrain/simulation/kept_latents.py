"""Latents on the disk: what one run has computed, another that begins with the same need not."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.cache import cache_folder, is_sound, writing
from mcutrain_host.errors import CacheError

Array = npt.NDArray[Any]

MOST_BYTES = 1 << 30
"""Most bytes of all kept latents; what was not used for longest goes first."""


def kept_latents(front: str, samples: str, read: str) -> Path:
    """Where latents are kept. front, samples: digests of what makes them, and of what. read: how
    samples become the front's input. Raises CacheError.
    """
    how = hashlib.sha256(read.encode()).hexdigest()[:16]
    return cache_folder() / "latents" / f"{front}-{samples}-{how}.npy"


def read_latents(path: Path, shape: tuple[int, ...]) -> Array | None:
    """Latents of that shape, mapped read-only; None if there are none, or damaged ones."""
    if not is_sound(path):
        return None
    with contextlib.suppress(OSError, ValueError):
        found: Array = np.lib.format.open_memmap(path, mode="r")
        if found.shape == shape and found.dtype == np.int8:
            os.utime(path)
            return found
    return None


def keep_latents(path: Path, values: Array) -> None:
    """Keep latents, unless they are too many, or the disk refuses: a run does not need them."""
    if values.nbytes > MOST_BYTES:
        return
    with contextlib.suppress(CacheError):
        with writing(path) as part, part.open("wb") as file:
            np.save(file, values)
        _forget_oldest(path.parent)


def _forget_oldest(folder: Path) -> None:
    """Delete files until the others are small enough."""
    found = []
    for path in folder.glob("*.npy"):
        with contextlib.suppress(OSError):  # another process was faster
            facts = path.stat()
            found.append((facts.st_mtime, facts.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= MOST_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= size

"""Files of an analysis in the cache folder: whole, checked, and as good as absent if damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host import cache
from mcutrain_host.files import reserve

Array = npt.NDArray[Any]


def analysis_folder() -> Path:
    """Return where analyses keep activations and results: `analysis` in the cache folder."""
    return cache.cache_folder() / "analysis"


@contextmanager
def writing_npy(path: Path, shape: tuple[int, ...], dtype: str = "int8") -> Iterator[Array]:
    """A .npy file to be filled; it appears under its name when all is written.

    Raises CacheError, at once if the disk has no room for it.
    """
    with cache.writing(path) as part:
        out = np.lib.format.open_memmap(part, "w+", np.dtype(dtype), shape)
        reserve(part)
        yield out
        out.flush()
        del out


class Store:
    """Results of candidates by their key; what is unreadable counts as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> dict[str, float] | None:
        """The numbers that were kept, or None."""
        content = cache.read(self._path(key))
        if content is None:
            return None
        try:
            return {str(k): float(v) for k, v in json.loads(content).items()}
        except (ValueError, TypeError, AttributeError):
            return None

    def put(self, key: str, values: dict[str, float]) -> None:
        """Keep numbers under a key."""
        cache.write(self._path(key), json.dumps(values).encode())

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

"""Files of an analysis in the cache folder: written as a whole or not at all."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.toolchain import cache_folder

Array = npt.NDArray[Any]


def analysis_folder() -> Path:
    """Where analyses keep activations and results: `analysis` in the cache folder."""
    return cache_folder() / "analysis"


@contextmanager
def writing_npy(path: Path, shape: tuple[int, ...]) -> Iterator[Array]:
    """An int8 .npy file to be filled; it appears under its name when all is written."""
    part = _part(path)
    try:
        out = np.lib.format.open_memmap(part, "w+", np.int8, shape)
        yield out
        out.flush()
        del out
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class Store:
    """Results of candidates by their key; what is unreadable counts as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> dict[str, float] | None:
        """The numbers that were kept, or None."""
        try:
            values = json.loads(self._path(key).read_text(encoding="utf-8"))
            return {str(k): float(v) for k, v in values.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def put(self, key: str, values: dict[str, float]) -> None:
        """Keep numbers under a key."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = _part(path)
        part.write_text(json.dumps(values), encoding="utf-8")
        part.replace(path)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")

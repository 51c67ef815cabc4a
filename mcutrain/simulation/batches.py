"""Mini-batches of one level: the order of an epoch in which each update's samples share a front.

As PieBridge (SenSys 2024) has it, where samples of one front are computed together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

Array = npt.NDArray[np.int64]

MIXED, BY_LEVEL = "mixed", "level"
BATCHES = (MIXED, BY_LEVEL)
"""Samples as they come, or put together by the level of a proxy cascade."""


@dataclass(frozen=True)
class LevelBatches:
    """levels_of: of int8 samples [n, …], int [n]. size: samples per update."""

    levels_of: Callable[[npt.NDArray[np.int8]], Array]
    size: int


def by_level(order: Array, levels: Array, size: int, begun: int) -> Array:
    """Order samples so that those of a batch have one level, as far as there are enough.

    order: indices of samples, as they come. levels: of each sample, by index. begun: how many
    samples an earlier epoch left in its last batch, 0 to size - 1; the first ones fill it up. Each
    level collects its samples as they come, and a batch follows when it has enough. What is left
    over is at the end, by level.
    """
    first = order[: -begun % size]
    waiting: dict[int, list[int]] = {}
    found = first.tolist()
    for index in order[len(first) :].tolist():
        batch = waiting.setdefault(int(levels[index]), [])
        batch.append(index)
        if len(batch) == size:
            found += batch
            batch.clear()
    for _, left in sorted(waiting.items()):
        found += left
    return np.array(found, order.dtype)


def mixed_batches(levels: Array, size: int, begun: int) -> int:
    """How many batches that end in an epoch have samples of several levels, or of two epochs.

    levels: of the epoch's samples, in their order. begun: as in `by_level`.
    """
    first = -begun % size
    count = (len(levels) - first) // size
    batches = levels[first : first + max(count, 0) * size].reshape(-1, size)
    is_mixed = (batches != batches[:, :1]).any(axis=1)
    return int(is_mixed.sum()) + (0 < first <= len(levels))

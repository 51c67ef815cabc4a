"""Choices of one bias depth: what each adds to memory, flash and work."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.selection.units import Shares

Array = npt.NDArray[Any]

OWN_BITS = -1
"""Stands for the residual bits of a scheme whose layers have their own."""
LEAST_BUNDLE_BYTES = 32
"""Least flash that options share, for it to be counted; a bound may leave out the rest."""


@dataclass(frozen=True)
class Option:
    """One choice for a unit and what it adds to the scheme without it.

    memory: bytes of the arena at each step of the timeline. gain, state, flash, instructions: by
    residual bits. shared: bytes in flash that are there once, however many options bring them;
    flash is without. bits: of each layer, if they are a part of the choice; then the numbers are
    those of OWN_BITS.
    """

    shares: Shares
    gain: Mapping[int, float]
    memory: Array
    state: Mapping[int, int]
    flash: Mapping[int, int]
    instructions: Mapping[int, int]
    shared: Mapping[Hashable, int]
    bits: tuple[int, ...] = ()


@dataclass(frozen=True)
class Depth:
    """All choices with the last `depth` biases trained.

    paid: parts in flash that are there without any weights. units: of each at most one is taken.
    """

    depth: int
    gain: float
    memory: Array
    state_bytes: int
    flash_bytes: int
    instructions: int
    paid: frozenset[Hashable]
    units: tuple[tuple[Option, ...], ...]

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """Options of all units, in order."""
        return tuple(option for unit in self.units for option in unit)

    @cached_property
    def bundles(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Bytes in flash that are there once if any of these options is taken."""
        brought: dict[Hashable, list[int]] = defaultdict(list)
        sizes: dict[Hashable, int] = {}
        for i, option in enumerate(self.options):
            for key in option.shared.keys() - self.paid:
                brought[key].append(i)
                sizes[key] = option.shared[key]
        total: Counter[tuple[int, ...]] = Counter()
        for key, options in brought.items():
            total[tuple(options)] += sizes[key]
        return tuple((size, o) for o, size in sorted(total.items()) if size >= LEAST_BUNDLE_BYTES)

    @cached_property
    def peaks(self) -> tuple[Array, Array]:
        """Where SRAM may be largest: what options add there [steps][options], what is there
        without them [steps]. Steps at which never more is alive than at another are left out."""
        added = np.array([o.memory for o in self.options], np.int64)
        rows = np.column_stack([self.memory, added.reshape(len(self.options), len(self.memory)).T])
        rows = np.unique(rows, axis=0)[::-1]
        kept: list[int] = []
        for i, row in enumerate(rows):  # those before it have at least as much in front
            if not (rows[kept] >= row).all(axis=1).any():
                kept.append(i)
        return rows[kept, 1:], rows[kept, 0]

    def extreme(self, rows: Array, of: Callable[..., Array]) -> Array:
        """The least or most (np.min, np.max) that a choice can add to each row. [rows]"""
        total = np.zeros(len(rows), rows.dtype)
        at = 0
        for unit in self.units:
            total += of(rows[:, at : at + len(unit)], axis=1, initial=0)
            at += len(unit)
        return total

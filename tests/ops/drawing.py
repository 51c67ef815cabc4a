"""Where random cases come from: Hypothesis, which shrinks them, or a seeded generator, fast."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

Array = npt.NDArray[Any]
T = TypeVar("T")

FILLS = ("uniform", "uniform", "uniform", "extremes", "sparse", "constant")


class Source(ABC):
    """Draws integers; all else is made of them."""

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """From low to high, both included."""

    def choice(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def boolean(self) -> bool:
        return self.integer(0, 1) == 1

    def subset(self, count: int) -> tuple[int, ...]:
        """Some of 0 … count - 1, ascending, at least one."""
        chosen = tuple(i for i in range(count) if self.boolean())
        return chosen or (self.integer(0, count - 1),)

    def array(self, shape: Sequence[int], dtype: str, low: int, high: int) -> Array:
        """Values from low to high, both included: spread, or at the limits, or mostly 0."""
        fill = self.choice(FILLS)
        rng = np.random.default_rng(self.integer(0, 2**32 - 1))
        values = rng.integers(low, high, shape, np.int64, endpoint=True)
        if fill == "extremes":
            values = np.where(rng.random(shape) < 0.5, low, high)
        elif fill == "sparse":
            values = np.where(rng.random(shape) < 0.9, np.clip(0, low, high), values)
        elif fill == "constant":
            values = np.full(shape, rng.integers(low, high, endpoint=True))
        return values.astype(dtype)


class SeededSource(Source):
    """Draws from a numpy generator."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high, endpoint=True))


class HypothesisSource(Source):
    """Draws from Hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(integers(low, high))


@lru_cache(maxsize=4096)
def integers(low: int, high: int) -> st.SearchStrategy[int]:
    """Making it takes longer than a draw."""
    return st.integers(low, high)


@st.composite
def drawn(draw: st.DrawFn, make: Callable[[Source], T]) -> T:
    """What `make` makes of a source, as a Hypothesis strategy."""
    return make(HypothesisSource(draw))

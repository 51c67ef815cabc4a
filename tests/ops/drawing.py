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

WORD = 2**32
WORDS_AT_ONCE = 128
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
    """Draws what `numpy.random.default_rng` of the seed does, in a fifth of its time."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)
        self._words: list[int] = []

    def integer(self, low: int, high: int) -> int:
        """By Lemire's method: the high half of a word times the count, if the low one is fair."""
        count = high - low + 1
        assert 0 < count <= WORD
        if count in (1, WORD):
            return low + (self._word() if count == WORD else 0)
        product = self._word() * count
        if product % WORD < count:
            while product % WORD < WORD % count:
                product = self._word() * count
        return low + product // WORD

    def _word(self) -> int:
        """32 random bits: the low half of a number of the generator's, then its high half."""
        if not self._words:
            raw = self._bits.random_raw(WORDS_AT_ONCE // 2).astype("<u8")
            self._words = raw.view("<u4")[::-1].tolist()
        return self._words.pop()


class Outline(SeededSource):
    """Draws what SeededSource does, but arrays of one value: shapes alone, in little time."""

    def array(self, shape: Sequence[int], dtype: str, low: int, high: int) -> Array:
        self.choice(FILLS)
        self.integer(0, WORD - 1)
        return np.full(shape, min(max(0, low), high), dtype)


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

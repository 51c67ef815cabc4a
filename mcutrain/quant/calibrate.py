"""What ranges the tensors of a float graph have on samples: extremes, histograms, percentiles.

Two passes over the samples in batches: the extremes, then a histogram between them, so memory does
not grow with the number of samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import DataError
from mcutrain.quant.float_graph import FloatGraph
from mcutrain.quant.float_op import LEVELS

Array = npt.NDArray[Any]
Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, of how much."""

BINS = 2048
CANDIDATES = 64  # of either end of a range
LARGEST = 1e30  # numbers whose differences single precision holds
SMALLEST_SHARE = 0.2  # of the extremes, that a range of least error may shrink to


@dataclass(frozen=True, eq=False)
class Histogram:
    """Histogram of one tensor. counts: of BINS equal bins from low to high.

    channel_largest: the largest magnitude in each channel (last axis).
    """

    low: float
    high: float
    counts: Array
    channel_largest: Array

    def minmax(self) -> tuple[float, float]:
        """All that was seen."""
        return self.low, self.high

    def percentile(self, percent: float) -> tuple[float, float]:
        """The range that holds so many percent; what is left out is shared by both ends.

        An end where many numbers lie, as 0 after a ReLU, keeps its place.
        """
        share = (1 - percent / 100) / 2
        below = np.cumsum(self.counts) / max(self.counts.sum(), 1)
        edges = np.linspace(self.low, self.high, BINS + 1)
        first = int(np.searchsorted(below, share, side="right"))
        last = int(np.searchsorted(below, 1 - share, side="left"))
        return float(edges[min(first, BINS - 1)]), float(edges[min(last + 1, BINS)])

    def least_error(self) -> tuple[float, float]:
        """The range with the least mean squared error of rounding and clipping."""
        lows = np.minimum(self.low, 0) * np.linspace(SMALLEST_SHARE, 1, CANDIDATES)
        highs = np.maximum(self.high, 0) * np.linspace(SMALLEST_SHARE, 1, CANDIDATES)
        lows, highs = np.unique(lows), np.unique(highs)
        clipped = self._clipped(-lows, -1)[:, None] + self._clipped(highs, 1)[None, :]
        steps = (highs[None, :] - lows[:, None]) / LEVELS
        error = clipped + max(self.counts.sum(), 1) * steps**2 / 12
        row, column = np.unravel_index(int(error.argmin()), error.shape)
        return float(lows[row]), float(highs[column])

    def _clipped(self, ends: Array, sign: int) -> Array:
        """Squared error of clipping sign * x at each end: sums over the bins beyond it."""
        edges = np.linspace(self.low, self.high, BINS + 1)
        x = sign * (edges[:-1] + edges[1:]) / 2
        beyond = np.maximum(x[None, :] - ends[:, None], 0)
        error: Array = (beyond**2 * self.counts[None, :]).sum(axis=1)
        return error


def calibrate(
    graph: FloatGraph, samples: Array, report: Progress = lambda *_: None
) -> dict[str, Histogram]:
    """The statistics of every tensor. Raises DataError where the model computes no numbers."""
    lows: dict[str, float] = {}
    highs: dict[str, float] = {}
    largest: dict[str, Array] = {}
    counts: dict[str, Array] = {name: np.zeros(BINS, np.int64) for name in graph.shapes}

    def extremes(name: str, x: Array) -> None:
        low, high = float(x.min()), float(x.max())
        if not -LARGEST < low <= high < LARGEST:
            raise DataError(
                f"the model computes infinity or NaN, or numbers beyond {LARGEST:.0e}, in tensor "
                f"{name!r}; do the samples have the range that it was trained on?"
            )
        lows[name], highs[name] = min(lows.get(name, low), low), max(highs.get(name, high), high)
        found = np.abs(x).reshape(-1, x.shape[-1]).max(axis=0)
        largest[name] = np.maximum(largest.get(name, 0), found)

    def histogram(name: str, x: Array) -> None:
        low, high = lows[name], highs[name]
        if high > low:
            places = ((x - np.float32(low)) * np.float32(BINS / (high - low))).astype(np.int32)
            flat = np.clip(places, 0, BINS - 1).ravel()
            counts[name] += np.bincount(flat, minlength=BINS)

    for title, see in (("calibrating: extremes", extremes), ("calibrating: histograms", histogram)):
        done = 0
        for batch in graph.batches(samples):
            graph.run(batch, see)
            done += len(batch)
            report(title, done, len(samples))
    return {
        name: Histogram(lows[name], highs[name], counts[name], largest[name])
        for name in graph.shapes
    }

"""Real targets of regression, and the integers that a network learns them as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.errors import DataError

Array = npt.NDArray[Any]

FINER = 64
"""Steps of a target in one of the output; mcutrain.ops.target_error has the same."""
MARGIN = 0.05
"""What a new head's outputs reach beyond the training part's targets, as a share of their span."""
MOST_TARGETS = 4096


@dataclass(frozen=True)
class Targets:
    """How real targets become integers: the output's quantization, FINER times as fine.

    real = (code / FINER - zero_point) * scale + offset; the output is int8 of the same, without
    FINER. offset: of a new head whose targets are all far from 0, which its own zero point cannot
    reach; the model file's outputs lack it. start: the output that a new head begins with, for each
    target; empty for the model's own head.
    """

    scale: float
    zero_point: int
    offset: float = 0.0
    start: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        fits = 0 < self.scale < np.inf and -128 <= self.zero_point <= 127
        if not (fits and np.isfinite([self.offset, *self.start]).all()):
            raise DataError(f"{self} is no quantization of targets: make the step anew")

    @staticmethod
    def spanning(y: Array) -> Targets:
        """Return what holds all of these, float (n, k), for a new head. Includes 0 if that is near.

        Outputs are int8 whose zero point is one of them: without offset they always reach 0.
        """
        low, high = float(y.min()), float(y.max())
        span = high - low
        low, high = low - MARGIN * span, high + MARGIN * span
        offset = 0.0
        if min(abs(low), abs(high)) > span and low * high > 0:
            offset = float(np.float32((low + high) / 2))
        low, high = min(low - offset, 0.0), max(high - offset, 0.0)
        scale = float(np.float32((high - low) / 255))
        if not 0 < scale < np.inf:
            raise DataError(
                f"the targets are from {y.min():g} to {y.max():g}, which is too near for int8: "
                "save them in another unit"
            )
        zero_point = int(np.clip(np.rint(-128 - low / scale), -128, 127))
        return Targets(scale, zero_point, offset, tuple(map(float, y.mean(axis=0))))

    def codes(self, y: Array) -> Array:
        """Real targets as int16; those out of its range are clipped."""
        steps = (np.asarray(y, np.float64) - self.offset) / self.scale + self.zero_point
        codes: Array = np.clip(np.rint(steps * FINER), -32768, 32767).astype(np.int16)
        return codes

    def reals(self, codes: Array) -> Array:
        """What codes mean, float64."""
        steps = np.asarray(codes, np.float64) / FINER - self.zero_point
        found: Array = steps * self.scale + self.offset
        return found

    def outputs(self, y: Array) -> Array:
        """What int8 outputs mean, float64."""
        found: Array = (np.asarray(y, np.float64) - self.zero_point) * self.scale + self.offset
        return found

    @property
    def reach(self) -> tuple[float, float]:
        """The least and the largest that the outputs can say."""
        low, high = self.outputs(np.array([-128, 127])).tolist()
        return low, high

    def clipped(self, y: Array) -> int:
        """Return how many targets no output can say."""
        low, high = self.reach
        half = self.scale / 2
        return int(((y < low - half) | (y > high + half)).sum())


def as_targets(y: Array, key: str) -> Array:
    """`y` as float32 (n, k), one or many real numbers for each sample; else DataError."""
    if y.dtype.kind != "f":
        raise DataError(
            f"{key} is {y.dtype}, but the training part has real targets: save both as float32"
        )
    found = y.reshape(len(y), -1) if y.ndim == 1 else y
    if found.ndim != 2 or found.size == 0:
        raise DataError(
            f"{key} has the shape {y.shape}: save one target per sample (n,), or several (n, k)"
        )
    if found.shape[1] > MOST_TARGETS:
        raise DataError(f"{key} has {found.shape[1]:,} targets a sample, more than {MOST_TARGETS}")
    with np.errstate(over="ignore"):
        found = found.astype(np.float32)
    bad = np.argwhere(~np.isfinite(found))
    if len(bad):
        row, column = bad[0].tolist()
        raise DataError(
            f"{key} is {y[row] if y.ndim == 1 else y[row, column]} in row {row}, target "
            f"{column + 1}: a target is a finite number; remove the sample or fill it in"
        )
    return found


def target_names(count: int) -> tuple[str, ...]:
    """Names of targets that nobody named."""
    return ("target",) if count == 1 else tuple(f"target {i + 1}" for i in range(count))

"""Real targets of regression, and the integers that a network learns them as."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import DataError

Array = npt.NDArray[Any]

IGNORED = 255
"""The label of a position that nothing is learnt from, where samples have one for each."""
FINER = 64
"""Steps of a target in one of the output; mcutrain.ops.target_error has the same."""
MARGIN = 0.05
"""What a new head's outputs reach beyond the training part's targets, as a share of their span."""
UNLIKE = 4
"""Spans this many times apart get a unit each: with one scale the least has few steps."""
MOST_TARGETS = 4096


@dataclass(frozen=True)
class TargetPart:
    """What one of several outputs learns, and which part of the rows is its own.

    output: its name. loss: a name of mcutrain.pipeline.losses, which counts by the weight. labels:
    so many numbers in a sample's row of labels; elements: in the row of outputs, `channels` at each
    position. scale, zero_point: of the output. is_share: whether the outputs are probabilities.
    """

    output: str
    loss: str
    weight: float
    labels: int
    elements: int
    channels: int
    scale: float
    zero_point: int
    is_share: bool = False

    @property
    def targets(self) -> Targets | None:
        """How its real targets become integers; None where its labels are integers."""
        has_labels = self.loss in ("cross-entropy", "binary-cross-entropy")
        return None if has_labels else Targets(self.scale, self.zero_point)

    @property
    def most(self) -> int:
        """Its largest label, but for IGNORED where it has several."""
        return max(self.channels - 1, 1) if self.loss == "cross-entropy" else 1

    @property
    def may_ignore(self) -> bool:
        """Whether a label may be IGNORED."""
        return self.loss == "binary-cross-entropy" or self.labels > 1

    def codes(self, y: Array) -> Array:
        """Its part of a row as int16. Raises DataError for what is no label."""
        if self.targets is not None:
            return self.targets.codes(y)
        is_known = (y == np.rint(y)) & (y >= 0) & (y <= self.most)
        wrong = y[~(is_known | (y == IGNORED) if self.may_ignore else is_known)]
        if wrong.size:
            raise DataError(
                f"the output {self.output!r} learns labels from 0 to {self.most} by {self.loss}, "
                f"but the data has {wrong[0]:g}: save class numbers, or name another loss"
            )
        return y.astype(np.int16)


@dataclass(frozen=True)
class Targets:
    """How real targets become integers: the output's quantization, FINER times as fine.

    real = (code / FINER - zero_point) * scale + offset; the output is int8 of the same, without
    FINER. offset: of a new head whose targets are all far from 0, which its own zero point cannot
    reach; the model file's outputs lack it. start: the output that a new head begins with, for each
    target; empty for the model's own head. units, zeros: of a new head whose targets have unlike
    spans, one for each: real is `zeros + units * ` what it would be without them. parts: of several
    outputs, whose labels, real targets or not, are a row one after another; then all else counts
    for nothing.
    """

    scale: float
    zero_point: int
    offset: float = 0.0
    start: tuple[float, ...] = ()
    units: tuple[float, ...] = ()
    zeros: tuple[float, ...] = ()
    parts: tuple[TargetPart, ...] = ()

    def __post_init__(self) -> None:
        fits = 0 < self.scale < np.inf and -128 <= self.zero_point <= 127
        fits = fits and min(self.units, default=1.0) > 0 and len(self.units) == len(self.zeros)
        if not (fits and np.isfinite([self.offset, *self.start, *self.units, *self.zeros]).all()):
            raise DataError(f"{self} is no quantization of targets: make the step anew")

    @staticmethod
    def spanning(y: Array) -> Targets:
        """Return what holds all of these, float (n, k), for a new head. Includes 0 if that is near.

        Outputs are int8 whose zero point is one of them: without offset they always reach 0.
        """
        spans = y.max(axis=0).astype(np.float64) - y.min(axis=0)
        if spans.max() > UNLIKE * spans.min() > 0:
            zeros, units = y.min(axis=0), spans.astype(np.float32)
            alike = Targets.spanning((y.astype(np.float64) - zeros) / units)
            return replace(alike, units=tuple(units.tolist()), zeros=tuple(zeros.tolist()))
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
        if self.parts:
            return np.hstack([p.codes(own) for p, own in self.of_parts(np.asarray(y))])
        codes: Array = np.clip(np.rint(self._steps(y) * FINER), -32768, 32767).astype(np.int16)
        return codes

    def _steps(self, y: Array) -> Array:
        """Real targets in steps of the output."""
        zeros, units = self.zeros or 0.0, self.units or 1.0
        found: Array = (np.asarray(y, np.float64) - zeros) / units - self.offset
        return found / self.scale + self.zero_point

    def reals(self, codes: Array) -> Array:
        """Return what codes mean, float64."""
        return self.outputs(np.asarray(codes, np.float64) / FINER)

    def outputs(self, y: Array) -> Array:
        """Return what int8 outputs mean, float64 (n, k)."""
        found: Array = (np.asarray(y, np.float64) - self.zero_point) * self.scale + self.offset
        return found * (self.units or 1.0) + (self.zeros or 0.0)

    def of_parts(self, row: Array, *, outputs: bool = False) -> Iterator[tuple[TargetPart, Array]]:
        """Each output with its columns of rows [n, …] of labels, or of outputs."""
        first = 0
        for part in self.parts:
            count = part.elements if outputs else part.labels
            yield part, row[:, first : first + count]
            first += count

    @property
    def reach(self) -> tuple[Array, Array]:
        """The least and the largest that the outputs can say; of each target, or of all."""
        return self.outputs(np.array([-128])), self.outputs(np.array([127]))

    @property
    def limits(self) -> tuple[Array, Array]:
        """The least and the largest that codes can say; of each target, or of all."""
        return self.reals(np.array([-32768])), self.reals(np.array([32767]))

    def clipped(self, y: Array) -> int:
        """Return how many targets no output can say."""
        steps = self._steps(y)
        return int(((steps < -128.5) | (steps > 127.5)).sum())

    def cut(self, y: Array) -> int:
        """Return how many targets not even `codes` can say."""
        codes = self._steps(y) * FINER
        return int(((codes < -32768.5) | (codes > 32767.5)).sum())

    def to_dict(self) -> dict[str, Any]:
        """As Targets(**…) takes it, ready for JSON; without units where there are none."""
        said = json.loads(json.dumps(asdict(self)))  # with lists throughout
        return {k: v for k, v in said.items() if v != [] or k == "start"}


def as_targets(y: Array, key: str) -> Array:
    """`y` as float32 (n, k), one or many real numbers for each sample; else DataError."""
    if y.dtype.kind != "f":
        raise DataError(
            f"{key} is {y.dtype}, but the training part has real targets: save both as float32"
        )
    targets = y.reshape(len(y), -1) if y.ndim == 1 else y
    if targets.ndim != 2 or targets.size == 0:
        raise DataError(
            f"{key} has the shape {y.shape}: save one target per sample (n,), or several (n, k)"
        )
    if targets.shape[1] > MOST_TARGETS:
        raise DataError(
            f"{key} has {targets.shape[1]:,} targets a sample, more than {MOST_TARGETS}"
        )
    with np.errstate(over="ignore"):
        targets = targets.astype(np.float32)
    bad = np.argwhere(~np.isfinite(targets))
    if len(bad):
        row, column = bad[0].tolist()
        raise DataError(
            f"{key} is {y[row] if y.ndim == 1 else y[row, column]} in row {row}, target "
            f"{column + 1}: a target is a finite number; remove the sample or fill it in"
        )
    return targets


def target_names(count: int) -> tuple[str, ...]:
    """Names of targets that nobody named."""
    return ("target",) if count == 1 else tuple(f"target {i + 1}" for i in range(count))

"""How far a network's outputs are from its inputs, and how well that tells anomalies apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import TensorType

Array = npt.NDArray[Any]


class OutputScore(NamedTuple):
    """A measure of one of several outputs: mae, r2, accuracy, iou or f1."""

    output: str
    measure: str
    value: float


@dataclass(frozen=True)
class Tested:
    """What a network does with the test samples.

    accuracy: the share of which the largest output is their class; NaN where there are no classes,
    but then loss: the mean over the samples of mean((output - input)**2), in squared steps of the
    input; and auc: the area under the ROC curve of that as a score, None without labels. Of a
    network that gives a class for each position the accuracy is of positions, and there are iou,
    the mean intersection over union, and class_iou, of each class; None: it is nowhere. Where
    outputs say yes or no each by itself, the accuracy is of labels, and there are f1, auc, and of
    each output class_f1 and class_auc, see mcutrain.simulation.labels. mae, r2: of real targets,
    beside the loss, mean((output - target)**2), in the targets' unit. answers: the largest output
    for each sample, of a network that gives one class. outputs: of several outputs, beside the
    loss, the weighted sum of theirs.
    """

    accuracy: float
    loss: float | None = None
    auc: float | None = None
    mae: float | None = None
    r2: float | None = None
    iou: float | None = None
    class_iou: tuple[float | None, ...] = ()
    f1: float | None = None
    class_f1: tuple[float | None, ...] = ()
    class_auc: tuple[float | None, ...] = ()
    outputs: tuple[OutputScore, ...] = ()
    answers: npt.NDArray[np.int64] | None = field(default=None, compare=False, repr=False)

    @property
    def of_positions(self) -> dict[str, Any]:
        """Values of positions by name, as boards and `--json` have them."""
        if self.class_f1:
            return {
                "accuracy": self.accuracy,
                "f1": self.f1,
                "auc": self.auc,
                "class_f1": list(self.class_f1),
                "class_auc": list(self.class_auc),
            }
        return {"accuracy": self.accuracy, "iou": self.iou, "class_iou": list(self.class_iou)}


@dataclass(frozen=True)
class Reconstruction:
    """How a network reproduces its input; both are int8."""

    x_scale: float
    x_zero_point: int
    y_scale: float
    y_zero_point: int

    @staticmethod
    def of(x: TensorType, y: TensorType) -> Reconstruction:
        """Make it of the types of input and output."""
        return Reconstruction(x.scale, x.zero_point, y.scale, y.zero_point)

    def losses(self, x: Array, y: Array) -> Array:
        """mean((y - x)**2) of each sample in squared steps of the input, float64 [n].

        x, y: int8 [n, …]. The loss of a training step has the same unit, but compares the sums
        before they are rounded to the output's int8.
        """
        wanted = x.reshape(len(x), -1).astype(np.float64) - self.x_zero_point
        found = y.reshape(len(y), -1).astype(np.float64) - self.y_zero_point
        losses: Array = ((found * (self.y_scale / self.x_scale) - wanted) ** 2).mean(axis=1)
        return losses

    def tested(self, losses: Array, is_anomaly: Array | None) -> Tested:
        """Return what the losses of all test samples say. is_anomaly: 0 and 1, if that is known."""
        auc = None if is_anomaly is None else area_under_roc(losses, is_anomaly[: len(losses)])
        return Tested(math.nan, float(losses.mean()), auc)


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """The mean of those that are not None; None where all are."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def area_under_roc(scores: Array, is_anomaly: Array) -> float | None:
    """The odds that an anomaly's score is higher than a normal sample's; equal ones count half.

    scores [n], is_anomaly [n] of 0 and 1. None where one of both kinds is missing.
    """
    positive = is_anomaly.astype(bool)
    anomalies, normal = int(positive.sum()), int((~positive).sum())
    if anomalies == 0 or normal == 0:
        return None
    values, place = np.unique(scores, return_inverse=True)
    counts = np.bincount(place, minlength=len(values))
    ranks = np.cumsum(counts) - (counts - 1) / 2  # the mean rank of equal scores, from 1
    over = ranks[place][positive].sum() - anomalies * (anomalies + 1) / 2
    return float(over / (anomalies * normal))

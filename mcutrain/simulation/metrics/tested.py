"""What tests find: accuracy, F1, areas under ROC curves, errors; of several outputs, each's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

Array = npt.NDArray[Any]


class OutputScore(NamedTuple):
    """A measure of one of several outputs: mae, r2, accuracy, iou or f1."""

    output: str
    measure: str
    value: float


@dataclass(frozen=True)
class Tested:
    """What a network does with the test samples.

    accuracy: the share of samples whose largest output is their class; of positions, or of labels,
        where a sample has several of these. NaN where there are no classes.
    loss: of an autoencoder the mean over the samples of mean((output - input)**2), in squared
        steps of the input. Of real targets it is mean((output - target)**2), in their unit; of
        several outputs the weighted sum of theirs.
    auc: the area under the ROC curve; of an autoencoder, of its loss as a score for anomalies.
    mae, r2: of real targets.
    iou, class_iou: intersection over union, where each position has a class: the mean, and that of
        each class; None for a class that is nowhere.
    f1, class_f1, class_auc: of classifiers and of labels, the mean and of each class or label.
    outputs: the measures of each of several outputs.
    answers: the largest output for each sample, of a network that gives one class.

    None, or nothing, where a measure has no meaning.
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

"""How right a network is whose outputs each say yes or no by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff import TrainGraph
from mcutrain.data import IGNORED
from mcutrain.simulation.metrics.tested import Tested, area_under_roc, mean_of_known

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class OwnLabels:
    """Judges outputs with a label each.

    channels: of each position. threshold: outputs above it say 1.
    """

    channels: int
    threshold: int

    @staticmethod
    def of(training: TrainGraph) -> OwnLabels | None:
        """Return those of a step; None if its labels are others."""
        if training.threshold is None or not training.positions:
            return None
        return OwnLabels(training.channels, training.threshold)

    def counts(self, y: Array, labels: Array) -> Array:
        """See label_counts."""
        return label_counts(y, labels, self.channels)

    def tested(self, counts: Array) -> Tested:
        """See labels_tested."""
        return labels_tested(counts, self.threshold)


def label_counts(y: Array, labels: Array, channels: int) -> Array:
    """Return how often outputs are what, int64 [channels, 2, 256].

    By channel, label and int8 + 128. y: int8 outputs [n, …]; labels: uint8 [n, …] of as many, of
    which IGNORED ones do not count.
    """
    values, given = y.astype(np.int64).reshape(-1, channels), labels.reshape(-1, channels)
    counted = given != IGNORED
    place = (np.arange(channels) * 2 + given.astype(np.int64)) * 256 + values + 128
    found = np.bincount(place[counted], minlength=channels * 512)
    return found.reshape(channels, 2, 256)


def labels_tested(counts: Array, threshold: int) -> Tested:
    """Return what the counts of all test samples say.

    threshold: outputs above it say 1. The accuracy is of the labels. F1 and the area under the ROC
    curve are given for each channel, and as the mean of those that have one. There is no F1 where
    the label is nowhere 1 and never said to be, and no area where it is always the same.
    """
    is_one = np.arange(-128, 128) > threshold
    hits, said = counts[:, 1, is_one].sum(axis=1), counts[:, :, is_one].sum(axis=(1, 2))
    right = hits.sum() + counts[:, 0, ~is_one].sum()
    either = said + counts[:, 1].sum(axis=1)
    f1 = tuple(
        2 * h / e if e else None for h, e in zip(hits.tolist(), either.tolist(), strict=True)
    )
    auc = tuple(_area(zeros, ones) for zeros, ones in counts)
    return Tested(
        accuracy=float(right / max(counts.sum(), 1)),
        auc=mean_of_known(auc),
        f1=mean_of_known(f1),
        class_f1=f1,
        class_auc=auc,
    )


def scores_of_pair(y: Array) -> Array | None:
    """Return how far int8 outputs [n, outputs] are for the second of two classes; None for more."""
    wide = y.astype(np.int16)
    if wide.shape[1] == 1:
        return wide[:, 0]
    return wide[:, 1] - wide[:, 0] if wide.shape[1] == 2 else None


def classes_tested(answers: Array, y: Array, scores: Array | None) -> Tested:
    """Return what answers for samples of one class each say: accuracy, and F1 of each class.

    scores: of the second of two classes, for the area under the ROC curve; else None. A class that
    is neither there nor said has no F1; the mean is over the others.
    """
    classes = int(max(answers.max(), y.max())) + 1
    hits = np.bincount(y[answers == y], minlength=classes)
    either = np.bincount(answers, minlength=classes) + np.bincount(y, minlength=classes)
    f1 = tuple(
        2 * h / e if e else None for h, e in zip(hits.tolist(), either.tolist(), strict=True)
    )
    return Tested(
        int((answers == y).sum()) / max(len(y), 1),
        auc=None if scores is None else area_under_roc(scores, y),
        answers=answers,
        f1=mean_of_known(f1),
        class_f1=f1,
    )


def _area(zeros: Array, ones: Array) -> float | None:
    """The odds that a 1 has a higher output than a 0; equal ones count half. By int8 value."""
    pairs = int(zeros.sum()) * int(ones.sum())
    if pairs == 0:
        return None
    below = np.cumsum(zeros) - zeros
    return float((ones * (2 * below + zeros)).sum()) / 2 / pairs

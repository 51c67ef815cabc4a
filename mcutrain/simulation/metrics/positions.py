"""How right a network is that gives a class for each position: pixels, or steps of a sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data import IGNORED
from mcutrain.simulation.metrics.tested import Tested

Array = npt.NDArray[Any]


def counts_of(y: Array, labels: Array) -> Array:
    """Return how often a class (row) is taken for another (column), int64 [classes, classes].

    y: int8 outputs [n, positions * classes]; labels: uint8 [n, …], of which IGNORED ones do not
    count. The first of equal outputs is the answer.
    """
    positions = labels[:1].size
    scores = y.reshape(len(y), positions, -1)
    classes, answers = scores.shape[-1], scores.argmax(axis=-1)
    flat = labels.reshape(len(y), positions)
    counts = flat != IGNORED
    pairs = flat[counts].astype(np.int64) * classes + answers[counts]
    found: Array = np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)
    return found


def scores_of(counts: Array) -> Tested:
    """Return what the counts of all test samples say: accuracy, and intersections over unions.

    Of a class the positions that are it and are taken for it, over those that are either. A class
    that is neither anywhere has none; the mean is over the others.
    """
    both = np.diag(counts)
    either = counts.sum(axis=0) + counts.sum(axis=1) - both
    shares = tuple(
        float(b / e) if e else None for b, e in zip(both.tolist(), either.tolist(), strict=True)
    )
    known = [share for share in shares if share is not None]
    return Tested(
        accuracy=float(both.sum() / max(counts.sum(), 1)),
        iou=float(np.mean(known)) if known else None,
        class_iou=shares,
    )

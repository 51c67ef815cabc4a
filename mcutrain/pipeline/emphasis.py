"""How much classes count in a loss: weights that are given, or that training labels balance."""

from __future__ import annotations

import math

import numpy as np

from mcutrain.data import IGNORED, Split
from mcutrain.data.dataset import Labels
from mcutrain.errors import ArgumentError, SchemeError
from mcutrain.ops.loss import MOST_APART

BALANCED = "balanced"
LARGEST = 2**15 - 1
"""Largest weight: as Q16 it fits int32."""
LEAST = 2.0**-15
"""Of the largest weight: one step of the integers that losses give."""
DIGITS = 6
"""Of a weight that is computed."""


def weights_of(text: str) -> tuple[float, ...]:
    """Read weights joined by commas; none of an empty text.

    Raises ArgumentError for what are no weights, and where it is balanced still.
    """
    if text == BALANCED:
        raise ArgumentError(
            "class_weights are balanced by the labels of training samples, and there are none "
            "here: give the numbers that `mcutrain simulate` says, as 1,2.5,1"
        )
    try:
        found = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError as error:
        raise ArgumentError(
            f"class_weights are {text!r}: take balanced, or numbers joined by commas, as 1,2.5,1"
        ) from error
    _check(found, text)
    return found


def _check(weights: tuple[float, ...], text: str) -> None:
    if not weights:
        return
    if not all(math.isfinite(w) and 0 <= w <= LARGEST for w in weights) or max(weights) == 0:
        raise ArgumentError(
            f"class_weights are {text!r}: each is between 0 and {LARGEST:,}, and one is above 0"
        )
    if max(weights) < LEAST:
        raise ArgumentError(
            f"class_weights are {text!r}: the largest is below {LEAST:.2g}, of which an integer "
            "loss keeps nothing; multiply all of them by one number, so that they are near 1"
        )
    least = min(w for w in weights if w)
    if max(weights) > least * MOST_APART:
        raise ArgumentError(
            f"class_weights are from {least:g} to {max(weights):g}: an integer holds weights that "
            f"are at most {MOST_APART:,} times as large as another; make them more alike"
        )


def balanced(split: Split, outputs: int, are_labels: bool) -> str:
    """Weights by which every class counts alike, as weights_of reads them.

    With n training samples and k classes, a class of c samples has the weight n / (k * c); 1 where
    it has none. The mean over the samples is 1. are_labels: whether outputs have labels of their
    own; then each has two weights, of its 0 and its 1.
    """
    y = split.train.y
    if not are_labels:
        return _text(_shares(np.bincount(y, minlength=outputs)))
    rows = y.reshape(-1, outputs)
    return _text([w for c in range(outputs) for w in _shares(_counts(rows[:, c]))])


def _counts(labels: Labels) -> Labels:
    found: Labels = np.bincount(labels[labels != IGNORED], minlength=2)
    return found


def _shares(counts: Labels) -> list[float]:
    there = int((counts > 0).sum())
    return [float(counts.sum() / (there * c)) if c else 1.0 for c in counts.tolist()]


def _text(weights: list[float]) -> str:
    largest = max(weights)
    fit = min(largest, LARGEST) / largest
    least = largest / (MOST_APART - 1)
    return ",".join(f"{max(w, least) * fit:.{DIGITS}g}" for w in weights)


def of_classes(weights: tuple[float, ...], classes: int) -> tuple[float, ...]:
    """Weights of so many classes, or none. Raises SchemeError for another number."""
    if len(weights) not in (0, classes):
        raise SchemeError(
            f"there are {len(weights)} class_weights for {classes} classes: give one for each, in "
            "the order of the outputs"
        )
    return weights


def of_labels(weights: tuple[float, ...], outputs: int) -> tuple[float, ...]:
    """Weights of 0 and 1 of so many outputs, or none; one for each output is for both.

    Raises SchemeError for another number.
    """
    if len(weights) == outputs:
        return tuple(w for w in weights for _ in range(2))
    if len(weights) not in (0, 2 * outputs):
        raise SchemeError(
            f"there are {len(weights)} class_weights for {outputs} labels: give one for each, or "
            "two, of its 0 and of its 1, one pair after the other"
        )
    return weights

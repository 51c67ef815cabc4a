"""A new classifier from the mean of each class's features: no training step, no learning rate.

After Snell et al., "Prototypical Networks for Few-shot Learning", NeurIPS 2017, section 2.4: to
choose the class of the nearest mean is a linear classifier. All arithmetic of what is stored is on
integers; only the one factor that all classes share is chosen by real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import SchemeError
from mcutrain.fixedpoint import multiply_rounding_once, quantize_multiplier

Array = npt.NDArray[Any]

MEAN_BITS = 8
"""Fraction bits of a mean."""
LARGEST_WEIGHT = 127
FACTORS = 24
"""How many factors are tried, each 1/sqrt(2) of the one before."""
SOFTER = 4
"""What the best factor is divided by: a classifier that is too sure learns little from its samples.
Which class is largest hardly changes."""
NEAR_NATS = 16 * math.log(2)
"""A class so far below the largest may clip, as in mcutrain.ops.softmax_cross_entropy."""
LONE_MARGIN = 4.0
"""Nats between a class's mean and another's, on average, where no class has a second sample."""


@dataclass(frozen=True)
class HeadStart:
    """Parameters that a new classifier starts from instead of zeros.

    w: int8 [classes, height, width, features]. b: int32 [classes], in units of the classifier's
    sums; None keeps the usual ones. reach: how far above and below 0 the logits of its samples
    reach that must not clip, in nats.
    """

    w: Array
    b: Array | None
    reach: tuple[float, float]

    def difference(self) -> HeadStart:
        """Return one row for two classes: the second's logit less the first's."""
        w = np.clip(np.diff(self.w.astype(np.int64), axis=0), -127, 127).astype(np.int8)
        b = None if self.b is None else np.diff(self.b.astype(np.int64)).astype(np.int32)
        return HeadStart(w, b, self.reach)


def rounded_division(dividend: Array, divisor: Array | int) -> Array:
    """Divide to the nearest integer, halves up. divisor: above 0."""
    doubled = np.asarray(divisor, np.int64) * 2
    quotient: Array = (2 * np.asarray(dividend, np.int64) + divisor) // doubled
    return quotient


def class_means(x: Array, labels: Array, classes: int) -> tuple[Array, Array]:
    """The mean feature of each class with MEAN_BITS behind the point, and how many samples it has.

    x: int64 [n, features], without zero point. A class without samples gets the mean of the others.
    """
    counts = np.bincount(labels, minlength=classes)
    sums = np.zeros((classes, x.shape[1]), np.int64)
    np.add.at(sums, labels, x)
    known = counts > 0
    means = np.zeros_like(sums)
    means[known] = rounded_division(sums[known] << MEAN_BITS, counts[known, np.newaxis])
    means[~known] = middle_of(means[known])
    return means, counts


def middle_of(means: Array) -> Array:
    """The mean of some means."""
    return rounded_division(means.sum(axis=0), len(means))


def row_of(mean: Array, middle: Array, factor: tuple[int, int]) -> tuple[Array, Array]:
    """The int8 weights and the int32 biases of classes, so that their sums compare distances.

    mean: [..., features], middle: [features], both with MEAN_BITS. factor: mult_q31 and shift, by
    which a difference of means becomes a weight. The bias makes the sum 0 in the middle between
    both, for the weights as they were rounded.
    """
    w = multiply_rounding_once(mean - middle, *factor)
    w = np.clip(w, -LARGEST_WEIGHT, LARGEST_WEIGHT)
    products = (w * (mean + middle)).sum(axis=-1)
    b = -rounded_division(products, 2 << MEAN_BITS)
    return w.astype(np.int8), b.astype(np.int32)


def head_of_means(
    x: Array, zero_point: int, labels: Array, classes: int, scales: tuple[float, float]
) -> HeadStart:
    """A classifier from class means of features.

    x: int8 [n, features]. scales: of the features and of the classifier's weights. The factor is a
    quarter (SOFTER) of the one that makes the softmax of the sums as sure as the samples allow.
    That one has the least cross-entropy among FACTORS, each sample left out of its own class's
    mean. Raises SchemeError for no sample.
    """
    if not len(x):
        raise SchemeError("class means need samples, and there is none")
    features = x.reshape(len(x), -1).astype(np.int64) - zero_point
    means, counts = class_means(features, labels, classes)
    middle = middle_of(means[counts > 0])
    largest = max(int(np.abs(means - middle).max()), 1)
    factors = [LARGEST_WEIGHT / largest * math.sqrt(0.5) ** k for k in range(FACTORS)]
    sharpness = [f * 2**MEAN_BITS * scales[0] * scales[1] for f in factors]
    scores = _left_out(features, labels, means, middle, counts)
    chosen = _best(scores, labels, counts, sharpness)
    w, b = row_of(means, middle, quantize_multiplier(factors[chosen] / SOFTER))
    logits = (features @ w.astype(np.int64).T + b) * (scales[0] * scales[1])
    tops = logits.max(axis=1)
    low = np.maximum(logits.min(axis=1), tops - NEAR_NATS).min()
    shape = (classes, 1, 1, features.shape[1])
    return HeadStart(w.reshape(shape), b, (float(tops.max()), float(-low)))


def _left_out(x: Array, labels: Array, means: Array, middle: Array, counts: Array) -> Array:
    """Half the squared distance to the middle less that to each mean [n, classes], in features².

    A sample's own mean is that of the others: (n / (n - 1))² times as far. Exact in float64 but for
    that factor, so no order of sums matters.
    """
    unit = 2.0**MEAN_BITS
    differences = ((means - middle) / unit).T
    offsets = ((means**2).sum(axis=1) - (middle**2).sum()) / unit**2
    scores: Array = x.astype(np.float64) @ differences - offsets / 2
    own = counts[labels].astype(np.float64)
    farther = np.where(own > 1, (own / np.maximum(own - 1, 1)) ** 2 - 1, 0)
    squares = ((x - means[labels] / unit) ** 2).sum(axis=1)
    scores[np.arange(len(x)), labels] -= farther * squares / 2
    return scores


def _best(scores: Array, labels: Array, counts: Array, sharpness: Sequence[float]) -> int:
    """Which sharpness has the least cross-entropy. Without a second sample: a fixed margin."""
    if counts.max() < 2:
        own = scores[np.arange(len(scores)), labels]
        margin = float(np.mean(own[:, np.newaxis] - scores)) * len(counts) / (len(counts) - 1)
        return int(
            np.argmin([abs(math.log(max(s * margin, 1e-9) / LONE_MARGIN)) for s in sharpness])
        )
    losses = []
    for s in sharpness:
        logits = s * scores
        top = logits.max(axis=1, keepdims=True)
        total = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
        losses.append(float(np.mean(total - logits[np.arange(len(logits)), labels])))
    return int(np.argmin(losses))

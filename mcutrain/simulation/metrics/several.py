"""How right several outputs are that are trained together, each by what it learns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data import IGNORED, TargetPart, Targets
from mcutrain.ops.target_error import UNIT_STEPS
from mcutrain.simulation.metrics.labels import label_counts, labels_tested
from mcutrain.simulation.metrics.positions import counts_of, scores_of
from mcutrain.simulation.metrics.regression import Regression
from mcutrain.simulation.metrics.tested import OutputScore, Tested

Array = npt.NDArray[Any]


def judging(targets: Targets) -> Regression:
    """Return what judges outputs that learn these."""
    return SeveralOutputs(targets) if targets.parts else Regression(targets)


@dataclass(frozen=True)
class SeveralOutputs(Regression):
    """Judges rows of outputs by rows of labels. targets: with parts."""

    def errors(self, y: Array, codes: Array) -> Array:
        """The outputs themselves, int8 [n, all outputs]."""
        found: Array = y.reshape(len(codes), -1)
        return found

    def tested(self, errors: Sequence[Array], codes: Array) -> Tested:
        """Return the sum of the losses of the int8 outputs, and what each output's own measure is.

        Real targets: MAE and R squared in their unit. One class: accuracy. Classes of positions:
        accuracy and mean IoU. Labels of their own: accuracy and F1. The losses are those of
        training, but for Huber's and absolute ones, of which it is the squared one.
        """
        y = np.concatenate(errors)
        wanted = self.targets.of_parts(codes[: len(y)])
        given = self.targets.of_parts(y, outputs=True)
        loss, scores = 0.0, []
        for (part, own), (_, outputs) in zip(wanted, given, strict=True):
            loss += part.weight * _loss(part, outputs, own)
            named = _scores(part, outputs, own)
            scores += [OutputScore(part.output, name, v) for name, v in named if v is not None]
        return Tested(math.nan, loss, outputs=tuple(scores))


def _scores(part: TargetPart, y: Array, own: Array) -> Iterator[tuple[str, float | None]]:
    """The measures of an output. y: int8 [n, elements]; own: its labels as int16."""
    if part.targets is not None:
        found = Regression(part.targets)
        tested = found.tested([found.errors(y, own)], own)
        yield from (("mae", tested.mae), ("r2", tested.r2))
        return
    middle = 0.5 / part.scale if part.is_share else 0.0
    threshold = math.floor(part.zero_point + middle)
    if part.loss == "binary-cross-entropy":
        tested = labels_tested(label_counts(y, own, part.channels), threshold)
        yield from (("accuracy", tested.accuracy), ("f1", tested.f1))
    elif part.labels > 1:
        shape = (len(y), part.labels, part.channels)
        tested = scores_of(counts_of(y.reshape(shape), own.astype(np.uint8)))
        yield from (("accuracy", tested.accuracy), ("iou", tested.iou))
    else:
        answers = y.argmax(axis=1) if part.channels > 1 else y[:, 0] > threshold
        yield "accuracy", float((answers == own[:, 0]).mean())


def _loss(part: TargetPart, y: Array, own: Array) -> float:
    """The loss of the int8 outputs in the mean, in the unit of training's sum."""
    if part.targets is not None:
        error = Regression(part.targets).errors(y, own) / (UNIT_STEPS * part.scale)
        return float((error**2).mean())
    real = (y.astype(np.float64) - part.zero_point) * part.scale
    counted = (own != IGNORED) | (not part.may_ignore)
    label = np.where(counted, own, 0)
    if part.loss == "binary-cross-entropy" or part.channels == 1:
        share = real if part.is_share else 1 / (1 + np.exp(-real))
        of_label = np.where(label == 1, share, 1 - share)
    else:
        real = real.reshape(len(y), part.labels, part.channels)
        share = real if part.is_share else np.exp(real - real.max(axis=2, keepdims=True))
        share = share / np.maximum(share.sum(axis=2, keepdims=True), 1e-9)
        of_label = np.take_along_axis(share, label[..., None].astype(np.int64), 2)[..., 0]
    nats = -np.log(np.maximum(of_label, part.scale / 2 if part.is_share else 1e-9))
    return float(nats[counted].mean()) if counted.any() else 0.0

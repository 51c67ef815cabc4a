"""What a simulated run learns, as lessons for a board."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.protocol import Rate, Selecting
from mcutrain_host.trainer import Lessons, Scores

from mcutrain import data as datasets
from mcutrain.simulation import Course, Reconstruction, Regression
from mcutrain.simulation.metrics.labels import OwnLabels, classes_tested, scores_of_pair
from mcutrain.simulation.metrics.positions import counts_of, scores_of

Array = npt.NDArray[Any]
TWO = 2
"""Classes that an AUC is of."""


def board_lessons(
    course: Course,
    tests: int,
    reconstruction: Reconstruction | None = None,
    judged: OwnLabels | None = None,
    latents: bool = False,
    selecting: Selecting | None = None,
    after: int = 0,
    regression: Regression | None = None,
) -> Lessons:
    """Return what `mcutrain.simulate` would learn, for a board. tests: test samples to evaluate.

    reconstruction: of a network that reproduces its input; None for a classifier. judged: of one
    with a label for each output. latents: the
    course's samples are latents that the firmware takes besides samples. selecting: when the board
    chooses what it trains. after: steps that it has done before. regression: of real targets.
    """
    test = course.samples.split.test
    has_classes = reconstruction is None

    def sample_at(position: int) -> tuple[bytes, int | bytes]:
        x, label = course.at(position - after)
        return x.tobytes(), label

    def rate_at(position: int) -> Rate:
        rate = course.rates.at(position - after)
        return Rate(rate.mult_q31, rate.shift)

    def test_at(index: int) -> tuple[bytes, int | bytes]:
        label = test.label(index) if has_classes else 0
        return course.samples.test(index, index + 1)[0].tobytes(), label

    scores = None if reconstruction is None else _scores(reconstruction, test)
    if has_classes and test.positions:
        scores = _position_scores(test, judged)
    if regression is not None:
        scores = _target_scores(regression, test)
    of_classes = None if scores is not None else _class_scores(test)
    settings = course.settings
    ring = (settings.replay, settings.remember if settings.replay else 0)
    facts = (course.total + after, sample_at, rate_at, tests, test_at, scores, *ring)
    return Lessons(
        *facts,
        latents=latents,
        selecting=selecting,
        first=after,
        targets=regression is not None,
        of_classes=of_classes,
        reads_outputs=of_classes is not None and len(test.names) == TWO,
    )


def _class_scores(
    test: datasets.Dataset,
) -> Callable[[Sequence[int], Sequence[bytes]], dict[str, Any]]:
    """Score a network with one class for each sample, by what it answered: F1, and AUC of two."""

    def of_classes(answers: Sequence[int], outputs: Sequence[bytes]) -> dict[str, Any]:
        of_pair = None
        if outputs:
            y = np.frombuffer(b"".join(outputs), np.int8).reshape(len(outputs), -1)
            of_pair = scores_of_pair(y)
        tested = classes_tested(np.array(answers), test.y, of_pair)
        found = {"f1": tested.f1, "class_f1": list(tested.class_f1)}
        return found if tested.auc is None else {**found, "auc": tested.auc}

    return of_classes


def _position_scores(test: datasets.Dataset, judged: OwnLabels | None) -> Scores:
    """Score a network with a class for each position, or a label for each output."""
    count = counts_of if judged is None else judged.counts

    def counts(x: bytes, y: bytes, index: int) -> Array:
        return count(np.frombuffer(y, np.int8)[np.newaxis], test.y[index : index + 1])

    def of_all(found: Sequence[Array]) -> dict[str, Any]:
        total = np.sum(found, axis=0)
        return (scores_of(total) if judged is None else judged.tested(total)).of_positions

    return Scores(counts, of_all)


def _target_scores(regression: Regression, test: datasets.Dataset) -> Scores:
    """Score a network of real targets, in their unit."""

    def error_of(x: bytes, y: bytes, index: int) -> Array:
        own = test.y[index : index + 1]
        return regression.errors(np.frombuffer(y, np.int8)[np.newaxis], own)

    def of_all(errors: Sequence[Array]) -> dict[str, float]:
        tested = regression.tested(errors, test.y)
        named = {"loss": tested.loss, "mae": tested.mae, "r2": tested.r2}
        named |= {f"{one.output} {one.measure}": one.value for one in tested.outputs}
        return {name: value for name, value in named.items() if value is not None}

    return Scores(error_of, of_all)


def _scores(reconstruction: Reconstruction, test: datasets.Dataset) -> Scores:
    """Return how a board's outputs are judged, as a simulation's are."""

    def loss_of(x: bytes, y: bytes, index: int) -> float:
        pair = (np.frombuffer(part, np.int8)[np.newaxis] for part in (x, y))
        return float(reconstruction.losses(*pair)[0])

    def of_all(losses: Sequence[float]) -> dict[str, float]:
        tested = reconstruction.tested(np.array(losses), test.y if test.is_labelled else None)
        named = {"loss": tested.loss, "auc": tested.auc}
        return {name: value for name, value in named.items() if value is not None}

    return Scores(loss_of, of_all)

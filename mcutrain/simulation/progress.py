"""How far a run is, and what it has reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.features import FeatureFacts, TurnState
from mcutrain.simulation.metrics.tested import Tested
from mcutrain.simulation.rates import LearningRate

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Steps:
    """Training steps in order. losses_q16: times 65536. labels: of no meaning without classes.

    predictions: classes; of samples with labels of positions how many of these are right.
    """

    losses_q16: Array
    predictions: Array
    labels: Array
    rates: Sequence[LearningRate]


@dataclass(frozen=True)
class Progress:
    """Where a run is: samples trained of all, mean loss and accuracy of the last ones.

    loss: in nats; of a network that reproduces its input in squared steps of the input, and the
    accuracy is NaN. steps: the last ones, one by one.
    """

    trained: int
    total: int
    loss: float
    accuracy: float
    samples_per_second: float
    steps: Steps | None = None


@dataclass(frozen=True)
class TrainedEpoch:
    """Mean loss and accuracy while training, accuracy on the test set afterwards.

    test_accuracy: None where RunSettings.test_every leaves the test out, as the other test results.
    seconds: in training steps, without the preparation of samples and evaluation. Accuracies are
    NaN for a network that reproduces its input; its test says loss and auc, see Tested. The test
    says iou for one with a class for each position, and f1 for one with a label for each output.
    mixed_batches: updates from samples of several levels; None where none are put together by it.
    """

    epoch: int
    loss: float
    train_accuracy: float
    test_accuracy: float | None
    seconds: float
    test_loss: float | None = None
    test_auc: float | None = None
    test_iou: float | None = None
    test_f1: float | None = None
    test_mae: float | None = None
    test_r2: float | None = None
    mixed_batches: int | None = None


@dataclass(frozen=True)
class EpochResult(FeatureFacts, TrainedEpoch):
    """What an epoch gave, and what features of the step counted in it."""


@dataclass(frozen=True)
class RunState(TurnState):
    """How far a run is. seconds: in training steps, so far.

    before: the test before the first step; tested: the last one. order_doubt: what the test before
    the first step says against the order of the classes.
    """

    correct: int = 0
    loss_q16: int = 0
    seconds: float = 0.0
    before: Tested | None = None
    tested: Tested | None = None
    order_doubt: str = ""
    epochs: tuple[EpochResult, ...] = ()

"""What is analysed: a network with a head, and samples that fit it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import data
from mcutrain.analysis.front import trunk
from mcutrain.data.dataset import highest
from mcutrain.errors import AnalysisError, DataError, SchemeError
from mcutrain.ir.digest import arrays_digest
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import StepOptions, with_head
from mcutrain.pipeline.losses import CROSS_ENTROPY, MEAN_SQUARED_ERROR, positions_of
from mcutrain.quant import told_apart
from mcutrain.runs.sample_reading import model_input, prepare_samples
from mcutrain.selection.contribution import digest
from mcutrain.simulation import RunSettings
from mcutrain.sparse import Layer, UpdateScheme, find_head, layers_of
from mcutrain.sparse.modules import whole_modules
from mcutrain.sparse.scheme import usual_head_rate

Array = npt.NDArray[Any]


HEAD_EPOCHS = {"training": 0, "gradient": 10}
"""Epochs of the head alone before all else, by the way of analysis, unless others are given."""
CLASS_MEASURES = ("accuracy", "probability", "loss")
TARGET_MEASURES = ("r2", "loss")
MOST_SAMPLES = 1000
"""Samples to train on, and to test on, unless more are asked for."""


def blank_loss(outputs: int, *, is_real: bool) -> float:
    """The loss of outputs that say the same of all samples: all classes alike, or the mean."""
    return 1.0 if is_real else math.log(outputs)


def held_out(
    train: data.Dataset,
    samples: int | None = None,
    test_samples: int | None = None,
    seed: int = 0,
    validation: data.Dataset | None = None,
) -> data.Split:
    """Training samples, drawn and parted: what an analysis trains on, and what it tests on.

    A data set's own test samples must not choose a scheme whose accuracy they will measure. By
    default half of the samples each, 1,000 at most, of every class alike (see mcutrain.data.drawn).
    validation: what to test on instead, if the data set has such a part. Raises DataError if there
    are too few.
    """
    if validation is not None:
        trained = min(MOST_SAMPLES, len(train)) if samples is None else samples
        tested = min(MOST_SAMPLES, len(validation)) if test_samples is None else test_samples
        return data.Split(train, validation).drawn(trained, tested, seed)
    half = min(MOST_SAMPLES, len(train) // 2)
    trained = samples or (half if test_samples is None else min(half, len(train) - test_samples))
    tested = test_samples or min(MOST_SAMPLES, len(train) - trained)
    if trained < 1 or tested < 1 or trained + tested > len(train):
        raise DataError(
            f"the data set has {len(train)} training samples, which are too few for {trained} to "
            f"train on and {tested} to test on: give smaller --samples and --test-samples"
        )
    index = data.drawn(train.y, trained, seed)
    others = np.setdiff1d(np.arange(len(train)), index)
    tests = others[data.drawn(train.y[others], tested, seed)]
    return data.Split(train.take(index), train.take(tests))


@dataclass(frozen=True, eq=False)
class Problem:
    """A model without what follows its head, and samples as it takes them.

    classes: of a new head; None keeps the model's own. train_x, test_x: int8 [n, …]; train_y,
    test_y: labels, or the integers of real targets. targets: what these mean.
    """

    model: Graph
    classes: int | None
    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array
    targets: data.Targets | None = None

    @staticmethod
    def of(
        model: Graph,
        split: data.Split,
        classes: int | None = None,
        normalization: data.Normalization | None = None,
        note: Callable[[str], None] = lambda _: None,
        targets: data.Targets | None = None,
    ) -> Problem:
        """Samples made to fit the model. Raises DataError if they do not, or are of one class.

        note: as mcutrain.runs.sample_reading.prepare_samples has it. targets: whose integers the
        split has. Raises AnalysisError for a
        model that is a classifier alone.
        """
        head = find_head(model)
        if not layers_of(model, head):
            raise AnalysisError(
                f"{model.name!r} has no layer before its classifier, so there is nothing to "
                "choose from: --scheme head trains all of it"
            )
        outputs = told_apart(model, head.node)
        positions = positions_of(model)
        if split.positions and not positions:
            raise AnalysisError(
                "an analysis learns one class for each sample, but the data has "
                f"{math.prod(split.positions):,} labels for each: `mcutrain simulate` takes them, "
                "with --scheme last:N or none"
            )
        samples = prepare_samples(
            split,
            RunSettings(),
            model_input(model),
            classes=None if targets else classes or outputs,
            positions=positions,
            normalization=normalization,
            note=note,
        )
        train, test = samples.split.train, samples.split.test
        for part, name in ((train, "training"), (test, "test")):
            if targets is not None and (np.ptp(part.y, axis=0) == 0).any():
                raise DataError(
                    f"a target is the same in all {len(part)} {name} samples: what training "
                    "contributes shows only where targets differ"
                )
            if len(np.unique(part.y)) < 2:
                raise DataError(
                    f"all {len(part)} {name} samples are of the class "
                    f"{part.names[highest(part.y)]!r}: what training contributes shows only with "
                    "two classes or more"
                )
        return Problem(
            model,
            classes,
            samples.train(np.arange(len(train)), 0, 0),
            train.y,
            samples.test(0, len(test)),
            test.y,
            targets,
        )

    @property
    def model_digest(self) -> str:
        """Digest of the network up to its head."""
        return digest(self.model)

    @property
    def data_digest(self) -> str:
        """Digest of all samples and labels, and of what these mean."""
        said = () if self.targets is None else (np.frombuffer(repr(self.targets).encode(), "u1"),)
        return arrays_digest(self.train_x, self.train_y, self.test_x, self.test_y, *said)

    def check_module_rate(self, rate: float | None) -> None:
        """Raise SchemeError for a rate of modules that is none, or a model without any."""
        UpdateScheme("modules", modules=True, module_rate=rate)
        if rate is not None and not whole_modules(self.model):
            raise SchemeError(
                f"a rate of modules is given, but {self.model.name!r} has none: leave it out, or "
                "add modules with `mcutrain augment`"
            )

    def trunk(self) -> Graph:
        """The network up to the logits, with a new head if there is to be one."""
        return trunk(with_head(self.model, self.options))

    @property
    def options(self) -> StepOptions:
        """What a step of it is made with."""
        loss = CROSS_ENTROPY if self.targets is None else MEAN_SQUARED_ERROR
        return StepOptions(classes=self.classes, loss=loss, targets=self.targets)

    @property
    def measures(self) -> tuple[str, ...]:
        """What a trial says; the second to last tells small gains from none."""
        return CLASS_MEASURES if self.targets is None else TARGET_MEASURES

    @property
    def said_of_targets(self) -> dict[str, Any]:
        """What an analysis' settings say of real targets."""
        return {} if self.targets is None else {"targets": self.targets.to_dict()}

    @property
    def blank_loss(self) -> float:
        """The loss of outputs that know nothing of a sample."""
        return blank_loss(self.outputs, is_real=self.targets is not None)

    @property
    def outputs(self) -> int:
        """Classes that the head tells apart."""
        return self.classes or told_apart(self.model, find_head(self.model).node)

    @property
    def head_rate(self) -> float:
        """The usual factor on the head's learning rate (see UpdateScheme)."""
        return usual_head_rate(is_new=self.classes is not None)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers before the head."""
        return layers_of(self.model, find_head(self.model))

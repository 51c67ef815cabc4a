"""Samples for a model or a step: read, and made to fit its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mcutrain import data as datasets
from mcutrain.arguments import warn
from mcutrain.errors import DataError
from mcutrain.ir.graph import Graph, TensorType
from mcutrain.pipeline import TrainingStep

if TYPE_CHECKING:
    from mcutrain.simulation import RunSettings, Samples


def load_data(
    model: Graph | TrainingStep | datasets.ModelInput,
    data: datasets.Data,
    test_share: float = 0.2,
    seed: int = 0,
    progress: datasets.Progress | None = None,
    validation: datasets.Data | None = None,
    samples: int | None = None,
    test_samples: int | None = None,
    stride: int | None = None,
    targets: str = "",
    split_by: str = "",
    label_column: str = "",
    is_partial: bool = False,
    note: Callable[[str], None] = warn,
    certain: Callable[[str], None] = lambda _: None,
) -> datasets.Split:
    """A data set for a model: files are made to fit as they are read, and only what is drawn.

    samples, test_samples: how many of each part, None is all. stride: of windows of CSV files.
    targets, label_column: columns of one, split_by: what puts whole groups into one part, see
    mcutrain.data.load.
    is_partial: whether the model may know more classes than the data has. note: called with what is
    left out, and with a guess of how samples are turned; a Python warning by default. certain:
    called with how they are turned where that is no guess.
    Samples have the order of axes of the model's file, see `mcutrain.data.InputOrder`.
    """
    order = (model if isinstance(model, datasets.ModelInput) else model_input(model)).known_order
    turned = note if order.is_square else certain
    if not datasets.is_path(data):
        if label_column:
            raise DataError(f"the data: {datasets.NO_TABLE}")
        drawing = datasets.Drawing(test_share, seed, split_by, certain)
        split = datasets.of_arrays(data, validation=validation, drawing=drawing, order=order)
        return datasets.split_in_order(split.drawn(samples, test_samples, seed), order, turned)
    if validation is not None:
        raise DataError("validation goes with arrays; a file or folder has a test part of its own")
    return datasets.load(
        data,
        test_share=test_share,
        seed=seed,
        order=order,
        stride=stride,
        targets=targets,
        split_by=split_by,
        label_column=label_column,
        progress=progress,
        samples=samples,
        test_samples=test_samples,
        least_classes=1 if is_partial else 2,
        note=turned,
        left_out=note,
    )


def outputs_of(step: TrainingStep) -> datasets.Outputs:
    """Return what is known of the outputs of a step that learns classes."""
    recipe = step.recipe
    added, is_new = (
        ((), False)
        if recipe is None
        else (recipe.options.added, recipe.options.classes is not None)
    )
    names = step.graph.class_names
    return datasets.Outputs.of(step.plan.training.classes, names, (), added, is_new)


def input_type(model: Graph | TrainingStep) -> TensorType:
    """The type of the model's input; of what a step begins with, which may be a latent."""
    if isinstance(model, TrainingStep):
        return model.input_type
    return model.tensors[model.inputs[0]].type


def model_input(model: Graph | TrainingStep) -> datasets.ModelInput:
    """What data sets need to know of it; of a tail's, which takes latents as they are, too."""
    x = input_type(model)
    if isinstance(model, TrainingStep):
        order = None if model.plan.training.is_tail else model.graph.input_order
        ids = model.plan.training.vocabulary
    else:
        order, ids = model.input_order, model.vocabulary(model.inputs[0])
    return datasets.ModelInput(x.shape[1:], x.scale, x.zero_point, order, ids)


def samples_of(
    step: TrainingStep,
    split: datasets.Split,
    settings: RunSettings,
    normalization: datasets.Normalization | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Samples:
    """A split made to fit a step, without labels if it learns without. Raises DataError."""
    has_labels = step.plan.training.has_labels
    return prepare_samples(
        split if has_labels else split.without_labels(),
        settings,
        model_input(step),
        classes=_classes_of(step),
        positions=step.plan.training.positions,
        has_rows=step.plan.training.has_rows,
        normalization=normalization,
        note=note,
    )


def _classes_of(step: TrainingStep) -> int | None:
    """Return how many are told apart; None where labels are none."""
    training = step.plan.training
    return training.classes if training.has_labels and not training.takes_targets else None


def prepare_samples(
    split: datasets.Split,
    settings: RunSettings,
    model: datasets.ModelInput,
    *,
    classes: int | None = None,
    positions: tuple[int, ...] = (),
    has_rows: bool = False,
    normalization: datasets.Normalization | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Samples:
    """A split made to fit a model's input. Raises DataError if it does not fit the model.

    classes: that are told apart; None where labels do not matter. positions: see
    mcutrain.data.check. has_rows: whether labels are of whole samples all the same, a row for each.
    normalization: see prepare_run. note: called with what is to be said of
    values that the input clips, or hardly tells apart.
    """
    for dataset in (split.train, split.test, split.validation):
        if dataset is not None and len(dataset) == 0:
            raise DataError("the data set has no training, no test or no validation sample")
    from mcutrain.simulation import Samples  # who only plans has none

    split = _with_ids(split, model.ids, settings, normalization)
    if classes is not None and split.positions:
        _check_ring(settings)
        if not has_rows:
            _check_labels_stay(split, settings, model.shape)
    samples = Samples.prepare(
        split, model.shape, model.scale, model.zero_point, settings, normalization or "auto"
    )
    datasets.check(samples.split, input_shape=model.shape, classes=classes, positions=positions)
    for said in datasets.input_notes(samples.split, model, normalization or "auto"):
        note(said)
    samples.test(0, 1)  # the normalization fits, or a sentence
    return samples


def _with_ids(
    split: datasets.Split,
    ids: int,
    settings: RunSettings,
    normalization: datasets.Normalization | None,
) -> datasets.Split:
    """The samples as int16 if they are token ids. Raises DataError for what is none, or varies."""
    if ids == 0:
        if split.train.x.dtype == np.int16:
            raise DataError("the samples are int16, token ids, but the model takes numbers")
        return split
    if settings.varies_samples or normalization is not None:
        raise DataError(
            "the model takes token ids, which are no numbers to vary or to normalize: leave out "
            "augmentation, --mean and --std"
        )
    return split.each(lambda part: replace(part, x=datasets.as_ids(part.x, ids)))


def _check_ring(settings: RunSettings) -> None:
    """Raise DataError for samples with many labels that are to be remembered."""
    if settings.replay:
        raise DataError(
            "remembered samples have one label each, but the data has many for each sample: train "
            "without --replay"
        )


def _check_labels_stay(
    split: datasets.Split, settings: RunSettings, input_shape: tuple[int, ...]
) -> None:
    """Raise DataError for what would move samples away from the labels of their positions."""
    moves = [kind for kind in ("crop", "flip", "shift", "time-shift") if kind in settings.augment]
    if settings.flip or settings.crop_pixels or moves:
        raise DataError(
            "the data has a label for each position, and augmentation that moves samples (crop, "
            "flip, shift, time-shift) does not move these: leave it out; colour, gain and noise "
            "can stay"
        )
    x = datasets.arranged(split.train.x, input_shape)
    if not datasets.is_same_shape(x.shape[1:], input_shape):
        raise DataError(
            f"the samples have the shape {x.shape[1:]} but the model takes {input_shape}, and the "
            "labels of their positions cannot be resized with them: save both as the model has them"
        )


def check_latents(
    split: datasets.Split, settings: RunSettings, name: str, shape: tuple[int, ...]
) -> None:
    """Raise DataError for data that a tail does not take. name, shape: of its latent."""
    if settings.varies_samples:
        raise DataError(
            f"augmentation varies samples, but the data of a tail are latents, {name}: leave it "
            "out, or train with --model, whose front then takes the varied samples"
        )
    x = split.train.x
    if x.dtype != np.int8 or not datasets.is_same_shape(x.shape[1:], shape):
        raise DataError(
            f"a tail begins with {name}, int8 {shape}, but the data is {x.dtype} {x.shape[1:]}: "
            "give latents, which `mcutrain latents` makes of samples, or train with --model, whose "
            "front does"
        )

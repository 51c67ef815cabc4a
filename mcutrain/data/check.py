"""Does a data set fit a model? Asked before anything is computed."""

import math

from mcutrain.data.dataset import Dataset, Split, highest
from mcutrain.data.layout import is_same_shape
from mcutrain.data.transform import Transform
from mcutrain.errors import DataError


def check(
    split: Split,
    *,
    input_shape: tuple[int, ...],
    classes: int | None,
    positions: tuple[int, ...] = (),
    transform: Transform | None = None,
) -> None:
    """Raise DataError unless every sample fits the model's input and every label its output.

    input_shape: of one sample, without the batch axis. classes: the model's outputs; None for a
    model that learns without labels. positions: the shape of the labels of a sample where the model
    gives a class for each of many; empty where it gives one.
    transform: what will be applied to the samples; none leaves them as they are.
    """
    known = {"training": split.train, "test": split.test, "validation": split.validation}
    for part, dataset in known.items():
        if dataset is None:
            continue
        shape = _shape_after(dataset, transform)
        if not is_same_shape(shape, input_shape):
            raise DataError(
                f"the {part} samples have the shape {shape} but the model takes {input_shape}: "
                "save or resize them to that shape"
            )
        if classes is None:
            continue
        if not dataset.is_labelled:
            raise DataError(
                f"the {part} samples have no labels (y), and this learns classes: save a label "
                "with each sample, or take the loss mse and a model that reproduces its input"
            )
        _check_positions(part, dataset, positions)
        top = highest(dataset.y)
        if top >= classes:
            raise DataError(
                f"the {part} labels go up to {top} ({dataset.names[top]}) but the model has "
                f"{classes} classes, 0 to {classes - 1}: give it a head of "
                f"{dataset.classes} classes or relabel"
            )


def _check_positions(part: str, dataset: Dataset, positions: tuple[int, ...]) -> None:
    """Raise DataError unless samples have the labels that the model's head has positions."""
    given, count = dataset.positions, math.prod(positions)
    if is_same_shape(given, positions) or (positions and given == (count,)):
        return
    if not positions:
        raise DataError(
            f"the {part} samples have {math.prod(given):,} labels each, of the shape {given}, but "
            "the model gives one class for each sample: save one label with each sample (n,), or "
            "one-hot rows, each with a single 1"
        )
    if not given:
        raise DataError(
            f"the {part} samples have one label each, but the model gives a class for each of "
            f"{count:,} positions: save labels of the shape (n, {', '.join(map(str, positions))})"
        )
    raise DataError(
        f"the {part} labels have the shape {given} but the model gives a class for each of "
        f"{positions} positions: save them in that shape"
    )


def _shape_after(dataset: Dataset, transform: Transform | None) -> tuple[int, ...]:
    """The shape of one sample after `transform`; DataError where that cannot be applied."""
    if transform is None:
        return dataset.x.shape[1:]
    return transform.fit(dataset.x[:1]).shape[1:]

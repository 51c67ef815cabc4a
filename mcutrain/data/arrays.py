"""Arrays and lists that are at hand, as a data set: what a path is to a file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data._npz import KEYS, Arrays, of_raw, split_of
from mcutrain.data.dataset import Data, Split
from mcutrain.data.groups import Drawing
from mcutrain.data.layout import InputOrder, Note, in_order
from mcutrain.data.unlabelled import drawn_samples, ordered_samples
from mcutrain.errors import DataError


def of_arrays(
    data: Data,
    *,
    validation: Data | None = None,
    drawing: Drawing = Drawing(),
    order: InputOrder | None = None,
) -> Split:
    """A Split of what is at hand, see Data.

    validation: (x, y), or x alone, to test on; then all of `data` is trained on. Without it some
    are kept for the test, as `drawing` says. Samples are arrays or lists (n, height, width,
    channels), (n, time, channels) or (n, features). They are uint8 pixels, int8 as the model takes
    it, or real numbers; int16 are raw samples for the front end of `order`. Labels are as in an
    .npz file. Raises DataError.
    """
    if isinstance(data, Split):
        if validation is not None:
            raise DataError("the data has a test part already: leave out validation")
        drawing.check_none()
        return data
    arrays = _named(data, "data", (drawing.by,))
    if validation is not None:
        arrays = _with_validation(arrays, _named(validation, "validation"))
    arrays, was_raw = of_raw(arrays, order)
    split = split_of(arrays, drawing)
    return split.each(lambda part: replace(part, is_in_order=True)) if was_raw else split


def samples_of(
    data: Data,
    count: int,
    seed: int = 0,
    order: InputOrder | None = None,
    note: Note = lambda _: None,
    labels: Callable[[npt.NDArray[Any]], None] = lambda _: None,
    split_by: str = "",
) -> npt.NDArray[Any]:
    """Draw at most `count` training samples of what is at hand, as load_samples does."""
    if isinstance(data, Split):
        train = data.train
        x = drawn_samples({"x": train.x, "y": train.y}, count, seed, labels)
        return x if order is None or train.is_in_order else in_order(x, order, note)
    return ordered_samples(
        _named(data, "calibration", (split_by,)), count, seed, order, note, labels
    )


def _named(data: Data, where: str, more: Sequence[str] = ()) -> Arrays:
    """Return arrays by the names that an .npz file gives them. more: names of others."""
    if isinstance(data, Mapping):
        unknown = [str(key) for key in data if key not in (*KEYS, *more)]
        if unknown:
            raise DataError(f"{where} has the key {unknown[0][:40]!r}: known are {', '.join(KEYS)}")
        return {key: _array(value, key) for key, value in data.items()}
    if isinstance(data, tuple | list) and len(data) == 2 and _is_pair_of_pairs(data):
        (x_train, y_train), (x_test, y_test) = data
        parts = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
        return {key: _array(value, key) for key, value in parts.items()}
    if isinstance(data, tuple):
        if len(data) != 2:
            raise DataError(
                f"{where} is a tuple of {len(data)}: give (x, y), or two such tuples to train and "
                "to test on"
            )
        return {"x": _array(data[0], "x"), "y": _array(data[1], "y")}
    return {"x": _array(data, "x")}


def _is_pair_of_pairs(data: Sequence[Any]) -> bool:
    return all(isinstance(part, tuple) and len(part) == 2 for part in data)


def _with_validation(arrays: Arrays, validation: Arrays) -> Arrays:
    if not arrays.keys() <= {"x", "y", "names"} or not validation.keys() <= {"x", "y"}:
        raise DataError("the data has a test part already: leave out validation, or give (x, y)")
    found = {f"{key}_train" if key != "names" else key: value for key, value in arrays.items()}
    return found | {f"{key}_test": value for key, value in validation.items()}


def _array(value: Any, key: str) -> npt.NDArray[Any]:
    """As an array that a data set can hold: float64 becomes float32."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"{key} is no array: its parts differ in length or kind") from error
    if array.dtype.hasobject or array.ndim == 0:
        raise DataError(
            f"{key} is {type(value).__name__}, no array of numbers: give a numpy array or a list, "
            "or the path of a file or folder"
        )
    if key.startswith("x") and array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return array.astype(np.float32, copy=False)
    return array

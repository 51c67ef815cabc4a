"""Rows of CSV files as a front end takes them: whole numbers, as the sensor gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mcutrain.data._tables import Series, Windows, read_table
from mcutrain.data.dataset import Dataset
from mcutrain.data.layout import InputOrder
from mcutrain.errors import DataError

LEAST, MOST = -(1 << 15), (1 << 15) - 1


def takes_rows(order: InputOrder | None) -> bool:
    """Return whether a front end makes samples of the rows of CSV files."""
    return order is not None and order.frontend is not None and order.frontend.takes_rows


def raw_windows(found: Sequence[Series], order: InputOrder, stride: int | None) -> Windows:
    """How series are cut for the front end. Raises DataError for rows that no sensor gives."""
    front = order.frontend
    assert front is not None, "there is a front end"
    for series in found:
        _check(series, f"class {series.label[:40]!a}", front.kind, front.channels)
    return Windows(front.input_shape, stride)


def of_rows(part: Dataset, order: InputOrder) -> Dataset:
    """Return what the front end makes of windows of rows."""
    front = order.frontend
    assert front is not None, "there is a front end"
    raw = part.x.reshape(len(part.x), *front.input_shape).astype(np.int16)
    return replace(part, x=order.of_raw(raw, "the rows"), is_in_order=True)


def read_rows(path: Path, kind: str, channels: int, most: int) -> npt.NDArray[np.int16]:
    """The first `most` rows (n, channels) of one file, as a sensor gives them, one after the other.

    kind: of the front end. Raises DataError, OSError.
    """
    found = read_table(path, "")
    for series in found:
        _check(series, "it", kind, channels)
    return np.concatenate([series.rows for series in found])[:most].astype(np.int16)


def _check(series: Series, whose: str, kind: str, wanted: int) -> None:
    """Raise DataError for rows that no sensor gives."""
    columns = series.rows.shape[1]
    if columns != wanted:
        raise DataError(
            f"there are {columns} columns of numbers, but the front end {kind} takes {wanted}: "
            "keep those, or say another number of axes"
        )
    rows = series.rows
    wrong = rows[(rows != np.rint(rows)) | (rows < LEAST) | (rows > MOST)]
    if wrong.size:
        raise DataError(
            f"{whose} has {wrong[0]:g}, but the front end {kind} takes whole numbers from "
            f"{LEAST:,} to {MOST:,}, as the sensor gives them: save these"
        )

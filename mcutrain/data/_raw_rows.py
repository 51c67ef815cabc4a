"""Rows of CSV files as a front end takes them: whole numbers, as the sensor gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mcutrain.data._tables import Series, Windows
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
        columns = series.rows.shape[1]
        if columns != front.channels:
            raise DataError(
                f"there are {columns} columns of numbers, but the front end {front.kind} takes "
                f"{front.channels}: keep those, or say another number of axes"
            )
        rows = series.rows
        wrong = rows[(rows != np.rint(rows)) | (rows < LEAST) | (rows > MOST)]
        if wrong.size:
            raise DataError(
                f"class {series.label[:40]!a} has {wrong[0]:g}, but the front end {front.kind} "
                f"takes whole numbers from {LEAST:,} to {MOST:,}, as the sensor gives them: save "
                "these"
            )
    return Windows(front.input_shape, stride)


def of_rows(part: Dataset, order: InputOrder) -> Dataset:
    """What the front end makes of windows of rows."""
    front = order.frontend
    assert front is not None, "there is a front end"
    raw = part.x.reshape(len(part.x), *front.input_shape).astype(np.int16)
    return replace(part, x=order.of_raw(raw, "the rows"), is_in_order=True)

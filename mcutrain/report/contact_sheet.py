"""A page with some samples of each class, as pictures."""

from __future__ import annotations

import base64
import io
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.packages import OPTIONAL

from mcutrain.data import Dataset
from mcutrain.errors import DataError
from mcutrain.report.html import templates

TEMPLATE = "contact_sheet.html.j2"
LEAST_PIXELS = 96
"""A picture is enlarged to at least so many pixels, for eyes."""


def contact_sheet(title: str, part: Dataset, summary: str, of_each: int) -> str:
    """The HTML. of_each: samples of a class. Raises DataError where Pillow is not installed."""
    if not OPTIONAL["pillow"].is_installed:
        raise DataError(OPTIONAL["pillow"].missing)
    has_classes = part.is_labelled and not part.has_targets and not part.positions
    low, high = float(part.x.min()), float(part.x.max())
    rows = [
        (name, int(index.size), [_picture(part.x[i], low, high) for i in index[:of_each]])
        for name, index in (
            ((name, np.flatnonzero(part.y == label)) for label, name in enumerate(part.names))
            if has_classes
            else [("samples", np.arange(len(part)))]
        )
    ]
    return templates().get_template(TEMPLATE).render(title=title, summary=summary, rows=rows)


def _picture(sample: npt.NDArray[Any], low: float, high: float) -> str:
    """A PNG as an address. Values from low to high are from black to white."""
    image = import_module("PIL.Image")
    values = sample if sample.ndim > 1 else sample[np.newaxis]
    if values.ndim > 2 and values.shape[-1] != 3:
        values = values.reshape(values.shape[0], -1)
    if values.dtype != np.uint8:
        values = np.round(255 * (values - low) / ((high - low) or 1)).astype(np.uint8)
    drawn = image.fromarray(np.ascontiguousarray(values))
    times = -(-LEAST_PIXELS // max(drawn.size))
    if times > 1:
        drawn = drawn.resize((drawn.width * times, drawn.height * times), image.Resampling.NEAREST)
    buffer = io.BytesIO()
    drawn.save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"

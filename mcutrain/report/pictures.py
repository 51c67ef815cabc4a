"""A sample as a picture that a page holds in itself."""

from __future__ import annotations

import base64
import io
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST_PIXELS = 96
"""A picture is enlarged to at least so many pixels, for eyes."""


def picture(sample: npt.NDArray[Any], low: float, high: float) -> str:
    """A PNG as an address. Values from low to high are from black to white. Needs Pillow."""
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

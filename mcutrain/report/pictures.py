"""A sample as a picture that a page holds in itself."""

from __future__ import annotations

import base64
import io
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST_PIXELS, LEAST_HEIGHT = 96, 48
"""A picture is enlarged to at least so many pixels, for eyes; that of a window to such a height."""
LONG = 4
"""A table of so many times more rows than columns is a window: time goes to the right."""


def extent(samples: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the smallest and the largest value.

    Of each column of windows, which have units of their own; of all else one for all.
    """
    if not len(samples):
        return np.zeros(1), np.zeros(1)
    values = samples.reshape(-1, (*_window(samples[0]), 1, 1)[1])
    return values.min(axis=0).astype(np.float64), values.max(axis=0).astype(np.float64)


def picture(sample: npt.NDArray[Any], low: npt.NDArray[Any], high: npt.NDArray[Any]) -> str:
    """A PNG as an address. Values from low to high, of `extent`, are from black to white.

    Needs Pillow.
    """
    image = import_module("PIL.Image")
    shape = _window(sample)
    values = sample if sample.ndim > 1 else sample[np.newaxis]
    if shape:
        values = values.reshape(shape)
    elif values.ndim > 2 and values.shape[-1] != 3:
        values = values.reshape(values.shape[0], -1)
    if values.dtype != np.uint8:
        span = np.where(high > low, high - low, 1)
        values = np.round(255 * (values - low) / span).astype(np.uint8)
    drawn = image.fromarray(np.ascontiguousarray(values.T if shape else values))
    across = -(-LEAST_PIXELS // max(drawn.size))
    up = max(across, -(-LEAST_HEIGHT // drawn.height)) if shape else across
    if up > 1:
        drawn = drawn.resize((drawn.width * across, drawn.height * up), image.Resampling.NEAREST)
    buffer = io.BytesIO()
    drawn.save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _window(sample: npt.NDArray[Any]) -> tuple[int, ...]:
    """Rows and columns of a window of real numbers; nothing of what is none."""
    shape = tuple(n for n in sample.shape if n > 1)
    is_long = len(shape) == 2 and shape[0] >= LONG * shape[1]
    return shape if is_long and sample.dtype != np.uint8 else ()

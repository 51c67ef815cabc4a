"""The order of a sample's axes: what comes channels first is turned as the model's input says."""

from __future__ import annotations

import numpy as np

from mcutrain.data.dataset import Samples

IMAGE_CHANNELS = (1, 3)


def is_same_shape(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether only axes of length 1 differ: the values lie in the same order then.

    So a window (time, channels) is the image (1, time, channels) that a model over time takes.
    """
    return _lengths(shape) == _lengths(other)


def arranged(x: Samples, shape: tuple[int, ...]) -> Samples:
    """Samples (n, …) with their channels last, as a model that takes `shape` wants them.

    Windows (n, channels, time) become (n, time, channels) and images (n, channels, height, width)
    (n, height, width, channels) where only that makes them fit: their lengths are the input's,
    except that images of uint8 may have any height and width, since they are resized. Whatever fits
    already, or in no order, comes back as it is; a square is taken to be in the right order.
    """
    given, wanted = _lengths(x.shape[1:]), _lengths(shape)
    if given == wanted:
        return x
    if x.dtype == np.uint8 and len(shape) == 3 and min(shape[:2]) > 1 and x.ndim == 4:
        channels, last = x.shape[1], x.shape[3]
        is_first = channels == shape[2] or channels in IMAGE_CHANNELS
        is_last = last == shape[2] or last in IMAGE_CHANNELS
        return np.moveaxis(x, 1, -1) if is_first and not is_last else x
    if len(given) > 1 and (*given[1:], given[0]) == wanted:
        return np.moveaxis(x.reshape(len(x), *given), 1, -1)
    return x


def _lengths(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)

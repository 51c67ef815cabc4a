"""Images of half the size, and of the whole again."""

from __future__ import annotations

import numpy as np

from mcutrain.ops.resize import ONE, Positions, Resize
from mcutrain.ops.spatial import Window

Shape = tuple[int, ...]


def halved_size(shape: Shape) -> Shape:
    """Rows and columns of half an image, rounded up."""
    return tuple(-(-n // 2) for n in shape[1:3])


def halved(shape: Shape, kernel: int, stride: int | None = None) -> Window:
    """The window that makes ceil(size / stride) of an image, padded alike or more at the end.

    It is TFLite's SAME. stride: without one the kernel's.
    """
    stride = kernel if stride is None else stride
    totals = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in shape[1:3]]
    ends = [(total // 2, total - total // 2) for total in totals]
    return Window((kernel, kernel), (stride, stride), (1, 1), (*ends[0], *ends[1]))


def larger(shape: Shape, wanted: Shape, up: str) -> Resize:
    """Return what makes an image as large as wanted. up: nearest or bilinear."""
    axes = zip(shape[1:3], wanted[1:3], strict=True)
    rows, columns = (_positions(size, new, up) for size, new in axes)
    return Resize(rows, columns)


def _positions(size: int, new: int, up: str) -> Positions:
    """Nearest: rounded down; bilinear: the corners of both images lie on each other.

    The latter in the fixed point of TFLite's RESIZE_BILINEAR with half_pixel_centers.
    """
    index = np.arange(new)
    if up == "nearest":
        return tuple((index * size // new * ONE).tolist())
    step = (ONE * size + new // 2) // new
    return tuple(np.clip(index * step + step // 2 - ONE // 2, 0, (size - 1) * ONE).tolist())

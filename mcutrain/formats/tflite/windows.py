"""Windows of convolutions and pools: in .tflite files their padding is SAME or VALID."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.operands import Operands
from mcutrain.ops.spatial import Window

LARGEST_PADDING = 1024
Pair = tuple[int, int]
Shape = tuple[int, ...]


def window_of(
    o: Operands, options: Any, image: Shape, kernel: Pair, dilation: Pair = (1, 1)
) -> Window:
    """The window of a convolution or pool over an image [1, h, w, c]."""
    stride = (options.StrideH(), options.StrideW())
    if min(*kernel, *stride, *dilation) <= 0 or len(image) != 4:
        raise ModelError(
            f"{o.where} has kernel {kernel}, stride {stride}, dilation {dilation} over {image}; "
            "all must be positive, and the image [1,h,w,c]"
        )
    window = Window(kernel, stride, dilation)
    if options.Padding() == tflite.Padding.VALID:
        return window
    if options.Padding() != tflite.Padding.SAME:
        raise ModelError(f"{o.where} has the unknown padding {options.Padding()}")
    padding = _same(window, image)
    check_padding(o, padding)
    return Window(kernel, stride, dilation, padding)


def left_out(o: Operands, options: Any, y: Shape, kernel: Pair) -> Pair:
    """How many rows above and columns before y [1, h, w, c] a transposed convolution leaves out."""
    if options.Padding() == tflite.Padding.VALID:
        return (0, 0)
    top, _, left, _ = window_of(o, options, y, kernel).padding
    return top, left


def padding_of(window: Window, image: Shape) -> int | None:
    """VALID, SAME, or None if the window's padding of an image [1, h, w, c] is neither."""
    if not any(window.padding):
        return int(tflite.Padding.VALID)
    return int(tflite.Padding.SAME) if window.padding == _same(window, image) else None


def check_padding(o: Operands, sides: Sequence[int]) -> None:
    """Raise UnsupportedError for a padding that kernels cannot have."""
    if not all(0 <= side <= LARGEST_PADDING for side in sides):
        raise UnsupportedError(
            f"{o.where} pads by {list(sides)}; supported are 0 to {LARGEST_PADDING} on each side"
        )


def _same(window: Window, image: Shape) -> tuple[int, int, int, int]:
    """Top, bottom, left, right of SAME; the odd element goes to the end."""
    sides: list[int] = []
    axes = (image[1:3], window.kernel, window.stride, window.dilation)
    for n, k, stride, dilation in zip(*axes, strict=True):
        total = max((-(-n // stride) - 1) * stride + (k - 1) * dilation + 1 - n, 0)
        sides += [total // 2, total - total // 2]
    top, bottom, left, right = sides
    return top, bottom, left, right

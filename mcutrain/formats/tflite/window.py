"""Windows of convolutions and pools, as TFLite writes them."""

from __future__ import annotations

from typing import Any

import tflite

from mcutrain.errors import ModelError, UnsupportedError
from mcutrain.formats.tflite.convert import Operands
from mcutrain.ops.spatial import Window

LARGEST_PADDING = 1024


def _padding(
    o: Operands, options: Any, size: tuple[int, ...], kernel: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Top, bottom, left, right for SAME or VALID; the odd element goes to the end.

    size, kernel: height and width; the kernel's is its span with dilation.
    """
    if options.Padding() == tflite.Padding.VALID:
        return (0, 0, 0, 0)
    if options.Padding() != tflite.Padding.SAME:
        raise ModelError(f"{o.where} has the unknown padding {options.Padding()}")
    strides = (options.StrideH(), options.StrideW())
    sides = []
    for n, k, stride in zip(size, kernel, strides, strict=True):
        steps = (n + stride - 1) // stride
        total = max((steps - 1) * stride + k - n, 0)
        sides += [total // 2, total - total // 2]
    check_padding(o, sides)
    top, bottom, left, right = sides
    return top, bottom, left, right


def check_padding(o: Operands, sides: list[int]) -> None:
    """Raise UnsupportedError for a padding that kernels cannot have."""
    if not all(0 <= side <= LARGEST_PADDING for side in sides):
        raise UnsupportedError(
            f"{o.where} pads by {sides}; supported are 0 to {LARGEST_PADDING} on each side"
        )


def window_of(
    o: Operands, options: Any, kernel: tuple[int, int], dilation: tuple[int, int] = (1, 1)
) -> Window:
    """The window of a convolution or pool over its input."""
    stride = (options.StrideH(), options.StrideW())
    if min(*kernel, *stride, *dilation) <= 0:
        raise ModelError(
            f"{o.where} has kernel {kernel}, stride {stride}, dilation {dilation}; "
            "all must be positive"
        )
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = _padding(o, options, o.image().type.shape[1:3], (spans[0], spans[1]))
    return Window(kernel, stride, dilation, padding)

"""Strides, dilations and the many ways in which ONNX says padding."""

from __future__ import annotations

from dataclasses import replace

from mcutrain.formats.onnx.node import OnnxNode
from mcutrain.ops.spatial import Window

MAX_WINDOW = 2**15  # strides, dilations and padding beyond any image


def window_of(
    node: OnnxNode, kernel: tuple[int, int], size: tuple[int, ...], dimensions: int
) -> Window:
    """The window of a Conv or pool over an image of `size` (height, width).

    dimensions: 2, or 1 for a sequence, which is an image of one row.
    """
    return _trimmed(_untrimmed(node, kernel, size, dimensions), size)


def _untrimmed(
    node: OnnxNode, kernel: tuple[int, int], size: tuple[int, ...], dimensions: int
) -> Window:
    """With the padding as it is written."""
    height, width = size
    kernel_h, kernel_w = _two(node, "kernel", kernel, 1)
    strides, dilations = (_steps(node, name, dimensions) for name in ("strides", "dilations"))
    span = ((kernel_h - 1) * dilations[0] + 1, (kernel_w - 1) * dilations[1] + 1)
    auto = node.attributes.text("auto_pad", "NOTSET")
    pads = _written(node, "pads", (0,) * 4, dimensions)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        top, bottom = _same(height, span[0], strides[0], auto)
        left, right = _same(width, span[1], strides[1], auto)
    elif auto in ("NOTSET", "VALID", ""):
        top, left, bottom, right = _pads(node, (0, 0, 0, 0) if auto == "VALID" else pads)
    else:
        raise node.wrong(f"auto_pad is {auto!r}")
    if min(height + top + bottom - span[0], width + left + right - span[1]) < 0:
        raise node.wrong(f"a window of {span} does not fit the padded image of {height}x{width}")
    return Window((kernel_h, kernel_w), strides, dilations, (top, bottom, left, right))


def pool_window(node: OnnxNode, size: tuple[int, ...], dimensions: int) -> Window:
    """As window_of, for a pool: every window must hold an element, ceil_mode change nothing."""
    kernel = _steps(node, "kernel_shape", dimensions)
    window = _untrimmed(node, kernel, size, dimensions)
    rows, columns = window.output_size(*size)
    top, bottom, left, right = window.padding
    ceil_mode = node.attributes.integer("ceil_mode", 0)
    for length, outputs, before, after, k, stride, dilation in (
        (size[0], rows, top, bottom, window.kernel[0], window.stride[0], window.dilation[0]),
        (size[1], columns, left, right, window.kernel[1], window.stride[1], window.dilation[1]),
    ):
        if max(before, after) > (k - 1) * dilation:
            raise node.unsupported("padding as large as the window is not; smaller padding is")
        beyond = (length + before + after - (k - 1) * dilation - 1) % stride
        if ceil_mode and beyond and outputs * stride < length + before:
            raise node.unsupported("ceil_mode that adds rows or columns is not; ceil_mode 0 is")
        if not _every_window_holds(length, before, stride, dilation):
            raise node.unsupported("a dilated window over padding alone is not; smaller padding is")
    return _trimmed(window, size)


def _trimmed(window: Window, size: tuple[int, ...]) -> Window:
    """Without the rows and columns of padding at the end that no window reaches.

    The two files of one network then give one graph, and no kernel knows of useless borders.
    """
    top, bottom, left, right = window.padding
    ends = []
    for length, outputs, before, after, axis in zip(
        size, window.output_size(*size), (top, left), (bottom, right), (0, 1), strict=True
    ):
        span = (window.kernel[axis] - 1) * window.dilation[axis] + 1
        reached = (outputs - 1) * window.stride[axis] + span - before - length
        ends.append(min(after, max(reached, 0)))
    return replace(window, padding=(top, ends[0], left, ends[1]))


def _every_window_holds(length: int, before: int, stride: int, dilation: int) -> bool:
    """Whether the first tap behind the leading padding lies in the image, for all that begin there.

    Windows that begin inside the image hold their first tap.
    """
    return all(start % dilation < length for start in range(-before, 0, stride))


def _same(length: int, span: int, stride: int, auto: str) -> tuple[int, int]:
    """Padding so that the output is ceil(length / stride); an odd one goes where `auto` says."""
    total = max((-(-length // stride) - 1) * stride + span - length, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if auto == "SAME_UPPER" else (large, small)


def _written(
    node: OnnxNode, name: str, default: tuple[int, ...] | None, dimensions: int
) -> tuple[int, ...] | None:
    """An attribute with a number per axis and side, as of an image; None if it is missing."""
    neutral = 0 if name == "pads" else 1
    found = node.attributes.integers(name)
    if found is None or dimensions == 2:
        return default if found is None else found
    sides = 2 if name == "pads" else 1
    if len(found) != sides:
        raise node.wrong(f"{name} of a sequence must be {sides} numbers, got {found}")
    return tuple(v for n in found for v in (neutral, n))


def _steps(node: OnnxNode, name: str, dimensions: int) -> tuple[int, int]:
    """Strides, dilations, or a pool's kernel_shape, which must be there."""
    default = None if name == "kernel_shape" else (1, 1)
    return _two(node, name, _written(node, name, default, dimensions), 1)


def _pads(node: OnnxNode, pads: tuple[int, ...] | None) -> tuple[int, ...]:
    if pads is None or len(pads) != 4 or not all(0 <= p <= MAX_WINDOW for p in pads):
        raise node.wrong(f"pads must be four numbers from 0 to {MAX_WINDOW}, got {pads}")
    return pads


def _two(node: OnnxNode, name: str, values: tuple[int, ...] | None, least: int) -> tuple[int, int]:
    if values is None or len(values) != 2 or not all(least <= v <= MAX_WINDOW for v in values):
        raise node.wrong(f"{name} must be two numbers from {least} to {MAX_WINDOW}, got {values}")
    return values[0], values[1]

"""Kernel, strides, dilations and the many ways in which ONNX says padding, of images and rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from mcutrain.formats.onnx.node import OnnxNode
from mcutrain.ops.spatial import Window

MAX_WINDOW = 2**15  # kernels, strides, dilations and padding beyond any image

Padding = tuple[int, int, int, int]  # top, bottom, left, right


class WindowAxis(NamedTuple):
    """A window along one axis of `length` numbers; before, after: the padding that is written."""

    length: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def span(self) -> int:
        """Length from the first number of a window to its last, both counted."""
        return (self.kernel - 1) * self.dilation + 1

    def end(self, is_ceil: bool) -> int:
        """The padding at the end that windows reach.

        The two files of one network then give one graph, and no kernel knows of useless borders.
        """
        begin = self.length + self.before
        steps = (begin + self.after - self.span) // self.stride
        beyond = (begin + self.after - self.span) % self.stride
        if is_ceil and beyond and (steps + 1) * self.stride < begin:
            steps += 1
        return max(steps * self.stride + self.span - begin, 0)

    @property
    def holds(self) -> bool:
        """Whether every window has a number under one of its places.

        Those that begin inside have the first; the others if the first place behind the padding
        lies inside.
        """
        return all(
            start % self.dilation < self.length for start in range(-self.before, 0, self.stride)
        )


def window_of(node: OnnxNode[Any], kernel: tuple[int, ...], size: tuple[int, int]) -> Window:
    """The window of a Conv over an image of `size` (height, width); one number: over a row."""
    return _window(_axes(node, kernel, size), is_ceil=False)


def pool_window(
    node: OnnxNode[Any], size: tuple[int, int], dimensions: int
) -> tuple[Padding, Window]:
    """The window of a pool, and the border that it counts, which is a Pad before it.

    Every window holds an element. What ceil_mode adds at the end is never counted.
    """
    kernel = node.attributes.integers("kernel_shape")
    if kernel is None or len(kernel) != dimensions:
        raise node.unsupported(f"a window {kernel} over {dimensions} dimensions is not")
    high, wide = _axes(node, kernel, size)
    if any(max(a.before, a.after) >= a.span for a in (high, wide)):
        raise node.unsupported("padding as large as the window is not; smaller padding is")
    if not (high.holds and wide.holds):
        raise node.unsupported("a dilated window over padding alone is not; smaller padding is")
    window = _window([high, wide], is_ceil=bool(node.attributes.integer("ceil_mode", 0)))
    if node.op_type != "AveragePool" or not node.attributes.integer("count_include_pad", 0):
        return (0, 0, 0, 0), window
    top, bottom, left, right = window.padding
    border = (top, min(bottom, high.after), left, min(right, wide.after))
    rest = (0, bottom - border[1], 0, right - border[3])
    return border, replace(window, padding=rest)


def padded(node: OnnxNode[Any], shape: tuple[int, ...]) -> tuple[Padding, float, tuple[int, int]]:
    """By how much a Pad lets height and width of an ONNX shape grow, with which number, and the
    channels.
    """
    rank = len(shape)
    mode = node.attributes.text("mode", "constant")
    if mode != "constant" or rank not in (3, 4):
        raise node.unsupported(
            f"mode {mode!r} of {shape} is not; 'constant' of [1, c, h, w] and [1, c, l] is"
        )
    written = node.integers(3) if node.has(3) else tuple(range(rank))
    node.axes(written, rank)
    axes = [a % rank for a in written]
    amounts = node.integers(1)
    if len(amounts) != 2 * len(axes) or max(map(abs, amounts), default=0) > MAX_WINDOW:
        raise node.wrong(f"pads {amounts} do not fit the axes {axes}")
    begin, end = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        begin[axis], end[axis] = amounts[i], amounts[i + len(axes)]
    value = node.number(2, 0.0)
    if min(amounts, default=0) < 0:
        raise node.unsupported(
            f"pads {amounts}, which cut something off where they are negative, are not; a Slice "
            "that cuts, and pads from 0 on, are"
        )
    if begin[0] or end[0] or not math.isfinite(value):
        raise node.unsupported(
            f"pads {amounts} with {value} are not; pads of channels, height and width with a "
            "finite number are"
        )
    (top, left), (bottom, right) = ((0, *v[2:])[-2:] for v in (begin, end))
    return (top, bottom, left, right), value, (begin[1], end[1])


def _window(axes: list[WindowAxis], is_ceil: bool) -> Window:
    high, wide = axes
    return Window(
        (high.kernel, wide.kernel),
        (high.stride, wide.stride),
        (high.dilation, wide.dilation),
        (high.before, high.end(is_ceil), wide.before, wide.end(is_ceil)),
    )


def _axes(node: OnnxNode[Any], kernel: tuple[int, ...], size: tuple[int, int]) -> list[WindowAxis]:
    """Rows and columns; a sequence is an image of one row."""
    rank, attributes = len(kernel), node.attributes
    kernel = _numbers(node, "kernel_shape", kernel, rank, 1)
    ones, zeros = (1,) * rank, (0,) * (2 * rank)
    strides, dilations = (
        _numbers(node, name, attributes.integers(name, ones), rank, 1)
        for name in ("strides", "dilations")
    )
    pads = _numbers(node, "pads", attributes.integers("pads", zeros), 2 * rank, 0)
    auto = attributes.text("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", ""):
        raise node.wrong(f"auto_pad is {auto!r}")
    found = [WindowAxis(size[0], 1, 1, 1, 0, 0)] if rank == 1 else []
    for i, length in enumerate(size[2 - rank :]):
        along = WindowAxis(length, kernel[i], strides[i], dilations[i], pads[i], pads[rank + i])
        if auto not in ("NOTSET", ""):
            before, after = _automatic(along, auto)
            along = along._replace(before=before, after=after)
        if length + along.before + along.after < along.span:
            raise node.wrong(
                f"a window of {along.span} does not fit {length} padded by {along.before} and "
                f"{along.after}"
            )
        found.append(along)
    return found


def _automatic(along: WindowAxis, auto: str) -> tuple[int, int]:
    """Padding so that the output is ceil(length / stride); an odd one goes where `auto` says."""
    if auto == "VALID":
        return 0, 0
    outputs = -(-along.length // along.stride)
    total = max((outputs - 1) * along.stride + along.span - along.length, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if auto == "SAME_UPPER" else (large, small)


def _numbers(
    node: OnnxNode[Any], name: str, values: tuple[int, ...] | None, count: int, least: int
) -> tuple[int, ...]:
    if values is None or len(values) != count or not all(least <= v <= MAX_WINDOW for v in values):
        raise node.wrong(
            f"{name} must be {count} numbers from {least} to {MAX_WINDOW}, got {values}"
        )
    return values

"""Transposed convolutions as convolutions: what pixels a stride apart share are channels at first.

y[i * stride - before + k] += x[i] * w[k]: the pixels of y whose places have one remainder by the
stride see x through some of the taps, as an ordinary convolution does. All remainders together are
one with stride times stride as many channels, which then become pixels. No product is with a zero
that was put between pixels; taps that a remainder does not have are zeros among its weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ops.slice import Part
from mcutrain.ops.spatial import Window
from mcutrain.quant.float_shapes import FloatMove, FloatReshape, FloatSlice, FloatTranspose

Array = npt.NDArray[Any]
Pair = tuple[int, int]


@dataclass(frozen=True)
class TransposedAxis:
    """One axis: of `length` numbers, `size` are made. before: how many are left out at the start.

    shift: of the remainders, so that as few taps as can be are needed.
    """

    length: int
    kernel: int
    stride: int
    before: int
    size: int
    shift: int = 0

    def best(self) -> TransposedAxis:
        """Return the axis with the shift of the fewest taps, the least one. Raises ValueError."""
        if not 0 < self.stride <= self.kernel:
            raise ValueError(
                f"a stride of {self.stride} with {self.kernel} taps is not supported; strides up "
                "to the taps are"
            )
        if not 0 <= self.before < self.kernel or self.size < 1:
            raise ValueError(
                f"{self.kernel} taps whose first {self.before} pixels are left out, so that "
                f"{self.size} are made, are not supported; fewer than the taps may be left out"
            )
        ways = [replace(self, shift=shift) for shift in range(self.stride)]
        return min(ways, key=lambda way: (way.taps, way.shift))

    @property
    def reach(self) -> Pair:
        """The first and the last number of x that a remainder sees, from its own place on."""
        start = self.before - self.shift
        return -((self.kernel - 1 - start) // self.stride), -(-start // self.stride)

    @property
    def taps(self) -> int:
        """Taps of the convolution."""
        first, last = self.reach
        return last - first + 1

    @property
    def padding(self) -> Pair:
        """Padding of the convolution."""
        first, last = self.reach
        return -first, max(0, -(-(self.shift + self.size) // self.stride) + last - self.length)

    @property
    def places(self) -> Array:
        """Place in the kernel of each remainder and tap; `kernel` where there is none."""
        first, last = self.reach
        far = np.arange(self.stride)[:, None] - np.arange(first, last + 1) * self.stride
        found = far + self.before - self.shift
        return np.where((found >= 0) & (found < self.kernel), found, self.kernel)


@dataclass(frozen=True)
class Transposed:
    """A transposed convolution of an image, along its rows and columns."""

    rows: TransposedAxis
    columns: TransposedAxis

    @staticmethod
    def of(image: Pair, kernel: Pair, stride: Pair, before: Pair, size: Pair) -> Transposed:
        """All as (height, width). size: of the output. Raises ValueError."""
        axes = zip(image, kernel, stride, before, size, strict=True)
        return Transposed(*(TransposedAxis(*numbers).best() for numbers in axes))

    @property
    def copies(self) -> int:
        """How many channels of the convolution there are for one."""
        return self.rows.stride * self.columns.stride

    @property
    def window(self) -> Window:
        """Window of the convolution."""
        taps = (self.rows.taps, self.columns.taps)
        return Window(taps, padding=(*self.rows.padding, *self.columns.padding))

    def weight(self, w: Array) -> Array:
        """Weight of the convolution. w: [out, kernel_h, kernel_w, in]; gives [copies · out, …]."""
        out, *_, channels = w.shape
        with_none = np.pad(w, ((0, 0), (0, 1), (0, 1), (0, 0)))
        high, wide = self.rows.places, self.columns.places
        taken = with_none[:, high[:, :, None, None], wide]  # out, rest, tap, rest, tap, in
        taps = (self.rows.taps, self.columns.taps)
        ordered = taken.transpose(1, 3, 0, 2, 4, 5).reshape(self.copies * out, *taps, channels)
        return np.ascontiguousarray(ordered)

    def moves(self, out: int) -> tuple[FloatMove, ...]:
        """Return what makes the output [1, rows, columns, out] of the convolution's, in order."""
        image = (self.rows.length, self.columns.length)
        rows, columns = self.window.output_size(*image)
        high, wide = self.rows.stride, self.columns.stride
        spread = (1, rows * high, columns * wide, out)
        moves: list[FloatMove] = []
        if high > 1:
            moves += [FloatReshape((1, rows, columns, high, wide * out))]
            moves += [FloatTranspose((0, 1, 3, 2, 4))]
        moves += [FloatReshape(spread)]
        y = (1, self.rows.size, self.columns.size, out)
        if y != spread:
            first = (0, self.rows.shift, self.columns.shift, 0)
            moves += [FloatSlice(Part(first, y, (1, 1, 1, 1)), out)]
        return tuple(moves)

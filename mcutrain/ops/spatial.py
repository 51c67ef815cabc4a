"""What operators with a sliding window share: geometry, patches, and their reference meaning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.op import Border, Param, Rows

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Window:
    """A kernel_h x kernel_w window over an image, with zero-point padding on the four sides."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)  # top, bottom, left, right

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the output. Raises ValueError if the window does not fit."""
        top, bottom, left, right = self.padding
        span_h = (self.kernel[0] - 1) * self.dilation[0] + 1
        span_w = (self.kernel[1] - 1) * self.dilation[1] + 1
        rows = (height + top + bottom - span_h) // self.stride[0] + 1
        columns = (width + left + right - span_w) // self.stride[1] + 1
        if min(height + top + bottom - span_h, width + left + right - span_w) < 0:
            raise ValueError(
                f"a window of {span_h}x{span_w} does not fit an input of {height}x{width} "
                f"padded by {self.padding}"
            )
        return rows, columns

    @property
    def keeps_size(self) -> bool:
        """Whether the output has the rows and columns of the input, whatever they are."""
        spans = [(k - 1) * d for k, d in zip(self.kernel, self.dilation, strict=True)]
        top, bottom, left, right = self.padding
        return self.stride == (1, 1) and spans == [top + bottom, left + right]

    def with_border(self, border: Border, pad_value: int) -> Window | None:
        """The window that pads with the border too; None if it pads with another number."""
        if border.value != pad_value:
            return None
        both = zip(self.padding, border.padding, strict=True)
        top, bottom, left, right = (a + b for a, b in both)
        return replace(self, padding=(top, bottom, left, right))

    def patches(self, x: Array, pad_value: int) -> Array:
        """x: [1, h, w, c] → [rows, columns, kernel_h, kernel_w, c]."""
        top, bottom, left, right = self.padding
        height, width = x.shape[1:3]
        rows, columns = self.output_size(height, width)
        size = (height + top + bottom, width + left + right, x.shape[3])
        padded = np.full(size, pad_value, x.dtype)
        padded[top : top + height, left : left + width] = x[0]
        taps = [
            self._tap(padded, ky, kx, rows, columns)
            for ky in range(self.kernel[0])
            for kx in range(self.kernel[1])
        ]
        stacked = np.stack(taps, axis=2)
        return stacked.reshape(rows, columns, *self.kernel, x.shape[3])

    def scatter(self, patches: Array, height: int, width: int) -> Array:
        """The transpose of `patches`: sum what each input element contributed to."""
        top, bottom, left, right = self.padding
        rows, columns = patches.shape[:2]
        padded = np.zeros(
            (height + top + bottom, width + left + right, patches.shape[-1]), np.int64
        )
        for ky in range(self.kernel[0]):
            for kx in range(self.kernel[1]):
                self._tap(padded, ky, kx, rows, columns)[...] += patches[:, :, ky, kx]
        return padded[None, top : top + height, left : left + width]

    def _tap(self, padded: Array, ky: int, kx: int, rows: int, columns: int) -> Array:
        """The view of the padded image that the tap (ky, kx) sees."""
        y0, x0 = ky * self.dilation[0], kx * self.dilation[1]
        y1, x1 = y0 + (rows - 1) * self.stride[0] + 1, x0 + (columns - 1) * self.stride[1] + 1
        return padded[y0 : y1 : self.stride[0], x0 : x1 : self.stride[1]]

    def rows(self) -> Rows:
        """Return how an operator whose first input it slides over computes row by row."""
        span = (self.kernel[0] - 1) * self.dilation[0] + 1
        stride, pad = self.stride[0], self.padding[0]
        return Rows((0,), span, stride, pad, "x.h", "y.h", "window.pad_top")

    def params(self) -> tuple[Param, ...]:
        """The fields of `mct_window` in firmware/runtime/mct_types.h."""
        names = ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w")
        values = (*self.kernel, *self.stride, *self.dilation)
        top, _, left, _ = self.padding
        pairs = zip(names, values, strict=True)
        return (
            *(Param(f"window.{n}", v) for n, v in pairs),
            Param("window.pad_top", top),
            Param("window.pad_left", left),
        )


def shape_params(prefix: str, shape: tuple[int, ...]) -> tuple[Param, ...]:
    """The fields `<prefix>.h`, `.w`, `.c` of an `mct_shape` for a shape [1, h, w, c]."""
    return tuple(Param(f"{prefix}.{d}", n) for d, n in zip("hwc", shape[1:], strict=True))

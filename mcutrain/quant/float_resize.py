"""Images with more or fewer rows and columns, in real numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.resize import ONE, Positions, Resize
from mcutrain.quant.float_op import FloatOp, Quantization, Shape

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Places:
    """Where on an axis of x each pixel of y lies.

    real: in pixels. stored: in ONE-ths of a pixel, as the int8 operator has them.
    """

    real: tuple[float, ...]
    stored: Positions

    @staticmethod
    def of(real: Array, size: int) -> Places:
        """Return places for positions, held within an axis of `size` pixels, and the nearest stored
        ones.
        """
        inside = np.clip(np.asarray(real, np.float64), 0, size - 1)
        return Places(tuple(inside.tolist()), tuple(np.rint(inside * ONE).astype(int).tolist()))

    def is_identity(self, size: int) -> bool:
        """Return whether each of `size` pixels stays where it is."""
        return self.stored == tuple(range(0, size * ONE, ONE))


@dataclass(frozen=True, eq=False)
class FloatResize(FloatOp):
    """y[r][s] = x at rows[r] and columns[s], between pixels bilinearly.

    x: [n, h, w, c]  y: [n, len(rows), len(columns), c]
    """

    rows: Places
    columns: Places

    shares_quantization: ClassVar[bool] = True  # as TFLite's resizes

    @property
    def keeps_values(self) -> bool:
        """Where pixels are copied."""
        places = (*self.rows.real, *self.columns.real)
        return all(place == math.floor(place) for place in places)

    @property
    def is_homogeneous(self) -> bool:
        """True: it is a mean of neighbours."""
        return True

    def shape(self, *x: Shape) -> Shape:
        """Channels stay."""
        (image,) = x
        if len(image) != 4:
            raise ValueError(f"a resize needs an image [1, h, w, c], got {image}")
        for places, size in zip((self.rows, self.columns), image[1:3], strict=True):
            if not places.real or max(places.real) > size - 1:
                raise ValueError(f"cannot resize {image}: a pixel would lie outside")
        return (1, len(self.rows.real), len(self.columns.real), image[3])

    def macs(self, y: Shape) -> int:
        """One per pixel that is read."""
        return math.prod(y) * (1 if self.keeps_values else 4)

    def run(self, *x: Array) -> Array:
        """Rows, then columns."""
        return _between(_between(x[0], self.rows, 1), self.columns, 2)

    def scratch(self, *x: Shape) -> int:
        """Both rows that lie around each."""
        return 3 * len(self.rows.real) * x[0][2] * x[0][3]

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """A Resize."""
        return Resize(self.rows.stored, self.columns.stored)


def repeated(rows: int, count: int) -> FloatResize:
    """Return what makes [1, rows, count, c] of [1, rows, 1, c]: every pixel, several times."""
    return FloatResize(Places.of(np.arange(rows), rows), Places.of(np.zeros(count), 1))


def _between(x: Array, places: Places, axis: int) -> Array:
    at = np.array(places.real)
    lower = np.floor(at).astype(int)
    upper = np.minimum(lower + 1, x.shape[axis] - 1)
    part = (at - lower).astype(np.float32).reshape([-1 if i == axis else 1 for i in range(4)])
    below: Array = np.take(x, lower, axis)
    if not part.any():
        return below
    y: Array = below * (np.float32(1) - part) + np.take(x, upper, axis) * part
    return y

"""Images with more or fewer rows and columns: the nearest pixel, or between two (bilinear)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    Bound,
    ChannelwiseOp,
    Emit,
    Gradient,
    KernelCall,
    Param,
    inputs,
    outputs,
)
from mcutrain.ops.bounds import gradient_sums
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage
from mcutrain.ops.spatial import shape_params

Array = npt.NDArray[Any]
Positions = tuple[int, ...]

FRACTION_BITS = 10
"""Bits of a position between two pixels, as in TFLite's RESIZE_BILINEAR of int8."""
ONE = 1 << FRACTION_BITS
MAX_SIZE = 2**15
"""Largest height or width of an image in the files that are read."""
MOST_WEIGHT = 4095
"""Along an axis; 127 * MOST_WEIGHT**2 < 2**31."""


def weights(positions: Positions, size: int) -> Array:
    """[positions, size]: what each pixel of an axis counts at each position, in units of 1 / ONE.

    Two neighbours share ONE.
    """
    places = np.array(positions, np.int64)
    found = np.zeros((len(places), size), np.int64)
    each, lower, upper_part = np.arange(len(places)), places // ONE, places % ONE
    found[each, lower] = ONE - upper_part
    found[each, np.minimum(lower + 1, size - 1)] += upper_part
    return found


def unit(positions: Positions) -> int:
    """The greatest number of which all weights of an axis are multiples."""
    return math.gcd(ONE, *(p % ONE for p in positions))


def summable(positions: Positions, size: int) -> Positions:
    """The positions, rounded as far as the weights that a pixel gave must be for sums in int32.

    Up to four times as many pixels as there were need none of that.
    """
    step = 1
    while step < ONE:
        rounded = tuple((p + step // 2) // step * step for p in positions)
        if int(weights(rounded, size).sum(axis=0).max()) <= MOST_WEIGHT * unit(rounded):
            return rounded
        step *= 2
    return tuple((p + ONE // 2) // ONE * ONE for p in positions)


def check_positions(positions: Positions, size: int, what: str) -> None:
    """Raise ValueError unless they ascend within an axis of `size` pixels."""
    if not positions or min(positions) < 0 or max(positions) > (size - 1) * ONE:
        raise ValueError(f"positions of {what} lie outside {size} of the input")
    if list(positions) != sorted(positions):
        raise ValueError(f"positions of {what} do not ascend")


@dataclass(frozen=True)
class Resize(ChannelwiseOp):
    """y[r][s] = x at row rows[r] / ONE and column columns[s] / ONE, between pixels bilinearly.

    TFLite's RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR in int8, whatever pixels they take for
    their corners: halves are rounded away from zero, x and y are quantized alike.
    x: [1, h, w, c]  y: [1, len(rows), len(columns), c]
    """

    rows_at: Positions = field(repr=False)
    columns_at: Positions = field(repr=False)

    @property
    def copies(self) -> bool:
        """Whether each pixel of y is one of x."""
        return not any(p % ONE for p in (*self.rows_at, *self.columns_at))

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Channels stay."""
        (x,) = inputs
        if len(x.shape) != 4:
            raise ValueError(f"a resize needs an image [1, h, w, c], got {x.shape}")
        check_positions(self.rows_at, x.shape[1], "rows")
        check_positions(self.columns_at, x.shape[2], "columns")
        return (TensorType((1, len(self.rows_at), len(self.columns_at), x.shape[3])),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Four pixels by their weights, rounded once."""
        x = inputs[0][0].astype(np.int64)
        of_rows, of_columns = (
            weights(at, size)
            for at, size in zip((self.rows_at, self.columns_at), x.shape[:2], strict=True)
        )
        tall = (of_rows @ x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])
        total = of_columns @ tall
        half = ONE * ONE // 2
        rounded = np.sign(total) * ((np.abs(total) + half) // (ONE * ONE))
        return (rounded[None].astype(np.int8),)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Every pixel of x gets what the pixels of y took of it."""
        x = inputs[0]
        if not emit.wants(x):
            return (None,)
        _, height, width, _ = x.type.shape
        rows_at, columns_at = summable(self.rows_at, height), summable(self.columns_at, width)
        scale = dy.scale * unit(rows_at) * unit(columns_at) / (ONE * ONE)
        stage = OutputStage((scale,), False, emit.gradient_dtype, emit.salt())
        op = ResizeGradInput(stage, x.type.shape, rows_at, columns_at)
        return (emit.gradient(op, dy),)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_resize_nearest_s8 where pixels are copied, else mct_resize_bilinear_s8."""
        params = (
            *shape_params("x", types[0].shape),
            *shape_params("y", results[0].shape),
            *position_params(self.rows_at, self.columns_at),
        )
        name = f"mct_resize_{'nearest' if self.copies else 'bilinear'}_s8"
        return KernelCall("resize", name, params, (*inputs(0), *outputs(0)))


def position_params(rows_at: Positions, columns_at: Positions) -> tuple[Param, ...]:
    """The fields `rows` and `columns` of the kernels' parameters."""
    return (
        Param("rows", rows_at, "const int32_t *"),
        Param("columns", columns_at, "const int32_t *"),
    )


@dataclass(frozen=True)
class ResizeGradInput(GradientOp):
    """dx = sum of dy times the weight that its pixel gave this one.

    Weights are counted in the `unit` of their axis, by which the stage multiplies.
    dy: [1, rows, columns, c]  dx: [1, h, w, c]
    """

    rows_at: Positions = field(repr=False)
    columns_at: Positions = field(repr=False)

    def _weights(self) -> tuple[Array, Array]:
        """Weights of rows and of columns, each in its unit."""
        axes = zip((self.rows_at, self.columns_at), self.shape[1:3], strict=True)
        rows, columns = (weights(at, size) // unit(at) for at, size in axes)
        return rows, columns

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """All that one pixel gave."""
        of_rows, of_columns = self._weights()
        largest = int(of_rows.sum(axis=0).max()) * int(of_columns.sum(axis=0).max())
        positions = inputs[1].type.elements // inputs[1].type.shape[3]
        what = f"sums of gradients of {positions:,} pixels, each by its weight"
        return gradient_sums(inputs[1], 1, largest, what, "train only layers behind it")

    def sums(self, dy: Array, *rest: Array) -> Array:
        """The transpose of what forward does."""
        of_rows, of_columns = self._weights()
        image = dy[0].astype(np.int64)
        tall = (of_rows.T @ image.reshape(len(image), -1)).reshape(-1, *image.shape[1:])
        sums: Array = (of_columns.T @ tall)[None]
        return sums

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_resize_grad_input_<dy>: scratch holds one pixel's sums."""
        dy = types[1]
        params = (
            *shape_params("dx", self.shape),
            *shape_params("dy", dy.shape),
            *position_params(self.rows_at, self.columns_at),
            Param("row_unit", unit(self.rows_at)),
            Param("column_unit", unit(self.columns_at)),
        )
        scratch = self.shape[3] * ACC_BYTES[dy.dtype]
        name = f"mct_resize_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("resize", name, params, (), scratch)

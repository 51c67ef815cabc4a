"""Factors and shifts per channel: batch norm, and arithmetic with constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import ModelError
from mcutrain.ops.spatial import Window
from mcutrain.quant.float_op import FloatOp, Shape
from mcutrain.quant.float_sums import DepthwiseConv

Array = npt.NDArray[Any]

IDENTITY = 1e-6  # how far a factor of 1 may be from 1


@dataclass(frozen=True, eq=False)
class Affine(FloatOp):
    """y = x * factor + shift, one number each per channel (last axis): batch norm and constants.

    None has an int8 form: simplify.py folds them or makes them convolutions.
    """

    factor: Array
    shift: Array

    def shape(self, *x: Shape) -> Shape:
        """The input's."""
        if len(x[0]) < 2 or x[0][-1] != len(self.factor) or len(self.shift) != len(self.factor):
            raise ValueError(f"{len(self.factor)} factors for the channels of {x[0]}")
        return x[0]

    def run(self, *x: Array) -> Array:
        """Elementwise."""
        y: Array = x[0] * self.factor.astype(np.float32) + self.shift.astype(np.float32)
        return y

    def then(self, other: Affine) -> Affine:
        """Both in one."""
        return Affine(self.factor * other.factor, self.shift * other.factor + other.shift)

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing; exporters' constants such as 1/6 are not exact."""
        return bool((np.abs(self.factor - 1) < IDENTITY).all() and (self.shift == 0).all())

    @property
    def is_uniform(self) -> bool:
        """Whether it does the same to all numbers."""
        return bool((self.factor == self.factor[0]).all() and (self.shift == self.shift[0]).all())

    @property
    def is_factor(self) -> bool:
        """Whether it multiplies all numbers by one."""
        return self.is_uniform and self.shift[0] == 0

    def of_channels(self, count: int) -> Affine:
        """Return the same for so many channels, if it does the same to all numbers."""
        return Affine(np.full(count, self.factor[0]), np.full(count, self.shift[0]))

    def tiled(self, times: int) -> Affine:
        """Return the same for so many times the channels, which take turns."""
        return Affine(np.tile(self.factor, times), np.tile(self.shift, times))

    def as_convolution(self) -> DepthwiseConv:
        """The 1x1 depthwise convolution that computes the same."""
        w = self.factor.reshape(1, 1, 1, -1).astype(np.float32)
        return DepthwiseConv(Window((1, 1)), w, self.shift)


def is_map(c: Array, shape: Shape) -> bool:
    """Return whether a constant fits a shape and varies along more than one of its axes."""
    pairs = zip(reversed(c.shape), reversed(shape), strict=False)
    fits = c.ndim <= len(shape) and all(mine in (1, theirs) for mine, theirs in pairs)
    return fits and sum(length > 1 for length in c.shape) > 1


def signed_map(
    with_constant: Callable[[Array, bool], Affine | None], c: Array, shape: Shape, first: bool
) -> tuple[Affine | None, Array]:
    """What x + c, x - c or c - x of a map c is: an Affine of x before it, if any, and a shift.

    with_constant: of the operator, for one number per channel. The shift is float32, of the shape.
    """
    found = with_constant(np.broadcast_to(c, shape).astype(np.float64).ravel(), first)
    assert found is not None
    negative = Affine(found.factor[:1], np.zeros(1)) if found.factor[0] < 0 else None
    return negative, found.shift.reshape(shape).astype(np.float32)


def plus_constant(c: Array, first: bool) -> Affine:
    """x + c."""
    return Affine(np.ones_like(c), c)


def minus_constant(c: Array, first: bool) -> Affine:
    """x - c, or c - x."""
    return Affine(-np.ones_like(c), c) if first else Affine(np.ones_like(c), -c)


def times_constant(c: Array, first: bool) -> Affine:
    """x * c."""
    return Affine(c, np.zeros_like(c))


def divided_by_constant(c: Array, first: bool) -> Affine | None:
    """x / c; None for c / x."""
    if first:
        return None
    if (c == 0).any():
        raise ModelError("it divides by 0")
    return Affine(1 / c, np.zeros_like(c))

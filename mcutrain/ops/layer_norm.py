"""Layer normalization over the last axis in integers: mean 0 and variance 1, then gamma and beta.

With an origin in the place of the mean it is a root mean square normalization.

x, y, dx, dy: [..., c], a row for each position. All of it is written down in docs/numerics.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mcutrain import fixedpoint
from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    Bound,
    ChannelTie,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Param,
    Rows,
    channel_axis,
    inputs,
    outputs,
    rows_apart,
)
from mcutrain.ops.bounds import SCALES
from mcutrain.ops.clamp import ClampingOp, clamped, clamped_types
from mcutrain.ops.gradient_sum import rescale
from mcutrain.ops.gradients import ACC_BYTES, GRADIENT_BITS, SUFFIX, GradientOp, OutputStage

Array = npt.NDArray[Any]

FRACTION_BITS = 16
"""Bits behind the point of gamma, beta and epsilon."""
NORMALIZED_BITS = 22
"""Bits behind the point of a normalized number."""
ROOT_BITS = 29
"""Bits behind the point of the reciprocal root."""
EXACT_BITS = 22
"""Bits of gamma, beta and epsilon: float32 of a file gives back the same integers."""
SQUARES_LIMIT = 2**46
"""Limit of c**2 times the variance."""
EPSILON_LIMIT = 2**62
GAMMA_BITS, MEAN_BITS, BACK_ROOT_BITS = 15, 14, 15
"""Bits of the backward pass: in gamma; behind the point of a normalized number, and of the root."""
ACC_BITS = {"int8": 31, "int16": 39}
"""Bits of a backward sum, without its sign; of int16 gradients 8 are dropped then."""


class RowStatistics(NamedTuple):
    """Statistics of each row, [rows, 1]: differences from the mean, or from the origin, times c;
    and 2**half / sqrt(W).

    root: with ROOT_BITS behind the point.
    """

    differences: Array
    root: Array
    half: Array

    @property
    def normalized(self) -> Array:
        """Normalized numbers with NORMALIZED_BITS behind the point, rounded down."""
        n: Array = (self.differences * self.root) >> (self.half - 1)
        return n


def half_bits(value: int) -> int:
    """The least h with value < 2**(2 * h)."""
    return (value.bit_length() + 1) // 2


def reciprocal_root(w: Array) -> tuple[Array, Array]:
    """2**half / sqrt(w) with ROOT_BITS behind the point, and half = half_bits(w), for w >= 1."""
    half = np.vectorize(half_bits, otypes=[np.int64])(w)
    right = np.maximum(2 * half - 31, 0)
    return fixedpoint.reciprocal_root((w >> right) << np.maximum(31 - 2 * half, 0)), half


def statistics(x: Array, epsilon: int, origin: int | None, least: int = 0) -> RowStatistics:
    """Return the statistics of int8 rows. epsilon: 2**16 c**2 eps / scale**2; least: of c**2
    var. origin: from where differences are, the mean by default.
    """
    x = x.astype(np.int64).reshape(-1, x.shape[-1])
    count, added = x.shape[-1], x.sum(axis=-1, keepdims=True)
    total = added if origin is None else count * origin
    variance = count * np.square(x).sum(axis=-1, keepdims=True) - total * (2 * added - total)
    w = (np.maximum(variance, least) << FRACTION_BITS) + epsilon
    return RowStatistics(count * x - total, *reciprocal_root(w))


def _squares(channels: int, origin: int | None) -> Bound:
    largest = (255 * channels) ** 2 // (4 if origin is None else 1)
    what = f"sums of {channels:,} squared differences"
    return Bound(what, largest, "normalize fewer channels together", SQUARES_LIMIT)


def exact(value: float) -> int:
    """The nearest integer of EXACT_BITS significant bits."""
    step = max(math.frexp(value)[1] - EXACT_BITS, 0)
    return round(math.ldexp(value, -step)) << step


@dataclass(frozen=True)
class LayerNorm(ClampingOp):
    """y = clamp(gamma * (x - mean) / sqrt(variance + eps) + beta + y_zero_point).

    gamma, beta: per channel, in steps of y, FRACTION_BITS behind the point, int32. epsilon <<
    epsilon_shift: c**2 * eps / scale**2, FRACTION_BITS behind the point, 1 at least. origin: x's
    zero point, where that stands for the mean: the root of the mean square.
    """

    gamma: tuple[int, ...]
    beta: tuple[int, ...]
    epsilon: int
    epsilon_shift: int
    y_zero_point: int
    low: int = -128
    high: int = 127
    saves_mask: bool = False
    origin: int | None = None

    @staticmethod
    def from_real(
        gamma: Array, beta: Array, eps: float, x_scale: float, y: tuple[float, int]
    ) -> LayerNorm:
        """The operator for real gamma, beta and eps, around the mean. y: scale and zero point.

        Raises ValueError with a sentence if the scales do not allow it.
        """
        unit = 2.0**FRACTION_BITS
        g, b = ([exact(v / y[0] * unit) for v in values.tolist()] for values in (gamma, beta))
        e = max(exact((len(g) / x_scale) ** 2 * eps * unit), 1)
        if e > EPSILON_LIMIT or max(map(abs, (*g, *b))) >= 2**31:
            raise ValueError(SCALES)
        shift = max(e.bit_length() - EXACT_BITS, 0)
        return LayerNorm(tuple(g), tuple(b), e >> shift, shift, y[1])

    def real(self, x_scale: float, y_scale: float) -> tuple[Array, Array, float]:
        """Gamma, beta and eps in real numbers."""
        unit = 2.0**FRACTION_BITS
        gamma, beta = (np.array(v) * (y_scale / unit) for v in (self.gamma, self.beta))
        return gamma, beta, self._epsilon / unit * (x_scale / len(self.gamma)) ** 2

    @property
    def _epsilon(self) -> int:
        return self.epsilon << self.epsilon_shift

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's shape."""
        channels = inputs[0].shape[-1]
        if not len(self.gamma) == len(self.beta) == channels:
            raise ValueError(f"{len(self.gamma)} factors for {channels} channels")
        if not 1 <= self._epsilon <= EPSILON_LIMIT:
            raise ValueError(SCALES)
        return clamped_types(TensorType(inputs[0].shape), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Every row by itself, rounded once, half up."""
        gamma, beta = (np.array(v, np.int64) for v in (self.gamma, self.beta))
        scaled = statistics(inputs[0], self._epsilon, self.origin).normalized * gamma
        bits = NORMALIZED_BITS + FRACTION_BITS
        y = (scaled + (beta << NORMALIZED_BITS) + (1 << (bits - 1))) >> bits
        y = y.reshape(inputs[0].shape) + self.y_zero_point
        return clamped(y, self.low, self.high, self.saves_mask)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Gradient of x, whose rows are normalized again. gamma and beta are not trained."""
        x = inputs[0]
        if not emit.wants(x):
            return (None,)
        dz = rescale(emit, dy, x.type.shape, (1.0,), emit.mask(y))
        stage = OutputStage((dz.scale,), False, emit.gradient_dtype, emit.salt())
        of = (self.gamma, self.epsilon, self.epsilon_shift, self.origin)
        op = LayerNormGradInput(stage, x.type.shape, *of)
        stage = replace(stage, scale=(dz.scale * op.unit,))
        return (emit.gradient(replace(op, stage=stage), dz, x.name),)

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """All else follows from how many channels there are."""
        return (_squares(inputs[0].type.shape[-1], self.origin),)

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """The last axes: the sums have no order."""
        operands = zip((*inputs(0), *outputs(0)), (types[0], results[0]), strict=True)
        return (tuple(channel_axis(operand, kind) for operand, kind in operands),)

    def with_channel_order(self, *orders: Array) -> Op:
        """Return the operator with gamma and beta in this order."""
        gamma, beta = (tuple(np.array(v)[orders[0]].tolist()) for v in (self.gamma, self.beta))
        return replace(self, gamma=gamma, beta=beta)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Each position by itself."""
        return rows_apart(types, results, "rows")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_layer_norm_s8."""
        channels = len(self.gamma)
        params = (
            Param("rows", types[0].elements // channels),
            Param("channels", channels),
            Param("gamma", self.gamma, "const int32_t *"),
            Param("beta", self.beta, "const int32_t *"),
            Param("epsilon", self.epsilon),
            Param("epsilon_shift", self.epsilon_shift),
            *_origin_params(self.origin),
            Param("y_zero_point", self.y_zero_point),
        )
        return self.clamping_call("layer_norm", "mct_layer_norm_s8", params, *inputs(0))

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """A row's statistics are known before its first y: y may lie where x was."""
        return {0: (0,)}


def _origin_params(origin: int | None) -> tuple[Param, Param]:
    return Param("around_mean", int(origin is None)), Param("origin", origin or 0)


@dataclass(frozen=True)
class LayerNormGradInput(GradientOp):
    """dx = (h - mean(h) - n * mean(h * n)) / sqrt(variance + eps), h = gamma * dy; see LayerNorm.

    With an origin mean(h) is left out, as x - origin moves alone.

    The stage multiplies by `unit`. A row that is stored as constant counts as one in which a single
    number differs by a step: what was rounded away is no derivative without end.
    """

    gamma: tuple[int, ...]
    epsilon: int
    epsilon_shift: int
    origin: int | None = None

    @property
    def _epsilon(self) -> int:
        return self.epsilon << self.epsilon_shift

    @property
    def _channel_bits(self) -> int:
        """Return the bits of the number of channels."""
        return (len(self.gamma) - 1).bit_length()

    @property
    def _gamma_shift(self) -> int:
        """Return the shift to the right that leaves GAMMA_BITS of gamma."""
        return max(max(map(abs, self.gamma)).bit_length() - GAMMA_BITS, 0)

    @property
    def _least_half(self) -> int:
        """Least `half` of any row."""
        return half_bits(((len(self.gamma) - 1) << FRACTION_BITS) + self._epsilon)

    @property
    def _shift(self) -> int:
        """Return the shift to the right where half is 0: no sum has more than ACC_BITS."""
        dtype = self.stage.dtype
        terms = (2 ** GRADIENT_BITS[dtype] - 1) << GAMMA_BITS
        largest = (terms * (math.isqrt(len(self.gamma)) + 4)) << (BACK_ROOT_BITS + 1)
        bits: int = largest.bit_length()
        return max(bits - ACC_BITS[dtype], 0) - self._least_half

    @property
    def unit(self) -> float:
        """What a sum counts, where dy counts 1."""
        of_sums = self._shift + self._channel_bits - BACK_ROOT_BITS + FRACTION_BITS // 2
        return math.ldexp(1.0, self._gamma_shift - FRACTION_BITS + of_sums)

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """A row of dy is read before its dx is written."""
        return {0: (1,)}

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """As forward; `_shift` follows from it."""
        return (_squares(len(self.gamma), self.origin),)

    def sums(self, dy: Array, *rest: Array) -> Array:
        """Every row by itself; each shift to the right rounds down."""
        channels, bits = len(self.gamma), self._channel_bits
        stats = statistics(rest[0], self._epsilon, self.origin, channels - 1)
        gamma = np.array(self.gamma, np.int64) >> self._gamma_shift
        h = dy.astype(np.int64).reshape(-1, channels) * gamma
        n = stats.normalized >> (NORMALIZED_BITS - MEAN_BITS)
        along = (h * n).sum(axis=-1, keepdims=True) >> (MEAN_BITS + bits)
        total = h.sum(axis=-1, keepdims=True) if self.origin is None else 0
        centred = (channels * h - total) >> bits
        rest_of = centred - ((n * along) >> MEAN_BITS)
        root = stats.root >> (ROOT_BITS - BACK_ROOT_BITS)
        found: Array = (rest_of * root) >> (self._shift + stats.half)
        return found.reshape(self.shape)

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_layer_norm_grad_input_<dy>: scratch holds a row."""
        dy, channels = types[1], len(self.gamma)
        params = (
            Param("rows", dy.elements // channels),
            Param("channels", channels),
            Param("channel_bits", self._channel_bits),
            Param("gamma", self.gamma, "const int32_t *"),
            Param("gamma_shift", self._gamma_shift),
            Param("epsilon", self.epsilon),
            Param("epsilon_shift", self.epsilon_shift),
            *_origin_params(self.origin),
            Param("shift", self._shift),
        )
        scratch = channels * ACC_BYTES[dy.dtype]
        name = f"mct_layer_norm_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("layer_norm", name, params, (), scratch)

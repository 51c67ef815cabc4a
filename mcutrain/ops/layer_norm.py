"""Layer normalization over the last axis in integers: mean 0 and variance 1, then gamma and beta.

With an origin in the place of the mean it is a root mean square normalization. Gamma and beta are
constants, or trained as biases are.

x, y, dx, dy: [..., c], a row for each position. All of it is written down in docs/numerics.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain import fixedpoint
from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    Axis,
    Bound,
    ChannelTie,
    Emit,
    Gradient,
    KernelCall,
    Param,
    Rows,
    channel_axis,
    inputs,
    outputs,
    rows_apart,
)
from mcutrain.ops.bounds import BIAS_LIMIT, SCALES, gradient_sums
from mcutrain.ops.clamp import ClampingOp, clamped, clamped_types
from mcutrain.ops.gradient_sum import rescale
from mcutrain.ops.gradients import ACC_BYTES, GRADIENT_BITS, SUFFIX, GradientOp, OutputStage
from mcutrain.ops.training import ParameterGradientOp, train_bias

Array = npt.NDArray[Any]

FRACTION_BITS = 16
"""Bits behind the point of epsilon."""
PARAMETER_BITS = 12
"""Bits behind the point of gamma and beta, in steps of y."""
NORMALIZED_BITS = 22
"""Bits behind the point of a normalized number."""
ROOT_BITS = 29
"""Bits behind the point of the reciprocal root."""
EXACT_BITS = 23
"""Bits of gamma, beta and epsilon: float32 of a file gives back the same integers."""
SQUARES_LIMIT = 2**46
"""Limit of c**2 times the variance."""
EPSILON_LIMIT = 2**62
GAMMA_BITS, MEAN_BITS, BACK_ROOT_BITS = 15, 14, 15
"""Bits of the backward pass: in gamma; behind the point of a normalized number, and of the root."""
TRAINED_SHIFT = 5
"""Shift of a gamma that is trained, in the backward pass: up to 256 steps of y fit GAMMA_BITS."""
GAIN_BITS = 6
"""Bits behind the point of normalized numbers in the gradient of gamma."""
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


class Factors(NamedTuple):
    """Gamma and beta in steps of y, PARAMETER_BITS behind the point, int32 [c]."""

    gamma: Array
    beta: Array

    @staticmethod
    def of(gamma: Array, beta: Array, y_scale: float) -> Factors:
        """The integers of real numbers. Raises ValueError where they do not fit."""
        unit = 2.0**PARAMETER_BITS
        found = [[exact(v / y_scale * unit) for v in values.tolist()] for values in (gamma, beta)]
        if max((abs(v) for values in found for v in values), default=0) > BIAS_LIMIT:
            raise ValueError(SCALES)
        return Factors(*(np.array(values, np.int32) for values in found))

    def real(self, y_scale: float) -> tuple[Array, Array]:
        """As real numbers."""
        unit = factors_scale(y_scale)
        return self.gamma * unit, self.beta * unit


def factors_scale(y_scale: float) -> float:
    """The scale of gamma and beta."""
    return math.ldexp(y_scale, -PARAMETER_BITS)


@dataclass(frozen=True)
class LayerNorm(ClampingOp):
    """y = clamp(gamma * (x - mean) / sqrt(variance + eps) + beta + y_zero_point).

    gamma, beta: [c] int32, see Factors. epsilon << epsilon_shift: c**2 * eps / scale**2,
    FRACTION_BITS behind the point, 1 at least. origin: x's zero point, where that stands for the
    mean: the root of the mean square. is_affine: gamma and beta are parameters of the model; else
    they are numbers that follow from what it computes.
    """

    epsilon: int
    epsilon_shift: int
    y_zero_point: int
    low: int = -128
    high: int = 127
    saves_mask: bool = False
    origin: int | None = None
    is_affine: bool = True

    @staticmethod
    def from_real(channels: int, eps: float, x_scale: float, y_zero_point: int) -> LayerNorm:
        """The operator for a real eps, around the mean.

        Raises ValueError with a sentence if the scales do not allow it.
        """
        e = max(exact((channels / x_scale) ** 2 * eps * 2.0**FRACTION_BITS), 1)
        if e > EPSILON_LIMIT:
            raise ValueError(SCALES)
        shift = max(e.bit_length() - EXACT_BITS, 0)
        return LayerNorm(e >> shift, shift, y_zero_point)

    def real_epsilon(self, channels: int, x_scale: float) -> float:
        """Eps in real numbers."""
        return math.ldexp(self._epsilon, -FRACTION_BITS) * (x_scale / channels) ** 2

    @property
    def _epsilon(self) -> int:
        return self.epsilon << self.epsilon_shift

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's shape."""
        x, gamma, beta = inputs
        if not gamma.shape == beta.shape == x.shape[-1:]:
            raise ValueError(
                f"{gamma.shape} and {beta.shape} factors for the channels of {x.shape}"
            )
        if not 1 <= self._epsilon <= EPSILON_LIMIT:
            raise ValueError(SCALES)
        return clamped_types(TensorType(x.shape), self.saves_mask)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Every row by itself, rounded once, half up."""
        x, gamma, beta = inputs
        scaled = statistics(x, self._epsilon, self.origin).normalized * gamma.astype(np.int64)
        bits = NORMALIZED_BITS + PARAMETER_BITS
        shift = beta.astype(np.int64) << NORMALIZED_BITS
        y = (scaled + shift + (1 << (bits - 1))) >> bits
        y = y.reshape(x.shape) + self.y_zero_point
        return clamped(y, self.low, self.high, self.saves_mask)

    @property
    def factors(self) -> tuple[int, ...]:
        """Gamma and beta, if they are parameters."""
        return (1, 2) if self.is_affine else ()

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Gradient of x, whose rows are normalized again, with the old gamma; then both move."""
        x, gamma, beta = inputs
        update = emit.update(gamma)
        if not (emit.wants(x) or update or emit.update(beta)):
            return None, None, None
        dz = rescale(emit, dy, x.type.shape, (1.0,), emit.mask(y))
        dx, of = None, (self.epsilon, self.epsilon_shift, self.origin)
        if emit.wants(x):
            shift = TRAINED_SHIFT if gamma.data is None else shift_of(gamma.data)
            stage = OutputStage((dz.scale,), False, emit.gradient_dtype, emit.salt())
            op = LayerNormGradInput(stage, x.type.shape, shift, *of)
            stage = replace(stage, scale=(dz.scale * op.unit,))
            dx = emit.gradient(replace(op, stage=stage), dz, x.name, emit.value(gamma))
        dz = replace(dz, scale=math.ldexp(dz.scale, -PARAMETER_BITS))
        if update:
            by_n = replace(dz, scale=math.ldexp(dz.scale, -GAIN_BITS))
            train = LayerNormGradGamma(None, gamma.type.shape, *of)
            emit.train(train, update, by_n, x.name, parameter=gamma)
        train_bias(emit, dz, beta)
        return dx, None, None

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """All else follows from how many channels there are."""
        return (_squares(inputs[0].type.shape[-1], self.origin),)

    def channel_ties(
        self, types: Sequence[TensorType], results: Sequence[TensorType]
    ) -> tuple[ChannelTie, ...]:
        """The last axes: the sums have no order."""
        (x, gamma, beta), (y,) = inputs(0, 1, 2), outputs(0)
        factors = (Axis(gamma, 0), Axis(beta, 0))
        return ((channel_axis(x, types[0]), *factors, channel_axis(y, results[0])),)

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Each position by itself."""
        return rows_apart(types, results, "rows")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_layer_norm_s8."""
        channels = types[0].shape[-1]
        params = (
            Param("rows", types[0].elements // channels),
            Param("channels", channels),
            Param("epsilon", self.epsilon),
            Param("epsilon_shift", self.epsilon_shift),
            *_origin_params(self.origin),
            Param("y_zero_point", self.y_zero_point),
        )
        return self.clamping_call("layer_norm", "mct_layer_norm_s8", params, *inputs(0, 1, 2))

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
    number differs by a step: rounding must not make the derivative infinite. gamma_shift: to the
    right, which leaves GAMMA_BITS of gamma; larger ones saturate there.
    """

    gamma_shift: int
    epsilon: int
    epsilon_shift: int
    origin: int | None = None

    @property
    def _epsilon(self) -> int:
        return self.epsilon << self.epsilon_shift

    @property
    def _channel_bits(self) -> int:
        """Return the bits of the number of channels."""
        return (self.shape[-1] - 1).bit_length()

    @property
    def _least_half(self) -> int:
        """Least `half` of any row."""
        return half_bits(((self.shape[-1] - 1) << FRACTION_BITS) + self._epsilon)

    @property
    def _shift(self) -> int:
        """Return the shift to the right where half is 0: no sum has more than ACC_BITS."""
        dtype = self.stage.dtype
        terms = (2 ** GRADIENT_BITS[dtype] - 1) << GAMMA_BITS
        largest = (terms * (math.isqrt(self.shape[-1]) + 4)) << (BACK_ROOT_BITS + 1)
        bits: int = largest.bit_length()
        return max(bits - ACC_BITS[dtype], 0) - self._least_half

    @property
    def unit(self) -> float:
        """What a sum counts, where dy counts 1."""
        of_sums = self._shift + self._channel_bits - BACK_ROOT_BITS + FRACTION_BITS // 2
        return math.ldexp(1.0, self.gamma_shift - PARAMETER_BITS + of_sums)

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """A row of dy is read before its dx is written."""
        return {0: (1,)}

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """As forward; `_shift` follows from it."""
        return (_squares(self.shape[-1], self.origin),)

    def sums(self, dy: Array, *rest: Array) -> Array:
        """Every row by itself; each shift to the right rounds down."""
        x, gamma = rest
        channels, bits = self.shape[-1], self._channel_bits
        stats = statistics(x, self._epsilon, self.origin, channels - 1)
        largest = (1 << GAMMA_BITS) - 1
        gamma = np.clip(gamma.astype(np.int64) >> self.gamma_shift, -largest, largest)
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
        dy, channels = types[1], self.shape[-1]
        params = (
            Param("rows", dy.elements // channels),
            Param("channels", channels),
            Param("channel_bits", self._channel_bits),
            Param("gamma_shift", self.gamma_shift),
            Param("epsilon", self.epsilon),
            Param("epsilon_shift", self.epsilon_shift),
            *_origin_params(self.origin),
            Param("shift", self._shift),
        )
        scratch = channels * ACC_BYTES[dy.dtype]
        name = f"mct_layer_norm_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("layer_norm", name, params, (), scratch)


def shift_of(gamma: Array) -> int:
    """The shift to the right that leaves GAMMA_BITS of a gamma that is known."""
    return max(int(np.abs(gamma.astype(np.int64)).max(initial=0)).bit_length() - GAMMA_BITS, 0)


@dataclass(frozen=True)
class LayerNormGradGamma(ParameterGradientOp):
    """dgamma[c] = sum over rows of dy[c] * n[c], n normalized, GAIN_BITS behind the point.

    dy: [..., c]  x: [..., c]  gamma: [c] int32, or its int16 difference to the model's own.
    """

    epsilon: int
    epsilon_shift: int
    origin: int | None = None

    @property
    def largest_factor(self) -> int:  # type: ignore[override]
        """A number that differs from all others of its row, or all of them from the origin."""
        return (math.isqrt(self.trained[0]) + 1) << GAIN_BITS

    def sums(self, dy: Array, *own: Array) -> Array:
        """Add up row by row; n is rounded half up."""
        (x,) = own
        epsilon, dropped = self.epsilon << self.epsilon_shift, NORMALIZED_BITS - GAIN_BITS
        normalized = statistics(x, epsilon, self.origin).normalized
        n = (normalized + (1 << (dropped - 1))) >> dropped
        sums: Array = (dy.astype(np.int64).reshape(n.shape) * n).sum(axis=0)
        return sums

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Every gradient of a channel by its normalized number, added up."""
        dy, channels = inputs[1], self.trained[0]
        rows = dy.type.elements // channels
        what = f"sums of {rows:,} products of gradients and normalized numbers"
        advice = "train no gamma there, or use a smaller input"
        found = gradient_sums(dy, rows, self.largest_factor, what, advice)
        return (*found, _squares(channels, self.origin))

    def call(self, types: Sequence[TensorType], action: str) -> KernelCall:
        """mct_layer_norm_<action>_gamma[_difference]_<dy>: scratch holds the sums."""
        dy, gamma, channels = types[1], self.named(types).state[0], self.trained[0]
        what = "gamma_difference" if gamma.dtype == "int16" else "gamma"
        params = (
            Param("rows", dy.elements // channels),
            Param("channels", channels),
            Param("epsilon", self.epsilon),
            Param("epsilon_shift", self.epsilon_shift),
            *_origin_params(self.origin),
        )
        scratch = channels * ACC_BYTES[dy.dtype]
        name = f"mct_layer_norm_{action}_{what}_{SUFFIX[dy.dtype]}"
        return KernelCall("layer_norm", name, params, (), scratch)

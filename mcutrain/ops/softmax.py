"""Softmax over the last axis in integers, as TFLite computes it, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Tensor, TensorType
from mcutrain.ir.op import (
    NULL,
    Bound,
    Emit,
    Gradient,
    KernelCall,
    Op,
    Param,
    Rows,
    inputs,
    outputs,
    rows_apart,
)
from mcutrain.ops.bounds import gradient_sums
from mcutrain.ops.gradients import ACC_BYTES, SUFFIX, GradientOp, OutputStage

Array = npt.NDArray[Any]

INTEGER_BITS = 5  # of the scaled differences: exp(-32) is below the output's resolution
SUM_INTEGER_BITS = 12
LARGEST_LEFT_SHIFT = 31
OUTPUT_BITS = 8
"""Bits of a probability in the output: 1 is 256."""
GRADIENT_BITS = 15
"""Bits of a probability in the gradient. 8 are too few: of 200 positions each has about 1/256."""

ADVICE = "leave a softmax behind the head out of the model, or let fewer positions attend"

# exp(-2**k) for k = -2 … 4 in Q0.31 (gemmlowp, exp_on_negative_values).
EXP_OF_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)


def _high_mul(a: Array, b: Array | int) -> Array:
    """a * b / 2**31, rounded (SaturatingRoundingDoublingHighMul)."""
    product: Array = (np.multiply(a, b, dtype=np.int64) + (1 << 30)) >> 31
    return product


def _rounding_shift(x: Array, bits: Array | int) -> Array:
    """x / 2**bits, halves away from zero (RoundingDivideByPOT). bits >= 1."""
    bits = np.asarray(bits, np.int64)
    shifted: Array = (x + (np.int64(1) << (bits - 1)) - (x < 0)) >> bits
    return shifted


def _exp_near_zero(a: Array) -> Array:
    """exp(a) in Q0.31 for a in Q0.31, -1/4 <= a < 0: a Taylor polynomial around -1/8."""
    x = a + (1 << 28)
    x2 = _high_mul(x, x)
    x3 = _high_mul(x2, x)
    x4 = _high_mul(x2, x2)
    quartic = _rounding_shift(_high_mul(_rounding_shift(x4, 2) + x3, 715827883) + x2, 1)
    return 1895147668 + _high_mul(x + quartic, 1895147668)


def exp_on_negative_values(a: Array) -> Array:
    """exp(a) in Q0.31 for a <= 0 in Q5.26."""
    quarter = 1 << (31 - INTEGER_BITS - 2)
    reduced = (a & (quarter - 1)) - quarter
    result = _exp_near_zero(reduced << INTEGER_BITS)
    remainder = reduced - a
    for bit, factor in enumerate(EXP_OF_POWERS):
        is_set = (remainder >> (31 - INTEGER_BITS - 2 + bit)) & 1
        result = np.where(is_set == 1, _high_mul(result, factor), result)
    return np.where(a == 0, 2**31 - 1, result)


def _reciprocal(total: Array) -> tuple[Array, Array]:
    """1 / total, total in Q12.19: (mantissa Q0.31, bits to shift beyond the unit)."""
    headroom = 32 - np.vectorize(int.bit_length, otypes=[np.int64])(total)
    shifted = (total << headroom) - (1 << 31)
    half = shifted + (2**31 - 1)
    half = (half + 1) >> 1
    x = 1515870810 + _high_mul(half, -1010580540)  # 48/17 - 32/17 d, Newton's first guess, Q2.29
    for _ in range(3):
        x = x + (_high_mul(x, (1 << 29) - _high_mul(half, x)) << 2)
    return np.minimum(x << 1, 2**31 - 1), SUM_INTEGER_BITS - headroom


def _diff_min(left_shift: int) -> int:
    """Return the least difference to the largest that counts: 31 in real numbers below it."""
    radius = ((1 << INTEGER_BITS) - 1) * 2.0 ** (31 - INTEGER_BITS) / 2.0**left_shift
    return -math.floor(radius)


@dataclass(frozen=True)
class Softmax(Op):
    """y = exp(beta * scale * (x - max x)) / sum, as int8 of scale 1/256 and zero point -128.

    mult_q31, left_shift: beta * input scale * 2**26 (PreprocessSoftmaxScaling); differences below
    diff_min are 0. x, y: [..., classes]. With an exponent as the second input, the input's scale is
    times 2**exponent; what is not in 0 to exponent_limit counts as the nearest that is.
    """

    mult_q31: int
    left_shift: int
    diff_min: int
    exponent_limit: int = 0

    @staticmethod
    def from_scale(scale: float, beta: float = 1.0) -> Softmax:
        """The operator for an input of this scale."""
        real = min(scale * beta * 2.0 ** (31 - INTEGER_BITS), 2.0**31 - 1)
        mantissa, shift = math.frexp(real)
        mult = math.floor(mantissa * 2**31 + 0.5)
        if mult == 2**31:
            mult, shift = mult // 2, shift + 1
        return Softmax(mult, shift, _diff_min(shift))

    def scaled(self, exponent: int) -> Softmax:
        """The operator for an input of a scale times 2**exponent."""
        shift = self.left_shift + exponent
        return replace(self, left_shift=shift, diff_min=_diff_min(shift))

    @property
    def exponent_room(self) -> int:
        """The largest exponent of the input that the shift has room for."""
        return LARGEST_LEFT_SHIFT - self.left_shift

    def with_input_exponent(self, limit: int) -> Op:
        """Reads the exponent as a second input."""
        return replace(self, exponent_limit=limit)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's shape."""
        if not 0 <= self.left_shift <= LARGEST_LEFT_SHIFT:
            raise ValueError("its input's scale is too small: quantize the model again")
        if len(inputs) > 1 and self.exponent_limit > self.exponent_room:
            room = self.exponent_room
            raise ValueError(f"an exponent of {self.exponent_limit}, there is room for {room}")
        return (TensorType(inputs[0].shape),)

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """The sum of the exponentials, in an unsigned word."""
        classes = inputs[0].type.shape[-1]
        largest = classes << (31 - SUM_INTEGER_BITS)
        return (Bound(f"sums of {classes:,} exponentials", largest, ADVICE, 2**32 - 1),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Every row by itself."""
        if len(inputs) > 1:
            exponent = min(max(int(inputs[1][0]), 0), self.exponent_limit)
            return self.scaled(exponent).reference(inputs[0])
        y = self.probabilities(inputs[0], OUTPUT_BITS)
        return (np.clip(y - 128, -128, 127).astype(np.int8),)

    def probabilities(self, x: Array, bits: int) -> Array:
        """Return probabilities in units of 2**-bits, int64."""
        x = x.astype(np.int64)
        diff = x - x.max(axis=-1, keepdims=True)
        kept = diff >= self.diff_min
        scaled = _high_mul(np.where(kept, diff, 0) << self.left_shift, self.mult_q31)
        exponentials = np.where(kept, exp_on_negative_values(scaled), 0)
        rounded = np.where(kept, _rounding_shift(exponentials, SUM_INTEGER_BITS), 0)
        mantissa, headroom = _reciprocal(rounded.sum(axis=-1, keepdims=True))
        return _rounding_shift(_high_mul(exponentials, mantissa), headroom + 31 - bits)

    def gradient(
        self, emit: Emit, dy: Gradient, inputs: Sequence[Tensor], y: Tensor
    ) -> tuple[Gradient | None, ...]:
        """Gradient of a softmax inside the network (attention); one behind the head belongs to the
        loss.
        """
        x = inputs[0]
        if not emit.wants(x):
            return (None,) * len(inputs)
        factor = self.mult_q31 * 2.0 ** (self.left_shift - 31 - (31 - INTEGER_BITS))
        scale = dy.scale * factor * 2.0 ** (OUTPUT_BITS - GRADIENT_BITS)
        stage = OutputStage((scale,), False, emit.gradient_dtype, emit.salt())
        dx = emit.gradient(SoftmaxGradInput(stage, x.type.shape, self), dy, x.name)
        return (dx, *(None for _ in inputs[1:]))

    def rows(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> Rows | None:
        """Each position by itself."""
        return rows_apart(types, results, "rows")

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_softmax_s8."""
        shape = types[0].shape
        params = (
            Param("rows", types[0].elements // shape[-1]),
            Param("classes", shape[-1]),
            *self.scaling(),
            Param("exponent_limit", self.exponent_limit),
        )
        operands = (*inputs(0), inputs(1)[0] if len(types) > 1 else NULL, *outputs(0))
        return KernelCall("softmax", "mct_softmax_s8", params, operands)

    def scaling(self) -> tuple[Param, ...]:
        """Return what the differences of the inputs are multiplied by, and which are left out."""
        return (
            Param("mult_q31", self.mult_q31),
            Param("left_shift", self.left_shift),
            Param("diff_min", self.diff_min),
        )

    @property
    def is_probability(self) -> bool:
        """Always: the loss takes the logits."""
        return True


@dataclass(frozen=True)
class SoftmaxGradInput(GradientOp):
    """dx[i] = p[i] * (sum(p) * dy[i] - sum(p * dy)) / 2**15 of each row, p in units of 2**-15.

    The probabilities are computed again, from x: those of the output have 8 bits. Rounded ones
    need not add up to 1, so that their own sum stands for it: a number added to a whole row of dy
    changes nothing. dy, x, dx: [..., classes]
    """

    softmax: Softmax

    @property
    def may_overwrite(self) -> dict[int, tuple[int, ...]]:
        """Both sums of a row are known before its first element is written."""
        return {0: (1,)}

    def bounds(self, inputs: Sequence[Tensor]) -> tuple[Bound, ...]:
        """Bounds of the softmax, and of the difference of two sums over the row."""
        dy = inputs[1]
        most = (1 << GRADIENT_BITS) + self.shape[-1]  # each probability is rounded by less than 1
        sums = gradient_sums(dy, most, 2, "differences of two sums of gradients", ADVICE)
        return (*self.softmax.bounds([replace(dy, type=TensorType(self.shape))]), *sums)

    def sums(self, dy: Array, *rest: Array) -> Array:
        """Row by row."""
        gradients = dy.reshape(self.shape).astype(np.int64)
        p = self.softmax.probabilities(rest[0].reshape(self.shape), GRADIENT_BITS)
        total, weighted = (v.sum(axis=-1, keepdims=True) for v in (p, p * gradients))
        half = 1 << (GRADIENT_BITS - 1)
        sums: Array = (p * (total * gradients - weighted) + half) >> GRADIENT_BITS
        return sums

    def call(self, types: Sequence[TensorType]) -> KernelCall:
        """mct_softmax_grad_input_<dy>: scratch holds one row."""
        dy, classes = types[1], self.shape[-1]
        params = (
            Param("rows", dy.elements // classes),
            Param("classes", classes),
            *self.softmax.scaling(),
        )
        name = f"mct_softmax_grad_input_{SUFFIX[dy.dtype]}"
        return KernelCall("softmax", name, params, (), classes * ACC_BYTES[dy.dtype])

"""Loss of independent sigmoids, each of which says yes or no by itself, in fixed point."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data import IGNORED
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall, Param, inputs, outputs
from mcutrain.ops.gradients import EXPONENT, SUFFIX
from mcutrain.ops.loss import OutputRange, largest_weight_q16, weights_q15
from mcutrain.ops.softmax_cross_entropy import (
    LN2_Q16,
    SoftmaxCrossEntropy,
    exp2_negative_q30,
    log2_q16,
)

Array = npt.NDArray[Any]

MAX_NUMBERS = 2**31 - 1
"""Limit of outputs: an index counts them."""


@dataclass(frozen=True)
class SigmoidCrossEntropy(SoftmaxCrossEntropy):
    """The sum over the outputs of -ln p where the label is 1, -ln(1 - p) where it is 0.

    p = sigmoid(sum * scale). Of outputs at several positions it is the sum at one, in the mean.
    Inputs: step, sums int32 [..., channels], labels uint8, exponent. Outputs: gradient (dtype),
    exponent, the loss in nats as Q16 [1], and how many labels are right [1]: 1 and the sum above 0,
    or 0 and it is not. Labels that are IGNORED have a gradient of 0 and are in neither. shape: of a
    sample's labels, which are as many as the sums. channels: sums at a position. weights: factors
    on the loss of each channel, a pair for label 0 and label 1, one pair after the other; empty: 1
    throughout. smoothing: the label t counts as t * (1 - smoothing) + smoothing / 2. The output
    keeps its scale, as of BinaryCrossEntropy.
    """

    shape: tuple[int, ...] = (1,)
    channels: int = 1
    weights: tuple[float, ...] = ()
    smoothing: float = 0.0

    @staticmethod
    def of(
        shape: tuple[int, ...],
        channels: int,
        weights: tuple[float, ...] = (),
        smoothing: float = 0.0,
    ) -> Callable[[tuple[float, ...], str, bool, int], SigmoidCrossEntropy]:
        """Return what makes the loss of a network with such labels, as autodiff asks for it."""
        return partial(_made, shape, channels, weights, smoothing)

    @property
    def label_type(self) -> TensorType:
        """A byte for each output."""
        return TensorType((1, *self.shape), "uint8")

    def followed_by(self, outputs: OutputRange) -> SigmoidCrossEntropy:
        """It has no use for that."""
        return self

    def classes(self, logits: int) -> int:
        """Each output tells two apart."""
        return 2

    def guessing(self, logits: int) -> float:
        """A bit of each output, of the largest weight."""
        return logits * math.log(2) * max(self.weights, default=1.0)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A gradient per sum."""
        sums = inputs[1]
        if math.prod(self.shape) != sums.elements or sums.shape[-1] != self.channels:
            raise ValueError(f"outputs {sums.shape} with labels of {self.shape}")
        if sums.elements > MAX_NUMBERS:
            raise ValueError(f"{sums.elements:,} outputs are more than {MAX_NUMBERS:,}")
        if len(self.scale) not in (1, self.channels):
            raise ValueError(f"outputs {sums.shape} with {len(self.scale)} scales")
        if len(self.weights) not in (0, 2 * self.channels):
            raise ValueError(f"{self.channels} sigmoids with {len(self.weights)} weights")
        scalar = TensorType((1,), "int32")
        return TensorType(sums.shape, self.dtype), EXPONENT, scalar, scalar

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Each output as BinaryCrossEntropy has it; one exponent for all."""
        step, sums, labels, _ = inputs
        logits = self._logits(sums.reshape(-1, self.channels))
        flat = labels.reshape(logits.shape).astype(np.int64)
        counted = flat != IGNORED
        is_one = np.where(counted, flat, 0)
        pairs = np.array(weights_q15(self.weights, 2 * self.channels)).reshape(self.channels, 2)
        weight = pairs[np.arange(self.channels), is_one]
        error, nats = self._smoothed(logits, is_one)
        error = np.where(counted, (error * weight) >> 15, 0)
        total = int(((nats * weight) >> 15)[counted].sum())
        mean = min(total // len(logits), 2**31 - 1)
        loss = min((mean * largest_weight_q16(self.weights)) >> 16, 2**31 - 1)
        right = int(((logits > 0) == is_one)[counted].sum())
        gradient, exponent = self._quantize(error, step)
        gradient[~counted] = 0
        return (
            gradient.reshape(sums.shape),
            exponent,
            np.array([loss], np.int32),
            np.array([right], np.int32),
        )

    def _smoothed(self, logits: Array, is_one: Array) -> tuple[Array, Array]:
        """p - label in Q30, and losses in nats as Q16."""
        top = np.maximum(logits, 0)
        zero, one = exp2_negative_q30(top), exp2_negative_q30(top - logits)
        total = zero + one
        half = self._half_smoothing_q30
        sign = 2 * is_one - 1
        error: Array = (one << 30) // total - (is_one << 30) + sign * half
        bits = np.array([log2_q16(t) for t in total.ravel().tolist()]).reshape(total.shape)
        bits = bits - (30 << 16) + top - logits * is_one
        of_label = np.clip((bits * LN2_Q16) >> 16, 0, 2**31 - 1)  # rounding may go below 0
        other = (((sign * logits * LN2_Q16) >> 16) * half) >> 30
        return error, np.clip(of_label + other, 0, 2**31 - 1)

    @property
    def _half_smoothing_q30(self) -> int:
        return round(self.smoothing * 2**29)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_sigmoid_cross_entropy_<gradient>, without scratch."""
        params = (
            *(replace(p, name=f"output.{p.name}") for p in self._params(types)),
            Param("positions", types[1].elements // self.channels),
            Param("weight_q15", weights_q15(self.weights, 2 * self.channels), "const int32_t *"),
            Param("largest_weight_q16", largest_weight_q16(self.weights)),
            Param("half_smoothing_q30", self._half_smoothing_q30),
        )
        name = f"mct_sigmoid_cross_entropy_{SUFFIX[self.dtype]}"
        operands = (*inputs(0, 1, 2, 3), *outputs(0, 2, 3))
        return KernelCall("softmax_cross_entropy", name, params, operands)

    @property
    def gradient_scale(self) -> float:
        """The largest weight and the mean over the positions are constants, in no integer."""
        positions = math.prod(self.shape) // self.channels
        return max(self.scale) * max(self.weights, default=1.0) / positions


def _made(
    shape: tuple[int, ...],
    channels: int,
    weights: tuple[float, ...],
    smoothing: float,
    scale: tuple[float, ...],
    dtype: str,
    exact: bool,
    salt: int,
) -> SigmoidCrossEntropy:
    return SigmoidCrossEntropy(
        scale,
        dtype,
        exact,
        salt,
        shape=shape,
        channels=channels,
        weights=weights,
        smoothing=smoothing,
    )

"""Loss of a classifier whose classes weigh differently, or whose labels are smoothed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall, Param
from mcutrain.ops.loss import OutputRange, largest_weight_q16, weights_q15
from mcutrain.ops.softmax_cross_entropy import LN2_Q16, SoftmaxCrossEntropy

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class WeightedCrossEntropy(SoftmaxCrossEntropy):
    """The cross-entropy of smoothed labels, times a weight of the label's class.

    A label counts as onehot * (1 - smoothing) + smoothing / classes. Inputs and outputs are as of
    SoftmaxCrossEntropy, or of BinaryCrossEntropy. weights: of each class; none is 1 throughout.
    pair: whether there is one sum z for two classes, the second of the softmax of (0, z); the
    output keeps its scale then.
    """

    weights: tuple[float, ...] = ()
    smoothing: float = 0.0
    pair: bool = False

    @staticmethod
    def of(
        weights: tuple[float, ...], smoothing: float, pair: bool = False
    ) -> Callable[[tuple[float, ...], str, bool, int], WeightedCrossEntropy]:
        """Return what makes such a loss, as autodiff asks for it."""
        return partial(_made, weights, smoothing, pair)

    def followed_by(self, outputs: OutputRange) -> SoftmaxCrossEntropy:
        """A pair has no use for that."""
        return self if self.pair else super().followed_by(outputs)

    def classes(self, logits: int) -> int:
        """Two of a pair."""
        return 2 if self.pair else logits

    def guessing(self, logits: int) -> float:
        """The loss of guessing where the label is the class that weighs most."""
        return super().guessing(logits) * max(self.weights, default=1.0)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A gradient per sum."""
        found = super().infer(*inputs)
        sums = inputs[1].elements
        if self.pair and sums != 1:
            raise ValueError(f"cross-entropy of a sigmoid takes one number, not {sums:,}")
        if len(self.weights) not in (0, sums + self.pair):
            raise ValueError(f"{sums + self.pair} classes with {len(self.weights)} weights")
        return found

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Softmax in Q30, less the smoothed label, times the weight."""
        step, sums, label, _, *followed = inputs
        own = self._logits(sums.ravel())
        logits = np.append(np.zeros(1, np.int64), own) if self.pair else own
        error, loss = self._weighted(logits, int(label[0]))
        gradient, exponent = self._quantize(error[int(self.pair) :], step)
        return (
            gradient.reshape(sums.shape),
            exponent,
            np.array([loss], np.int32),
            np.array([logits.argmax()], np.int32),
            *(self._followed(state, logits[np.newaxis], step) for state in followed),
        )

    def _weighted(self, logits: Array, label: int) -> tuple[Array, int]:
        """Weighted errors in Q30, and the loss in nats as Q16."""
        count, smoothing = len(logits), self._smoothing_q30
        above = count * int(logits[label]) - int(logits.sum())
        over_mean = abs(above) // count * (1 if above >= 0 else -1)  # as C divides
        error, of_label = self._error(logits, label)
        others = (((over_mean * LN2_Q16) >> 16) * smoothing) >> 30
        nats = min(max(of_label + others, 0), 2**31 - 1)
        weight = weights_q15(self.weights, count)[label]
        error[label] += smoothing
        weighted: Array = ((error - smoothing // count) * weight) >> 15
        loss = (((nats * weight) >> 15) * largest_weight_q16(self.weights)) >> 16
        return weighted, min(loss, 2**31 - 1)

    @property
    def _smoothing_q30(self) -> int:
        return round(self.smoothing * 2**30)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_weighted_cross_entropy_<gradient>: scratch holds the logits, and a pair's 0."""
        count = types[1].elements + self.pair
        params = (
            *(replace(p, name=f"sample.{p.name}") for p in self._params(types)),
            Param("weight_q15", weights_q15(self.weights, count), "const int32_t *"),
            Param("largest_weight_q16", largest_weight_q16(self.weights)),
            Param("smoothing_q30", self._smoothing_q30),
            Param("pair", int(self.pair)),
        )
        call = self._call("mct_weighted_cross_entropy", types, params)
        return replace(call, scratch_bytes=4 * count)

    @property
    def gradient_scale(self) -> float:
        """The largest weight is a constant, too."""
        return max(self.scale) * max(self.weights, default=1.0)


def _made(
    weights: tuple[float, ...],
    smoothing: float,
    pair: bool,
    scale: tuple[float, ...],
    dtype: str,
    exact: bool,
    salt: int,
) -> WeightedCrossEntropy:
    return WeightedCrossEntropy(
        scale, dtype, exact, salt, weights=weights, smoothing=smoothing, pair=pair
    )

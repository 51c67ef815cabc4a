"""What loss operators share: where a training step turns from forward to backward."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import Op, Param
from mcutrain.ops.conv_2d import LEAST_SHIFT, Requantize

LARGEST_EXPONENT = 15
"""Largest exponent of outputs. 2**15 times the range is beyond what any logit needs."""


@dataclass(frozen=True)
class OutputRange:
    """How far from 0 the int8 outputs of a classifier reach while their exponent is 0.

    high_q16, low_q16: above and below, as logits * log2(e) in Q16. exponent_limit: the outputs'
    scale is its own times 2**exponent, 0 <= exponent <= exponent_limit.
    """

    high_q16: int
    low_q16: int
    exponent_limit: int

    @staticmethod
    def of(y: TensorType, stage: Requantize, exponent_limit: int) -> OutputRange | None:
        """Return the range of a head's output; None if its scale must stay as it is.

        An activation's limits (a ReLU6) are real numbers, which another scale would move; and sums
        that are multiplied by more than 1 may overflow without the layer's own check.
        """
        used = [s for m, s in zip(stage.mult_q31, stage.shift, strict=True) if m]
        limit = min([exponent_limit, *(s - LEAST_SHIFT for s in used)])
        step_q16 = y.scale * float(np.log2(np.e)) * 65536
        high, low = (math.floor(n * step_q16) for n in (127 - y.zero_point, y.zero_point + 128))
        is_free = (stage.low, stage.high) == (-128, 127)
        if (
            not is_free
            or limit <= 0
            or max(used, default=0) > 0
            or not 0 < high < 2**31
            or not 0 <= low < 2**31
        ):
            return None
        return OutputRange(high, low, limit)

    def exponent_for(self, high_q16: float, low_q16: float) -> int:
        """The least with which outputs reach so far above and below 0."""
        needed = 0
        while needed < self.exponent_limit and (
            high_q16 > self.high_q16 << needed or low_q16 > self.low_q16 << needed
        ):
            needed += 1
        return needed

    def params(self) -> tuple[Param, ...]:
        """The fields of `mct_output_range` in mct_softmax_cross_entropy.h."""
        return (
            Param("output.high_q16", self.high_q16),
            Param("output.low_q16", self.low_q16),
            Param("output.exponent_limit", self.exponent_limit),
        )


MOST_APART = 2**15
"""Times a weight that a loss is multiplied by, the largest one at most."""


def weights_q15(weights: Sequence[float], count: int) -> tuple[int, ...]:
    """So many weights as shares of the largest, 0 to 2^15; none is 1 throughout."""
    largest = max(weights, default=1.0)
    return tuple(round(w / largest * MOST_APART) for w in weights or (1.0,) * count)


def largest_weight_q16(weights: Sequence[float]) -> int:
    """The largest weight, by which a loss is multiplied besides."""
    return max(1, round(max(weights, default=1.0) * 2**16))


class LossOp(Op):
    """A loss of the last layer's sums, and its gradient by them.

    Inputs: step, sums int32, target, exponent. Outputs: gradient, exponent, loss as Q16 int32 [1],
    prediction int32 [1]. The target is the label, of `label_type`, unless `target_is_input`. A loss
    that the outputs follow has one exponent more, of the outputs, as its last input and output.
    """

    @property
    def gradient_scale(self) -> float:
        """The constant in derivative = gradient * 2**exponent * gradient_scale."""
        raise NotImplementedError

    @property
    def label_type(self) -> TensorType:
        """Type of a sample's label: a class number, or a byte for each position, which lies in the
        arena.
        """
        return TensorType((1,), "int32")

    def classes(self, logits: int) -> int:
        """Return how many labels there are where the last layer gives so many numbers for one."""
        return logits

    def guessing(self, logits: int) -> float:
        """Nats of a network that knows nothing, with so many numbers at a position; at most."""
        return math.log(self.classes(logits))

    @property
    def target_is_input(self) -> bool:
        """Whether the target is the network's own input, so that there are no labels."""
        return False

    def followed_by(self, outputs: OutputRange) -> LossOp:
        """Return the loss that also chooses the outputs' exponent; self if it has no use for it.

        Then `is_followed`.
        """
        return self

    @property
    def output_range(self) -> OutputRange | None:
        """How far the outputs reach that follow the logits; None where they do not."""
        return None

    @property
    def is_followed(self) -> bool:
        """Whether it chooses the outputs' exponent."""
        return False

    @property
    def has_teacher(self) -> bool:
        """Whether the sums of the classifier as it is in flash are its last input."""
        return False

    @property
    def updates(self) -> dict[int, int]:
        """The exponents are updated where they lie."""
        return {1: 3, 4: 4} if self.is_followed else {1: 3}

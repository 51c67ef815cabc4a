"""Loss of a network with one output, a sigmoid, from its int32 sum in fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall, inputs, outputs
from mcutrain.ops.gradients import EXPONENT, SUFFIX
from mcutrain.ops.loss import OutputRange
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BinaryCrossEntropy(SoftmaxCrossEntropy):
    """loss = -ln p of class 1, -ln(1 - p) of class 0; p = sigmoid(z); its gradient: p - label.

    Inputs: step, sums int32 of one element, label int32 [1], exponent. Outputs: gradient (dtype),
    exponent, loss in nats as Q16 [1], the class: 1 where z > 0.
    These are the softmax of (0, z), of which the second is the gradient. The output keeps its
    scale: where it clips, its sign is right.
    """

    def followed_by(self, outputs: OutputRange) -> BinaryCrossEntropy:
        """It has no use for that."""
        return self

    def classes(self, logits: int) -> int:
        """Always two."""
        return 2

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A gradient of the one sum."""
        sums = inputs[1]
        if sums.elements != 1 or len(self.scale) != 1:
            raise ValueError(f"cross-entropy of a sigmoid takes one number, not {sums.elements:,}")
        scalar = TensorType((1,), "int32")
        return TensorType(sums.shape, self.dtype), EXPONENT, scalar, scalar

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Softmax of (0, z) in Q30, then the gradient in the chosen format."""
        step, sums, label, _ = inputs
        logits = np.append(np.zeros(1, np.int64), self._logits(sums.ravel()))
        error, loss = self._error(logits, int(label[0]))
        gradient, exponent = self._quantize(error[1:], step)
        return (
            gradient.reshape(sums.shape),
            exponent,
            np.array([loss], np.int32),
            np.array([logits.argmax()], np.int32),
        )

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_binary_cross_entropy_<gradient>."""
        name = f"mct_binary_cross_entropy_{SUFFIX[self.dtype]}"
        operands = (*inputs(0, 1, 2, 3), *outputs(0, 2, 3))
        return KernelCall("softmax_cross_entropy", name, self._params(types), operands)

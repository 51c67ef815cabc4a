"""Loss of a classifier that keeps the answers of its classifier in flash, in fixed point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import NULL, SCRATCH, KernelCall, Param, inputs, outputs
from mcutrain.ops.gradients import SUFFIX
from mcutrain.ops.softmax_cross_entropy import (
    LN2_Q16,
    SoftmaxCrossEntropy,
    exp2_negative_q30,
    log2_q16,
)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class DistilledCrossEntropy(SoftmaxCrossEntropy):
    """(1 - share) times the label's cross-entropy, and share times the distance to a teacher.

    The distance is 2 KL(q || p) over the first `known` classes. p is the softmax of half the
    logits, q that of half the teacher's: distillation at a temperature of 2 (Z. Li and D. Hoiem,
    Learning without Forgetting, ECCV 2016). Its gradient is p - q, no larger than the label's.
    Inputs and outputs are as of SoftmaxCrossEntropy; the teacher's sums, int32 of the same shape
    and scales, are the last input.
    """

    share: float = 0.5
    known: int = 1

    @staticmethod
    def of(
        share: float, known: int
    ) -> Callable[[tuple[float, ...], str, bool, int], DistilledCrossEntropy]:
        """Return what makes such a loss, as autodiff asks for it."""
        return partial(_made, share, known)

    @property
    def has_teacher(self) -> bool:
        """Its sums are the last input."""
        return True

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A gradient per sum."""
        if inputs[-1] != inputs[1] or not 1 <= self.known <= inputs[1].elements:
            raise ValueError(
                f"sums {inputs[1].shape} with {self.known} classes of a teacher {inputs[-1].shape}"
            )
        return super().infer(*inputs[:-1])

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Both gradients in Q30, then their mean in the chosen format."""
        step, sums, label, _, *followed, taught = inputs
        logits, teacher = self._logits(sums.ravel()), self._logits(taught.ravel())
        of_label, nats = self._error(logits, int(label[0]))
        error, apart = self._apart(logits[: self.known] >> 1, teacher[: self.known] >> 1)
        keep, share = (1 << 30) - self._share_q30, self._share_q30
        mixed = of_label * keep
        mixed[: self.known] += error * share
        gradient, exponent = self._quantize(mixed >> 30, step)
        return (
            gradient.reshape(sums.shape),
            exponent,
            np.array([(nats * keep + apart * share) >> 30], np.int32),
            np.array([logits.argmax()], np.int32),
            *(self._followed(state, logits[np.newaxis], step) for state in followed),
        )

    def _apart(self, logits: Array, teacher: Array) -> tuple[Array, int]:
        """p - q in Q30, and 2 KL(q || p) in nats as Q16."""
        below, of_teacher = logits.max() - logits, teacher.max() - teacher
        powers, q = exp2_negative_q30(below), exp2_negative_q30(of_teacher)
        total, of_all = int(powers.sum()), int(q.sum())
        p, q = (powers << 30) // total, (q << 30) // of_all
        more = int((q * (below - of_teacher)).sum()) >> 30
        nats = ((log2_q16(total) - log2_q16(of_all) + more) * 2 * LN2_Q16) >> 16
        found: Array = p - q
        return found, min(max(nats, 0), 2**31 - 1)

    @property
    def _share_q30(self) -> int:
        return round(self.share * 2**30)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_distilled_cross_entropy_<gradient>: scratch holds logits, and p and q."""
        params = (
            *(replace(p, name=f"sample.{p.name}") for p in self._params(types)),
            Param("known", self.known),
            Param("share_q30", self._share_q30),
        )
        taught = len(types) - 1
        followed = inputs(4) if self.is_followed else (NULL,)
        operands = (*inputs(0, 1, taught, 2, 3), *outputs(0, 2, 3), *followed, SCRATCH)
        name = f"mct_distilled_cross_entropy_{SUFFIX[self.dtype]}"
        scratch_bytes = 4 * (types[1].elements + 2 * self.known)
        return KernelCall("softmax_cross_entropy", name, params, operands, scratch_bytes)


def _made(
    share: float, known: int, scale: tuple[float, ...], dtype: str, exact: bool, salt: int
) -> DistilledCrossEntropy:
    return DistilledCrossEntropy(scale, dtype, exact, salt, share=share, known=known)

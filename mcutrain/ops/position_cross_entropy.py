"""Cross-entropy at each of many positions, for pixels and sequences, in fixed point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data import IGNORED
from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import KernelCall, Param
from mcutrain.ops.gradients import EXPONENT
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy

Array = npt.NDArray[Any]

MAX_NUMBERS = 2**31 - 1
"""Limit of positions times classes: an index counts them."""


@dataclass(frozen=True)
class PositionCrossEntropy(SoftmaxCrossEntropy):
    """The gradient of the mean over all positions of -ln softmax(logits)[label].

    Inputs: step, sums int32 [..., classes], labels uint8 [...], exponent. Outputs: gradient
    (dtype), exponent, the loss in nats as Q16 [1], and how many positions have their largest logit
    at their label [1]. Positions whose label is IGNORED have a gradient of 0, and are in neither:
    the loss is the mean over the others. So each labelled position weighs alike in every sample.
    positions: the shape of the labels. The other fields and the outputs' exponent are as of
    SoftmaxCrossEntropy, where `exact` is of the largest error at any position.
    """

    positions: tuple[int, ...] = (1,)

    @staticmethod
    def of(
        positions: tuple[int, ...],
    ) -> Callable[[tuple[float, ...], str, bool, int], PositionCrossEntropy]:
        """Return what makes the loss of a network with these positions, as autodiff asks for it."""
        return partial(_made, positions)

    @property
    def label_type(self) -> TensorType:
        """A byte for each position."""
        return TensorType(self.positions, "uint8")

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A gradient per sum."""
        sums = inputs[1]
        if sums.shape[:-1] != self.positions:
            raise ValueError(f"logits {sums.shape} with labels of {self.positions}")
        if sums.shape[-1] > IGNORED:
            raise ValueError(
                f"cross-entropy at each position is of {IGNORED} classes at most, as labels are "
                f"bytes and {IGNORED} marks what is ignored, but this layer has {sums.shape[-1]}"
            )
        if sums.elements > MAX_NUMBERS:
            raise ValueError(f"{sums.elements:,} outputs are more than {MAX_NUMBERS:,}")
        if len(self.scale) not in (1, sums.shape[-1]):
            raise ValueError(f"logits {sums.shape} with {len(self.scale)} scales")
        scalar = TensorType((1,), "int32")
        followed = (EXPONENT,) if self.is_followed else ()
        return TensorType(sums.shape, self.dtype), EXPONENT, scalar, scalar, *followed

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Each position as SoftmaxCrossEntropy has it; one exponent for all."""
        step, sums, labels, _, *followed = inputs
        logits = self._logits(sums.reshape(-1, sums.shape[-1]))
        flat = labels.ravel()
        counted = np.flatnonzero(flat != IGNORED)
        errors, losses = np.zeros(logits.shape, np.int64), 0
        for n in counted.tolist():
            errors[n], loss = self._error(logits[n], int(flat[n]))
            losses += loss
        gradient, exponent = self._quantize(errors, step)
        gradient[flat == IGNORED] = 0
        right = int((logits.argmax(axis=1) == flat)[counted].sum())
        return (
            gradient.reshape(sums.shape),
            exponent,
            np.array([losses // max(len(counted), 1)], np.int32),
            np.array([right], np.int32),
            *(self._followed(state, logits, step) for state in followed),
        )

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_position_cross_entropy_<gradient>: scratch holds the errors of one position."""
        own = (replace(p, name=f"position.{p.name}") for p in self._params(types))
        count = Param("positions", types[2].elements)
        return self._call("mct_position_cross_entropy", types, (*own, count))

    @property
    def gradient_scale(self) -> float:
        """The mean over the positions, ignored ones too, is a constant: it is in no integer."""
        return max(self.scale) / self.label_type.elements


def _made(
    positions: tuple[int, ...], scale: tuple[float, ...], dtype: str, exact: bool, salt: int
) -> PositionCrossEntropy:
    return PositionCrossEntropy(scale, dtype, exact, salt, positions=positions)

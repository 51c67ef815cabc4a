"""What a step of several outputs has besides: their row, each one's labels, the sum of losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import NULL, KernelCall, Op, Param, inputs, outputs
from mcutrain.ops.concatenation import MOST_INPUTS, Concatenation

Array = npt.NDArray[Any]

MOST_OUTPUTS = MOST_INPUTS
"""Outputs that are trained together."""
MOST_WEIGHT = 100.0
"""Largest weight of a loss: its Q24 is an int32."""
PARTS = ("int16", "int32", "uint8")
"""Types of a part of the labels."""


@dataclass(frozen=True)
class OutputRow(Concatenation):
    """y = the numbers of all inputs one after another, int8 [1, n], each in its own quantization.

    The one output of a network that has several. A row of several is no tensor that a layer may
    read, so it has no gradient: losses read the sums of each output's own layer.
    """

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """One row."""
        if not 2 <= len(inputs) <= MOST_OUTPUTS:
            raise ValueError(f"{len(inputs)} outputs in a row; 2 to {MOST_OUTPUTS} can be")
        return (TensorType((1, sum(x.elements for x in inputs))),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One after another; the batch stays."""
        return (np.concatenate([x.reshape(len(x), -1) for x in inputs], axis=1),)


@dataclass(frozen=True)
class LabelPart(Op):
    """y = so many of a row's labels, from `first` on, as another type.

    Inputs: labels int16 [1, n]. dtype: int32 of a class, uint8 of labels of positions, or int16. A
    label that the type cannot hold loses its upper bits.
    """

    first: int
    shape: tuple[int, ...]
    dtype: str

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Return the wanted type. Raises ValueError where the input has no such part."""
        found = TensorType(self.shape, self.dtype)
        if self.dtype not in PARTS or self.first + found.elements > inputs[0].elements:
            raise ValueError(f"{self} of {inputs[0].elements} labels")
        return (found,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Cut out."""
        count = int(np.prod(self.shape))
        part = inputs[0].ravel()[self.first : self.first + count]
        return (part.astype(self.dtype).reshape(self.shape),)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_label_part_<dtype>."""
        params = (Param("first", self.first), Param("count", results[0].elements))
        name = f"mct_label_part_{self.dtype.replace('uint', 'u').replace('int', 's')}"
        return KernelCall("several", name, params, (*inputs(0), *outputs(0)))


@dataclass(frozen=True)
class LossSum(Op):
    """loss = sum of weights[i] * loss i, Q16, at most 32767; the prediction of loss `says`.

    Inputs: each loss [1] and its prediction [1] in turn. weights: 0 to MOST_WEIGHT, in the unit of
    the sum. says: -1 where no output has a class for the sample; then the prediction is 0.
    """

    weights: tuple[float, ...]
    says: int

    @property
    def weights_q24(self) -> tuple[int, ...]:
        """As integers."""
        return tuple(round(w * 2**24) for w in self.weights)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Two numbers."""
        if len(inputs) != 2 * len(self.weights) or not 1 <= len(self.weights) <= MOST_OUTPUTS:
            raise ValueError(f"{len(inputs)} inputs, {len(self.weights)} weights")
        if not all(0 <= w <= MOST_WEIGHT for w in self.weights):
            raise ValueError(f"a weight of {self.weights} is not in 0 to {MOST_WEIGHT:g}")
        scalar = TensorType((1,), "int32")
        return scalar, scalar

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Each product rounded down, then added up."""
        losses = zip(inputs[::2], self.weights_q24, strict=True)
        total = sum((int(loss[0]) * weight) >> 24 for loss, weight in losses)
        prediction = 0 if self.says < 0 else int(inputs[2 * self.says + 1][0])
        return np.array([min(total, 2**31 - 1)], np.int32), np.array([prediction], np.int32)

    def kernel(self, types: Sequence[TensorType], results: Sequence[TensorType]) -> KernelCall:
        """mct_loss_sum_s32: NULL for the losses that are not there."""
        count = len(self.weights)
        params = (
            Param("count", count),
            Param("weight_q24", self.weights_q24, "const int32_t *"),
        )
        losses = inputs(*range(0, 2 * count, 2))
        said = inputs(2 * self.says + 1) if self.says >= 0 else (NULL,)
        operands = (*losses, *(NULL,) * (MOST_OUTPUTS - count), *said, *outputs(0, 1))
        return KernelCall("several", "mct_loss_sum_s32", params, operands)

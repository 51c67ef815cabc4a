"""The float product of two computed matrices, as both products of an attention are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.batch_matmul import product_shape
from mcutrain.quant import multipliers
from mcutrain.quant.float_op import FloatOp, Quantization, Shape

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class FloatBatchMatMul(FloatOp):
    """a @ b of the last two axes. a: [n, …, m, k]  b: [n, …, k, n]; transposed: stored otherwise.

    As BatchMatMul, whose axes it has.
    """

    transposed_a: bool = False
    transposed_b: bool = False

    def shape(self, *x: Shape) -> Shape:
        """Rows of a, columns of b."""
        return product_shape(x[0], x[1], self.transposed_a, self.transposed_b)

    def run(self, *x: Array) -> Array:
        """Matrix by matrix."""
        a = x[0].swapaxes(-1, -2) if self.transposed_a else x[0]
        b = x[1].swapaxes(-1, -2) if self.transposed_b else x[1]
        return np.asarray(a @ b, np.float32)

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """TFLite's BATCH_MATMUL."""
        a, b = map(Quantization.of, x)
        return multipliers.batch_matmul(a, b, y, (self.transposed_a, self.transposed_b))

    has_other_factors: ClassVar[bool] = True

"""Layer normalization of a float network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.layer_norm import LayerNorm
from mcutrain.quant.float_op import ClampingFloatOp, Quantization, Shape

if TYPE_CHECKING:
    from mcutrain.quant.emit import Emitter
    from mcutrain.quant.float_graph import FloatNode

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class FloatLayerNorm(ClampingFloatOp):
    """y = clamp(gamma * (x - mean) / sqrt(variance + epsilon) + beta), over the last axis.

    gamma, beta: one number each per channel. is_centred: otherwise 0 stands for the mean, so that
    the root is of the mean square.
    """

    gamma: Array
    beta: Array
    epsilon: float
    is_centred: bool = True

    has_other_factors: ClassVar[bool] = True  # what it divides by follows from x

    def then(self, factor: Array, shift: Array) -> FloatLayerNorm:
        """Factors and shifts per channel of its output, before the activation."""
        return replace(self, gamma=self.gamma * factor, beta=self.beta * factor + shift)

    def shape(self, *x: Shape) -> Shape:
        """The input's."""
        if len(x[0]) < 2 or not x[0][-1] == len(self.gamma) == len(self.beta):
            raise ValueError(f"{len(self.gamma)} factors for the channels of {x[0]}")
        return x[0]

    def run(self, *x: Array) -> Array:
        """Compute it in float32, the mean first."""
        centred = x[0] - x[0].mean(axis=-1, keepdims=True) if self.is_centred else x[0]
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        normalized = centred / np.sqrt(variance + np.float32(self.epsilon))
        y = normalized * self.gamma.astype(np.float32) + self.beta.astype(np.float32)
        return np.asarray(np.clip(y, np.float32(self.low), np.float32(self.high)))

    def int8(self, x: Sequence[TensorType], y: Quantization) -> Op:
        """LayerNorm."""
        gamma, beta = (v.astype(np.float32).astype(np.float64) for v in (self.gamma, self.beta))
        epsilon = float(np.float32(self.epsilon))
        op = LayerNorm.from_real(gamma, beta, epsilon, x[0].scale, (y.scale, y.zero_point))
        return op if self.is_centred else replace(op, origin=x[0].zero_point)

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """Emit the operator with its activation."""
        emitter.computed(node, emitter.limits(node))

    def macs(self, y: Shape) -> int:
        """Squares, and factors."""
        return 2 * math.prod(y)

    def scratch(self, *x: Shape) -> int:
        """Return what is centred, and normalized."""
        return 2 * math.prod(x[0])

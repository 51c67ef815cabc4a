"""Layer normalization of a float network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import TensorType
from mcutrain.ir.op import Op
from mcutrain.ops.layer_norm import Factors, LayerNorm, factors_scale
from mcutrain.quant.float_op import ClampingFloatOp, NamedData, Quantization, Shape

if TYPE_CHECKING:
    from mcutrain.quant.emit import Emitter
    from mcutrain.quant.float_graph import FloatNode

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class FloatLayerNorm(ClampingFloatOp):
    """y = clamp(gamma * (x - mean) / sqrt(variance + epsilon) + beta), over the last axis.

    gamma, beta: one number each per channel. is_centred: otherwise 0 stands for the mean, so that
    the root is of the mean square. is_affine: gamma and beta are parameters, which can be trained;
    else they are what follows from how the model computes.
    """

    gamma: Array
    beta: Array
    epsilon: float
    is_centred: bool = True
    is_affine: bool = True

    has_other_factors: ClassVar[bool] = True  # what it divides by follows from x

    def then(self, factor: Array, shift: Array) -> FloatLayerNorm:
        """Factors and shifts per channel of its output, before the activation."""
        is_affine = self.is_affine or bool(np.ptp(factor) or np.ptp(shift))
        gamma, beta = self.gamma * factor, self.beta * factor + shift
        return replace(self, gamma=gamma, beta=beta, is_affine=is_affine)

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
        self._factors(y)  # or a sentence
        epsilon = float(np.float32(self.epsilon))
        op = LayerNorm.from_real(len(self.gamma), epsilon, x[0].scale, y.zero_point)
        origin = None if self.is_centred else x[0].zero_point
        return replace(op, origin=origin, is_affine=self.is_affine)

    def parameters(self, x: Sequence[TensorType], y: Quantization) -> Sequence[NamedData]:
        """Gamma and beta."""
        scales = (factors_scale(y.scale),)
        return [
            (name, TensorType(data.shape, "int32", scales), data)
            for name, data in self._factors(y)._asdict().items()
        ]

    def _factors(self, y: Quantization) -> Factors:
        gamma, beta = (v.astype(np.float32).astype(np.float64) for v in (self.gamma, self.beta))
        return Factors.of(gamma, beta, y.scale)

    def emit(self, emitter: Emitter, node: FloatNode) -> None:
        """Emit the operator with its activation."""
        emitter.computed(node, emitter.limits(node))

    def macs(self, y: Shape) -> int:
        """Squares, and factors."""
        return 2 * math.prod(y)

    def scratch(self, *x: Shape) -> int:
        """Return what is centred, and normalized."""
        return 2 * math.prod(x[0])

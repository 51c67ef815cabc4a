"""ONNX operators whose result follows from the integers of one tensor.

It is a table of 256 real numbers (`Curve`), through however many operators, until a QuantizeLinear
says how they are stored; then it is a Lookup. The numbers are computed in single precision,
operator by operator, as onnxruntime does it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from mcutrain_host.dataclass import dataclass

from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.node import Array
from mcutrain.formats.onnx.values import (
    FULL,
    Builder,
    Source,
    Stored,
    Value,
)
from mcutrain.ops.activation_functions import ACTIVATIONS, STORED
from mcutrain.ops.lookup import lookup_of
from mcutrain.quant.float_op import Quantization

F32 = np.float32
LIKENESS = 1e-5  # relative; values this close to a function's are that function


@dataclass(frozen=True, eq=False)
class Curve(Source):
    """A function of the integers of the tensor `x`. x_quantization: how those are meant.

    values: float32 [256], for x = -128 … 127. slopes: float64 [256], their derivatives by x.
    """

    name: str
    x: str
    x_quantization: Quantization
    values: Array
    slopes: Array

    def emit(
        self, builder: Builder, name: str, wanted: Quantization, limits: tuple[int, int]
    ) -> str:
        """A Lookup."""
        with np.errstate(all="ignore"):
            scaled = self.values / F32(wanted.scale)
        stored = np.clip(np.rint(scaled) + wanted.zero_point, *limits).astype(np.int8)
        unrounded = scaled.astype(np.float64) + wanted.zero_point
        outside = (unrounded <= limits[0] - 0.5) | (unrounded >= limits[1] + 0.5)
        slopes = np.where(outside, 0.0, self.slopes / wanted.scale)
        op = lookup_of(self._function(limits), stored, unrounded, slopes)
        return builder.node(self.name, op, (self.x,), name, wanted)

    def _function(self, limits: tuple[int, int]) -> str:
        """The name of the function whose values these are, or "composite"."""
        if limits == FULL:
            reals = (STORED - self.x_quantization.zero_point) * self.x_quantization.scale
            for name, activation in ACTIVATIONS.items():
                expected = [activation.value(v) for v in reals.tolist()]
                if np.allclose(self.values, expected, LIKENESS, LIKENESS):
                    return name
        return "composite"

    def then(self, node: Int8Node, values: Array, slopes: Array) -> Curve:
        """The curve of what a node makes of it. slopes: by x, too."""
        if np.isnan(values).any():
            raise node.wrong("its outputs are no numbers")
        return replace(self, name=node.name, values=values.astype(F32), slopes=slopes)


def curve_of(node: Int8Node, index: int) -> tuple[Curve, Value]:
    """An input as a function of the last integers, its limits applied; and the input itself."""
    value = node.real(index)
    if isinstance(value.source, Curve):
        curve = value.source
    else:
        plain = replace(value, low=-math.inf, high=math.inf)
        inner = replace(node, inputs=(*node.inputs[:index], plain, *node.inputs[index + 1 :]))
        x, quantization = inner.tensor(index)
        curve = Curve(
            node.name, x, quantization, _reals(quantization), np.full(256, quantization.scale)
        )
    inside = (curve.values > value.low) & (curve.values < value.high)
    values = np.clip(curve.values, F32(value.low), F32(value.high))
    return replace(curve, values=values, slopes=np.where(inside, curve.slopes, 0.0)), value


def with_curve(value: Value, curve: Curve) -> Value:
    """The value as a curve of what it was computed from."""
    return Value(curve, value.layout)


def unscaled(value: Value) -> tuple[Value, float]:
    """What a value is a positive multiple of, and by which factor; itself and 1 if it is none."""
    curve = value.source
    if not isinstance(curve, Curve) or (value.low, value.high) != (-math.inf, math.inf):
        return value, 1.0
    reals = _reals(curve.x_quantization)
    place = int(np.argmax(np.abs(reals)))
    factor = F32(curve.values[place] / reals[place])
    if not (factor > 0 and np.allclose(curve.values, reals * factor, LIKENESS, 0)):
        return value, 1.0
    near = (factor, np.nextafter(factor, F32(0)), np.nextafter(factor, F32(math.inf)))
    exact = [f for f in near if np.array_equal(curve.values, reals * f)]
    return Value(Stored(curve.x, curve.x_quantization), value.layout), float((*exact, factor)[0])


def _reals(quantization: Quantization) -> Array:
    """Return what each of the 256 integers means, in single precision."""
    reals: Array = (STORED - quantization.zero_point).astype(F32) * F32(quantization.scale)
    return reals

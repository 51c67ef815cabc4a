"""ONNX operators whose result follows from the integers of one tensor.

It is a table of 256 real numbers (`Curve`), through however many operators, until a QuantizeLinear
says how they are stored; then it is a Lookup. The numbers are computed in single precision,
operator by operator, as onnxruntime does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mcutrain.formats.onnx.node import Array, OnnxNode
from mcutrain.formats.onnx.values import (
    FULL,
    Builder,
    Quantization,
    Scaling,
    Source,
    Value,
    check_factor,
)
from mcutrain.ir.op import Op
from mcutrain.ops.activation_functions import ACTIVATIONS, STORED
from mcutrain.ops.lookup import lookup_of
from mcutrain.quant import multipliers

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

    def then(self, node: OnnxNode, values: Array, slopes: Array) -> Curve:
        """The curve of what a node makes of it. slopes: by x, too."""
        if np.isnan(values).any():
            raise node.wrong("its outputs are no numbers")
        return replace(self, name=node.name, values=values.astype(F32), slopes=slopes)


def curve_of(builder: Builder, node: OnnxNode, index: int) -> tuple[Curve, Value]:
    """An input as a function of the last integers, its limits applied; and the input itself."""
    value = node.real(index)
    if isinstance(value.source, Curve):
        curve = value.source
    else:
        plain = replace(value, low=-math.inf, high=math.inf)
        inner = replace(node, inputs=(*node.inputs[:index], plain, *node.inputs[index + 1 :]))
        x, quantization = inner.tensor(builder, index)
        reals = (STORED - quantization.zero_point).astype(F32) * F32(quantization.scale)
        curve = Curve(node.name, x, quantization, reals, np.full(256, quantization.scale))
    inside = (curve.values > value.low) & (curve.values < value.high)
    values = np.clip(curve.values, F32(value.low), F32(value.high))
    return replace(curve, values=values, slopes=np.where(inside, curve.slopes, 0.0)), value


def with_curve(value: Value, curve: Curve) -> Value:
    """The value as a curve of what it was computed from."""
    return Value(curve, value.image, value.shape)


# ---------------------------------------------------------------------------------- one operand

Function = Callable[[Array], Array]
"""float32 to float32, or for a derivative float64 to float64."""


def _each(function: Callable[[float], float]) -> Function:
    """A function of one number, in double precision, rounded to single."""
    return lambda x: np.array([function(v) for v in x.tolist()], np.float64).astype(F32)


def _named(name: str) -> Callable[[OnnxNode], tuple[Function, Function]]:
    activation = ACTIVATIONS[name]
    derivative: Function = lambda x: np.array([activation.derivative(v) for v in x.tolist()])  # noqa: E731
    return lambda node: (_each(activation.value), derivative)


def _hard_swish(node: OnnxNode) -> tuple[Function, Function]:
    sixth, half = F32(1 / 6), F32(0.5)

    def value(x: Array) -> Array:
        share: Array = x * np.clip(sixth * x + half, F32(0), F32(1))
        return share

    return value, _named("hard_swish")(node)[1]


def _hard_sigmoid(node: OnnxNode) -> tuple[Function, Function]:
    alpha, beta = node.attributes.real("alpha", 0.2), node.attributes.real("beta", 0.5)

    def value(x: Array) -> Array:
        clipped: Array = np.clip(F32(alpha) * x + F32(beta), F32(0), F32(1))
        return clipped

    def derivative(x: Array) -> Array:
        line = alpha * x + beta
        return np.where((line > 0) & (line < 1), alpha, 0.0)

    return value, derivative


def _elu(node: OnnxNode) -> tuple[Function, Function]:
    alpha = node.attributes.real("alpha", 1.0)
    below = _each(lambda v: alpha * math.expm1(min(v, 0.0)))
    return (
        lambda x: np.where(x >= 0, x, below(x)),
        lambda x: np.where(x >= 0, 1.0, alpha * np.exp(np.minimum(x, 0.0))),
    )


def _gelu(node: OnnxNode) -> tuple[Function, Function]:
    if node.attributes.text("approximate", "none") != "none":
        raise node.unsupported("the approximate one is not; approximate = none is")
    return _named("gelu")(node)


UNARY: Mapping[str, Callable[[OnnxNode], tuple[Function, Function]]] = {
    "Elu": _elu,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Sigmoid": _named("logistic"),
    "Tanh": _named("tanh"),
}
"""Each function and its derivative."""


def unary(builder: Builder, node: OnnxNode) -> Value:
    """An activation of UNARY."""
    function, derivative = UNARY[node.op_type](node)
    curve, value = curve_of(builder, node, 0)
    with np.errstate(all="ignore"):
        slopes = curve.slopes * derivative(curve.values.astype(np.float64))
        values = function(curve.values)
    return with_curve(value, curve.then(node, values, slopes))


def leaky_relu(builder: Builder, node: OnnxNode) -> Value:
    """LeakyRelu with a slope from 0 to 1."""
    alpha = node.attributes.real("alpha", 0.01)
    if not 0 <= alpha <= 1:
        raise node.unsupported(f"the slope {alpha} is not; 0 to 1 are")
    value = node.real(0)
    if isinstance(value.source, Curve):
        curve, _ = curve_of(builder, node, 0)
        positive = curve.values >= 0
        values = np.where(positive, curve.values, F32(alpha) * curve.values)
        slopes = curve.slopes * np.where(positive, 1.0, alpha)
        return with_curve(value, curve.then(node, values, slopes))
    x, quantization = node.tensor(builder, 0)

    def make(wanted: Quantization) -> Op:
        check_factor(node.name, quantization.scale / wanted.scale)
        return multipliers.leaky_relu(alpha, quantization, wanted)

    return Value(Scaling(node.name, make, (x,)), value.image, value.shape)


def clip(builder: Builder, node: OnnxNode) -> Value:
    """Clip: limits of the value. Limits that leave out 0 need a curve."""
    low, high = node.number(1, -math.inf), node.number(2, math.inf)
    if low > high:
        raise node.wrong(f"the limits {low} to {high} hold nothing")
    value = node.real(0)
    if low <= 0 <= high and not isinstance(value.source, Curve):
        return value.clipped(low, high)
    curve, _ = curve_of(builder, node, 0)
    inside = (curve.values > low) & (curve.values < high)
    values = np.clip(curve.values, F32(low), F32(high))
    return with_curve(value, curve.then(node, values, np.where(inside, curve.slopes, 0.0)))

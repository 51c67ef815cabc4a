"""ONNX operators on the numbers of one tensor: activations and their limits, Softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mcutrain.errors import UnsupportedError
from mcutrain.formats.layers import beta_of
from mcutrain.formats.onnx.arithmetic import affine, along
from mcutrain.formats.onnx.curves import F32, LIKENESS, Curve, curve_of, unscaled, with_curve
from mcutrain.formats.onnx.float_node import FloatOnnx, FloatValue
from mcutrain.formats.onnx.int8_node import Int8Node
from mcutrain.formats.onnx.layout import Layout
from mcutrain.formats.onnx.node import Array, OnnxNode
from mcutrain.formats.onnx.old import softmax_axis
from mcutrain.formats.onnx.values import Value
from mcutrain.formats.onnx.writer import OnnxWriter
from mcutrain.ir.graph import Node
from mcutrain.ops.activation_functions import ACTIVATIONS, SELU_ALPHA, SELU_GAMMA
from mcutrain.ops.leaky_relu import LeakyRelu
from mcutrain.ops.lookup import Lookup
from mcutrain.ops.rescale import Rescale
from mcutrain.ops.softmax import Softmax
from mcutrain.quant.float_affine import Affine
from mcutrain.quant.float_elementwise import (
    Clamp,
    FloatAdd,
    FloatLeakyRelu,
    FloatMul,
    is_leaky,
)
from mcutrain.quant.float_elementwise import Function as FloatFunction
from mcutrain.quant.float_shapes import FloatSoftmax

FUNCTIONS = {
    "Abs": "abs",
    "Elu": "elu",
    "Erf": "erf",
    "Exp": "exp",
    "Gelu": "gelu",
    "HardSwish": "hard_swish",
    "Log": "log",
    "Mish": "mish",
    "Reciprocal": "reciprocal",
    "Selu": "selu",
    "Sigmoid": "logistic",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tanh": "tanh",
}
"""The names of ACTIVATIONS and of the float graph's functions."""


def _slope(node: OnnxNode[Any]) -> float:
    """Slope of a LeakyRelu, or of a PRelu with one slope for all channels."""
    if node.op_type == "PRelu":
        slopes = node.constant(1).real()
        if slopes.size == 0 or np.ptp(slopes):
            raise node.unsupported("a slope per channel is not; one slope is")
        alpha = float(slopes.ravel()[0])
    else:
        alpha = node.attributes.real("alpha", 0.01)
    if not 0 <= alpha <= 1:
        raise node.unsupported(f"the slope {alpha} is not; 0 to 1 are")
    return alpha


def _limits(node: OnnxNode[Any]) -> tuple[int, float, float]:
    """Return which input a Relu, Clip, Max or Min limits, from where and to where."""
    index, low, high = 0, 0.0, math.inf
    if node.op_type == "Clip":
        low, high = node.number(1, -math.inf), node.number(2, math.inf)
    elif node.op_type in ("Max", "Min"):
        index = 1 if node.is_constant(0) else 0
        if len(node.inputs) != 2 or not node.is_constant(1 - index):
            raise node.unsupported("only one tensor and one number are")
        number = node.number(1 - index, 0.0)
        low, high = (number, math.inf) if node.op_type == "Max" else (-math.inf, number)
    if low > high:
        raise node.wrong(f"the limits {low} to {high} hold nothing")
    return index, low, high


GELUS = {"none": "gelu", "tanh": "gelu_tanh"}
"""Functions by what a Gelu says of its approximation."""


def _function(node: OnnxNode[Any]) -> str:
    """Its name among ACTIVATIONS and the float graph's functions."""
    if node.op_type == "Selu":
        given = (
            node.attributes.real("alpha", SELU_ALPHA),
            node.attributes.real("gamma", SELU_GAMMA),
        )
        if not np.allclose(given, (SELU_ALPHA, SELU_GAMMA), LIKENESS):
            raise node.unsupported(f"alpha and gamma {given} are not; the usual ones are")
    if node.op_type != "Gelu":
        return FUNCTIONS[node.op_type]
    kind = node.attributes.text("approximate", "none")
    if kind not in GELUS:
        raise node.unsupported(f"approximate = {kind} is not; none and tanh are")
    return GELUS[kind]


# --------------------------------------------------------------------------------------------- int8


Function = Callable[[Array], Array]
"""float32 to float32, or for a derivative float64 to float64."""


def _each(function: Callable[[float], float]) -> Function:
    """A function of one number, in double precision, rounded to single."""
    return lambda x: np.array([function(v) for v in x.tolist()], np.float64).astype(F32)


def _named(node: Int8Node) -> tuple[Function, Function]:
    activation = ACTIVATIONS[_function(node)]

    def derivative(x: Array) -> Array:
        return np.array([activation.derivative(v) for v in x.tolist()])

    return _each(activation.value), derivative


def _hard_swish(node: Int8Node) -> tuple[Function, Function]:
    sixth, half = F32(1 / 6), F32(0.5)

    def value(x: Array) -> Array:
        share: Array = x * np.clip(sixth * x + half, F32(0), F32(1))
        return share

    return value, _named(node)[1]


def _hard_sigmoid(node: Int8Node) -> tuple[Function, Function]:
    alpha, beta = node.attributes.real("alpha", 0.2), node.attributes.real("beta", 0.5)

    def value(x: Array) -> Array:
        clipped: Array = np.clip(F32(alpha) * x + F32(beta), F32(0), F32(1))
        return clipped

    def derivative(x: Array) -> Array:
        line = alpha * x + beta
        return np.where((line > 0) & (line < 1), alpha, 0.0)

    return value, derivative


def _elu(node: Int8Node) -> tuple[Function, Function]:
    """As onnxruntime computes it, in float32 after each step: beside a tie that decides."""
    alpha = node.attributes.real("alpha", 1.0)
    exp = _each(math.exp)
    return (
        lambda x: np.where(x >= 0, x, F32(alpha) * (exp(np.minimum(x, F32(0))) - F32(1))),
        lambda x: np.where(x >= 0, 1.0, alpha * np.exp(np.minimum(x, 0.0))),
    )


def _negative(node: Int8Node) -> tuple[Function, Function]:
    return np.negative, lambda x: np.full_like(x, -1.0)


UNARY: Mapping[str, Callable[[Int8Node], tuple[Function, Function]]] = {
    **dict.fromkeys(FUNCTIONS, _named),
    "Elu": _elu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Neg": _negative,
}
"""Each function and its derivative."""


def int8_unary(node: Int8Node) -> Value:
    """An activation of UNARY."""
    function, derivative = UNARY[node.op_type](node)
    curve, value = curve_of(node, 0)
    with np.errstate(all="ignore"):
        slopes = curve.slopes * derivative(curve.values.astype(np.float64))
        values = function(curve.values)
    return with_curve(value, curve.then(node, values, slopes))


def int8_leaky_relu(node: Int8Node) -> Value:
    """LeakyRelu, and PRelu with one slope."""
    alpha = _slope(node)
    value = node.real()
    if isinstance(value.source, Curve):
        curve, _ = curve_of(node, 0)
        positive = curve.values >= 0
        values = np.where(positive, curve.values, F32(alpha) * curve.values)
        slopes = curve.slopes * np.where(positive, 1.0, alpha)
        return with_curve(value, curve.then(node, values, slopes))
    return node.computed(FloatLeakyRelu(alpha), (node.as_stored(),), value.layout)


def int8_relu(node: Int8Node) -> Value:
    """Relu: a limit of the value."""
    return node.real().clipped(0.0, math.inf)


def int8_clip(node: Int8Node) -> Value:
    """Clip, Max, Min: limits of the value. Limits that leave out 0 need a curve."""
    index, low, high = _limits(node)
    value = node.real(index)
    if low <= 0 <= high and not isinstance(value.source, Curve):
        return value.clipped(low, high)
    curve, _ = curve_of(node, index)
    inside = (curve.values > low) & (curve.values < high)
    values = np.clip(curve.values, F32(low), F32(high))
    return with_curve(value, curve.then(node, values, np.where(inside, curve.slopes, 0.0)))


def int8_softmax(node: Int8Node) -> Value:
    """Over one axis, stored last; without a QuantizeLinear its scale is 1/256 from -128 on.

    A factor before it is its beta.
    """
    value, beta = unscaled(node.real())
    node = replace(node, inputs=(value,))
    op = FloatSoftmax(beta)
    axis = softmax_axis(node, value.shape)
    elements = math.prod(value.shape)
    if value.shape[axis] != elements:
        order = (*(i for i in value.layout.order if i != axis), axis)
        x = node.arranged(0, value.shape, order, "last")
        return node.computed(op, (x,), Layout.of_order(value.shape, order))
    row = (1, 1, 1, elements)
    x = node.view(node.image(), row, "row")
    return node.computed(op, (x,), Layout(row, (0, 1, 2, 3), value.shape))


# -------------------------------------------------------------------------------------------- float


def float_clip(node: FloatOnnx) -> FloatValue:
    """Relu, Clip, Max, Min. Limits that leave out 0 are moved there and back."""
    index, low, high = _limits(node)
    x, nearest = node.x(index), min(max(0.0, low), high)
    if not nearest:
        return node.elementwise(Clamp(low, high), x)
    moved = node.elementwise(Clamp(low - nearest, high - nearest), _plus(node, x, -nearest))
    return _plus(node, moved, nearest)


def _plus(node: FloatOnnx, x: FloatValue, number: float) -> FloatValue:
    axis, shift = along(node, x, np.full(1, number))
    return affine(node, x, Affine(np.ones_like(shift), shift), axis)


def float_leaky_relu(node: FloatOnnx) -> FloatValue:
    """LeakyRelu, and PRelu with one slope."""
    return node.elementwise(FloatLeakyRelu(_slope(node)), node.x())


def float_prelu(node: FloatOnnx) -> FloatValue:
    """Read a PRelu: one slope, or the positive part and multiples of the negative one."""
    slopes = node.numbers(1)
    if is_leaky(slopes):
        return float_leaky_relu(node)
    axis, slopes = along(node, node.x(), slopes)
    x = node.with_last(node.x(), axis)
    below = node.elementwise(Clamp(-math.inf, 0.0), x)
    negative = node.elementwise(Affine(slopes, np.zeros_like(slopes)), below)
    positive = node.elementwise(Clamp(0.0, math.inf), x)
    return node.computed(FloatAdd(), (positive.tensor, negative.tensor), x.layout)


def float_hard_sigmoid(node: FloatOnnx) -> FloatValue:
    """max(0, min(1, alpha * x + beta))."""
    alpha = node.attributes.real("alpha", 0.2)
    beta = node.attributes.real("beta", 0.5)
    axis, factor = along(node, node.x(), np.full(1, alpha))
    line = affine(node, node.x(), Affine(factor, np.full_like(factor, beta)), axis)
    return node.elementwise(Clamp(0.0, 1.0), line)


def float_function(node: FloatOnnx) -> FloatValue:
    """An activation of FUNCTIONS. An Elu of another alpha is the sum of its two halves.

    A Celu is the Elu of x / alpha, times alpha.
    """
    if node.op_type == "Celu":
        alpha = node.attributes.real("alpha", 1.0)
        if not 0 < alpha < math.inf:
            raise node.wrong(f"its alpha is {alpha}, not a number above 0")
        curved = node.elementwise(FloatFunction("elu"), times(node, node.x(), 1 / alpha))
        return times(node, curved, alpha)
    alpha = node.attributes.real("alpha", 1.0) if node.op_type == "Elu" else 1.0
    if alpha != 1.0:
        x = node.x()
        below = node.elementwise(Clamp(-math.inf, 0.0), x)
        curved = node.elementwise(FloatFunction("elu"), below)
        factor = np.full(curved.layout.stored[-1], alpha)
        scaled = node.elementwise(Affine(factor, np.zeros_like(factor)), curved)
        positive = node.elementwise(Clamp(0.0, math.inf), x)
        return node.computed(FloatAdd(), (positive.tensor, scaled.tensor), x.layout)
    return node.elementwise(FloatFunction(_function(node)), node.x())


def times(node: FloatOnnx, x: FloatValue, number: float) -> FloatValue:
    """A value times a number."""
    axis, factor = along(node, x, np.full(1, number))
    return affine(node, x, Affine(factor, np.zeros_like(factor)), axis)


def float_power(node: FloatOnnx) -> FloatValue:
    """Pow by 2 or 3 as products, by 0.5 as a root."""
    x, exponent = node.x(), node.number(1, math.nan)
    if exponent == 0.5:
        return node.elementwise(FloatFunction("sqrt"), x)
    if exponent not in (1, 2, 3):
        raise node.unsupported(f"the exponent {exponent:g} is not; 1, 2, 3 and 0.5 are")
    power = x
    for _ in range(int(exponent) - 1):
        power = node.computed(FloatMul(), (power.tensor, x.tensor), x.layout)
    return power


def float_softmax(node: FloatOnnx) -> FloatValue:
    """Over one axis, which must be stored last; the logarithm of that."""
    x = node.x()
    axis = softmax_axis(node, x.shape)
    found = node.elementwise(FloatSoftmax(), node.with_last(x, axis))
    if node.op_type == "LogSoftmax":
        return node.elementwise(FloatFunction("log"), found)
    return found


# ------------------------------------------------------------------------------------------ writing


LOOKUPS: dict[str, tuple[str, dict[str, Any]]] = {
    "abs": ("Abs", {}),
    "exp": ("Exp", {}),
    "log": ("Log", {}),
    "negative": ("Neg", {}),
    "softsign": ("Softsign", {}),
    "sqrt": ("Sqrt", {}),
    "elu": ("Elu", {}),
    "erf": ("Erf", {}),
    "gelu": ("Gelu", {}),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
    "hard_sigmoid": ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    "hard_swish": ("HardSwish", {}),
    "logistic": ("Sigmoid", {}),
    "reciprocal": ("Reciprocal", {}),
    "selu": ("Selu", {}),
    "softplus": ("Softplus", {}),
    "tanh": ("Tanh", {}),
}


def write_softmax(w: OnnxWriter, node: Node) -> None:
    """Softmax over the channels; a beta is a factor before it."""
    op = node.op
    assert isinstance(op, Softmax)
    x, y = node.inputs[0], node.outputs[0]
    kind, real = w.type(x), w.real(x)
    if op != Softmax.from_scale(kind.scale):
        factor = w.constant(f"{y}/beta", np.array(beta_of(op, kind.scale), np.float32))
        real = w.op("Mul", [real, factor], f"{y}/scaled")
    axis = min(1, len(kind.shape) - 1)
    w.finish(w.layer(node, "Softmax", [real], axis=axis), y)


def write_leaky_relu(w: OnnxWriter, node: Node) -> None:
    """LeakyRelu."""
    op = node.op
    assert isinstance(op, LeakyRelu)
    positive, negative = (mult * 2.0**shift for mult, shift in (op.positive, op.negative))
    real = w.layer(node, "LeakyRelu", [w.real(node.inputs[0])], alpha=negative / positive)
    w.finish(real, node.outputs[0], (op.low, op.high))


def write_look_up(w: OnnxWriter, node: Node) -> None:
    """The function whose values the table holds."""
    op = node.op
    assert isinstance(op, Lookup)
    real = w.real(node.inputs[0])
    if op.function == "swish":
        share = w.op("Sigmoid", [real], f"{node.outputs[0]}/sigmoid")
        w.finish(w.layer(node, "Mul", [real, share]), node.outputs[0])
        return
    if op.function == "mish":  # an operator from opset 18 on
        share = w.op("Softplus", [real], f"{node.outputs[0]}/softplus")
        share = w.op("Tanh", [share], f"{node.outputs[0]}/tanh")
        w.finish(w.layer(node, "Mul", [real, share]), node.outputs[0])
        return
    if op.function not in LOOKUPS:
        raise UnsupportedError(
            f"node {node.name!r} is a table of {op.function}, which is no operator of .onnx"
        )
    name, attributes = LOOKUPS[op.function]
    w.finish(w.layer(node, name, [real], **attributes), node.outputs[0])


def write_rescale(w: OnnxWriter, node: Node) -> None:
    """Nothing but another QuantizeLinear, and the limits before it."""
    op = node.op
    assert isinstance(op, Rescale)
    w.finish(w.real(node.inputs[0]), node.outputs[0], (op.low, op.high))

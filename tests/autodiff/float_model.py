"""An independent derivative: the same network in float64, straight through its rounding.

Forward, a node computes what its operator says in real arithmetic, without rounding or clamping;
the values it starts from are the int8 activations. Backward, the vector-Jacobian product of every
node is measured by moving one input element at a time, which is exact for linear functions. Nothing
here knows the operators' gradient rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.data import IGNORED
from mcutrain.fixedpoint import multiplier_value
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ir.op import Op
from mcutrain.ops.add import Add
from mcutrain.ops.batch_matmul import BatchMatMul
from mcutrain.ops.concatenation import Concatenation
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.div import Div
from mcutrain.ops.grouped_conv_2d import GroupedConv2D
from mcutrain.ops.gru import Gru
from mcutrain.ops.layer_norm import LayerNorm, factors_scale
from mcutrain.ops.lookup import Lookup
from mcutrain.ops.lstm import Lstm
from mcutrain.ops.mul import Mul
from mcutrain.ops.pad import Pad
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D, Mean, MeanSums, ScaledAveragePool2D
from mcutrain.ops.recurrent import Recurrent
from mcutrain.ops.rescale import Rescale
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.resize import Resize
from mcutrain.ops.slice import Slice
from mcutrain.ops.softmax import Softmax
from mcutrain.ops.squared_difference import SquaredDifference
from mcutrain.ops.transpose import Transpose

Array = npt.NDArray[np.float64]
Function = Callable[..., Array]

TIE = 1e-6
"""How much less a later element of equal size counts in a maximum: the first one is chosen."""
SMALL_MOVE = 1e-8
"""Far below TIE, so that no maximum changes its place."""
CURVED_MOVE = 1e-5
"""Far below a step, where a curve is as good as straight."""
CURVED = (Div, Lookup, LayerNorm, Softmax, SquaredDifference, Lstm, Gru)
MOVES = {MaxPool2D: SMALL_MOVE, **dict.fromkeys(CURVED, CURVED_MOVE)}


@singledispatch
def real(op: Op, *x: Array) -> Array:
    """What the operator computes, in stored units, without rounding and clamping."""
    raise NotImplementedError(type(op).__name__)


def windows(op: Any, x: Array, fill: float) -> Array:
    """x: [1, h, w, c] → [rows, columns, kernel_h, kernel_w, c], by plain loops."""
    (kh, kw), (sh, sw), (dh, dw) = op.window.kernel, op.window.stride, op.window.dilation
    top, bottom, left, right = op.window.padding
    height, width = x.shape[1] + top + bottom, x.shape[2] + left + right
    padded = np.full((height, width, x.shape[3]), fill)
    padded[top : top + x.shape[1], left : left + x.shape[2]] = x[0]
    rows, columns = (height - (kh - 1) * dh - 1) // sh + 1, (width - (kw - 1) * dw - 1) // sw + 1
    found = np.empty((rows, columns, kh, kw, x.shape[3]))
    for i in range(kh):
        for j in range(kw):
            found[:, :, i, j] = padded[
                i * dh : i * dh + (rows - 1) * sh + 1 : sh,
                j * dw : j * dw + (columns - 1) * sw + 1 : sw,
            ]
    return found


def requantized(op: Any, acc: Array) -> Array:
    if op.requantize is None:
        return acc
    q = op.requantize
    pairs = zip(q.mult_q31, q.shift, strict=True)
    return acc * np.array([multiplier_value(m, s) for m, s in pairs]) + q.zero_point


@real.register
def _(op: Conv2D, x: Array, w: Array, b: Array) -> Array:
    seen = windows(op, x - op.x_zero_point, 0.0)
    return requantized(op, np.einsum("rsijc,oijc->rso", seen, w)[None] + b)


@real.register
def _(op: GroupedConv2D, x: Array, w: Array, b: Array) -> Array:
    seen = windows(op, x - op.x_zero_point, 0.0)
    each, rows = w.shape[3], len(w) * w.shape[3] // x.shape[3]
    sums = [
        np.einsum("rsijc,ijc->rs", seen[..., o // rows * each : (o // rows + 1) * each], w[o])
        for o in range(len(w))
    ]
    return requantized(op, np.stack(sums, axis=-1)[None] + b)


@real.register
def _(op: DepthwiseConv2D, x: Array, w: Array, b: Array) -> Array:
    seen = np.repeat(windows(op, x - op.x_zero_point, 0.0), w.shape[3] // x.shape[3], axis=-1)
    return requantized(op, np.einsum("rsijc,ijc->rsc", seen, w[0])[None] + b)


@real.register
def _(op: Add, a: Array, b: Array) -> Array:
    terms = [
        (v - s.zero_point) * multiplier_value(s.mult_q31, s.shift)
        for v, s in ((a, op.a), (b, op.b))
    ]
    unit = multiplier_value(op.y.mult_q31, op.y.shift) * 2.0**op.left_shift
    return (terms[0] + terms[1]) * unit + op.y.zero_point


@real.register
def _(op: Div, a: Array, b: Array) -> Array:
    return op.factor * (a - op.a_zero_point) / (b - op.b_zero_point) + op.y_zero_point


@real.register
def _(op: SquaredDifference, a: Array, b: Array) -> Array:
    terms = [
        (v - s.zero_point) * multiplier_value(s.mult_q31, s.shift)
        for v, s in ((a, op.a), (b, op.b))
    ]
    unit = multiplier_value(op.y.mult_q31, op.y.shift) * 4.0**7
    return np.square(terms[0] - terms[1]) * unit + op.y.zero_point


@real.register
def _(op: AveragePool2D, x: Array) -> Array:
    inside = windows(op, np.ones_like(x), 0.0).sum(axis=(2, 3))
    return (windows(op, x, 0.0).sum(axis=(2, 3)) / inside)[None]


@real.register
def _(op: ScaledAveragePool2D, x: Array) -> Array:
    inside = windows(op, np.ones_like(x), 0.0).sum(axis=(2, 3))
    means = windows(op, x - op.x_zero_point, 0.0).sum(axis=(2, 3)) / inside
    return means[None] * multiplier_value(op.mult_q31, op.shift) + op.y_zero_point


@real.register
def _(op: MaxPool2D, x: Array) -> Array:
    order = np.arange(x.shape[1] * x.shape[2]).reshape(1, *x.shape[1:3], 1)
    return windows(op, x - TIE * order, -1e9).max(axis=(2, 3))[None]


@real.register
def _(op: Mean, x: Array) -> Array:
    total = (x - op.x_zero_point).sum(axis=(1, 2), keepdims=True)
    return total * multiplier_value(op.mult_q31, op.shift) + op.y_zero_point


@real.register
def _(op: MeanSums, x: Array) -> Array:
    return (x - op.x_zero_point).sum(axis=(1, 2), keepdims=True)


@real.register
def _(op: Rescale, x: Array) -> Array:
    return (x - op.x_zero_point) * multiplier_value(op.mult_q31, op.shift) + op.y_zero_point


@real.register
def _(op: Reshape, x: Array) -> Array:
    return x.reshape(op.shape)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def recurrent(op: Recurrent, x: Array, w: Array, u: Array, b: Array, *h_bias: Array) -> Array:
    """Each step of a layer of one direction, or the last one."""
    of_x, of_h = (
        np.array([multiplier_value(*pair) for pair in zip(*stage, strict=True)])[:, None] / 4096
        for stage in (op.of_x, op.of_h)
    )
    unit = multiplier_value(*op.hidden) * (2**30 if isinstance(op, Lstm) else 2**15)
    rows = x.reshape(-1, x.shape[-1]) - op.x_zero_point
    h = state = np.zeros(u.shape[-1])
    found = []
    for row in rows[::-1] if op.direction == "reverse" else rows:
        with_x, with_h = (w @ row + b).reshape(op.gates, -1) * of_x, (u @ h).reshape(op.gates, -1)
        if isinstance(op, Lstm):
            i, f, g, o = with_x + with_h * of_h
            state = sigmoid(f) * state + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(state) * unit
        else:
            with_h[2] += h_bias[0]
            z, r, n = with_x + with_h * of_h * np.array([[1], [1], [0]])
            n = np.tanh(n + sigmoid(r) * with_h[2] * of_h[2])
            state = sigmoid(z) * state + (1 - sigmoid(z)) * n
            h = state * unit
        found.append(h)
    y = np.array(found[-1:] if op.is_last else found[:: -1 if op.direction == "reverse" else 1])
    return y.reshape(*((1,) if op.is_last else x.shape[:-1]), -1) + op.y_zero_point


@real.register
def _(op: Lstm, *operands: Array) -> Array:
    return recurrent(op, *operands)


@real.register
def _(op: Gru, *operands: Array) -> Array:
    return recurrent(op, *operands)


@real.register
def _(op: Pad, x: Array) -> Array:
    top, bottom, left, right = op.padding
    _, h, w, c = x.shape
    first, last = op.channels
    y = np.full((1, h + top + bottom, w + left + right, first + c + last), float(op.value))
    y[:, top : top + h, left : left + w, first : first + c] = x
    return y


@real.register
def _(op: Resize, x: Array) -> Array:
    rows, columns = (
        np.maximum(1 - np.abs(np.arange(size) - np.array(at)[:, None] / 1024), 0)
        for size, at in zip(x.shape[1:3], (op.rows_at, op.columns_at), strict=True)
    )
    return (columns @ np.tensordot(rows, x[0], 1))[None]


@real.register
def _(op: Mul, a: Array, b: Array) -> Array:
    product = (a - op.a_zero_point) * (b - op.b_zero_point)
    return product * multiplier_value(op.mult_q31, op.shift) + op.y_zero_point


@real.register
def _(op: BatchMatMul, a: Array, b: Array) -> Array:
    axes = ("km" if op.transposed_a else "mk", "nk" if op.transposed_b else "kn")
    product = np.einsum(
        f"...{axes[0]},...{axes[1]}->...mn", a - op.a_zero_point, b - op.b_zero_point
    )
    return product * multiplier_value(op.mult_q31, op.shift) + op.y_zero_point


@real.register
def _(op: Softmax, x: Array) -> Array:
    powers = np.exp((x - x.max(-1, keepdims=True)) * op.mult_q31 * 2.0 ** (op.left_shift - 57))
    return 256 * powers / powers.sum(-1, keepdims=True) - 128


@real.register
def _(op: Concatenation, *x: Array) -> Array:
    return np.concatenate(x, op.axis)


@real.register
def _(op: Slice, x: Array) -> Array:
    part = op.part
    for axis, (first, size) in enumerate(zip(part.first, part.sizes, strict=True)):
        x = np.stack([np.take(x, first + i * part.steps[axis], axis) for i in range(size)], axis)
    return x


@real.register
def _(op: Transpose, x: Array) -> Array:
    return x.transpose(op.perm)


@real.register
def _(op: LayerNorm, x: Array, gamma: Array, beta: Array) -> Array:
    unit, eps = factors_scale(1.0), op.real_epsilon(x.shape[-1], 1.0)
    centred = x - (x.mean(axis=-1, keepdims=True) if op.origin is None else op.origin)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return unit * (gamma * centred / np.sqrt(variance + eps) + beta) + op.y_zero_point


FUNCTIONS: dict[str, Function] = {
    "hard_swish": lambda x: x * np.clip((x + 3) / 6, 0, 1),
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf, [np.float64])(x / math.sqrt(2))) / 2,
    "mish": lambda x: x * np.tanh(np.log(1 + np.exp(x))),
    "selu": lambda x: 1.05070099 * np.where(x > 0, x, 1.67326324 * np.expm1(x)),
    "softplus": lambda x: np.log(1 + np.exp(x)),
}
QUANTIZED: dict[Lookup, tuple[str, tuple[float, int], tuple[float, int]]] = {}
"""The function of a table, its input's and its output's quantization: the operator does not say."""


@real.register
def _(op: Lookup, x: Array) -> Array:
    function, (x_scale, x_zero), (y_scale, y_zero) = QUANTIZED[op]
    return FUNCTIONS[function]((x - x_zero) * x_scale) / y_scale + y_zero


def passes(op: Any, value: Array) -> Array:
    """Where the operator does not clamp."""
    if isinstance(op, Lookup):
        return (value > -128.5) & (value < 127.5)
    limits = op.requantize if hasattr(op, "requantize") else op
    if limits is None or not hasattr(limits, "low"):
        return np.ones(value.shape, bool)
    rounded = np.rint(value)
    return (rounded >= limits.low) & (rounded <= limits.high)


def moved(function: Callable[[Array], Array], at: Array, dy: Array, move: float) -> Array:
    """dy times the Jacobian of the function, one element of its argument at a time."""
    base = function(at)
    result, there = np.empty(at.shape), at.copy()
    for i in np.ndindex(at.shape):
        there[i] += move
        result[i] = ((function(there) - base) * dy).sum() / move
        there[i] = at[i]
    return result


def _softmax_error(logits: Array, label: int | Array) -> Array:
    """Softmax less one-hot, over the number of positions; 0 where they are to be ignored."""
    probability = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    labels = np.ravel(label)
    counted = labels != IGNORED
    probability[counted, labels[counted]] -= 1
    probability[~counted] = 0
    return np.asarray(probability / len(labels))


def derivatives(
    graph: Graph,
    x: npt.NDArray[Any],
    label: int | Array,
    head: str,
    scales: Array,
    dropped: Collection[tuple[str, int]] = (),
    error: Callable[[Array], Array] | None = None,
) -> dict[str, Array]:
    """dL/dq of every tensor: L the cross-entropy of the head's sums times scales, q the integers.

    label: or labels of all positions, over which L is the mean, 0 where they are to be ignored.

    graph: ends in the head without requantization. dropped: (node, input) whose contribution is
    left out, as a faulty implementation would. error: dL/dlogits of another loss, by the logits
    [positions, channels].
    """
    names = [name for node in graph.nodes for name in node.outputs]
    values: dict[str, Any] = interpret(graph, {graph.inputs[0]: x}, names)
    values.update({n: t.data for n, t in graph.tensors.items() if t.data is not None})
    values[graph.inputs[0]] = x
    sums = next(n for n in graph.nodes if n.name == head).outputs[0]
    logits = values[sums].reshape(-1, values[sums].shape[-1]) * scales
    wanted = _softmax_error(logits, label) if error is None else error(logits)
    found: dict[str, Array] = {sums: (wanted * scales).reshape(values[sums].shape)}
    for node in reversed(graph.nodes):
        if node.outputs[0] not in found:
            continue
        inputs = [np.asarray(values[name], np.float64) for name in node.inputs]
        dy = found[node.outputs[0]] * passes(node.op, real(node.op, *inputs))
        move = MOVES.get(type(node.op), 1.0)
        for i, name in enumerate(node.inputs):
            if (node.name, i) in dropped or name == graph.inputs[0]:
                continue
            rest = [*inputs]

            def function(v: Array, i: int = i, rest: list[Array] = rest, op: Op = node.op) -> Array:
                return real(op, *rest[:i], v, *rest[i + 1 :])

            part = moved(function, inputs[i], dy, move)
            found[name] = found.get(name, 0) + part
    return found

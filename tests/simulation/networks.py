"""Small random int8 networks as graphs: residual blocks, pools, depthwise layers, a head."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.autodiff import TrainGraph, TrainOptions, differentiate
from mcutrain.features import rewritings
from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.formats.outputs import choosing, in_a_row
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.op import Op, ParameterUpdate
from mcutrain.ir.verify import verify
from mcutrain.memplan import TrainingPlan, plan_training
from mcutrain.ops.add import Add, Scaled
from mcutrain.ops.add_channels import AddChannels
from mcutrain.ops.batch_matmul import BatchMatMul
from mcutrain.ops.concatenation import Concatenation
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.ops.div import Div
from mcutrain.ops.grouped_conv_2d import GroupedConv2D
from mcutrain.ops.layer_norm import Factors, LayerNorm, factors_scale
from mcutrain.ops.leaky_relu import LeakyRelu
from mcutrain.ops.lookup import Lookup, lookup
from mcutrain.ops.mul import Mul
from mcutrain.ops.pad import Pad
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D, Mean, ScaledAveragePool2D
from mcutrain.ops.recurrent import DIRECTIONS, Recurrent
from mcutrain.ops.rescale import Rescale
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.resize import ONE, Positions, Resize
from mcutrain.ops.slice import Part, Slice
from mcutrain.ops.softmax import Softmax
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.ops.spatial import Window
from mcutrain.ops.transpose import Transpose
from mcutrain.pipeline import StepOptions
from mcutrain.quant import multipliers
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import UpdateScheme, find_head, resolve
from tests.ops.drawing import Source

Array = npt.NDArray[Any]

SPREAD = 45.0
"""Standard deviation that layers are scaled to, in int8 steps: some values clamp, most do not."""
WEIGHT_SPREAD = 50.0
INPUT_SPREAD = 74.0
POINT = Window((1, 1))
ONE_SAMPLE_INT8 = TrainOptions()


class Network:
    """Grows a graph node by node; every method returns the name of the node's output."""

    def __init__(self, shape: tuple[int, int, int], seed: int, prefix: str = "") -> None:
        self._rng = np.random.default_rng(seed)
        self._prefix = prefix
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.activations: dict[Lookup, tuple[str, tuple[float, int], tuple[float, int]]] = {}
        """What each table stands for: the function, its input's and output's quantization."""
        self.x = self._tensor("x", TensorType((1, *shape), "int8", (0.02,), -3))

    def graph(self, output: str, name: str = "network") -> Graph:
        return verify(Graph(name, self.tensors, tuple(self.nodes), (self.x,), (output,)))

    def type(self, name: str) -> TensorType:
        return self.tensors[name].type

    def conv(
        self,
        x: str,
        outs: int,
        window: Window = POINT,
        relu: bool = False,
        rounds_once: bool = False,
    ) -> str:
        ins = self.type(x).shape[3]
        taps = math.prod(window.kernel) * ins
        w, b, scales = self._weights((outs, *window.kernel, ins), 0, self.type(x).scale, taps)
        y, requantize = self._requantize(x, scales, taps, relu, rounds_once)
        return self._add(Conv2D(window, self.type(x).zero_point, requantize), (x, w, b), y)

    def grouped(
        self, x: str, groups: int, outs: int, window: Window = POINT, relu: bool = False
    ) -> str:
        ins = self.type(x).shape[3] // groups
        taps = math.prod(window.kernel) * ins
        w, b, scales = self._weights((outs, *window.kernel, ins), 0, self.type(x).scale, taps)
        y, requantize = self._requantize(x, scales, taps, relu, False)
        return self._add(GroupedConv2D(window, self.type(x).zero_point, requantize), (x, w, b), y)

    def depthwise(self, x: str, window: Window, multiplier: int = 1, relu: bool = False) -> str:
        outs = self.type(x).shape[3] * multiplier
        taps = math.prod(window.kernel)
        w, b, scales = self._weights((1, *window.kernel, outs), 3, self.type(x).scale, taps)
        y, requantize = self._requantize(x, scales, taps, relu, False)
        op = DepthwiseConv2D(window, self.type(x).zero_point, requantize)
        return self._add(op, (x, w, b), y)

    def add(self, a: str, b: str, sign: int = 1) -> str:
        """Scaled as TFLite scales: twice the larger input scale is the common unit.

        b may have one number per channel. sign: -1 subtracts it.
        """
        types, zero_point = [self.type(n) for n in (a, b)], int(self._rng.integers(-20, 20))
        y_scale = 1.2 * math.hypot(*(t.scale for t in types))
        unit = 2 * max(t.scale for t in types)
        operands = [Scaled(t.zero_point, *quantize_multiplier(t.scale / unit)) for t in types]
        total = Scaled(zero_point, *quantize_multiplier(unit / (2**20 * y_scale)))
        operands[1] = replace(operands[1], mult_q31=sign * operands[1].mult_q31)
        kind = Add if types[0].shape == types[1].shape else AddChannels
        return self._add(kind(*operands, total), (a, b), (y_scale, zero_point))

    def mul(self, a: str, b: str) -> str:
        """b may have one number per channel."""
        types, zero_point = [self.type(n) for n in (a, b)], int(self._rng.integers(-20, 20))
        factor = 1 / SPREAD
        y_scale = types[0].scale * types[1].scale / factor
        points = (types[0].zero_point, types[1].zero_point, zero_point)
        return self._add(Mul(*points, *quantize_multiplier(factor)), (a, b), (y_scale, zero_point))

    def batch_matmul(
        self, a: str, b: str, transposed_a: bool = False, transposed_b: bool = False
    ) -> str:
        """Of the last two axes."""
        types, zero_point = [self.type(n) for n in (a, b)], int(self._rng.integers(-20, 20))
        depth = types[0].shape[-2 if transposed_a else -1]
        factor = 1 / SPREAD / math.sqrt(depth)
        y_scale = types[0].scale * types[1].scale / factor
        points = (types[0].zero_point, types[1].zero_point, zero_point)
        op = BatchMatMul(*points, *quantize_multiplier(factor), transposed_a, transposed_b)
        return self._add(op, (a, b), (y_scale, zero_point))

    def attention(self, x: str, heads: int = 2) -> str:
        """Each pixel by what it and all others are.

        A bias of all keys alike adds the same to all scores of a row; behind a ReLU it matters.
        """
        _, height, width, channels = self.type(x).shape
        each = -(-channels // heads)
        q, k, v = (
            self.transpose(self.reshape(y, (1, height * width, heads, each)), 0, 2, 1, 3)
            for y in (self.conv(x, heads * each, relu=name == "k") for name in "qkv")
        )
        scores = self.softmax(self.batch_matmul(q, k, transposed_b=True))
        mixed = self.transpose(self.batch_matmul(scores, v), 0, 2, 1, 3)
        return self.conv(self.reshape(mixed, (1, height, width, heads * each)), channels)

    def activation(self, x: str, function: str, spread: float = 2.0) -> str:
        """An activation of reals whose standard deviation is `spread`; x is read on that scale."""
        t = self.type(x)
        scaled = replace(t, scales=(spread / SPREAD,))
        y = (spread / SPREAD, -110)
        if function == "logistic":
            y = (1 / 256, -128)
        op = lookup(function, scaled, replace(t, scales=(y[0],), zero_point=y[1]))
        self.activations[op] = (function, (scaled.scale, t.zero_point), y)
        return self._add(op, (x,), y)

    def div(self, a: str, b: str) -> str:
        """By a sigmoid, which is above 0."""
        b = self.activation(b, "logistic")
        x, divisor = self.type(a), self.type(b)
        y = (float(np.float32(2.5 * x.scale)), 3)
        factor = x.scale / (divisor.scale * y[0])
        return self._add(Div(x.zero_point, divisor.zero_point, 3, factor), (a, b), y)

    def squared_difference(self, a: str, b: str) -> str:
        """TFLite's, of two tensors of one shape."""
        first, second = ((self.type(n).scale, self.type(n).zero_point) for n in (a, b))
        y = (float(np.float32(first[0] ** 2 * SPREAD)), -128)
        return self._add(multipliers.squared_difference(first, second, y), (a, b), y)

    def layer_norm(self, x: str, eps: float = 1e-3, is_centred: bool = True) -> str:
        """Of a standard deviation of about one; gamma has either sign."""
        t, zero_point = self.type(x), int(self._rng.integers(-20, 20))
        gamma = self._rng.uniform(0.5, 1.5, t.shape[-1]) * self._rng.choice((-1, 1), t.shape[-1])
        beta = self._rng.normal(0, 0.3, t.shape[-1])
        op = LayerNorm.from_real(t.shape[-1], eps, t.scale, zero_point)
        op = op if is_centred else replace(op, origin=t.zero_point)
        factors, y = Factors.of(gamma, beta, 1 / SPREAD), (1 / SPREAD, zero_point)
        kind = TensorType(gamma.shape, "int32", (factors_scale(1 / SPREAD),))
        names = [
            self._tensor(f"{n}{len(self.nodes)}", kind, v) for n, v in factors._asdict().items()
        ]
        return self._add(op, (x, *names), y)

    def concatenation(self, *xs: str, axis: int = 3) -> str:
        """All on the scale and zero point of the first one."""
        like = self.type(xs[0])
        same = tuple(self.rescaled(x, like) for x in xs)
        return self._add(Concatenation(axis), same, (like.scale, like.zero_point))

    def rescaled(self, x: str, like: TensorType) -> str:
        t = self.type(x)
        if (t.scales, t.zero_point) == (like.scales, like.zero_point):
            return x
        factor = quantize_multiplier(t.scale / like.scale)
        op = Rescale(t.zero_point, like.zero_point, *factor)
        return self._add(op, (x,), (like.scale, like.zero_point))

    def shrunk(self, x: str, factor: float) -> str:
        """x times the factor, on the scale of x."""
        t = self.type(x)
        op = Rescale(t.zero_point, t.zero_point, *quantize_multiplier(factor))
        return self._add(op, (x,), (t.scale, t.zero_point))

    def transpose(self, x: str, *perm: int) -> str:
        t = self.type(x)
        return self._add(Transpose(perm), (x,), (t.scale, t.zero_point))

    def squeeze_and_excitation(self, x: str) -> str:
        """x times a number per channel that the mean of x gives."""
        pooled = self.mean(x)
        hidden = self.conv(pooled, 2, relu=True)
        gate = self.activation(self.conv(hidden, self.type(x).shape[3]), "logistic")
        return self.mul(x, gate)

    def pool(self, x: str, kind: type[AveragePool2D] | type[MaxPool2D], window: Window) -> str:
        t = self.type(x)
        return self._add(kind(window), (x,), (t.scale, t.zero_point))

    def scaled_pool(self, x: str, window: Window, zoom: float = 2.6) -> str:
        """An average whose output has a scale that is finer by `zoom`."""
        t = self.type(x)
        area = math.prod(window.kernel)
        mult, shift = multipliers.average_multiplier(zoom, 1.0, area)
        op = ScaledAveragePool2D(window, t.zero_point, -4, mult, shift)
        return self._add(op, (x,), (t.scale / zoom, -4))

    def resize(self, x: str, rows_at: Positions, columns_at: Positions) -> str:
        t = self.type(x)
        return self._add(Resize(rows_at, columns_at), (x,), (t.scale, t.zero_point))

    def doubled(self, x: str, bilinear: bool = True) -> str:
        """Twice as many rows and columns, half pixels at the centres."""
        at = []
        for size in self.type(x).shape[1:3]:
            places = [ONE * i // 2 - (ONE // 4 if bilinear else 0) for i in range(2 * size)]
            if not bilinear:
                places = [place // ONE * ONE for place in places]
            at.append(tuple(min(max(place, 0), (size - 1) * ONE) for place in places))
        return self.resize(x, *at)

    def slice(self, x: str, *places: range) -> str:
        """The places along height, width and channels."""
        t = self.type(x)
        return self._add(Slice(Part.of((range(1), *places))), (x,), (t.scale, t.zero_point))

    def pad(
        self, x: str, padding: tuple[int, int, int, int], channels: tuple[int, int] = (0, 0)
    ) -> str:
        t = self.type(x)
        return self._add(Pad(padding, t.zero_point, channels), (x,), (t.scale, t.zero_point))

    def constant(self, shape: tuple[int, ...], like: TensorType) -> str:
        """Numbers known beforehand, quantized as a tensor is."""
        data = np.clip(np.rint(self._rng.normal(0, 40, shape)), -128, 127).astype(np.int8)
        kind = replace(like, shape=shape)
        return self._tensor(f"constant{len(self.tensors)}", kind, data)

    def relu(self, x: str) -> str:
        t = self.type(x)
        scale = t.scale * 0.7
        mult, shift = quantize_multiplier(t.scale / scale)
        op = Rescale(t.zero_point, -100, mult, shift, -100, 127)
        return self._add(op, (x,), (scale, -100))

    def prelu(self, x: str) -> str:
        """With a slope for each channel, as formats read it: the positive part, and the negative
        one by a depthwise convolution of one tap."""
        t = self.type(x)
        mult, shift = quantize_multiplier(1 / 0.7)
        scale = t.scale * 0.7
        negative = self._add(Rescale(t.zero_point, 127, mult, shift), (x,), (scale, 127))
        positive = self._add(Rescale(t.zero_point, -128, mult, shift), (x,), (scale, -128))
        return self.add(positive, self.depthwise(negative, POINT))

    def leaky_relu(self, x: str) -> str:
        t, zero_point = self.type(x), int(self._rng.integers(-20, 20))
        factors = (quantize_multiplier(1.25), quantize_multiplier(0.2))
        y = (t.scale / 1.25, zero_point)
        return self._add(LeakyRelu(t.zero_point, zero_point, *factors), (x,), y)

    def mean(self, x: str) -> str:
        t = self.type(x)
        positions = t.shape[1] * t.shape[2]
        scale = t.scale / math.sqrt(positions)
        mult, shift = quantize_multiplier(t.scale / scale / positions)
        return self._add(Mean(t.zero_point, 4, mult, shift), (x,), (scale, 4))

    def recurrent(
        self,
        x: str,
        kind: type[Recurrent],
        units: int,
        is_last: bool = False,
        direction: str = "forward",
    ) -> str:
        """x: [1, steps, inputs]. Gates whose sums are a few units of their functions."""
        of, inputs, ways = self.type(x), self.type(x).shape[-1], len(DIRECTIONS[direction])
        rows = ways * kind.gates * units
        constants, stages = [], []
        for scale, count in ((of.scale, inputs), (1 / 128, units)):
            data = self._rng.integers(-127, 128, (rows, count)).astype(np.int8)
            w_scales = (self._rng.uniform(0.5, 2, kind.gates) / (80 * math.sqrt(count))).tolist()
            each = tuple(np.tile(np.repeat(w_scales, units), ways).tolist())
            name = f"{len(self.nodes)}.{'u' if constants else 'w'}"
            constants.append(self._tensor(name, TensorType(data.shape, "int8", each, 0, 0), data))
            stages.append(multipliers.gates(scale, w_scales))
            if len(constants) == 1:
                b_scales = tuple(scale * one for one in each)
                bias = np.rint(self._rng.normal(0, 0.5, rows) / b_scales).astype(np.int32)
                of_bias = TensorType((rows,), "int32", b_scales, 0, 0)
        constants.append(self._tensor(f"{len(self.nodes)}.b", of_bias, bias))
        if kind.has_h_bias:
            c_scales = tuple(one / 128 for one in each[-units:])
            c = np.rint(self._rng.normal(0, 0.5, units) / c_scales).astype(np.int32)
            of_c = TensorType((units,), "int32", c_scales, 0, 0)
            constants.append(self._tensor(f"{len(self.nodes)}.c", of_c, c))
        hidden = multipliers.of_state(kind.largest_state.bit_length() - 1, 1 / 128)
        op = kind(of.zero_point, *stages, hidden, 3, direction=direction, is_last=is_last)
        return self._add(op, (x, *constants), (1 / 128, 3))

    def reshape(self, x: str, shape: tuple[int, ...]) -> str:
        t = self.type(x)
        return self._add(Reshape(shape), (x,), (t.scale, t.zero_point))

    def softmax(self, x: str) -> str:
        return self._add(Softmax.from_scale(self.type(x).scale), (x,), (1 / 256, -128))

    def _weights(
        self, shape: tuple[int, ...], axis: int, x_scale: float, taps: int
    ) -> tuple[str, str, Array]:
        """Names of weight and bias, and the scale of the sums per channel."""
        number = len(self.nodes)
        values = np.clip(np.rint(self._rng.normal(0, WEIGHT_SPREAD, shape)), -127, 127)
        outs = shape[axis]
        scales = tuple((self._rng.uniform(0.5, 2, outs) * 0.01 / math.sqrt(taps)).tolist())
        w = TensorType(shape, "int8", scales, 0, axis)
        b = TensorType((outs,), "int32", tuple(s * x_scale for s in scales), 0, 0)
        bias = self._rng.integers(-2000, 2000, outs).astype(np.int32)
        names = (
            self._tensor(f"w{number}", w, values.astype(np.int8)),
            self._tensor(f"b{number}", b, bias),
        )
        return *names, np.array(b.scales)

    def _requantize(
        self, x: str, sum_scales: Array, taps: int, relu: bool, rounds_once: bool
    ) -> tuple[tuple[float, int], Requantize]:
        """Scale and zero point of the output, and how to get there."""
        spread = sum_scales.mean() * math.sqrt(taps) * WEIGHT_SPREAD * INPUT_SPREAD
        scale = float(spread / SPREAD)
        pairs = [quantize_multiplier(float(s) / scale) for s in sum_scales]
        zero_point = -128 if relu else int(self._rng.integers(-20, 20))
        mult, shift = zip(*pairs, strict=True)
        return (scale, zero_point), Requantize(
            mult, shift, zero_point, max(zero_point, -128), 127, rounds_once
        ) if relu else Requantize(mult, shift, zero_point, rounds_once=rounds_once)

    def _tensor(self, name: str, t: TensorType, data: Array | None = None) -> str:
        full = f"{self._prefix}{name}"
        self.tensors[full] = Tensor(full, t, data)
        return full

    def _add(self, op: Op, inputs: tuple[str, ...], quantized: tuple[float, int]) -> str:
        (inferred,) = op.infer(*(self.type(n) for n in inputs))
        t = replace(inferred, scales=(quantized[0],), zero_point=quantized[1])
        name = f"{type(op).__name__.lower()}{len(self.nodes)}"
        y = self._tensor(name, t)
        self.nodes.append(Node(f"{self._prefix}node{len(self.nodes)}", op, inputs, (y,)))
        return y


def detector(names: str = "boxes,classes,parts,tags", seed: int = 3, side: int = 4) -> Graph:
    """A trunk and up to four heads: numbers, a class by softmax, one at each position, labels."""
    net = Network((side, side, 2), seed)
    trunk = net.conv(net.conv(net.x, 6, same(3), relu=True), 8)
    heads = {
        "boxes": lambda: net.reshape(net.conv(net.mean(trunk), 4), (1, 4)),
        "classes": lambda: net.softmax(net.conv(net.mean(trunk), 3)),
        "parts": lambda: net.softmax(net.conv(trunk, 3)),
        "tags": lambda: net.activation(net.conv(net.mean(trunk), 2), "logistic"),
    }
    outputs = tuple(heads[name]() for name in names.split(","))
    graph = Graph("detector", net.tensors, tuple(net.nodes), (net.x,), outputs)
    with choosing(names):
        return verify(in_a_row(graph))


def same(kernel: int, stride: int = 1) -> Window:
    pad = kernel // 2
    return Window((kernel, kernel), (stride, stride), (1, 1), (pad, pad, pad, pad))


MODERN = (
    "twice",
    "swish",
    "excitation",
    "concatenation",
    "transpose",
    "difference",
    "doubled",
    "grouped",
    "focus",
    "normalized",
)


def draw_network(s: Source, blocks: int = 3) -> Graph:
    """An image network: a convolution, some blocks of any kind, a mean, a head."""
    net = Network((s.integer(4, 7), s.integer(4, 7), s.integer(1, 3)), s.integer(0, 2**31))
    y = net.conv(net.x, s.integer(2, 6), same(3, s.choice((1, 2))), relu=s.boolean())
    for _ in range(s.integer(1, blocks)):
        y = _block(s, net, y)
    return _head(s, net, y)


def _block(s: Source, net: Network, x: str) -> str:
    channels = net.type(x).shape[3]
    kind = s.choice(("residual", "residual", "conv", "depthwise", "pool", "pad", "relu", *MODERN))
    if kind == "residual":
        y = net.conv(x, s.integer(2, 8), relu=True)
        y = net.depthwise(y, same(3), s.choice((1, 1, 2)), relu=s.boolean())
        return net.add(net.conv(y, channels), x)
    if kind == "conv":
        return net.conv(x, s.integer(2, 6), same(3, s.choice((1, 2))), s.boolean(), s.boolean())
    if kind == "depthwise":
        dilated = Window((3, 3), (1, 1), (2, 2), (2, 2, 2, 2))
        return net.depthwise(x, s.choice((same(3, 2), same(5), dilated)), s.choice((1, 2)))
    if kind == "pool":
        pool = s.choice((AveragePool2D, MaxPool2D))
        tall = Window((min(2, net.type(x).shape[1]), 1))
        return net.pool(x, pool, s.choice((same(3), same(3, 2), tall)))
    if kind == "pad":
        padded = net.pad(x, (1, s.integer(0, 2), 0, 1))
        return net.conv(padded, s.integer(2, 5), Window((2, 2), (s.integer(1, 2), 1)))
    if kind == "relu":
        return net.relu(x)
    return _modern_block(s, net, x, kind)


def _modern_block(s: Source, net: Network, x: str, kind: str) -> str:
    """Of a kind in MODERN."""
    if kind == "swish":
        return net.activation(net.conv(x, s.integer(2, 6)), "hard_swish")
    if kind == "excitation":
        return net.squeeze_and_excitation(x)
    if kind == "concatenation":
        parts = (x, net.conv(x, s.integer(1, 4), relu=s.boolean()), net.pool(x, MaxPool2D, same(3)))
        return net.concatenation(*parts[: s.integer(2, 3)])
    if kind == "transpose":
        return net.transpose(x, 0, *s.choice(((2, 1, 3), (3, 1, 2))))
    if kind == "doubled":
        return net.doubled(net.pool(x, MaxPool2D, same(3, 2)), s.boolean())
    if kind == "focus":
        height, width, channels = (range(n) for n in net.type(x).shape[1:])
        two = (net.slice(x, height[::2], width, part) for part in (channels, channels[-1:]))
        first = s.integer(0, 1) if len(width) > 1 else 0
        rows = range(len(height[::2]))
        return net.slice(net.concatenation(*two), rows[: s.integer(1, 2)], width[first:], channels)
    if kind == "grouped":
        wide = net.conv(x, s.choice((4, 6)), relu=True)
        return net.grouped(wide, 2, 2 * s.integer(1, 3), same(3, s.choice((1, 2))), s.boolean())
    if kind == "normalized":
        return net.layer_norm(net.conv(x, s.integer(2, 6)))
    if kind == "difference":
        return net.add(net.conv(x, net.type(x).shape[3]), x, -1)
    return net.add(x, x)


def _head(s: Source, net: Network, y: str) -> Graph:
    classes = s.integer(2, 6)
    if s.boolean():
        y = net.mean(y)
    elif s.boolean():
        y = net.reshape(y, (1, 1, 1, math.prod(net.type(y).shape)))
    else:
        height, width = net.type(y).shape[1:3]
        y = net.mean(net.pool(y, AveragePool2D, Window((min(2, height), min(2, width)))))
    y = net.conv(y, classes, rounds_once=True)
    if s.boolean():
        y = net.softmax(net.reshape(y, (1, classes)))
    return net.graph(y)


def residual_network(seed: int = 1, classes: int = 4, prefix: str = "", size: int = 8) -> Graph:
    """One of every kind of layer in a row; 11 layers with weights before the head would be many,
    6 are enough."""
    net = Network((size, size, 3), seed, prefix)
    y = net.conv(net.x, 6, same(3, 2), relu=True)
    y = net.depthwise(y, same(3), relu=True)
    first = net.conv(y, 5)
    y = net.conv(first, 8, relu=True)
    y = net.depthwise(y, same(3), relu=True)
    y = net.add(net.conv(y, 5), first)
    y = net.mean(y)
    return net.graph(net.reshape(net.conv(y, classes, rounds_once=True), (1, classes)))


def threaded_network(classes: int = 4) -> Graph:
    """Layers large enough for four threads."""
    net = Network((32, 32, 3), 6)
    y = net.depthwise(net.conv(net.x, 64, same(3, 2), relu=True), same(3), relu=True)
    y = net.mean(net.add(net.conv(y, 64, same(3), relu=True), y))
    return net.graph(net.reshape(net.conv(y, classes, rounds_once=True), (1, classes)), "threaded")


def modern_network(seed: int = 1, classes: int = 4) -> Graph:
    """Hard swish, squeeze and excitation, branches that are joined, a convolution over time."""
    net = Network((6, 6, 3), seed)
    y = net.activation(net.conv(net.x, 6, same(3, 2)), "hard_swish")
    first = net.conv(y, 4)
    y = net.activation(net.conv(first, 8), "hard_swish")
    y = net.squeeze_and_excitation(net.depthwise(y, same(3)))
    y = net.add(net.conv(y, 4), first)
    y = net.concatenation(y, net.activation(net.conv(y, 3), "tanh"), net.relu(y))
    sequence = net.reshape(y, (1, 1, 9, 11))
    y = net.conv(sequence, 6, Window((1, 3), (1, 2), (1, 1), (0, 0, 1, 1)))
    y = net.mean(y)
    return net.graph(net.reshape(net.conv(y, classes, rounds_once=True), (1, classes)))


def transformer_network(
    seed: int = 5, classes: int = 4, depth: int = 2, activations: dict[Any, Any] | None = None
) -> Graph:
    """A small ViT: patches, a class token, positions; blocks of attention and two layers.

    activations: gets what its tables stand for.
    """
    width, size = 8, 3
    net = Network((2 * size, 2 * size, 3), seed)
    y = net.conv(net.x, width, Window((2, 2), (2, 2)))
    y = net.reshape(y, (1, 1, size * size, width))
    y = net.concatenation(net.constant((1, 1, 1, width), net.type(y)), y, axis=2)
    y = net.add(y, net.constant(net.type(y).shape, net.type(y)))
    for _ in range(depth):
        y = net.add(net.attention(net.layer_norm(y)), y)
        inner = net.activation(net.conv(net.layer_norm(y), 2 * width), "gelu")
        y = net.add(net.conv(inner, width), y)
    if activations is not None:
        activations.update(net.activations)
    token = net.slice(net.layer_norm(y), range(1), range(1), range(width))
    y = net.reshape(net.conv(token, classes, rounds_once=True), (1, classes))
    return net.graph(y, "transformer")


def prelu_network(seed: int = 1, classes: int = 4) -> Graph:
    """As of faces: slopes per channel, and a shortcut from behind the first of them."""
    net = Network((16, 16, 3), seed)
    first = net.prelu(net.conv(net.x, 8, same(3, 2)))
    y = net.prelu(net.depthwise(first, same(3)))
    y = net.mean(net.add(net.conv(y, 8), first))
    return net.graph(net.reshape(net.conv(y, classes, rounds_once=True), (1, classes)), "prelu")


def shortcuts_network(classes: int = 3) -> Graph:
    """add(x, relu(x)) and x * sigmoid(x): elementwise, while the next node still reads x."""
    net = Network((5, 5, 2), 3)
    y = net.conv(net.x, 4, same(3))
    y = net.conv(net.add(y, net.relu(y)), 4)
    y = net.mul(y, net.activation(y, "logistic"))
    y = net.reshape(y, (1, 1, 1, math.prod(net.type(y).shape)))
    return net.graph(net.conv(y, classes, rounds_once=True))


def training_graph(
    graph: Graph, scheme: UpdateScheme | None = None, options: TrainOptions = ONE_SAMPLE_INT8
) -> TrainGraph:
    scheme = scheme or UpdateScheme("full", None, {}, None)
    return differentiate(
        graph,
        find_head(graph).name,
        resolve(scheme, graph),
        SoftmaxCrossEntropy,
        options,
        rewritings(options) if isinstance(options, StepOptions) else (),
    )


def raw_updates(graph: Graph) -> dict[str, ParameterUpdate]:
    """Every weight and bias, all channels, no residual, rate 1."""
    constants = [n for n, t in graph.tensors.items() if t.is_constant]
    return {name: ParameterUpdate((1.0,), 0) for name in constants}


def planned(training: TrainGraph) -> TrainingPlan:
    return plan_training(training, align_bytes=8)


def samples(graph: Graph, count: int, classes: int, seed: int = 0) -> tuple[Array, Array]:
    """Random inputs and labels."""
    rng = np.random.default_rng(seed)
    shape = graph.tensors[graph.inputs[0]].type.shape
    x = np.clip(np.rint(rng.normal(0, INPUT_SPREAD, (count, *shape[1:]))), -128, 127)
    return x.astype(np.int8), rng.integers(0, classes, count).astype(np.int32)


def rates(count: int, rate: float = 0.05) -> list[LearningRate]:
    """Falling a little from step to step."""
    return [LearningRate.of(rate / (1 + 0.1 * i)) for i in range(count)]


def states_differ(a: Mapping[str, Array], b: Mapping[str, Array]) -> list[str]:
    """The names of the state tensors that are not equal."""
    assert a.keys() == b.keys()
    return [name for name in a if not np.array_equal(a[name], b[name])]

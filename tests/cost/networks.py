"""Networks of what model files rarely have: every operator, odd sizes, rare windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.ir.graph import Graph, TensorType
from mcutrain.ops.embedding import Embedding
from mcutrain.ops.gru import Gru
from mcutrain.ops.leaky_relu import LeakyRelu
from mcutrain.ops.lstm import Lstm
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D
from mcutrain.ops.spatial import Window
from tests.simulation.autoencoders import convolutional, dense
from tests.simulation.networks import Network, detector, same


def made(seed: int, small: bool = False) -> Graph:
    """One of any number; they differ in sizes, windows and channels. small: a quick one."""
    height, width = ((6, 5) if small else (12, 11))[0] + 3 * seed, (5 if small else 11) + 2 * seed
    wide = 4 if small else 12
    net = Network((height, width, 1 + seed), seed)
    y = net.conv(net.x, wide + seed, same(3), relu=True)
    y = leaky_relu(net, y)
    dilated = Window((3, 3), (1, 1), (2, 2), (2, 2, 2, 2))
    y = net.depthwise(y, (dilated, same(9), same(5), same(7, 2))[seed % 4], 1 + seed % 2)
    y = net.pool(y, MaxPool2D, same(3, 1 + seed % 2))
    y = net.conv(net.pad(y, (1, 2, 0, 1)), wide + 3 * seed, Window((2, 2), (2, 1)))
    y = net.relu(y)
    y = net.pool(y, AveragePool2D, (same(3), Window((2, 2), (2, 2)))[seed % 2])
    y = net.add(y, y)
    inner = net.conv(y, 2 * wide + 5 * seed, relu=True)
    inner = net.depthwise(inner, same(3), relu=seed % 2 == 0)
    y = net.add(net.conv(inner, net.type(y).shape[3]), y)
    y = net.conv(y, 4 * wide + seed, same(3, 2), rounds_once=seed % 2 == 1)
    y = net.conv(net.mean(y), 3 + seed, rounds_once=True)
    return net.graph(net.softmax(net.reshape(y, (1, 3 + seed))), f"made-{seed}")


def modern(seed: int) -> Graph:
    """Tables, products, joins and sequences, of any number; as `made` otherwise."""
    net = Network((11 + 3 * seed, 8 + 5 * seed, 2 + seed), seed)
    y = net.activation(net.conv(net.x, 9 + 4 * seed, same(3, 2)), "hard_swish")
    y = net.squeeze_and_excitation(net.depthwise(y, same(3)))
    y = net.mul(y, net.conv(y, net.type(y).shape[3]))
    if seed != 1:  # a gradient that nothing is fused into
        y = net.pool(y, MaxPool2D, same(3, 1))
    y = net.add(y, net.conv(net.mean(y), net.type(y).shape[3]))
    branch = net.activation(net.conv(y, 3 + 5 * seed, relu=True), "tanh")
    y = net.concatenation(y, branch, net.conv(y, 8))
    y = net.concatenation(y, net.relu(y), axis=1 + seed % 2)
    y = net.conv(y, 7 + seed)
    y = net.transpose(y, 0, *((1, 3, 2), (3, 1, 2), (2, 1, 3))[seed % 3])
    _, height, width, channels = net.type(y).shape
    y = net.conv(net.reshape(y, (1, 1, height * width, channels)), 6, Window((1, 3)))
    y = net.conv(net.mean(y), 3 + seed, rounds_once=True)
    return net.graph(net.reshape(y, (1, 3 + seed)), f"modern-{seed}")


def reproducing(seed: int) -> Graph:
    """Outputs to be compared with the inputs: flat ones, and one with channels."""
    graph = convolutional() if seed == 0 else dense((7, 60, 400)[seed - 1])
    return replace(graph, name=f"reproducing-{seed}")


def segmenting(seed: int) -> Graph:
    """A class for each pixel, by a 1x1 convolution."""
    classes, side = (2, 21, 5, 3, 9, 32)[seed], (8, 6, 16, 24, 10, 5)[seed]
    net = Network((side, side + 2, 3), seed)
    return net.graph(net.conv(net.conv(net.x, 6), classes), f"segmenting-{seed}")


def deciding(seed: int) -> Graph:
    """One logit for two classes."""
    net = Network((6 + seed, 5, 2), seed)
    y = net.conv(net.mean(net.conv(net.x, 6, relu=True)), 1)
    return net.graph(net.reshape(y, (1, 1)), f"deciding-{seed}")


def tagging(seed: int) -> Graph:
    """A few outputs or many that are labels of their own."""
    net = Network((6, 5, 2), seed)
    y = net.mean(net.conv(net.x, 6, relu=True))
    return net.graph(net.conv(y, (2, 3, 12, 40)[seed]), f"tagging-{seed}")


def weighing(seed: int) -> Graph:
    """A few classes or many, of which some count more."""
    net = Network((6, 5, 2), seed)
    y = net.mean(net.conv(net.x, 6, relu=True))
    return net.graph(net.conv(y, (2, 4, 12, 40)[seed]), f"weighing-{seed}")


def remembering(seed: int, kind: type[Lstm] | type[Gru] = Lstm) -> Graph:
    """Sequences of few steps and of many through recurrent units."""
    inputs, units, steps = (9, 3, 40, 8, 20, 2)[seed], (2, 8, 12, 20, 4, 5)[seed], 30 - 2 * seed
    net, drawn, rows = Network((1, steps, inputs), seed), np.random.default_rng(seed), kind.gates
    shapes = ((rows * units, inputs), (rows * units, units))
    weights = [drawn.integers(-127, 128, shape).astype(np.int8) for shape in shapes]
    of_x, of_h = ((((2**30,) * rows), ((-5,) * rows)) for _ in range(2))
    hidden = (2**30, -22 if kind is Lstm else -7)
    op = kind(net.type(net.x).zero_point, of_x, of_h, hidden, 3)
    lengths = (rows * units, *((units,) if kind.has_h_bias else ()))
    biases = [drawn.integers(-(2**12), 2**12, count).astype(np.int32) for count in lengths]
    kinds = (*(("int8", (0.01,), 0),) * 2, *(("int32", (0.001,), 0),) * len(biases))
    constants = [
        net._tensor(f"of{i}", TensorType(value.shape, *of), value)
        for i, (value, of) in enumerate(zip((*weights, *biases), kinds, strict=True))
    ]
    x = net.reshape(net.x, (1, steps, inputs))
    y = net.reshape(net._add(op, (x, *constants), (1 / 128, 3)), (1, 1, steps, units))
    return net.graph(net.reshape(net.conv(net.mean(y), 4), (1, 4)), f"{kind.__name__}-{seed}")


def recalling(seed: int) -> Graph:
    """The same through gated recurrent units."""
    return remembering(seed, Gru)


def reading(seed: int) -> Graph:
    """Few token ids or many, from small tables and large ones."""
    rows, width, count = (30, 9, 200, 64)[seed], (8, 30, 64, 7)[seed], (40, 8, 24, 5)[seed]
    net, drawn = Network((1, 1, 1), seed), np.random.default_rng(seed)
    net.tensors.clear()
    net.x = net._tensor("ids", TensorType((1, count), "int16", (1.0,)))
    codes = drawn.integers(-128, 128, (rows, width)).astype(np.int8)
    table = net._tensor("table", TensorType(codes.shape, "int8", (0.02,), 3), codes)
    y = net._add(Embedding(), (net.x, table), (0.02, 3))
    y = net.mean(net.reshape(y, (1, 1, count, width)))
    return net.graph(net.reshape(net.conv(y, 3 + seed), (1, 3 + seed)), f"reading-{seed}")


def targeting(seed: int) -> Graph:
    """A few real numbers or many."""
    net = Network((6, 5, 2), seed)
    y = net.mean(net.conv(net.x, 6, relu=True))
    return net.graph(net.conv(y, (1, 3, 12, 40)[seed]), f"targeting-{seed}")


def detecting(seed: int) -> Graph:
    """Four outputs, one of which has a class for each of few positions or many."""
    return detector(seed=seed, side=(3, 6, 10, 15)[seed])


def averaging(seed: int) -> Graph:
    """Classes that are means of what a convolution and its ReLU give at each position."""
    classes, side = (2, 21, 5, 40)[seed], (8, 6, 16, 13)[seed]
    net = Network((side, side + 2, 3), seed)
    y = net.mean(net.conv(net.conv(net.x, 6), classes, relu=True))
    return net.graph(net.reshape(y, (1, classes)), f"averaging-{seed}")


def rescaling(seed: int) -> Graph:
    """Means of windows under another scale, with borders and without."""
    net = Network((9 + 4 * seed, 7 + 5 * seed, 3), seed)
    y = net.conv(net.x, 6 + 7 * seed, same(3), relu=True)
    y = net.scaled_pool(y, (same(3), Window((2, 2), (2, 2)))[seed % 2])
    y = net.scaled_pool(net.conv(y, 5 + 5 * seed, relu=True), Window((3, 3), (2, 2)))
    y = net.conv(net.mean(y), 4)
    return net.graph(net.reshape(y, (1, 4)), f"rescaling-{seed}")


def resizing(seed: int) -> Graph:
    """Images with more and fewer pixels, of any number."""
    net = Network((9 + 3 * seed, 7 + 4 * seed, 2 + seed), seed)
    y = net.doubled(net.conv(net.x, 5 + 6 * seed, same(3, 2), relu=True))
    y = net.doubled(net.conv(y, 4 + 5 * seed, same(3, 2), relu=seed % 2 == 0), bilinear=False)
    y = net.conv(y, 6 + 3 * seed)
    _, height, width, _ = net.type(y).shape
    rows, columns = (np.linspace(0, 1024 * (n - 1), n // 2 + 2) for n in (height, width))
    y = net.resize(y, *(tuple(at.astype(int).tolist()) for at in (rows, columns)))
    if seed % 2:  # a gradient that nothing is fused into
        y = net.pool(y, MaxPool2D, same(3, 1))
    y = net.resize(y, (0, 0, 1024), tuple(range(0, 4096, 1024)))
    y = net.conv(net.mean(net.conv(y, 8)), 3 + seed, rounds_once=True)
    return net.graph(net.reshape(y, (1, 3 + seed)), f"resizing-{seed}")


def cutting(seed: int) -> Graph:
    """Every second pixel, halves of channels, rows and single channels, of any number."""
    net = Network((9 + 3 * seed, 7 + 4 * seed, 2 + seed), seed)
    y = net.conv(net.x, 6 + 6 * seed, same(3), relu=True)
    rows, columns, channels = (range(n) for n in net.type(y).shape[1:])
    two = (
        net.slice(y, rows[::2], columns[1::2], channels),
        net.slice(y, rows[1:], columns, channels),
    )
    y = net.conv(two[0], 8 + 7 * seed)
    other = net.conv(two[1], 5 + seed, same(3, 2))
    y = net.add(y, net.pad(two[0], (0, 0, 0, 0), (1, 1 + seed)))
    rows, columns, channels = (range(n) for n in net.type(y).shape[1:])
    half = len(channels) // 2
    parts = (net.slice(y, rows, columns, part) for part in (channels[:half], channels[half:]))
    y = net.concatenation(*parts)
    y = net.conv(net.slice(net.conv(y, 12), rows[1:-1], columns[:-1], range(seed % 2, 12, 3)), 6)
    y = net.slice(net.mean(y), range(1), range(1), range(1, 6))
    y = net.concatenation(y, net.slice(net.mean(other), range(1), range(1), range(0, 5, 2)))
    return net.graph(
        net.reshape(net.conv(y, 3 + seed, rounds_once=True), (1, 3 + seed)), f"cutting-{seed}"
    )


def normalizing(seed: int) -> Graph:
    """Few channels and many of them normalized, images and rows, of any number."""
    net = Network((9 + 3 * seed, 7 + 4 * seed, 2 + seed), seed)
    y = net.layer_norm(net.conv(net.x, 6 + 11 * seed, same(3, 2)))
    y = net.layer_norm(net.depthwise(y, same(7)), eps=1e-5)
    y = net.add(net.conv(net.conv(y, 24 + 8 * seed, relu=True), 6 + 11 * seed), y)
    y = net.layer_norm(net.conv(net.layer_norm(y), 13 + 20 * seed))
    y = net.squared_difference(y, net.conv(y, 13 + 20 * seed))
    if seed % 2:  # a gradient that nothing is fused into
        y = net.pool(y, MaxPool2D, same(3, 1))
    y = net.conv(net.layer_norm(net.mean(y), eps=1e-12), 3 + seed, rounds_once=True)
    return net.graph(net.reshape(y, (1, 3 + seed)), f"normalizing-{seed}")


def dividing(seed: int) -> Graph:
    """Quotients of two tensors, of any number."""
    net = Network((7 + 3 * seed, 6 + 4 * seed, 2 + seed), seed)
    y = net.conv(net.x, 5 + 6 * seed, same(3))
    y = net.div(net.conv(y, 7 + 9 * seed), net.conv(y, 7 + 9 * seed))
    y = net.conv(net.mean(y), 3 + seed, rounds_once=True)
    return net.graph(net.reshape(y, (1, 3 + seed)), f"dividing-{seed}")


def grouped(seed: int) -> Graph:
    """Convolutions in groups, of any number."""
    net = Network((9 + 3 * seed, 7 + 4 * seed, 2 + seed), seed)
    wide = seed // 2
    y = net.conv(net.x, 8 + 24 * wide, same(3, 2), relu=True)
    y = net.grouped(y, 2 + 2 * (seed % 2), 12 + 20 * wide, same(3), relu=seed % 2 == 0)
    y = net.grouped(y, 4, 8 + 16 * wide, relu=True)
    y = net.grouped(y, 8 >> wide, 16 + 8 * seed, same(5, 1 + seed % 2))
    y = net.grouped(net.relu(y), 2, 16, Window((2, 1), (1, 2)))
    y = net.conv(net.mean(net.conv(y, 8)), 3 + seed, rounds_once=True)
    return net.graph(net.reshape(y, (1, 3 + seed)), f"grouped-{seed}")


def attending(seed: int) -> Graph:
    """Products of computed matrices, stored either way, of any number."""
    net = Network((7 + 2 * seed, 6 + 3 * seed, 2 + seed), seed)
    y = net.conv(net.x, 6 + 6 * seed, same(3, 1 + seed // 2), relu=True)
    y = net.add(net.attention(y, 1 + seed), y)
    y = net.batch_matmul(net.conv(y, 5 + seed), net.conv(y, 4 + 3 * seed), transposed_a=True)
    if seed % 2:  # gradients that nothing is fused into
        y = net.batch_matmul(net.pool(y, MaxPool2D, same(3)), net.relu(y), transposed_b=True)
    else:
        y = net.batch_matmul(y, net.conv(y, 3), transposed_a=True)
    y = net.conv(net.mean(net.conv(y, 8)), 3 + seed, rounds_once=True)
    return net.graph(net.reshape(y, (1, 3 + seed)), f"attending-{seed}")


def leaky_relu(net: Network, x: str) -> str:
    """A tenth of what is negative."""
    t = net.type(x)
    factors = [quantize_multiplier(f) for f in (1.0, 0.1)]
    return net._add(LeakyRelu(t.zero_point, t.zero_point, *factors), (x,), (t.scale, t.zero_point))

"""Small networks that are to reproduce their input, and samples of a few hidden numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.autodiff import TrainGraph, TrainOptions, differentiate
from mcutrain.fixedpoint import quantize_multiplier
from mcutrain.ir.graph import Graph
from mcutrain.ops.spatial import Window
from mcutrain.pipeline.losses import MEAN_SQUARED_ERROR, loss_of
from mcutrain.sparse import UpdateScheme, find_head, resolve
from tests.simulation.networks import ONE_SAMPLE_INT8, Network, same

Array = npt.NDArray[Any]


def dense(features: int = 24, seed: int = 1) -> Graph:
    """features → 16 → 5 → 16 → features, [1, features] in and out."""
    net = Network((1, 1, features), seed)
    net.tensors[net.x] = replace(
        net.tensors[net.x], type=replace(net.type(net.x), shape=(1, features))
    )
    y = net.reshape(net.x, (1, 1, 1, features))
    for width in (16, 5, 16):
        y = net.conv(y, width, relu=width != 5, rounds_once=True)
    y = net.conv(y, features, rounds_once=True)
    return calibrated(net.graph(net.reshape(y, (1, features)), "dense-autoencoder"))


def convolutional(seed: int = 2) -> Graph:
    """An image in and out, with scales per channel."""
    net = Network((5, 4, 3), seed)
    y = net.conv(net.x, 6, same(3), relu=True)
    y = net.conv(net.add(net.conv(y, 6), y), 3, Window((1, 1)))
    return calibrated(net.graph(y, "convolutional-autoencoder"))


def calibrated(graph: Graph) -> Graph:
    """The graph with outputs as large as inputs: the last layer's weights mean something else."""
    head = find_head(graph).node
    x, y = (graph.tensors[n].type for n in (graph.inputs[0], head.outputs[0]))
    factor = x.scale / y.scale
    tensors = dict(graph.tensors)
    for name in (*head.inputs[1:], *head.outputs):
        old = tensors[name]
        scales = tuple(s * factor for s in old.type.scales)
        tensors[name] = replace(old, type=replace(old.type, scales=scales))
    for node in graph.nodes:
        if node.op.is_view and node.outputs[0] in graph.outputs:
            old = tensors[node.outputs[0]]
            tensors[old.name] = replace(old, type=replace(old.type, scales=(x.scale,)))
    sums = tensors[head.inputs[2]].type.scales
    pairs = [quantize_multiplier(s / x.scale) for s in sums]
    requantize = replace(
        head.op.requantize,  # type: ignore[attr-defined]
        mult_q31=tuple(m for m, _ in pairs),
        shift=tuple(s for _, s in pairs),
    )
    op = replace(head.op, requantize=requantize)  # type: ignore[type-var]
    nodes = [replace(n, op=op) if n.name == head.name else n for n in graph.nodes]
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def training_graph(
    graph: Graph, scheme: UpdateScheme | None = None, options: TrainOptions = ONE_SAMPLE_INT8
) -> TrainGraph:
    scheme = scheme or UpdateScheme("full", None, {}, None)
    loss = loss_of(graph, MEAN_SQUARED_ERROR)
    return differentiate(graph, find_head(graph).name, resolve(scheme, graph), loss, options)


def normal(graph: Graph, count: int, seed: int = 0, noise: float = 4.0) -> Array:
    """int8 samples [count, …] that three hidden numbers and a little noise explain."""
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    mixing = np.random.default_rng(99).normal(0, 22, (3, math.prod(shape)))
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3)) @ mixing + rng.normal(0, noise, (count, math.prod(shape)))
    return np.clip(np.rint(x), -128, 127).astype(np.int8).reshape(count, *shape)

"""Which front a sample gets: a linear layer on the means of the stem's channels.

After PieBridge's policy network, without its noise: the same sample always gets the same level.
The stem is what all fronts begin with. The policy computes it at some positions only: a mean needs
no more, and its whole output would have to lie in memory beside the sample.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.interpret import interpret
from mcutrain.ir.verify import proven
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.proxies.behind import Behind
from mcutrain.quant.multipliers import single

Array = npt.NDArray[Any]
DECAY = 1e-3
"""Weight of the squared weights: keeps those finite that tell levels apart without an error."""
MOST_STEPS = 500
GRID = 8
"""Rows and columns of positions that the policy's means are of, if the stem has as many."""


def stem_of(front: Graph) -> Graph:
    """The first convolution, and what follows it element by element."""
    nodes: list[Node] = []
    for node in front.nodes:
        is_convolution = isinstance(node.op, Conv2D | DepthwiseConv2D)
        begun = any(isinstance(n.op, Conv2D) for n in nodes)
        y = front.tensors[node.outputs[0]].type
        if begun and (is_convolution or not _follows(front, nodes[-1], node)):
            break
        nodes.append(node)
        if not begun and (is_convolution and len(y.shape) != 4):
            break
    return replace(front, outputs=nodes[-1].outputs).with_nodes(nodes)


def _follows(front: Graph, before: Node, node: Node) -> bool:
    """Return whether it alone reads what comes before, and keeps its shape."""
    (y,), (made,) = before.outputs, node.outputs
    alone = front.consumers(y) == (node,)
    channels = front.tensors[y].type.shape[-1]
    constants = (front.tensors[name] for name in node.inputs)
    by_channel = all(t.type.elements <= channels for t in constants if t.data is not None)
    same = front.tensors[y].type.shape == front.tensors[made].type.shape
    computed = [name for name in node.inputs if front.tensors[name].data is None]
    return alone and same and by_channel and computed == [y]


def on_grid(stem: Graph, grid: int = GRID) -> Graph:
    """The stem at every n-th position of both axes, so that as many are left, or hardly more.

    Of the inner positions: no padding belongs to any. The stem itself if it has no more, or no
    single convolution.
    """
    found = [i for i, node in enumerate(stem.nodes) if isinstance(node.op, Conv2D)]
    shape = stem.tensors[stem.outputs[0]].type.shape
    if len(found) != 1 or len(shape) != 4:
        return stem
    node = stem.nodes[found[0]]
    assert isinstance(node.op, Conv2D)
    down, right = node.op.window.stride
    strides = (down * max(1, shape[1] // grid), right * max(1, shape[2] // grid))
    if strides == node.op.window.stride:
        return stem
    window = replace(node.op.window, stride=strides, padding=(0, 0, 0, 0))
    rows, columns = stem.tensors[node.inputs[0]].type.shape[1:3]
    size = window.output_size(rows, columns)
    tensors = dict(stem.tensors)
    for follower in stem.nodes[found[0] :]:
        y = tensors[follower.outputs[0]]
        kind = replace(y.type, shape=(1, *size, y.type.shape[3]))
        tensors[y.name] = replace(y, type=kind)
    nodes = list(stem.nodes)
    nodes[found[0]] = replace(node, op=replace(node.op, window=window))
    return proven(replace(stem, tensors=tensors, nodes=tuple(nodes)))


def features_of(stem: Graph, x: Array) -> Array:
    """The int8 means of the stem's channels less their zero point, [n, channels], of samples."""
    graph = _pooled(stem)
    (name,), (mean,) = graph.inputs, graph.outputs
    shape = graph.tensors[name].type.shape
    found = [interpret(graph, {name: sample.reshape(shape)})[mean].ravel() for sample in x]
    return np.array(found, np.float64) - graph.tensors[mean].type.zero_point


def fit_policy(features: Array, levels: Array, count: int) -> tuple[Array, Array]:
    """Multinomial logistic regression: weights [count, features] and biases of levels 0 … count-1.

    The scores' mean is 0 for every sample, which changes no choice.
    """
    from scipy.optimize import minimize

    mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-6
    z = np.column_stack([(features - mean) / scale, np.ones(len(features))])
    wanted = np.eye(count)[levels]

    def loss(flat: Array) -> tuple[float, Array]:
        w = flat.reshape(count, -1)
        scores = z @ w.T
        scores -= scores.max(axis=1, keepdims=True)
        odds = np.exp(scores)
        odds /= odds.sum(axis=1, keepdims=True)
        value = -np.mean(np.log((odds * wanted).sum(axis=1) + 1e-300)) + DECAY * np.sum(w * w)
        return value, ((odds - wanted).T @ z / len(z) + 2 * DECAY * w).ravel()

    found = minimize(
        loss, np.zeros(count * z.shape[1]), jac=True, method="L-BFGS-B",
        options={"maxiter": MOST_STEPS},
    ).x.reshape(count, -1)  # fmt: skip
    found -= found.mean(axis=0)
    w = found[:, :-1] / scale
    return w, found[:, -1] - w @ mean


def policy_graph(stem: Graph, w: Array, b: Array, features: Array) -> Graph:
    """The int8 network: stem, means, scores. features: of samples, whose scores fit into int8."""
    made = Behind(_pooled(stem))
    x = made.type
    scores = features @ w.T + b
    y_scale = single(max(np.abs(scores).max(), 1e-6) / 127)
    w_scale = single(max(np.abs(w).max(), 1e-12) / 127 / x.scale)
    step = w_scale * x.scale
    codes = np.clip(np.rint(w / step), -127, 127).astype(np.int8)
    bias = np.clip(np.rint(b / step), -(2**30), 2**30).astype(np.int32)
    made.dense("policy/scores", codes, w_scale, bias, y_scale, 0)
    made.reshape("policy/levels", (1, len(w)))
    return replace(made.result(), name="policy")


def levels_of(policy: Graph, x: Array) -> Array:
    """Return what the policy chooses for samples: the first of the largest scores."""
    (name,), (scores,) = policy.inputs, policy.outputs
    shape = policy.tensors[name].type.shape
    given = (interpret(policy, {name: sample.reshape(shape)})[scores] for sample in x)
    return np.array([int(np.argmax(found)) for found in given])


def _pooled(stem: Graph) -> Graph:
    """Put the mean of each channel behind the stem."""
    made = Behind(stem)
    if len(made.type.shape) == 4 and made.type.shape[1:3] != (1, 1):
        made.mean(f"{made.y}/mean")
    return made.graph

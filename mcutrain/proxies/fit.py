"""A network with fewer channels, fitted layer by layer to what the whole one makes.

As He, Zhang, Sun 2017 ("Channel Pruning for Accelerating Very Deep Neural Networks", section 3.2):
each convolution in turn is a least-squares solution. It fits the sums of the whole network's, from
what the layers before it, fitted already, give it in int8. Where its output is added to a trunk it
makes up for the trunk's error, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import Graph, Node, Tensor
from mcutrain.ir.verify import proven
from mcutrain.ops.add import Add
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.proxies.inner import Inner, keep_channels
from mcutrain.proxies.layer_values import Positions, Values, weights_of
from mcutrain.quant.multipliers import bias_without_overflow, conv_multipliers

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]
RIDGE = 1e-3
"""Share of an input's mean square: how much weights stay as they were where samples do not tell."""
MOST_INPUTS = 2304
"""Most inputs of a layer that is fitted; larger ones stay as they are but for the bias."""


Kept = Sequence[tuple[Inner, Array]]
"""Groups of channels, each with the places of those that stay, ascending."""


def fit(whole: Graph, kept: Kept, x: Array, report: Report = lambda *_: None) -> Graph:
    """The network with fewer channels and other weights. x: samples, int8 [n, …]."""
    return _Fit(whole, kept, x).fitted(report)


class _Fit:
    """Both networks, node by node."""

    def __init__(self, whole: Graph, kept: Kept, x: Array) -> None:
        self.whole, self.graph = whole, keep_channels(whole, kept)
        self.kept = {name: channels for inner, channels in kept for name in inner.tensors}
        self.wanted, self.found = Values(whole, x), Values(self.graph, x)
        self.differs: set[str] = set()

    def fitted(self, report: Report) -> Graph:
        pairs = list(zip(self.whole.nodes, self.graph.nodes, strict=True))
        for done, (wanted, node) in enumerate(pairs):
            if isinstance(node.op, Conv2D) and node.inputs[0] in self.differs:
                node = self._refit(wanted, node)
            self.wanted.run(wanted)
            self.found.run(node, self.graph)
            if self._is_another(wanted, node):
                self.differs.add(node.outputs[0])
            report(done + 1, len(pairs))
        return proven(self.graph)

    def _is_another(self, wanted: Node, node: Node) -> bool:
        a, b = self.whole.tensors, self.graph.tensors
        return (
            not self.differs.isdisjoint(node.inputs)
            or a[node.outputs[0]].type != b[node.outputs[0]].type
        )

    def _refit(self, wanted: Node, node: Node) -> Node:
        """The least-squares solution, quantized; the node as it is if that would overflow."""
        assert isinstance(node.op, Conv2D)
        positions = Positions.drawn(self.graph, node, self.found.count)
        inputs = positions.patches(node.op, self.found[node.inputs[0]])
        target = self._target(wanted, node, positions)
        w, _ = weights_of(self.graph, node)
        if inputs.shape[1] <= MOST_INPUTS:
            w = least_squares(inputs, target, w)
        return self._with(node, w, inputs.mean(axis=0), target.mean(axis=0))

    def _target(self, wanted: Node, node: Node, positions: Positions) -> Array:
        """The whole network's sums, of the channels that are left; and what a trunk lacks."""
        assert isinstance(wanted.op, Conv2D)
        w, b = weights_of(self.whole, wanted)
        kept = self.kept.get(node.outputs[0], slice(None))
        inputs = positions.patches(wanted.op, self.wanted[wanted.inputs[0]])
        target: Array = inputs @ w[kept].T + b[kept]
        readers = self.graph.consumers(node.outputs[0])
        if len(readers) == 1 and isinstance(readers[0].op, Add):
            trunks = [n for n in readers[0].inputs if n in self.differs]
            for trunk in trunks:
                scale = self.graph.tensors[trunk].type.scale
                wanted_, found = (positions.at(v[trunk]) for v in (self.wanted, self.found))
                target = target + scale * (wanted_.astype(np.float64) - found)
        return target

    def _with(self, node: Node, w: Array, mean_x: Array, mean_y: Array) -> Node:
        """The node with these weights, of real sums of integer inputs."""
        op = node.op
        assert isinstance(op, Conv2D)
        assert op.requantize is not None
        tensors = self.graph.tensors
        x, y = (tensors[n].type for n in (node.inputs[0], node.outputs[0]))
        w_tensor, b_tensor = (tensors[n] for n in node.inputs[1:3])
        scales = _scales(w / x.scale, w_tensor)
        whole = np.broadcast_to(scales, len(w))[:, None] * x.scale
        codes = np.clip(np.rint(w / whole), -127, 127)
        lacking = mean_y - (codes * whole) @ mean_x
        bias = np.rint(lacking / whole[:, 0])
        stage = op.requantize
        mult, shift = conv_multipliers(x.scale, [float(s) for s in scales], y.scale)
        stage = replace(stage, mult_q31=mult, shift=shift)
        data = codes.astype(np.int8).reshape(w_tensor.type.shape)
        fitting = bias_without_overflow(
            data, 0, np.clip(bias, -(2**31), 2**31 - 1).astype(np.int64), stage
        )
        if fitting is None:
            return node
        own = tuple(float(s) for s in scales)
        sums = tuple(x.scale * s for s in own)
        changed = {
            w_tensor.name: _constant(w_tensor, own, data),
            b_tensor.name: _constant(b_tensor, sums, fitting),
        }
        new = replace(node, op=replace(op, requantize=stage))
        nodes = tuple(new if n.name == node.name else n for n in self.graph.nodes)
        self.graph = replace(self.graph, tensors={**tensors, **changed}, nodes=nodes)
        return new


def least_squares(inputs: Array, target: Array, w: Array) -> Array:
    """The weights of the least squared error beside a bias, near w. [out, inputs]."""
    centred = inputs - inputs.mean(axis=0)
    moments = centred.T @ centred / len(inputs)
    products = centred.T @ (target - target.mean(axis=0)) / len(inputs)
    moments_held = moments.copy()
    moments_held[np.diag_indices_from(moments)] += RIDGE * np.trace(moments) / len(moments) + 1e-9
    change = np.linalg.solve(moments_held, products - moments @ w.T)
    found: Array = w + change.T
    return found


def _scales(w: Array, old: Tensor) -> Array:
    """One for each channel, or one for all where the layer has one; single precision."""
    largest = np.abs(w).max(axis=1)
    if len(old.type.scales) == 1:
        largest = largest.max(keepdims=True)
    kept = np.broadcast_to(np.array(old.type.scales), largest.shape)
    found: Array = np.where(largest > 0, largest / 127, kept).astype(np.float32).astype(np.float64)
    return found


def _constant(old: Tensor, scales: tuple[float, ...], data: Array) -> Tensor:
    return Tensor(old.name, replace(old.type, scales=scales), data)

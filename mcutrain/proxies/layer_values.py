"""What a network makes of some samples, layer by layer, and what its convolutions see of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node
from mcutrain.ops.conv_2d import Conv2D

Array = npt.NDArray[Any]
POSITIONS = 2**14
"""Positions of a layer, over all samples, to which it is fitted."""


class Values:
    """Values of the tensors that nodes still read, int8 [n, …]. Each node is run once, in order."""

    def __init__(self, graph: Graph, x: Array) -> None:
        (name,) = graph.inputs
        self.graph, self.count = graph, len(x)
        self._last = {n: i for i, node in enumerate(graph.nodes) for n in node.inputs}
        self._last.update(dict.fromkeys(graph.outputs, len(graph.nodes)))
        self._place = {node.name: i for i, node in enumerate(graph.nodes)}
        self._values = {name: x.reshape(self.count, *graph.tensors[name].type.shape[1:])}

    def __getitem__(self, name: str) -> Array:
        return self._values[name]

    def run(self, node: Node, graph: Graph | None = None) -> None:
        """Compute what a node makes. graph: whose constants it reads, if these are others now."""
        tensors = (graph or self.graph).tensors
        constants = {n: tensors[n].data for n in node.inputs}
        parts = []
        for i in range(self.count):
            given = []
            for name in node.inputs:
                constant = constants[name]
                given.append(self._values[name][i : i + 1] if constant is None else constant)
            parts.append(node.op.reference(*given)[0])
        self._values[node.outputs[0]] = np.concatenate(parts)
        place = self._place[node.name]
        for name in (*node.inputs, *node.outputs):
            if self._last.get(name, -1) <= place:
                self._values.pop(name, None)


@dataclass(frozen=True)
class Positions:
    """Some outputs of a layer: of every sample as many, drawn. places: [samples, n]."""

    places: Array

    @staticmethod
    def drawn(graph: Graph, node: Node, samples: int) -> Positions:
        """Draw positions by the layer's size and name."""
        _, rows, columns, _ = graph.tensors[node.outputs[0]].type.shape
        each = min(rows * columns, max(1, POSITIONS // samples))
        random = np.random.default_rng(sum(node.name.encode()))
        drawn = [random.permutation(rows * columns)[:each] for _ in range(samples)]
        return Positions(np.array(drawn))

    def patches(self, op: Conv2D, x: Array) -> Array:
        """Return what the layer sums over, [positions, inputs], less the zero point, float64."""
        found = []
        for sample, places in zip(x, self.places, strict=True):
            patches = op.window.patches(sample[None], op.x_zero_point)
            found.append(patches.reshape(-1, math.prod(patches.shape[2:]))[places])
        return np.concatenate(found).astype(np.float64) - op.x_zero_point

    def at(self, y: Array) -> Array:
        """Take the fitted positions of something of the layer's outputs, [positions, channels]."""
        flat = y.reshape(len(y), -1, y.shape[-1])
        found: Array = np.concatenate([f[p] for f, p in zip(flat, self.places, strict=True)])
        return found


def weights_of(graph: Graph, node: Node) -> tuple[Array, Array]:
    """A convolution's weights and biases, as real sums have them of integer inputs.

    w: [out, inputs]. b: [out].
    """
    w, b = (graph.tensors[name] for name in node.inputs[1:3])
    assert w.data is not None
    assert b.data is not None
    x_scale = graph.tensors[node.inputs[0]].type.scale
    scales = x_scale * np.broadcast_to(np.array(w.type.scales), len(w.data))
    return w.data.reshape(len(w.data), -1) * scales[:, None], b.data * scales

"""What a rule on the float graph gives, and functions that exporters write as several operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.quant.float_affine import Affine
from mcutrain.quant.float_elementwise import (
    FUNCTIONS,
    Clamp,
    FloatAdd,
    FloatLeakyRelu,
    FloatMul,
    Function,
)
from mcutrain.quant.float_graph import FloatGraph, FloatNode

Array = npt.NDArray[Any]

PRODUCTS = ("gelu", "gelu_tanh", "hard_swish", "mish")
"""Functions that exporters write as products; .tflite has no operator for mish or its parts."""
POINTS = np.linspace(-8.0, 8.0, 1025)
"""Where functions are compared: beyond, these are 0 or x."""
LARGEST = 1e30  # values that can be squared
TOLERANCE = 1e-3  # of a function times 1; exporters round 1/6 and 1/sqrt(2) differently
MOST_NODES = 16  # that a function is written as


@dataclass(frozen=True)
class Edit:
    """Nodes that take a node's place, by its output."""

    nodes: Mapping[str, tuple[FloatNode, ...]]


Rule = Callable[[FloatGraph, FloatNode], Edit | None]


def known_product(graph: FloatGraph, node: FloatNode) -> Edit | None:
    """A product that follows from one tensor is one of PRODUCTS times a factor, however written.

    x * relu6(x + 3) / 6, x * 0.5 * (1 + erf(x / sqrt(2))): told by the values.
    """
    if not isinstance(node.op, FloatMul):
        return None
    for x in _ancestors(graph, node):
        found = _factor_of(_Function(graph, x, {x: POINTS}).value(node.output))
        if found is not None:
            return _as_function(graph, node, x, *found)
    return None


def _as_function(graph: FloatGraph, node: FloatNode, x: str, name: str, factor: float) -> Edit:
    channels = graph.shapes[x][-1]
    function = FloatNode(node.name, Function(name), (x,), f"{node.output}/{name}")
    rest = Affine(np.full(channels, factor), np.zeros(channels))
    scaled = FloatNode(f"{node.name}/scale", rest, (function.output,), node.output)
    return Edit({node.output: (function, scaled)})


def _factor_of(values: Array | None) -> tuple[str, float] | None:
    """Return which of PRODUCTS, times what, has these values at POINTS; the nearest one."""
    if values is None or not (np.abs(values) < LARGEST).all():
        return None
    errors = {}
    for name in PRODUCTS:
        expected = FUNCTIONS[name](POINTS)
        factor = float(values @ expected / (expected @ expected))
        if factor > 0:
            errors[name] = float(np.abs(values - factor * expected).max()) / factor, factor
    name = min(errors, key=lambda n: errors[n][0], default="")
    return (name, errors[name][1]) if name and errors[name][0] < TOLERANCE else None


def _ancestors(graph: FloatGraph, node: FloatNode) -> list[str]:
    """Tensors from which the node may follow, element by element, the nearest first."""
    found: list[str] = []
    pending = list(node.inputs)
    while pending and len(found) < MOST_NODES:
        name = pending.pop(0)
        if name in found:
            continue
        found.append(name)
        producer = graph.producers.get(name)
        if producer is not None and _is_elementwise(producer):
            pending += producer.inputs
    return found


def _is_elementwise(node: FloatNode) -> bool:
    """Return whether it treats all elements alike."""
    op = node.op
    if isinstance(op, Affine):
        return op.is_uniform
    return isinstance(op, Function | Clamp | FloatLeakyRelu | FloatMul | FloatAdd)


@dataclass(frozen=True)
class _Function:
    """What tensors are as functions of the tensor x. known: values so far."""

    graph: FloatGraph
    x: str
    known: dict[str, Array | None] = field(repr=False)

    def value(self, name: str) -> Array | None:
        """Value at POINTS; None if it does not follow from x alone, element by element."""
        if name not in self.known:
            self.known[name] = None
            if len(self.known) <= MOST_NODES:
                self.known[name] = self._computed(self.graph.producers.get(name))
        return self.known[name]

    def _computed(self, node: FloatNode | None) -> Array | None:
        shapes = self.graph.shapes
        if node is None or not _is_elementwise(node) or shapes[node.output] != shapes[self.x]:
            return None
        values = [v for v in map(self.value, node.inputs) if v is not None]
        if len(values) < len(node.inputs):
            return None
        with np.errstate(all="ignore"):
            if isinstance(node.op, Affine):
                return values[0] * float(node.op.factor[0]) + float(node.op.shift[0])
            return node.op.run(*values)

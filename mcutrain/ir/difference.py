"""Whether two graphs compute the same bits, whatever their tensors and nodes are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.ir.interpret import interpret

Array = npt.NDArray[Any]

DRAWN_SAMPLES = 3


def difference(a: Graph, b: Graph) -> str:
    """A sentence on how b computes something else than a; empty if it computes the same bits.

    Equal operators on equal constants are equal, views left aside. Graphs that are made of other
    operators are run on a few random inputs.
    """
    for what, ours, theirs in (("inputs", a.inputs, b.inputs), ("outputs", a.outputs, b.outputs)):
        if len(ours) != len(theirs):
            return f"it has {len(theirs)} {what} instead of {len(ours)}"
        for one, other in zip(ours, theirs, strict=True):
            found = _types_differ(a.tensors[one].type, b.tensors[other].type)
            if found:
                return f"its {what[:-1]} {other!r} has {found}"
    first = _Walk(a, b).first_difference()
    if not first:
        return ""
    how_many = _outputs_differ(a, b)
    return f"{first}; {how_many}" if how_many else ""


class _Walk:
    """Both graphs from their outputs to their inputs, in step."""

    def __init__(self, a: Graph, b: Graph) -> None:
        self.a, self.b = _Producers.of(a), _Producers.of(b)
        self.seen: dict[str, str] = {}

    def first_difference(self) -> str:
        left = list(zip(self.a.graph.outputs, self.b.graph.outputs, strict=True))
        while left:
            one, other = (p.source(n) for p, n in zip((self.a, self.b), left.pop(), strict=True))
            if one in self.seen:
                if self.seen[one] != other:
                    return f"{other!r} stands where {self.seen[one]!r} is read, too"
                continue
            self.seen[one] = other
            found = self._tensors(one, other)
            if found:
                return found
            nodes = self.a.of_tensor.get(one), self.b.of_tensor.get(other)
            if nodes[0] is not None and nodes[1] is not None:
                left += zip(nodes[0].inputs, nodes[1].inputs, strict=True)
        return ""

    def _tensors(self, one: str, other: str) -> str:
        x, y = self.a.graph.tensors[one], self.b.graph.tensors[other]
        nodes = self.a.of_tensor.get(one), self.b.of_tensor.get(other)
        if nodes[0] is None or nodes[1] is None:
            if nodes != (None, None) or (x.data is None) != (y.data is None):
                return f"{other!r} is computed or constant, {one!r} is not"
            if x.data is None or y.data is None:
                at = [g.graph.inputs.index(n) for g, n in ((self.a, one), (self.b, other))]
                return "" if at[0] == at[1] else f"it reads the input {other!r} for {one!r}"
            same = _shape(x.type) == _shape(y.type) and np.array_equal(
                x.data.ravel(), y.data.ravel()
            )
            return "" if same else f"the constant {other!r} differs from {one!r}"
        if nodes[0].op != nodes[1].op or len(nodes[0].inputs) != len(nodes[1].inputs):
            return _operators_differ(nodes[0], nodes[1])
        found = _types_differ(x.type, y.type)
        return f"{other!r} has {found}" if found else ""


@dataclass(frozen=True)
class _Producers:
    """A graph and the node that computes each tensor."""

    graph: Graph
    of_tensor: dict[str, Node]

    @staticmethod
    def of(graph: Graph) -> _Producers:
        return _Producers(graph, {name: node for node in graph.nodes for name in node.outputs})

    def source(self, name: str) -> str:
        """The tensor that this one is a view of."""
        while name in self.of_tensor and self.of_tensor[name].op.is_view:
            name = self.of_tensor[name].inputs[0]
        return name


def _operators_differ(a: Node, b: Node) -> str:
    kind = type(b.op).__name__
    if type(a.op) is not type(b.op):
        return f"node {b.name!r} is {kind} where {a.name!r} is {type(a.op).__name__}"
    assert is_dataclass(a.op)
    compared = (field.name for field in fields(a.op) if field.compare)
    names = [name for name in compared if getattr(a.op, name) != getattr(b.op, name)]
    return f"node {b.name!r} ({kind}) has another {' and '.join(names) or 'number of inputs'}"


def _types_differ(a: TensorType, b: TensorType) -> str:
    if _shape(a) != _shape(b):
        return f"the shape {b.shape} instead of {a.shape}"
    if (a.dtype, a.scales, a.zero_point) != (b.dtype, b.scales, b.zero_point):
        return (
            f"scale {_first(b.scales)} and zero point {b.zero_point} instead of "
            f"{_first(a.scales)} and {a.zero_point}"
        )
    return ""


def _first(scales: Sequence[float]) -> str:
    return f"{scales[0]:.9g}" if scales else "none"


def _shape(kind: TensorType) -> tuple[int, ...]:
    """Without the axes of length 1, which views add and remove."""
    return tuple(n for n in kind.shape if n != 1)


def _outputs_differ(a: Graph, b: Graph) -> str:
    """Return how many, and by how much; empty if none does."""
    steps: list[Array] = []
    rng = np.random.default_rng(0)
    for _ in range(DRAWN_SAMPLES):
        drawn = [drawn_inputs(a, n, rng) for n in a.inputs]
        results = []
        for graph in (a, b):
            fed = zip(graph.inputs, drawn, strict=True)
            values = interpret(graph, {n: x.reshape(graph.tensors[n].type.shape) for n, x in fed})
            results.append(np.concatenate([values[n].ravel() for n in graph.outputs]))
        steps.append(np.abs(np.subtract(*results, dtype=np.int64)))
    moved, count = np.concatenate(steps), np.count_nonzero(steps)
    if count == 0:
        return ""
    drawn_from = f"{moved.size:,} outputs of {DRAWN_SAMPLES} random inputs"
    return f"{count:,} of {drawn_from} differ, by {moved.max()} at most"


def drawn_inputs(graph: Graph, x: str, rng: np.random.Generator, count: int = 0) -> Array:
    """Random values [1, …] of an input, or [count, …]: int8, or token ids that have a row."""
    shape = graph.tensors[x].type.shape
    low, high = (-128, 128)
    if rows := graph.vocabulary(x):
        low, high = 0, rows
    values = rng.integers(low, high, (count, *shape[1:]) if count else shape)
    return values.astype(graph.tensors[x].type.dtype)


def is_rescaled(original: Graph, trained: Graph) -> bool:
    """Whether something that is computed has another type: the outputs' scale, or their number."""
    known = original.tensors
    computed = [t for n, t in trained.tensors.items() if t.data is None and n in known]
    return any(known[t.name].type != t.type for t in computed)


def changed(original: Graph, trained: Graph) -> tuple[str, ...]:
    """The names of the constants that differ, in the order in which nodes read them."""
    names = dict.fromkeys(n for node in trained.nodes for n in node.inputs)
    found = []
    for name in names:
        before, after = original.tensors.get(name), trained.tensors[name]
        if after.data is None:
            continue
        is_same = before is not None and before.type == after.type and before.data is not None
        if not is_same or not np.array_equal(after.data, before.data):  # type: ignore[union-attr,arg-type]
            found.append(name)
    return tuple(found)

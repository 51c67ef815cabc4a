"""Which layers' costs may depend on each other, and on how deep the gradient goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from mcutrain.ir.graph import Graph
from mcutrain.sparse.layers import find_head, layers_of

Unit = tuple[int, ...]
"""Layers whose weights are chosen together, ascending; mostly one."""


@dataclass(frozen=True)
class Structure:
    """What a graph says of its layers. count: how many before the head.

    ancestor: layer → the last layer before it on a path to its input, -1 if there is none. same:
    pairs that read the same tensor. related: pairs whose inputs may share memory by being
    overwritten.
    """

    names: tuple[str, ...]
    ancestor: tuple[int, ...]
    same: tuple[Unit, ...]
    related: tuple[Unit, ...]

    @property
    def count(self) -> int:
        """Layers before the head."""
        return len(self.names)

    @staticmethod
    def of(graph: Graph) -> Structure:
        """Found by one pass over the graph."""
        layers = layers_of(graph, find_head(graph))
        index = {layer.name: layer.index for layer in layers}
        latest: dict[str, int] = {}
        roots: dict[str, str] = {}
        memory = _Classes()
        for node in graph.nodes:
            before = max((latest.get(name, -1) for name in node.inputs), default=-1)
            for position, name in enumerate(node.outputs):
                latest[name] = index.get(node.name, before)
                if node.op.is_view:
                    roots[name] = roots.get(node.inputs[0], node.inputs[0])
                    memory.join(name, node.inputs[0])
                for i in node.op.may_overwrite.get(position, ()):
                    memory.join(name, node.inputs[i])
        reads = [layer.node.inputs[0] for layer in layers]
        pairs = list(combinations(range(len(layers)), 2))
        root = [roots.get(name, name) for name in reads]
        same = tuple(p for p in pairs if root[p[0]] == root[p[1]])
        related = tuple(p for p in pairs if memory.of(reads[p[0]]) == memory.of(reads[p[1]]))
        return Structure(
            tuple(layer.name for layer in layers),
            tuple(latest.get(name, -1) for name in reads),
            same,
            tuple(p for p in related if p not in same),
        )

    def signature(self, unit: Unit, depth: int) -> tuple[tuple[bool, bool], ...]:
        """For each layer whether it may be trained at this bias depth, and whether its input's
        gradient is wanted; the unit's cost depends on no more of the depth."""
        first = self.count - depth
        return tuple((i >= first, self.ancestor[i] >= first) for i in unit)


def joined(count: int, pairs: Iterable[Unit]) -> tuple[Unit, ...]:
    """The layers 0 … count - 1 in units that no pair crosses."""
    classes = _Classes()
    for a, b in pairs:
        classes.join(str(a), str(b))
    units: dict[str, list[int]] = {}
    for i in range(count):
        units.setdefault(classes.of(str(i)), []).append(i)
    return tuple(sorted(tuple(unit) for unit in units.values()))


class _Classes:
    """Disjoint sets of names."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def of(self, name: str) -> str:
        while name in self._parent:
            name = self._parent[name]
        return name

    def join(self, a: str, b: str) -> None:
        a, b = self.of(a), self.of(b)
        if a != b:
            self._parent[a] = b

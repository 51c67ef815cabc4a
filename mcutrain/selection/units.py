"""Which layers' costs may depend on each other, and on how deep the gradient goes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph
from mcutrain.sparse.channels import channel_count
from mcutrain.sparse.layers import find_head, layers_of
from mcutrain.sparse.leaving_out import without_modules
from mcutrain.sparse.modules import PROJECTION, WholeModule
from mcutrain.sparse.scheme import UpdateScheme
from mcutrain.update_rules import SGD

Unit = tuple[int, ...]
"""Layers and modules that are chosen together, ascending; mostly one."""
Shares = tuple[tuple[int, float], ...]
"""(layer, share), ascending; the layers whose weights are trained, and modules behind them."""


@dataclass(frozen=True)
class Structure:
    """What a graph says of its layers, and of modules that have learnt nothing, behind them.

    names: of both. modules: of the latter. anchor: the layer whose bias must be trained for it to
    be: the layer itself, or the last one before what a module changes. ancestor: the last layer
    before it on a path to its input, -1 if there is none. same: pairs whose costs depend on each
    other: they read the same tensor, or are a layer and its low-rank update. related: pairs whose
    inputs may share memory by being overwritten, and modules with what reads or makes the same
    tensors. update_rule: of all schemes.
    """

    names: tuple[str, ...]
    modules: tuple[WholeModule, ...]
    anchor: tuple[int, ...]
    ancestor: tuple[int, ...]
    same: tuple[Unit, ...]
    related: tuple[Unit, ...]
    update_rule: str = SGD

    @property
    def count(self) -> int:
        """Layers before the head."""
        return len(self.names) - len(self.modules)

    def module(self, place: int) -> WholeModule | None:
        """The module behind the layers; None for a layer."""
        return self.modules[place - self.count] if place >= self.count else None

    def least_depth(self, place: int) -> int:
        """The least bias depth at which it may be trained."""
        return self.count - self.anchor[place]

    def scheme(
        self, depth: int, shares: Shares, bits: int, bias_bits: int = UpdateScheme.bias_bits
    ) -> UpdateScheme:
        """The scheme of these choices."""
        weights = {str(i): s for i, s in shares if i < self.count}
        kept = {m.name: kept_channels(m, s) for i, s in shares if (m := self.module(i)) is not None}
        return UpdateScheme(
            "selected",
            depth,
            weights,
            residual_bits=bits,
            bias_bits=bias_bits,
            modules=bool(kept),
            module_channels=kept,
            update_rule=self.update_rule,
        )

    @staticmethod
    def of(graph: Graph, update_rule: str = SGD) -> Structure:
        """Found by one pass over the graph. update_rule: of all schemes."""
        graph, places = without_modules(graph)
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
        same = [p for p in pairs if root[p[0]] == root[p[1]]]
        related = [p for p in pairs if memory.of(reads[p[0]]) == memory.of(reads[p[1]])]
        hosts = {layer.node.outputs[0]: layer.index for layer in layers}
        made = [roots.get(y, y) for y in hosts]
        touched = [{x, y} for x, y in zip(root, made, strict=True)]
        for number, place in enumerate(places, len(layers)):
            if PROJECTION in place.module.parts:
                same.append((hosts[place.beside], number))
            own = {roots.get(name, name) for name in (place.reads, place.beside)}
            related += [(i, number) for i, other in enumerate(touched) if own & other]
            touched.append(own)
        beside = [latest.get(place.beside, -1) for place in places]
        return Structure(
            (*(layer.name for layer in layers), *(place.module.name for place in places)),
            tuple(place.module for place in places),
            (*range(len(layers)), *beside),
            tuple(latest.get(name, -1) for name in (*reads, *(p.reads for p in places))),
            tuple(same),
            tuple(p for p in related if p not in same),
            update_rule,
        )

    def signature(self, unit: Unit, depth: int) -> tuple[tuple[bool, bool], ...]:
        """Return what a unit's cost depends on at a bias depth.

        For each layer: whether it may be trained, and whether its input's gradient is wanted.
        """
        first = self.count - depth
        return tuple((self.anchor[i] >= first, self.ancestor[i] >= first) for i in unit)


def kept_channels(module: WholeModule, share: float) -> int:
    """How many hidden channels a share of a module is, as schemes have it: 0 where it has none."""
    return channel_count(share, module.channels) if module.channels else 0


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

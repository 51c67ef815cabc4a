"""Which axes of a graph's tensors must share one order of channels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.op import Axis, ChannelTie

Place = tuple[str, int]
"""A tensor and one of its axes, counted from 0."""

Repeats = tuple[int, int]
"""How often an order lies on an axis, around and inside: `outer` and `inner` of ir.op.Axis."""


@dataclass(frozen=True)
class ChannelGroup:
    """Axes that one order of channels permutes, each of outer * channels * inner places.

    A single channel has but one order: a group of one is fixed.
    """

    channels: int
    members: Mapping[Place, Repeats]


@dataclass(frozen=True, eq=False)
class _Known:
    """A graph as a key: the same object, whatever another one holds."""

    graph: Graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and other.graph is self.graph

    def __hash__(self) -> int:
        return id(self.graph)


def channel_groups(graph: Graph) -> tuple[ChannelGroup, ...]:
    """The groups that have more than one order, in the order in which nodes meet them.

    The model's inputs and outputs keep their order, and so does each axis of an operand that its
    operator ties to nothing. Found once for schemes of one graph that are asked for in turn.
    """
    return _groups_of(_Known(graph))


@lru_cache(maxsize=1)
def _groups_of(known: _Known) -> tuple[ChannelGroup, ...]:
    graph = known.graph
    found = _Groups()
    for place, length in _places(graph, (*graph.inputs, *graph.outputs)):
        found.fix(place, length)
    for node in graph.nodes:
        tied: set[Place] = set()
        for tie in ties_of(graph, node):
            members = [(place_of(node, axis), (axis.outer, axis.inner)) for axis in tie]
            tied.update(place for place, _ in members)
            found.tie(members, channels_of(graph, node, tie))
        for place, length in _places(graph, (*node.inputs, *node.outputs)):
            if place not in tied:
                found.fix(place, length)
    return tuple(group for group in found.groups() if group.channels > 1)


def ties_of(graph: Graph, node: Node) -> tuple[ChannelTie, ...]:
    """What the operator says of its operands; nothing if it saves masks, one bit per element."""
    if len(node.outputs) > 1:
        return ()
    return node.op.channel_ties(graph.types(node.inputs), graph.types(node.outputs))


def place_of(node: Node, axis: Axis) -> Place:
    """The tensor's axis that an operand's axis is."""
    names = node.inputs if axis.operand.kind == "input" else node.outputs
    return names[axis.operand.index], axis.axis


def channels_of(graph: Graph, node: Node, tie: ChannelTie) -> int:
    """Return how many channels an order of this tie has."""
    name, axis = place_of(node, tie[0])
    return graph.tensors[name].type.shape[axis] // (tie[0].outer * tie[0].inner)


def _places(graph: Graph, names: Iterable[str]) -> Iterator[tuple[Place, int]]:
    """All axes of these tensors, and their lengths."""
    for name in names:
        for axis, length in enumerate(graph.tensors[name].type.shape):
            yield (name, axis), length


class _Groups:
    """Disjoint groups that grow together; every place is in at most one."""

    def __init__(self) -> None:
        self._group_of: dict[Place, ChannelGroup] = {}

    def groups(self) -> Iterable[ChannelGroup]:
        """Each group once, in the order in which its first place was met."""
        return {id(group): group for group in self._group_of.values()}.values()

    def fix(self, place: Place, length: int) -> None:
        """What is tied to this place, now or later, keeps its order."""
        group = self._group_of.get(place, ChannelGroup(length, {place: (1, 1)}))
        if group.channels > 1 or place not in self._group_of:
            self._file(_fixed(group))

    def tie(self, members: Sequence[tuple[Place, Repeats]], channels: int) -> None:
        """Let the members share an order from now on."""
        group = ChannelGroup(channels, dict(members))
        if any(group.members[place] != repeats for place, repeats in members):
            group = _fixed(group)  # one axis, read in two ways
        known = [self._group_of[place] for place, _ in members if place in self._group_of]
        for other in {id(g): g for g in known}.values():
            group = _merged(other, group)
        self._file(group)

    def _file(self, group: ChannelGroup) -> None:
        self._group_of.update(dict.fromkeys(group.members, group))


def _coarsened(group: ChannelGroup, outer: int, inner: int) -> ChannelGroup:
    """Only the orders that permute blocks of `inner` channels, alike in each of `outer` parts."""
    members = {place: (o * outer, i * inner) for place, (o, i) in group.members.items()}
    return ChannelGroup(group.channels // (outer * inner), members)


def _fixed(group: ChannelGroup) -> ChannelGroup:
    """Only the order that is there."""
    return _coarsened(group, group.channels, 1)


def _merged(a: ChannelGroup, b: ChannelGroup) -> ChannelGroup:
    """The orders that are possible in both, which share a place; found for blocks, else fixed.

    Orders of blocks inside a block are not looked for: a depthwise layer of several outputs per
    input, say, permutes its inputs only.
    """
    shared = [place for place in a.members if place in b.members]
    (a_outer, a_inner), (b_outer, b_inner) = a.members[shared[0]], b.members[shared[0]]
    outer, inner = math.lcm(a_outer, b_outer), math.lcm(a_inner, b_inner)
    length = a.channels * a_outer * a_inner
    if length % (outer * inner) == 0:
        first = _coarsened(a, outer // a_outer, inner // a_inner)
        second = _coarsened(b, outer // b_outer, inner // b_inner)
        if all(first.members[place] == second.members[place] for place in shared):
            return ChannelGroup(first.channels, {**first.members, **second.members})
    first, second = _fixed(a), _fixed(b)
    return ChannelGroup(1, {**first.members, **second.members})

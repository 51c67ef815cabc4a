"""How many channels a share is, and an order in which those that are trained come first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node, Tensor
from mcutrain.ir.op import ChannelTie, expanded_order
from mcutrain.ir.verify import proven
from mcutrain.sparse.groups import (
    ChannelGroup,
    Place,
    channel_groups,
    channels_of,
    place_of,
    ties_of,
)

Array = npt.NDArray[Any]
WHOLE = (1, 1)  # the axis is the order itself, not several of it


def channel_count(share: float, channels: int) -> int:
    """Return how many input channels a share above 0 is: at least one."""
    return min(max(1, round(share * channels)), channels)


@dataclass(frozen=True)
class Wish:
    """How many of a weight's input channels (its last axis) a layer trains, and which it prefers.

    importance: not negative, one number per channel. count: less than there are.
    """

    importance: Array
    count: int

    def largest(self) -> tuple[int, ...]:
        """The most important channels, ascending; of equal ones the first."""
        return tuple(sorted(_descending(self.importance)[: self.count].tolist()))


@dataclass(frozen=True)
class ChannelOrder:
    """A graph with permuted channels; it computes the same bits.

    orders: for each axis that is not as it was, order[j] is the old place of what is at j now.
    channels: weight → its trained input channels in this graph, ascending.
    """

    graph: Graph
    orders: Mapping[Place, tuple[int, ...]]
    channels: Mapping[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", MappingProxyType(dict(self.orders)))
        object.__setattr__(self, "channels", MappingProxyType(dict(self.channels)))

    def restored(self, tensor: str, value: Array) -> Array:
        """Return what this graph's tensor holds, in the model's own order; all channels of it."""
        for axis in range(value.ndim):
            if (tensor, axis) in self.orders:
                value = np.take(value, np.argsort(self.orders[tensor, axis]), axis)
        return value


def order_channels(graph: Graph, wishes: Mapping[str, Wish]) -> ChannelOrder:
    """The graph with the channels that each layer would train, if possible, in front.

    wishes: by the name of the weight. A layer trains its channels 0 to count - 1 then. Where one
    layer alone reads a group of channels that are tied to each other, those are the ones that it
    wants. Several layers may read one group: a residual stream, or a depthwise layer and the
    convolution after it. They get the order that covers most, in the sum, of the importance that
    each could have at best. So each may train some channels that are not its most important. Input
    channels have a fixed order in a layer that reads the model's input. They repeat behind a
    flattened image or several outputs per input channel. Such a layer keeps its own most important
    channels wherever they lie.
    """
    orders: dict[Place, Array] = {}
    channels: dict[str, tuple[int, ...]] = {}
    for group in channel_groups(graph) if wishes else ():
        readers = [name for name in wishes if group.members.get(_inputs(graph, name)) == WHOLE]
        if readers:
            order = common_order([wishes[name] for name in readers])
            orders.update(_on_members(group, order))
            channels.update({name: tuple(range(wishes[name].count)) for name in readers})
    for name, wish in wishes.items():
        if name not in channels:
            moved = orders.get(_inputs(graph, name), np.arange(len(wish.importance)))
            places = np.argsort(moved)[list(wish.largest())]
            channels[name] = tuple(sorted(places.tolist()))
    stored = {place: tuple(order.tolist()) for place, order in orders.items()}
    return ChannelOrder(permuted(graph, orders), stored, channels)


def common_order(wishes: Sequence[Wish]) -> Array:
    """One order for all: each wish trains the first `count` of it. order[j] moves to place j.

    Of one wish, or several of the same count: the most important ones first. For others it is the
    best assignment of channels to places. Each wish counts the importance that its first `count`
    places hold, relative to what they could hold at best; the sum over the wishes is largest.
    Exact; ties as they come first.
    """
    if len(wishes) == 1:
        return _descending(wishes[0].importance)
    scores = [
        wish.importance / (wish.importance[list(wish.largest())].sum() or 1.0) for wish in wishes
    ]
    order = _descending(np.sum(scores, axis=0))
    counts = sorted({wish.count for wish in wishes})
    if len(counts) == 1:
        return order
    parts = _assigned(wishes, scores, counts)
    return order[np.argsort(parts[order], kind="stable")]


def _assigned(wishes: Sequence[Wish], scores: Sequence[Array], counts: Sequence[int]) -> Array:
    """Assign channels to parts: part p ends at place counts[p], the last at the end.

    A channel of part p is trained by all wishes that train counts[p] channels or more.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import, rarely needed

    gains = [
        np.sum([s for s, w in zip(scores, wishes, strict=True) if w.count >= count], axis=0)
        for count in counts
    ]
    part_of_place = np.repeat(np.arange(len(counts)), np.diff([0, *counts]))
    channels, places = linear_sum_assignment(np.array(gains).T[:, part_of_place], maximize=True)
    parts = np.full(len(scores[0]), len(counts))
    parts[channels] = part_of_place[places]
    return parts


def permuted(graph: Graph, orders: Mapping[Place, Array]) -> Graph:
    """The graph with these axes in these orders, which fit each other at every operator."""
    if not orders:
        return graph
    by_tensor: dict[str, dict[int, Array]] = defaultdict(dict)
    for (name, axis), order in orders.items():
        by_tensor[name][axis] = order
    tensors = {
        name: _permuted_tensor(tensor, by_tensor[name]) if name in by_tensor else tensor
        for name, tensor in graph.tensors.items()
    }
    nodes = tuple(_permuted_node(graph, node, orders) for node in graph.nodes)
    return proven(replace(graph, tensors=tensors, nodes=nodes))


def _permuted_tensor(tensor: Tensor, orders: Mapping[int, Array]) -> Tensor:
    """Data and scales in the new order."""
    data, scales = tensor.data, tensor.type.scales
    for axis, order in orders.items():
        if data is not None:
            data = np.take(data, order, axis)
        if len(scales) > 1 and axis == tensor.type.axis % len(tensor.type.shape):
            scales = tuple(scales[i] for i in order.tolist())
    return Tensor(tensor.name, replace(tensor.type, scales=scales), data)


def _permuted_node(graph: Graph, node: Node, orders: Mapping[Place, Array]) -> Node:
    """The operator's own numbers in the new order."""
    ties = ties_of(graph, node)
    if not any(place_of(node, tie[0]) in orders for tie in ties):
        return node
    own = [_order_of(graph, node, tie, orders) for tie in ties]
    return replace(node, op=node.op.with_channel_order(*own))


def _order_of(graph: Graph, node: Node, tie: ChannelTie, orders: Mapping[Place, Array]) -> Array:
    """The order of a tie's channels, from that of the places of its first axis."""
    axis, channels = tie[0], channels_of(graph, node, tie)
    order = orders.get(place_of(node, axis))
    if order is None:
        return np.arange(channels)
    first: Array = order.reshape(axis.outer, channels, axis.inner)[0, :, 0] // axis.inner
    return first


def _on_members(group: ChannelGroup, order: Array) -> dict[Place, Array]:
    """The order of every axis of the group; nothing if it changes nothing."""
    if np.array_equal(order, np.arange(group.channels)):
        return {}
    return {place: expanded_order(order, o, i) for place, (o, i) in group.members.items()}


def _inputs(graph: Graph, weight: str) -> Place:
    """The axis of a weight's input channels."""
    return weight, len(graph.tensors[weight].type.shape) - 1


def _descending(importance: Array) -> Array:
    """The channels by importance; of equal ones the first comes first."""
    return np.argsort(-importance, kind="stable")

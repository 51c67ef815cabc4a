"""Channels that only a network's own layers see, and the network with fewer of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node, Tensor
from mcutrain.ir.op import ChannelwiseOp
from mcutrain.ir.verify import proven
from mcutrain.ops.add import Add
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2D
from mcutrain.sparse.groups import ChannelGroup, Place, channel_groups

Array = npt.NDArray[Any]
WHOLE = (1, 1)  # the axis is the channels themselves, not several of each


@dataclass(frozen=True)
class Inner:
    """Channels that convolutions make and convolutions sum over: an expansion, a bottleneck.

    group: the axes that have them. readers: the convolutions that sum over them, in the order of
    execution. tensors: what is computed of them.
    """

    group: ChannelGroup
    readers: tuple[str, ...]
    tensors: tuple[str, ...]

    @property
    def channels(self) -> int:
        """How many there are."""
        return self.group.channels


def inner_channels(graph: Graph, fixed: Iterable[str] = ()) -> tuple[Inner, ...]:
    """All of an int8 network, in the order of execution.

    fixed: tensors that keep their channels besides the network's inputs and outputs. Between the
    convolutions are operators that treat each channel by itself; where two streams are added the
    channels belong to a trunk, which is left as it is.
    """
    kept = set(fixed)
    found = []
    for group in channel_groups(graph):
        inner = _inner(graph, group)
        if inner is not None and kept.isdisjoint(inner.tensors):
            found.append(inner)
    return tuple(found)


def keep_channels(graph: Graph, kept: Iterable[tuple[Inner, Array]]) -> Graph:
    """The network without the other channels. kept: of each group the places that stay, ascending.

    Nothing makes up for what is gone.
    """
    places: dict[Place, Array] = {
        place: np.asarray(channels) for inner, channels in kept for place in inner.group.members
    }
    tensors = {name: _with_fewer(tensor, places) for name, tensor in graph.tensors.items()}
    nodes = tuple(_node_with_fewer(graph, node, places) for node in graph.nodes)
    return proven(replace(graph, tensors=tensors, nodes=nodes))


def _inner(graph: Graph, group: ChannelGroup) -> Inner | None:
    if any(repeats != WHOLE for repeats in group.members.values()):
        return None
    tensors = {name for name, axis in group.members if _is_channels(graph, name, axis)}
    readers = []
    for node in graph.nodes:
        if tensors.isdisjoint((*node.inputs, *node.outputs)):
            continue
        if isinstance(node.op, Conv2D):
            readers += [node.name] if node.inputs[0] in tensors else []
        elif isinstance(node.op, Add) or not isinstance(node.op, DepthwiseConv2D | ChannelwiseOp):
            return None
    if not readers or tensors.intersection((*graph.inputs, *graph.outputs)):
        return None
    return Inner(group, tuple(readers), tuple(sorted(tensors)))


def _is_channels(graph: Graph, name: str, axis: int) -> bool:
    """Return whether an axis is the channels of something that is computed."""
    tensor = graph.tensors[name]
    return tensor.data is None and axis == len(tensor.type.shape) - 1


def _with_fewer(tensor: Tensor, kept: Mapping[Place, Array]) -> Tensor:
    """Data, shape and scales."""
    kind, data = tensor.type, tensor.data
    for axis in range(len(kind.shape)):
        channels = kept.get((tensor.name, axis))
        if channels is None:
            continue
        shape = (*kind.shape[:axis], len(channels), *kind.shape[axis + 1 :])
        if len(kind.scales) > 1 and axis == kind.axis % len(kind.shape):
            kind = replace(kind, scales=tuple(kind.scales[i] for i in channels.tolist()))
        kind = replace(kind, shape=shape)
        data = None if data is None else np.ascontiguousarray(np.take(data, channels, axis))
    return Tensor(tensor.name, kind, data)


def _node_with_fewer(graph: Graph, node: Node, kept: Mapping[Place, Array]) -> Node:
    """Multipliers and shifts belong to output channels; others' numbers to none."""
    y = node.outputs[0]
    channels = kept.get((y, len(graph.tensors[y].type.shape) - 1))
    op = node.op
    if channels is None or not isinstance(op, Conv2D | DepthwiseConv2D) or op.requantize is None:
        return node
    return replace(node, op=replace(op, requantize=op.requantize.with_channel_order(channels)))

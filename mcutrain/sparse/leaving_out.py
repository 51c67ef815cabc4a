"""Modules taken out of a graph again, or made smaller: what a scheme does not train costs nothing.

Only what has learnt nothing goes: without it the graph computes the same bits, and is the one that
the modules were put into.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import SchemeError, did_you_mean
from mcutrain.ir.graph import Graph, Node, Tensor
from mcutrain.ir.verify import proven
from mcutrain.sparse.modules import (
    PROJECTION,
    WholeModule,
    hidden_layer,
    low_rank_columns,
    modules_of,
    whole_modules,
)
from mcutrain.sparse.scheme import UpdateScheme

Array = npt.NDArray[Any]
POOLED = "lite"
"""The kind whose first layer reads what a pool makes of the network's tensor."""
EVERY_INT8 = np.arange(-128, 128, dtype=np.int8)


def trained_modules_only(graph: Graph, scheme: UpdateScheme) -> Graph:
    """The graph without the modules that the scheme leaves as they are, with the same outputs.

    A scheme that trains layers of modules by their own names or numbers leaves all in. Raises
    SchemeError for a module that the graph does not have, more channels than it has, or fewer than
    have learnt something.
    """
    present = whole_modules(graph)
    if scheme.module_channels:
        _check_names(graph, scheme, present)
    if not present or _wants_all(graph, scheme):
        return graph
    work = _LeavingOut(graph)
    for name, module in present.items():
        if name not in scheme.module_channels:
            work.take_out(module)
        elif 0 < scheme.module_channels[name] < module.channels:
            work.narrow(module, scheme.module_channels[name])
    return work.result()


@dataclass(frozen=True)
class ModulePlace:
    """Where a module that has learnt nothing stands, by tensors of the graph without modules.

    reads: what its first layer sees, or what is made of it. beside: what it adds to or scales; of a
    low-rank update the output of its layer.
    """

    module: WholeModule
    reads: str
    beside: str


def without_modules(graph: Graph) -> tuple[Graph, tuple[ModulePlace, ...]]:
    """The graph without the modules that have learnt nothing, and where those stood."""
    work = _LeavingOut(graph)
    for module in whole_modules(graph).values():
        work.take_out(module)
    return work.result(), work.places


def left_out(graph: Graph, left: Graph) -> tuple[str, ...]:
    """The names of the modules that are only in the first of two graphs, in execution order."""
    kept = whole_modules(left)
    return tuple(name for name in whole_modules(graph) if name not in kept)


def without_dead(graph: Graph) -> Graph:
    """Without the nodes that nothing reads."""
    needed, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    return graph.with_nodes(reversed(kept))


def _wants_all(graph: Graph, scheme: UpdateScheme) -> bool:
    """Return whether all modules stay, or numbers of their layers count all of them."""
    if scheme.modules and not scheme.module_channels:
        return True
    own = {key for m in modules_of(graph) for key in (m.layer.name, str(m.layer.index))}
    return bool(own.intersection(scheme.weights))


def _check_names(graph: Graph, scheme: UpdateScheme, present: Mapping[str, WholeModule]) -> None:
    for name, count in scheme.module_channels.items():
        if name not in present:
            raise SchemeError(
                f"scheme {scheme.name!r} trains the module {name!r}; {graph.name!r} has "
                f"{len(present) or 'no'} modules, none of that name{did_you_mean(name, present)}"
            )
        if count > present[name].channels:
            raise SchemeError(
                f"scheme {scheme.name!r} keeps {count} channels of the module {name!r}; it has "
                f"{present[name].channels or 'none to choose from: say true'}"
            )


class _LeavingOut:
    """The nodes and tensors so far; a node's inputs are those of the graph, or what `now` says."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors = dict(graph.tensors)
        self.nodes = {node.name: node for node in graph.nodes}
        self.now: dict[str, str] = {}
        self._places: list[ModulePlace] = []
        self.columns = {c.projection: (w, c) for w, c in low_rank_columns(graph).items()}

    def result(self) -> Graph:
        """The verified graph."""
        nodes = [
            replace(n, inputs=tuple(self._now(name) for name in n.inputs))
            for n in self.nodes.values()
        ]
        changed = replace(self.graph, tensors=self.tensors)
        return proven(without_dead(changed.with_nodes(nodes)))

    @property
    def places(self) -> tuple[ModulePlace, ...]:
        """Places of the modules that were left out, in execution order."""
        return tuple(
            replace(p, reads=self._now(p.reads), beside=self._now(p.beside)) for p in self._places
        )

    def take_out(self, module: WholeModule) -> None:
        """Without the module, if it computes nothing yet."""
        if PROJECTION in module.parts:
            self._without_columns(module)
        elif "factor" in module.parts:
            node = module.parts["factor"].node
            self._pass_by(module, node, node.inputs[0], self._values(node))
        else:
            self._without_branch(module)

    def narrow(self, module: WholeModule, count: int) -> None:
        """Keep the first hidden channels only. Raises SchemeError if others have learnt."""
        first = hidden_layer(module.parts)
        assert first is not None, module.name
        if PROJECTION in module.parts:
            weight, columns = self.columns[first.weight]
            keep = self._size(weight) - columns.rank + count
            joined = columns.joined.outputs[0]
            self._resize(joined, self.tensors[joined].type.shape[-1] - columns.rank + count)
        else:
            weight, keep = list(module.parts.values())[-1].weight, count
        if self._data(weight)[..., keep:].any():
            raise SchemeError(
                f"the module {module.name!r} has learnt with {module.channels} channels; it cannot "
                f"have {count} any more: take the model from before, or name it with all of them"
            )
        self._keep(weight, keep, -1)
        for name in (first.weight, first.bias):
            self._keep(name, count, 0)
        self._resize(first.node.outputs[0], count)
        node = self.nodes[first.node.name]
        op = node.op.with_channel_order(np.arange(count))
        self.nodes[node.name] = replace(node, op=op)

    def _without_columns(self, module: WholeModule) -> None:
        """A low-rank update: the layer reads what stood before the module's columns."""
        weight, columns = self.columns[module.parts[PROJECTION].weight]
        host = next(n for n in self.graph.nodes if weight in n.inputs)
        keep = self._size(weight) - columns.rank
        if host.inputs[0] != columns.joined.outputs[0] or self._data(weight)[..., keep:].any():
            return
        self._keep(weight, keep, -1)
        x = self.now[host.inputs[0]] = columns.joined.inputs[0]
        self._places.append(ModulePlace(module, x, host.outputs[0]))

    def _without_branch(self, module: WholeModule) -> None:
        """An addition to the trunk, whose last layer is 0."""
        first, *_, last = module.parts.values()
        if self._data(last.weight).any() or self._data(last.bias).any():
            return
        before, node = last.node, self._only_reader(last.node)
        while node is not None and len(node.inputs) == 1:
            before, node = node, self._only_reader(node)
        if node is None or len(node.inputs) != 2 or node.inputs[1] != before.outputs[0]:
            return
        zero = np.full(EVERY_INT8.shape, self.tensors[node.inputs[1]].type.zero_point, np.int8)
        (y,) = node.op.reference(EVERY_INT8, zero)
        x = first.node.inputs[0]
        pool = self.graph.producer(x) if module.kind == POOLED else None
        self._pass_by(module, node, x if pool is None else pool.inputs[0], y)

    def _pass_by(self, module: WholeModule, node: Node, reads: str, values: Array) -> None:
        """Who reads the node's output reads x, if both are the same for every integer."""
        x = node.inputs[0]
        kinds = self.graph.types((x, node.outputs[0]))
        same = kinds[0].scale == kinds[1].scale and kinds[0].zero_point == kinds[1].zero_point
        if same and (np.moveaxis(values, 0, -1) == EVERY_INT8).all():
            self.now[node.outputs[0]] = x
            self._places.append(ModulePlace(module, reads, x))

    def _values(self, gain: Node) -> Array:
        """Return what a gain makes of every integer in every channel: [256, channels]."""
        x = np.repeat(EVERY_INT8[:, None], self._size(gain.inputs[1]), axis=1)[None, None]
        values: Array = gain.op.reference(x, *map(self._data, gain.inputs[1:]))[0][0, 0]
        return values

    def _only_reader(self, node: Node) -> Node | None:
        (y,) = node.outputs
        readers = self.graph.consumers(y)
        return readers[0] if len(readers) == 1 and y not in self.graph.outputs else None

    def _now(self, name: str) -> str:
        while name in self.now:
            name = self.now[name]
        return name

    def _size(self, name: str) -> int:
        return self.tensors[name].type.shape[-1]

    def _data(self, name: str) -> Array:
        data = self.tensors[name].data
        assert data is not None, name
        return data

    def _resize(self, name: str, channels: int) -> None:
        """An activation with so many channels."""
        tensor = self.tensors[name]
        shape = (*tensor.type.shape[:-1], channels)
        self.tensors[name] = replace(tensor, type=replace(tensor.type, shape=shape))

    def _keep(self, name: str, count: int, axis: int) -> None:
        """A constant's first values along an axis, and their scales."""
        tensor = self.tensors[name]
        kind, data = tensor.type, np.take(self._data(name), range(count), axis)
        if len(kind.scales) > 1 and axis % len(kind.shape) == kind.axis % len(kind.shape):
            kind = replace(kind, scales=kind.scales[:count])
        data = np.ascontiguousarray(data)
        self.tensors[name] = Tensor(name, replace(kind, shape=data.shape), data)

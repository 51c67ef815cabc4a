"""The order of the nodes: digests as late as costs no memory, updates before what overwrites."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mcutrain.ir.graph import Graph, Node


def schedule(graph: Graph) -> Graph:
    """Reorder a graph so that less memory is alive at once.

    Digests (selected channels) move to free their inputs. Updates move before a node that may then
    overwrite what they read.

    A digest is a smaller stand-in for an activation. If the activation is needed later anyway, the
    digest stays where its reader is and costs nothing until then; otherwise it moves right behind
    the activation's last other use.
    """
    roots = view_roots(graph)
    order = _with_digests_moved(graph, roots)
    return replace(graph, nodes=tuple(_with_updates_first(order, roots)))


def _with_digests_moved(graph: Graph, roots: Mapping[str, str]) -> list[Node]:
    order = list(graph.nodes)
    for digest in [n for n in graph.nodes if n.op.is_digest]:
        source = roots.get(digest.inputs[0], digest.inputs[0])
        others = [
            i
            for i, n in enumerate(order)
            if n is not digest
            and not n.op.is_digest
            and any(roots.get(t, t) == source for t in (*n.inputs, *n.outputs))
        ]
        position = order.index(digest)
        last = max(others, default=-1)
        if last < position:
            order.pop(position)
            order.insert(last + 1, digest)
    return order


def _with_updates_first(nodes: Sequence[Node], roots: Mapping[str, str]) -> list[Node]:
    """Move updates forward, before nodes that may overwrite what they read.

    That are updates of what nobody reads in between: a bias, while the gradient of a layer's input
    needs but its weight.
    """
    order = list(nodes)
    readers: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for name in {roots.get(n, n) for n in node.inputs}:
            readers[name].append(node)
    for node in nodes:
        overwritten = {node.inputs[i] for places in node.op.may_overwrite.values() for i in places}
        for name in sorted(roots.get(n, n) for n in overwritten):
            behind = readers[name][readers[name].index(node) + 1 :]
            for update in (reader for reader in behind if reader.op.updates):
                _move_before(order, update, node)
    return order


def _move_before(order: list[Node], update: Node, node: Node) -> None:
    """If nothing that it reads is made in between, and nothing that it changes is read there."""
    begin, end = order.index(node), order.index(update)
    between = order[begin:end]
    changed = {update.inputs[place] for place in update.op.updates.values()}
    made = {name for n in between for name in n.outputs}
    read = {name for n in between for name in n.inputs}
    if made.isdisjoint(update.inputs) and changed.isdisjoint(read):
        order.insert(begin, order.pop(end))


def view_roots(graph: Graph) -> dict[str, str]:
    """View → the tensor whose memory it shows."""
    roots: dict[str, str] = {}
    for node in graph.nodes:
        if node.op.is_view:
            roots[node.outputs[0]] = roots.get(node.inputs[0], node.inputs[0])
    return roots

"""The order of the nodes: digests are made as late as costs no memory."""

from __future__ import annotations

from dataclasses import replace

from mcutrain.ir.graph import Graph


def schedule(graph: Graph) -> Graph:
    """The same graph with digests (selected channels) moved to free their inputs.

    A digest is a smaller stand-in for an activation. If the activation is needed later anyway, the
    digest stays where its reader is and costs nothing until then; otherwise it moves right behind
    the activation's last other use.
    """
    roots = view_roots(graph)
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
    return replace(graph, nodes=tuple(order))


def view_roots(graph: Graph) -> dict[str, str]:
    """View → the tensor whose memory it shows."""
    roots: dict[str, str] = {}
    for node in graph.nodes:
        if node.op.is_view:
            roots[node.outputs[0]] = roots.get(node.inputs[0], node.inputs[0])
    return roots

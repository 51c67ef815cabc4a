"""One form for what can be written in several ways: passes from graph to graph.

All keep every bit of the outputs. Frontends emit what is simple to emit and leave the rest to this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.op import Op
from mcutrain.ir.verify import proven, verify

ALL_CODES = (-128, 127)


def canonical(graph: Graph) -> Graph:
    """The graph in canonical form, verified.

    Pads become part of the convolution that follows, activations part of the operator before. There
    is no reshape of a reshape, no part of a part, no node without effect, and none that nothing
    needs.
    """
    passes: tuple[Callable[[Graph], Graph], ...] = (
        join_reshapes,
        join_pairs,
        drop_identities,
        fold_pads,
        fold_activations,
        drop_dead_nodes,
    )
    verify(graph)
    for one_pass in passes:
        graph = one_pass(graph)
    return proven(graph)


def join_reshapes(graph: Graph) -> Graph:
    """A reshape reads the tensor that the chain of reshapes before it started from."""
    source: dict[str, str] = {}
    nodes = []
    for node in graph.nodes:
        if node.op.is_view:
            first = source.get(node.inputs[0], node.inputs[0])
            source[node.outputs[0]] = first
            node = replace(node, inputs=(first,))
        nodes.append(node)
    return drop_dead_nodes(graph.with_nodes(nodes))


def join_pairs(graph: Graph) -> Graph:
    """Two nodes of which the second alone reads the first are one, where there is such a one."""
    readers = _readers(graph)
    made: dict[str, Node] = {}
    for node in graph.nodes:
        before = made.get(node.inputs[0]) if len(node.inputs) == 1 else None
        if before is not None and _has_one_reader(graph, readers, node.inputs[0]):
            op = node.op.after(before.op)
            node = node if op is None else replace(node, op=op, inputs=before.inputs)
        made[node.outputs[0]] = node
    return drop_dead_nodes(graph.with_nodes(made.values()))


def drop_identities(graph: Graph) -> Graph:
    """Reshapes to the same shape and rescalings to the same scale are their input."""
    new_name: dict[str, str] = {}
    kept = []
    for node in graph.nodes:
        if not _is_identity(graph, node):
            kept.append(node)
            continue
        x, y = new_name.get(node.inputs[0], node.inputs[0]), node.outputs[0]
        if y not in graph.outputs:
            new_name[y] = x
        elif _is_replaceable(graph, x):
            new_name = {k: y if v == x else v for k, v in new_name.items()}
            new_name[x] = y
        else:
            kept.append(node)
    return graph.with_nodes(_renamed(n, new_name) for n in kept)


def fold_pads(graph: Graph) -> Graph:
    """A border of zero points becomes part of the window of the one convolution that reads it."""
    readers = _readers(graph)
    borders = {
        node.outputs[0]: node
        for node in graph.nodes
        if node.op.border is not None and _has_one_reader(graph, readers, node.outputs[0])
    }
    nodes = []
    for node in graph.nodes:
        before = borders.get(node.inputs[0]) if node.inputs else None
        op = _with_border(node.op, before)
        if before is not None and op is not None:
            node = replace(node, op=op, inputs=(before.inputs[0], *node.inputs[1:]))
        nodes.append(node)
    return drop_dead_nodes(graph.with_nodes(nodes))


def _with_border(op: Op, before: Node | None) -> Op | None:
    """The operator with the border that the node before it makes."""
    border = None if before is None else before.op.border
    return None if border is None else op.with_border(border)


def fold_activations(graph: Graph) -> Graph:
    """A clamp after an operator that can clamp, on the same scale, is that operator's clamp."""
    readers = _readers(graph)
    producer: dict[str, int] = {}
    nodes: list[Node | None] = []
    for node in graph.nodes:
        before = producer.get(node.inputs[0]) if node.inputs else None
        if (
            before is not None
            and node.op.activation is not None
            and _has_one_reader(graph, readers, node.inputs[0])
        ):
            folded = _with_clamp(nodes[before], node)
            if folded is not None:
                nodes[before] = folded
                producer[node.outputs[0]] = before
                continue
        producer.update(dict.fromkeys(node.outputs, len(nodes)))
        nodes.append(node)
    return graph.with_nodes(n for n in nodes if n is not None)


def drop_dead_nodes(graph: Graph) -> Graph:
    """Only what the outputs depend on."""
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    return graph.with_nodes(reversed(kept))


def _is_identity(graph: Graph, node: Node) -> bool:
    """Return whether the output always equals the input, bit for bit and in meaning."""
    if node.op.is_view:
        x, y = (graph.tensors[name].type.shape for name in (node.inputs[0], node.outputs[0]))
        return x == y
    return node.op.activation == ALL_CODES


def _with_clamp(node: Node | None, clamp: Node) -> Node | None:
    """The node with the clamp in it and writing its output; None if it cannot have one.

    The limits of an activation always hold the zero point, so both ranges overlap.
    """
    limits = clamp.op.activation
    if node is None or limits is None:
        return None
    try:
        op = node.op.with_channel_limits(*limits)
    except ValueError:
        return None
    return replace(node, op=op, outputs=clamp.outputs)


def _readers(graph: Graph) -> dict[str, int]:
    """Return how many times each tensor is read, by nodes and as an output."""
    count = dict.fromkeys(graph.tensors, 0)
    names: Iterable[str] = (*graph.outputs, *(x for n in graph.nodes for x in n.inputs))
    for name in names:
        count[name] += 1
    return count


def _has_one_reader(graph: Graph, readers: Mapping[str, int], tensor: str) -> bool:
    """Return whether one node reads the tensor and it is not an output."""
    return readers[tensor] == 1 and tensor not in graph.outputs


def _is_replaceable(graph: Graph, tensor: str) -> bool:
    """Return whether another name may stand for a tensor: it is computed inside."""
    outside = (*graph.inputs, *graph.outputs)
    return tensor not in outside and not graph.tensors[tensor].is_constant


def _renamed(node: Node, new_name: Mapping[str, str]) -> Node:
    return replace(
        node,
        inputs=tuple(new_name.get(n, n) for n in node.inputs),
        outputs=tuple(new_name.get(n, n) for n in node.outputs),
    )

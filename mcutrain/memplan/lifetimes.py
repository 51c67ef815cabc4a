"""From scheduled nodes to buffers: what shares memory, and how long each buffer lives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcutrain.ir.graph import Graph, Node
from mcutrain.memplan.calls import node_call

SCRATCH_PREFIX = "scratch:"


@dataclass(frozen=True)
class Lifetimes:
    """buffer_of: tensor → the buffer that holds it. spans: buffer → (bytes, first, last)."""

    buffer_of: dict[str, str]
    spans: dict[str, tuple[int, int, int]]


def lifetimes(
    graph: Graph,
    nodes: Sequence[Node],
    persistent: frozenset[str],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> Lifetimes:
    """Buffers of all tensors that are neither constant nor persistent (state, arguments).

    nodes: the schedule; graph gives the types. inputs live from step 0, outputs until the last
    step. A view shares its source's buffer; an operator that may overwrite an input of equal size
    does so if nothing reads that input afterwards.
    """
    outside = persistent | {n for n, t in graph.tensors.items() if t.is_constant}
    last_use = _last_uses(nodes, outputs)
    buffer_of: dict[str, str] = {}
    spans: dict[str, tuple[int, int, int]] = {}
    for name in inputs:
        buffer_of[name] = name
        spans[name] = (graph.tensors[name].type.size_bytes, 0, 0)
    for step, node in enumerate(nodes):
        for position, name in enumerate(node.outputs):
            if name in outside or _is_state(node, position):
                continue
            buffer = _shared_buffer(graph, node, position, buffer_of, last_use, step, outside)
            buffer_of[name] = buffer or name
            if buffer is None:
                spans[name] = (graph.tensors[name].type.size_bytes, step, step)
        _extend(spans, buffer_of, node, step)
        scratch = _scratch_bytes(graph, node)
        if scratch:
            spans[SCRATCH_PREFIX + node.name] = (scratch, step, step)
    for name in outputs:
        if name in buffer_of:
            size, first, _ = spans[buffer_of[name]]
            spans[buffer_of[name]] = (size, first, max(len(nodes) - 1, 0))
    return Lifetimes(buffer_of, spans)


def _is_state(node: Node, position: int) -> bool:
    """Whether this output takes over the storage of an input that persists."""
    return position in node.op.updates


def _scratch_bytes(graph: Graph, node: Node) -> int:
    if node.op.is_view:
        return 0
    return node_call(graph, node).scratch_bytes


def _last_uses(nodes: Sequence[Node], outputs: Sequence[str]) -> dict[str, int]:
    """Tensor → the last step that reads it or a view of it."""
    last = {name: step for step, node in enumerate(nodes) for name in node.inputs}
    last.update({name: len(nodes) for name in outputs})
    for node in reversed(nodes):
        if node.op.is_view:
            source, view = node.inputs[0], node.outputs[0]
            last[source] = max(last.get(source, 0), last.get(view, 0))
    return last


def _shared_buffer(
    graph: Graph,
    node: Node,
    position: int,
    buffer_of: dict[str, str],
    last_use: dict[str, int],
    step: int,
    outside: frozenset[str] | set[str],
) -> str | None:
    """The buffer of an input that this output takes over, if there is one."""
    if node.op.is_view:
        return buffer_of.get(node.inputs[0])
    size = graph.tensors[node.outputs[position]].type.size_bytes
    for i in node.op.may_overwrite.get(position, ()):
        name = node.inputs[i]
        buffer = buffer_of.get(name)
        if name in outside or buffer is None or graph.tensors[name].type.size_bytes != size:
            continue
        sharing = [t for t, b in buffer_of.items() if b == buffer]
        if all(last_use.get(t, -1) <= step for t in sharing):
            return buffer
    return None


def _extend(
    spans: dict[str, tuple[int, int, int]], buffer_of: dict[str, str], node: Node, step: int
) -> None:
    for name in (*node.inputs, *node.outputs):
        if name in buffer_of:
            size, first, _ = spans[buffer_of[name]]
            spans[buffer_of[name]] = (size, first, step)

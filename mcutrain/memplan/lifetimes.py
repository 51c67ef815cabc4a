"""Buffers of scheduled nodes: what shares memory, and how long each buffer lives."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node
from mcutrain.memplan.calls import node_call
from mcutrain.memplan.stream import Segment

SCRATCH_PREFIX = "scratch:"
PROGRESS_PREFIX = "progress:"
FED = "fed"
FED_BYTES = 4
"""How much of a sample is there, from its first row to the next sample's."""


@dataclass(frozen=True)
class Lifetimes:
    """buffer_of: tensor → the buffer that holds it. spans: buffer → (bytes, first, last)."""

    buffer_of: dict[str, str]
    spans: dict[str, tuple[int, int, int]]


def lifetimes(
    graph: Graph,
    nodes: Sequence[Node],
    persistent: frozenset[str],
    given: Sequence[str],
    segments: Sequence[Segment] = (),
    kept: Sequence[str] = (),
) -> Lifetimes:
    """Buffers of all tensors that are neither constant nor persistent (state, arguments).

    nodes: the schedule; graph gives the types. given: inputs, which live from step 0. A view shares
    its source's buffer; an operator that may overwrite an input of equal size does so if nothing
    reads that input afterwards. All that a segment computes lives from its first step on, what it
    reads until its last. kept: what is there to the end, and behind it.
    """
    in_segment = {step: s for s in segments for step in range(s.first, s.last + 1)}
    outside = persistent | {n for n, t in graph.tensors.items() if t.is_constant}
    last_use = _last_uses(nodes, kept)
    buffer_of = {name: name for name in given}
    spans = {name: (graph.tensors[name].type.size_bytes, 0, 0) for name in given}
    for step, node in enumerate(nodes):
        segment = in_segment.get(step)
        if segment is None:
            _add_outputs(graph, node, step, outside, last_use, buffer_of, spans)
        elif step == segment.first:
            _add_segment(spans, buffer_of, segment)
    end = max(len(nodes) - 1, 0)
    if any(s.is_fed for s in segments):
        spans[FED] = (FED_BYTES, 0, end)
    for buffer in {buffer_of[name] for name in kept}:
        size_bytes, first, _ = spans[buffer]
        spans[buffer] = (size_bytes, first, end)
    return Lifetimes(buffer_of, spans)


def _add_outputs(
    graph: Graph,
    node: Node,
    step: int,
    outside: frozenset[str] | set[str],
    last_use: dict[str, int],
    buffer_of: dict[str, str],
    spans: dict[str, tuple[int, int, int]],
) -> None:
    """New buffers or shared ones, and scratch; what the node reads lives until now."""
    overwrites = False
    for position, name in enumerate(node.outputs):
        if name in outside or _is_state(node, position):
            continue
        buffer = _shared_buffer(graph, node, position, buffer_of, last_use, step, outside)
        buffer_of[name] = buffer or name
        overwrites |= buffer is not None
        if buffer is None:
            spans[name] = (graph.tensors[name].type.size_bytes, step, step)
    _extend(spans, buffer_of, node, step)
    scratch = _scratch_bytes(graph, node, overwrites)
    if scratch:
        spans[SCRATCH_PREFIX + node.name] = (scratch, step, step)


def _add_segment(
    spans: dict[str, tuple[int, int, int]], buffer_of: dict[str, str], segment: Segment
) -> None:
    """Rings and whole tensors, scratch, progress; what is read of others, by rows or at once."""
    first, last = segment.first, segment.last
    made = segment.tensors[0 if segment.is_fed else segment.sources :]
    read = {name for stage in segment.stages for name in stage.node.inputs}
    for buffer in {buffer_of[n] for n in read - {t.name for t in made} if n in buffer_of}:
        size, begin, end = spans[buffer]
        spans[buffer] = (size, begin, max(end, last))
    for tensor in made:
        if tensor.over:
            buffer_of[tensor.name] = buffer_of[tensor.over]
        else:
            buffer_of[tensor.name] = tensor.name
            spans[tensor.name] = (tensor.size_bytes, first, last)
    spans[PROGRESS_PREFIX + segment.name] = (segment.progress_bytes, first, last)
    if segment.scratch_bytes:
        spans[SCRATCH_PREFIX + segment.name] = (segment.scratch_bytes, first, last)


def _is_state(node: Node, position: int) -> bool:
    """Return whether this output takes over the storage of an input that persists."""
    return position in node.op.updates


def _scratch_bytes(graph: Graph, node: Node, overwrites: bool) -> int:
    if node.op.is_view:
        return 0
    call = node_call(graph, node)
    return max(call.scratch_bytes, call.overwriting_bytes if overwrites else 0)


def _last_uses(nodes: Sequence[Node], kept: Sequence[str]) -> dict[str, int]:
    """Tensor → the last step that reads it or a view of it; beyond all steps for what is kept."""
    last = {name: step for step, node in enumerate(nodes) for name in node.inputs}
    last.update(dict.fromkeys(kept, len(nodes)))
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
    may = node.op.may_overwrite.get(position, ())
    others = {buffer_of.get(name) for i, name in enumerate(node.inputs) if i not in may}
    for i in may:
        name = node.inputs[i]
        buffer = buffer_of.get(name)
        if name in outside or buffer is None or graph.tensors[name].type.size_bytes != size:
            continue
        if buffer in others:  # x * x reads it as another operand, too
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

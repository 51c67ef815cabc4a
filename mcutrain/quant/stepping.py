"""Streaming networks: a step takes a few rows, and layers reach into those of earlier steps.

A streaming file keeps the earlier rows of each layer's input in a variable. `window_of` makes of it
the network over the whole window that one output depends on; that is trained like any other.
`stepwise` makes of such a network one that computes a step at a time, with the same bits. Time is
axis 1. After google-research/kws_streaming (Rybakov et al. 2020), which makes a streaming network
of one over a window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.errors import UnsupportedError
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.ir.names import Names
from mcutrain.ir.verify import proven, verify
from mcutrain.ops.concatenation import Concatenation
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.slice import Part, Slice
from mcutrain.quant.canonical import drop_dead_nodes

Array = npt.NDArray[Any]

TIME = 1
ADVICE = (
    "supported are states that keep the last rows of what a layer reads, along axis 1; export the "
    "model without streaming, with the whole window as its input"
)


@dataclass(frozen=True)
class StateRing:
    """Rows that a step keeps for the next one.

    kept: the input of the step's graph with the rows before the step. new: the output with those
    after it. Both have the quantization of the tensor whose rows they are.
    """

    kept: str
    new: str


@dataclass(frozen=True)
class Stepped:
    """A network that computes one step. graph: inputs are the new rows and each ring's `kept`,
    outputs the network's and each ring's `new`. All rings begin with zero points.
    """

    graph: Graph
    rings: tuple[StateRing, ...]

    @property
    def ring_bytes(self) -> int:
        """Bytes of all rings."""
        return sum(self.graph.tensors[ring.kept].type.size_bytes for ring in self.rings)

    def zeros(self) -> dict[str, Array]:
        """Return what the rings begin with."""
        types = {ring.kept: self.graph.tensors[ring.kept].type for ring in self.rings}
        return {name: np.full(t.shape, t.zero_point, np.int8) for name, t in types.items()}


@dataclass(frozen=True)
class _Rows:
    """How a node's output rows follow from the rows of its inputs in `inputs`, by index.

    Row r is made of rows r * stride - pad … r * stride - pad + span - 1; the last `unread` rows of
    the inputs are not read.
    """

    inputs: tuple[int, ...]
    span: int
    stride: int
    unread: int


def window_of(graph: Graph, rings: Iterable[StateRing]) -> Graph:
    """The network over the whole window on which a streaming network's output depends.

    graph: computes one step: inputs are the new rows and each ring's `kept`, outputs the network's
    and each ring's `new`. Raises UnsupportedError with a sentence where its state is anything but
    the last rows of what a layer reads.
    """
    rings = tuple(rings)
    new = {ring.new for ring in rings}
    memories = _memories(graph, rings)
    outputs = tuple(name for name in graph.outputs if name not in new)
    count = len(graph.inputs) - len(rings)
    if count != 1:
        raise UnsupportedError(
            f"the streaming network takes {count} inputs beside its state; supported is one"
        )
    x = graph.inputs[0]
    if len(graph.tensors[x].type.shape) < 3:
        raise UnsupportedError(f"the input {x!r} has no axis of time; {ADVICE}")
    own = drop_dead_nodes(replace(graph, outputs=outputs))
    time = _Time.of(own, graph.tensors[x].type.shape[TIME], memories)
    needed = _needed_rows(own, time, memories)
    work, sources = _Remaking(own, time), dict[str, str]()
    work.tensor(x, needed[x], x)
    for node in own.nodes:
        y = node.outputs[0]
        if y in memories:
            sources[y] = sources.get(memories[y], memories[y])
        else:
            work.add(node, sources, needed[y] if y in time.fresh else None)
    made = replace(own, tensors=work.tensors, nodes=(), inputs=(x,), step_rows=time.fresh[x])
    made = verify(made.with_nodes(work.nodes))
    _check_rings(made, memories.values())
    return made


def stepwise(graph: Graph, rows: int) -> Stepped:
    """The network over a window as one that takes so many new rows at a time.

    Its outputs are those of the window that ends with the new rows, once all rings are filled with
    rows. Raises UnsupportedError where rows do not divide by a stride.
    """
    time = _Time.of(graph, rows, {})
    kept, work, sources = _kept_rows(graph, time), _Remaking(graph, time), dict[str, str]()
    rings = []

    def keep(x: str) -> None:
        """Join a tensor's kept rows with its new ones."""
        count, fresh = kept[x], time.fresh[x]
        ring = work.tensor(x, count, work.names.take(f"{x}/kept"))
        memory = work.tensor(x, count + fresh, work.names.take(f"{x}/memory"))
        name = work.node_names.take(memory)
        work.nodes.append(Node(name, Concatenation(TIME), (ring, x), (memory,)))
        sources[x] = memory
        rings.append(StateRing(ring, work.part(x, memory, range(fresh, fresh + count), "new")))

    x = graph.inputs[0]
    work.tensor(x, rows, x)
    if x in kept:
        keep(x)
    for node in graph.nodes:
        y = node.outputs[0]
        work.add(node, sources, time.fresh.get(y))
        if y in kept:
            keep(y)
    made = replace(
        graph,
        tensors=work.tensors,
        nodes=(),
        inputs=(*graph.inputs, *(ring.kept for ring in rings)),
        outputs=(*graph.outputs, *(ring.new for ring in rings)),
        step_rows=0,
    )
    return Stepped(proven(made.with_nodes(work.nodes)), tuple(rings))


def _memories(graph: Graph, rings: Iterable[StateRing]) -> dict[str, str]:
    """Concatenation of kept and new rows → the tensor of the new rows."""
    found = {}
    for ring in rings:
        node = next(iter(graph.consumers(ring.kept)), None)
        is_joined = (
            len(graph.consumers(ring.kept)) == 1
            and node is not None
            and node.op == Concatenation(TIME)
            and len(node.inputs) == 2
            and node.inputs[0] == ring.kept
        )
        if not is_joined:
            raise UnsupportedError(
                f"the state that is read as {ring.kept!r} is not joined with new rows behind it, "
                f"along axis 1; {ADVICE}"
            )
        assert node is not None
        memory = node.outputs[0]
        shape = graph.tensors[memory].type.shape
        places = [range(n) for n in shape]
        kept = graph.tensors[ring.kept].type.shape[TIME]
        places[TIME] = range(shape[TIME] - kept, shape[TIME])
        writer = graph.producer(ring.new)
        if writer is None or (writer.op, writer.inputs) != (Slice(Part.of(places)), (memory,)):
            raise UnsupportedError(
                f"the state that is read as {ring.kept!r} becomes {ring.new!r}, which is not the "
                f"last rows of {memory!r}; {ADVICE}"
            )
        found[memory] = node.inputs[1]
    return found


def _needed_rows(graph: Graph, time: _Time, memories: Mapping[str, str]) -> dict[str, int]:
    """Rows of each tensor with an axis of time in the window, the last ones before now."""
    rows = {n: graph.tensors[n].type.shape[TIME] for n in time.fresh}
    needed = {n: rows[n] for n in graph.outputs if n in time.fresh}
    for node in reversed(graph.nodes):
        y = node.outputs[0]
        if y in memories:
            needed[memories[y]] = max(needed.get(memories[y], 0), needed[y])
            continue
        for index, x in enumerate(node.inputs):
            if x in time.fresh:
                count = sum(time.reads(node, index, needed.get(y, 0), rows[x]))
                needed[x] = max(needed.get(x, 0), count)
    return needed


def _check_rings(window: Graph, joined: Iterable[str]) -> None:
    """Check that steps of a window begin as the file's do: with zero points where it has them.

    joined: tensors of which the file keeps rows.
    """
    known = set(joined)
    for node in window.nodes:
        moves = node.op.is_view or isinstance(node.op, Slice | Concatenation)
        if moves and known.issuperset(node.inputs):
            known.update(node.outputs)
    time = _Time.of(window, window.step_rows, {})
    for name in _kept_rows(window, time):
        if name not in known:
            raise UnsupportedError(
                f"rows of {name!r} that earlier steps had are computed again instead of being kept "
                f"in a state; {ADVICE}"
            )


def _kept_rows(graph: Graph, time: _Time) -> dict[str, int]:
    """Tensors of which steps keep rows, and how many."""
    found: dict[str, int] = {}
    for node in graph.nodes:
        for index, x in enumerate(node.inputs):
            if x in time.fresh:
                whole = graph.tensors[x].type.shape[TIME]
                read = sum(time.reads(node, index, time.fresh.get(node.outputs[0], 0), whole))
                if read > time.fresh[x]:
                    found[x] = max(found.get(x, 0), read - time.fresh[x])
    return found


@dataclass(frozen=True)
class _Time:
    """Which tensors of a network depend on its input, and how many of their rows a step adds.

    fresh: of tensors with an axis of time. rows: by node; None where it reads all rows there are.
    """

    fresh: dict[str, int]
    rows: dict[str, _Rows | None]

    @staticmethod
    def of(graph: Graph, fresh: int, memories: Mapping[str, str]) -> _Time:
        """memories: tensors that have the rows of others, after earlier ones."""
        x = graph.inputs[0]
        time, varying = _Time({x: fresh}, {}), {x}
        for node in graph.nodes:
            y = node.outputs[0]
            if y in memories:
                if memories[y] not in time.fresh:
                    raise UnsupportedError(
                        f"node {node.name!r} joins a state with {memories[y]!r}, whose axis 1 is "
                        f"no longer that of time; {ADVICE}"
                    )
                time.fresh[y] = time.fresh[memories[y]]
                varying.add(y)
                continue
            rows = time._of(graph, node, varying)
            time.rows[node.name] = rows
            if not varying.isdisjoint(node.inputs):
                varying.update(node.outputs)
            if rows is not None:
                count = time.fresh[node.inputs[rows.inputs[0]]]
                time.fresh[y] = count // rows.stride
        return time

    def _of(self, graph: Graph, node: Node, varying: set[str]) -> _Rows | None:
        """Return how a node computes row by row."""
        types, results = graph.types(node.inputs), graph.types(node.outputs)
        there = tuple(i for i, x in enumerate(node.inputs) if x in self.fresh)
        if not there or len(there) < sum(x in varying for x in node.inputs):
            return None
        count, result = types[there[0]].shape[TIME], results[0].shape
        if any(types[i].shape[TIME] != count for i in there):
            return None
        if node.op.is_view:
            keeps = len(result) > 2 and result[TIME] == count
            return _Rows((0,), 1, 1, 0) if keeps else None
        if isinstance(node.op, Slice):
            part = node.op.part
            unread = count - part.first[TIME] - part.sizes[TIME]
            return _Rows((0,), 1, 1, unread) if part.steps[TIME] == 1 else None
        rows = node.op.rows(types, results)
        if rows is None or rows.pad or not set(there) <= set(rows.inputs):
            return None
        others = [types[i].shape for i in rows.inputs if i not in there]
        if len(types[there[0]].shape) != 4 or any(shape[TIME] > 1 for shape in others):
            return None
        if self.fresh[node.inputs[there[0]]] % rows.stride:
            return None  # a step computes it of the rows that there are, as if it were not of time
        unread = count - rows.span - (result[TIME] - 1) * rows.stride
        return _Rows(there, rows.span, rows.stride, unread) if unread >= 0 else None

    def reads(self, node: Node, index: int, rows: int, whole: int) -> tuple[int, int]:
        """Return how many rows a node reads of an input, and how many behind these it does not.

        rows: of its output that are computed. whole: of the input, if it reads all of them.
        """
        how = self.rows[node.name]
        if how is None or index not in how.inputs:
            return whole, 0
        return (rows - 1) * how.stride + how.span, how.unread


class _Remaking:
    """Tensors and nodes of a network in the making, from those of another."""

    def __init__(self, graph: Graph, time: _Time) -> None:
        self.graph, self.time = graph, time
        self.names = Names(graph.tensors)
        self.node_names = Names(node.name for node in graph.nodes)
        first = graph.inputs[0]
        self.tensors = {
            name: tensor
            for name, tensor in graph.tensors.items()
            if tensor.is_constant or (name in graph.inputs and name != first)
        }
        self.nodes: list[Node] = []

    def rows_of(self, name: str) -> int:
        """Rows of a tensor that is made."""
        return self.tensors[name].type.shape[TIME]

    def tensor(self, like: str, rows: int, name: str) -> str:
        """Add a tensor that differs from another one in rows."""
        self.tensors[name] = replace(_with_rows(self.graph.tensors[like], rows), name=name)
        return name

    def add(self, node: Node, sources: Mapping[str, str], rows: int | None) -> None:
        """Add a node that computes so many rows, the last ones before now; None: no rows.

        sources: what has the rows of its inputs.
        """
        op, own = node.op, []
        how = self.time.rows[node.name]
        for index, x in enumerate(node.inputs):
            source = sources.get(x, x)
            if x in self.time.fresh:
                whole = self.graph.tensors[x].type.shape[TIME]
                count, unread = self.time.reads(node, index, rows or 0, whole)
                end = self.rows_of(source) - (unread if isinstance(op, Slice) else 0)
                begin = end - count - (0 if isinstance(op, Slice) else unread)
                if how is not None and isinstance(op, Slice):
                    op = _cut(op, self.tensors[source].type, range(begin, end))
                elif end - begin < self.rows_of(source):
                    source = self.part(x, source, range(begin, end))
            own.append(source)
        y = node.outputs[0]
        self.tensors |= {name: self.graph.tensors[name] for name in node.outputs}
        if rows is not None:
            self.tensor(y, rows, y)
            op = Reshape(self.tensors[y].type.shape) if node.op.is_view else op
        self.nodes.append(replace(node, op=op, inputs=tuple(own)))

    def part(self, like: str, x: str, places: range, name: str = "rows") -> str:
        """Rows of a tensor as one of its own."""
        y = self.tensor(like, len(places), self.names.take(f"{like}/{name}"))
        axes = [*map(range, self.tensors[x].type.shape)]
        axes[TIME] = places
        self.nodes.append(Node(self.node_names.take(y), Slice(Part.of(axes)), (x,), (y,)))
        return y


def _cut(op: Slice, kind: TensorType, places: range) -> Slice | Reshape:
    """The part with other rows; a view, if that is all of the tensor."""
    axes = list(op.part.places)
    axes[TIME] = places
    part = Part.of(axes)
    return Reshape(kind.shape) if part.sizes == kind.shape else Slice(part)


def _with_rows(tensor: Tensor, rows: int) -> Tensor:
    shape = (*tensor.type.shape[:TIME], rows, *tensor.type.shape[TIME + 1 :])
    return replace(tensor, type=replace(tensor.type, shape=shape))

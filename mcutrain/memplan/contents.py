"""Whether every node finds in its bytes what its producer wrote there.

The validator sees buffers; this sees tensors. It walks the training step and inference as the C
does, and notes for every byte of the arena whose value lies in it. It knows nothing of lifetimes,
nor why two tensors got the same bytes. It shares no code with the planner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.ir.op import KernelCall
from mcutrain.memplan.calls import node_call
from mcutrain.memplan.stream import RowTensor, Segment

if TYPE_CHECKING:
    from mcutrain.memplan.placed import Placed
    from mcutrain.memplan.training_plan import TrainingPlan

Array = npt.NDArray[Any]

NOBODY = 0
"""Whose bytes are those that nothing was written to, or scratch."""


@dataclass(frozen=True)
class ArenaRange:
    """Bytes of the arena that an operand of a node lies in."""

    tensor: str
    begin: int
    size_bytes: int

    @property
    def end(self) -> int:
        """Where it ends, exclusive."""
        return self.begin + self.size_bytes

    def overlaps(self, other: ArenaRange) -> bool:
        """Return whether a byte belongs to both."""
        return self.begin < other.end and other.begin < self.end


def check_contents(plan: TrainingPlan) -> None:
    """Check that a step of training and an inference read what they should.

    Raises AssertionError unless for each node:

    - its inputs hold what was written last for that tensor, or for what it is a view of;
    - outputs lie over inputs only where the operator allows it, byte upon byte;
    - outputs and scratch lie in the arena, and over nothing else of the node;
    - scratch is aligned and as large as the call needs, also to overwrite an input;
    - a view lies where its source is;
    - whatever has no place in the arena is constant, an argument or state.

    With a proxy cascade it checks all that once for each of its fronts.
    """
    training = plan.training
    for level in range(1 if plan.ladder is None else plan.ladder.levels):
        step = _Replay(plan, training.graph)
        step.start(training.x)
        if training.positions:
            step.write(training.label)
        position = step.begin(level)
        step.run((*training.graph.nodes[position:], *training.apply))
        step.end()
        inference = _Replay(plan, training.forward)
        inference.start(training.x)
        position = inference.begin(level)
        inference.run(training.forward.nodes[position:])
        inference.end()
        inference.read(training.forward.outputs[0], "what asks for the outputs")


@dataclass
class _Replay:
    """owners: of each byte of the arena, the number of the tensor whose value is in it. places:
    which byte of that tensor it is. where: whose nodes run now, of the graph."""

    plan: TrainingPlan
    graph: Graph
    where: Placed = field(init=False)
    owners: Array = field(init=False)
    places: Array = field(init=False)
    numbers: dict[str, int] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """View → the tensor whose value it shows."""

    def __post_init__(self) -> None:
        self.where = self.plan
        self.owners = np.full(self.plan.arena_bytes, NOBODY, np.int32)
        self.places = np.zeros(self.plan.arena_bytes, np.int32)

    def run(self, nodes: Iterable[Node]) -> None:
        """One after the other; a segment at the turn of the first of its nodes."""
        segments = {name: s for s in self.where.segments for name in s.nodes}
        done: set[str] = set()
        for node in nodes:
            segment = segments.get(node.name)
            if segment is not None:
                if segment.name not in done:
                    self._stream(segment)
                done.add(segment.name)
                continue
            who = f"node {node.name!r}"
            for name in node.inputs:
                self.read(name, who)
            if node.op.is_view:
                self._view(node)
            else:
                self._compute(node)

    def begin(self, level: int) -> int:
        """Run what a cascade computes first. Returns how many nodes of the step it replaces."""
        ladder, graph, x = self.plan.ladder, self.graph, self.plan.training.x
        if ladder is None:
            return 0
        policy = ladder.policy
        self._hand_over(x, policy, policy.graph, policy.x)
        self.run(policy.graph.nodes)
        self.read(policy.y, "what chooses the front")
        if level == 0:
            self._hand_over(policy.x, self.plan, graph, x)
            return 0
        front = ladder.proxies[level - 1]
        self._hand_over(policy.x, front, front.graph, front.x)
        self.run(front.graph.nodes)
        self._hand_over(front.y, self.plan, graph, ladder.latent)
        return ladder.position

    def _hand_over(self, given: str, to: Placed, graph: Graph, taken: str) -> None:
        """A value goes to where others expect it, under their name; nothing else stays."""
        self.read(given, "what hands over")
        source = self._place(given)
        self.where, self.graph = to, graph
        target = self._place(taken)
        assert source is not None, f"{given!r} is not in the arena"
        assert target is not None, f"{taken!r} is not in the arena"
        assert source.size_bytes == target.size_bytes, f"{given!r} has another size than {taken!r}"
        self._check_within(target)
        for bytes_ in (self.owners, self.places):
            moved = bytes_[source.begin : source.end].copy()
            bytes_[:] = NOBODY
            bytes_[target.begin : target.end] = moved
        self.sources[taken] = self.sources.get(given, given)

    def start(self, x: str) -> None:
        """The input is there, unless its rows come while a segment runs."""
        if not any(s.is_fed for s in self.plan.segments):
            self.write(x)
            return
        self._write("fed", self._fed(), 0)

    def end(self) -> None:
        """How much of the sample there was is still known."""
        if any(s.is_fed for s in self.plan.segments):
            self._read("fed", self._fed(), 0, "what counts the bytes of a sample")

    def _fed(self) -> ArenaRange:
        return ArenaRange("fed", self.plan.arena.offsets["fed"], 4)

    def write(self, name: str) -> None:
        """All bytes of a tensor are its own from now on."""
        place = self._place(name)
        assert place is not None, f"{name!r} has no place in the arena"
        self._write(name, place, 0)

    def _write(self, name: str, place: ArenaRange, first: int) -> None:
        """The tensor's bytes from `first` on."""
        self._check_within(place)
        number = self.numbers.setdefault(name, len(self.numbers) + 1)
        self.owners[place.begin : place.end] = number
        self.places[place.begin : place.end] = np.arange(first, first + place.size_bytes)

    def read(self, name: str, who: str) -> None:
        """Its bytes, or those of what it is a view of, must still be its own."""
        place = self._place(name)
        if place is not None:
            self._read(name, place, 0, who)

    def _read(self, name: str, place: ArenaRange, first: int, who: str) -> None:
        """The tensor's bytes from `first` on."""
        source = self.sources.get(name, name)
        number = self.numbers.get(source)
        own = np.arange(first, first + place.size_bytes)
        is_wrong = self.owners[place.begin : place.end] != number
        wrong = np.flatnonzero(is_wrong | (self.places[place.begin : place.end] != own))
        if number is None or wrong.size:
            found = int(self.owners[place.begin + int(wrong[0])]) if wrong.size else NOBODY
            names = {number: tensor for tensor, number in self.numbers.items()}
            lies = f"the value of {names[found]!r}" if found in names else "no tensor's value"
            raise AssertionError(
                f"{who} reads {name!r} from byte {place.begin} of the arena on, where {lies} lies"
            )

    def _view(self, node: Node) -> None:
        source, view = node.inputs[0], node.outputs[0]
        places = [p and (p.begin, p.size_bytes) for p in map(self._place, (source, view))]
        assert places[0] == places[1], f"the view {view!r} does not lie where {source!r} does"
        self.sources[view] = self.sources.get(source, source)

    def _compute(self, node: Node) -> None:
        written = [(i, self._place(name)) for i, name in enumerate(node.outputs)]
        outputs = [(i, place) for i, place in written if place is not None]
        read = [(i, place) for i, name in enumerate(node.inputs) if (place := self._place(name))]
        inputs = [place for _, place in read]
        begins = {place.begin for place in inputs}
        call = self._call(node)
        is_over = any(place.begin in begins for _, place in outputs)
        scratch = self._scratch(node, call, call.overwriting_bytes if is_over else 0)
        alone = [*(place for _, place in outputs), *scratch]
        for place in alone:
            self._check_within(place)
        _check_apart(node, alone, [])
        _check_apart(node, scratch, inputs)
        for position, place in outputs:
            may = node.op.may_overwrite.get(position, ())
            _check_over(node, place, [(i in may, other) for i, other in read])
        for place in scratch:
            self.owners[place.begin : place.end] = NOBODY
        for _, place in outputs:
            self.write(place.tensor)

    def _check_within(self, place: ArenaRange) -> None:
        assert place.begin >= 0, f"{place.tensor!r} begins before the arena"
        assert place.end <= self.plan.arena_bytes, f"{place.tensor!r} ends beyond the arena"

    def _stream(self, segment: Segment) -> None:
        """Do as mct_stream.c: rows come in, stages take turns, old rows make room."""
        tensors = {t.name: t for t in segment.tensors}
        first = dict.fromkeys(tensors, 0)
        there = [] if segment.is_fed else segment.tensors[: segment.sources]
        done = {**dict.fromkeys(tensors, 0), **{t.name: t.rows for t in there}}
        begin = self._progress(segment)
        if segment.is_fed:
            x = segment.tensors[0]
            for _ in range(x.rows):
                assert self._has_room(segment, x, 1, first, done), f"no room for rows of {x.name!r}"
                self._write_rows(x, 1, first, done)
                self._take_turns(segment, tensors, first, done)
        else:
            self._take_turns(segment, tensors, first, done)
        for tensor in segment.tensors:
            assert done[tensor.name] == tensor.rows, (
                f"{done[tensor.name]} of {tensor.rows} rows of {tensor.name!r} are computed"
            )
        self._read(begin.tensor, begin, 0, "what counts the rows")

    def _progress(self, segment: Segment) -> ArenaRange:
        """The segment's own bytes, which nothing may change while it runs."""
        buffer = f"progress:{segment.name}"
        place = ArenaRange(buffer, self.where.arena.offsets[buffer], 4 * len(segment.tensors))
        self._write(buffer, place, 0)
        return place

    def _take_turns(
        self,
        segment: Segment,
        tensors: Mapping[str, RowTensor],
        first: dict[str, int],
        done: dict[str, int],
    ) -> None:
        went_on = True
        while went_on:
            went_on = False
            for stage in segment.stages:
                output = tensors[stage.node.outputs[0]]
                count = min(stage.strip, output.rows - done[output.name])
                images = [tensors[stage.node.inputs[i]] for i in stage.rows.inputs]
                row = done[output.name]
                needed = {t.name: stage.rows.needed(row, count, t.rows) for t in images}
                is_there = all(end <= done[name] for name, (_, end) in needed.items())
                if count and is_there and self._has_room(segment, output, count, first, done):
                    written = self._rows(output, row, row + count, first)
                    self._compute_rows(stage.node, needed, tensors, first, written)
                    self._write_rows(output, count, first, done)
                    went_on = True

    def _has_room(
        self,
        segment: Segment,
        tensor: RowTensor,
        count: int,
        first: dict[str, int],
        done: dict[str, int],
    ) -> bool:
        """Moves the rows that are still needed to the front if that helps."""
        name = tensor.name
        if done[name] - first[name] + count <= tensor.room:
            return True
        needed = [done[name]]
        for stage in segment.stages:
            output = stage.node.outputs[0]
            height = self._type(output).shape[1]
            if name in stage.reads and done[output] < height:
                needed.append(max(done[output] * stage.rows.stride - stage.rows.pad, 0))
        oldest = min(needed)
        if done[name] - oldest + count > tensor.room:
            return False
        begin = self.where.offset_of(name)
        old = begin + (oldest - first[name]) * tensor.row_bytes
        size_bytes = (done[name] - oldest) * tensor.row_bytes
        for bytes_ in (self.owners, self.places):
            bytes_[begin : begin + size_bytes] = bytes_[old : old + size_bytes].copy()
        first[name] = oldest
        return True

    def _compute_rows(
        self,
        node: Node,
        needed: Mapping[str, tuple[int, int]],
        tensors: Mapping[str, RowTensor],
        first: Mapping[str, int],
        written: ArenaRange,
    ) -> None:
        """What is read must be there; what the scratch overwrites must not be missed."""
        who = f"node {node.name!r}"
        may = node.op.may_overwrite.get(0, ())
        over = 0
        for i, name in enumerate(node.inputs):
            if name not in needed:
                self.read(name, who)
            place = self._rows(tensors[name], *needed[name], first) if name in needed else None
            if place is not None and place.size_bytes:
                _check_over(node, written, [(i in may, place)])
                if place.begin == written.begin:
                    over = self._overwriting_bytes(node, tensors, needed, written)
        scratch = self._scratch(node, self._call(node), over)
        _check_apart(node, [written, *scratch], [])
        for part in scratch:
            self._check_within(part)
            self.owners[part.begin : part.end] = NOBODY
        for name, (begin, end) in needed.items():
            tensor = tensors[name]
            place = self._rows(tensor, begin, end, first)
            if place.size_bytes:  # none, if the strip is all padding
                self._read(name, place, begin * tensor.row_bytes, who)

    def _overwriting_bytes(
        self,
        node: Node,
        tensors: Mapping[str, RowTensor],
        needed: Mapping[str, tuple[int, int]],
        written: ArenaRange,
    ) -> int:
        """What the operator asks for as that of an image of these rows, whose place it takes."""
        count = written.size_bytes // tensors[written.tensor].row_bytes
        types = [self._type(name) for name in node.inputs]
        for i, name in enumerate(node.inputs):
            if name in needed:
                begin, end = needed[name]
                types[i] = _with_rows(types[i], end - begin)
        result = _with_rows(self._type(node.outputs[0]), count)
        return node.op.kernel(types, [result]).overwriting_bytes

    def _rows(
        self, tensor: RowTensor, begin: int, end: int, first: Mapping[str, int]
    ) -> ArenaRange:
        """Return where rows of a tensor lie now."""
        at = self.where.offset_of(tensor.name) + (begin - first[tensor.name]) * tensor.row_bytes
        return ArenaRange(tensor.name, at, (end - begin) * tensor.row_bytes)

    def _write_rows(
        self, tensor: RowTensor, count: int, first: Mapping[str, int], done: dict[str, int]
    ) -> None:
        row = done[tensor.name]
        place = self._rows(tensor, row, row + count, first)
        self._write(tensor.name, place, row * tensor.row_bytes)
        done[tensor.name] = row + count

    def _call(self, node: Node) -> KernelCall:
        known = self.graph if node.outputs[0] in self.graph.tensors else self.plan.training.graph
        return node_call(known, node)

    def _scratch(self, node: Node, call: KernelCall, overwriting_bytes: int) -> list[ArenaRange]:
        """What the call needs of it: there, aligned, and no more than the plan keeps free."""
        size_bytes = max(call.scratch_bytes, overwriting_bytes)
        if size_bytes == 0:
            return []
        buffer = self.where.scratch_buffer(node.name)
        offset = self.where.arena.offsets.get(buffer)
        assert offset is not None, f"node {node.name!r} has no scratch"
        assert offset % call.align_bytes == 0, f"the scratch of node {node.name!r} is not aligned"
        kept = max((b.size_bytes for b in self.where.arena.buffers if b.name == buffer), default=0)
        assert size_bytes <= kept, (
            f"node {node.name!r} needs {size_bytes} bytes of scratch, and has {kept}"
        )
        return [ArenaRange("scratch", offset, size_bytes)]

    def _type(self, name: str) -> TensorType:
        """Type of a tensor, also of one that inference computes for training alone."""
        graph = self.plan.training.graph if name not in self.graph.tensors else self.graph
        return graph.tensors[name].type

    @cached_property
    def _outside(self) -> set[str]:
        """What the step reads and writes that is not in the arena, but for constants."""
        training = self.plan.training
        arguments = (training.label, training.step, training.loss, training.prediction)
        return {*training.state, *training.backing, *training.updated.values(), *arguments}

    def _place(self, name: str) -> ArenaRange | None:
        """Place of a tensor; None if it does not lie in the arena."""
        if name in self.where.buffer_of:
            return ArenaRange(name, self.where.offset_of(name), self._type(name).size_bytes)
        is_known = name in self._outside or self.graph.tensors[name].is_constant
        assert is_known, f"{name!r} is computed but has no place"
        return None


def _with_rows(kind: TensorType, rows: int) -> TensorType:
    return replace(kind, shape=(kind.shape[0], rows, *kind.shape[2:]))


def _check_apart(node: Node, places: Sequence[ArenaRange], others: Sequence[ArenaRange]) -> None:
    """No two of the places share a byte, nor one of them with one of the others."""
    for i, place in enumerate(places):
        for other in (*places[:i], *others):
            assert not place.overlaps(other), (
                f"{place.tensor!r} and {other.tensor!r} of node {node.name!r} overlap"
            )


def _check_over(node: Node, output: ArenaRange, inputs: Sequence[tuple[bool, ArenaRange]]) -> None:
    """inputs: each with whether the output may lie upon it."""
    for may, place in inputs:
        is_same = (place.begin, place.size_bytes) == (output.begin, output.size_bytes)
        assert not output.overlaps(place) or (may and is_same), (
            f"node {node.name!r} writes {output.tensor!r} over its input {place.tensor!r}"
        )

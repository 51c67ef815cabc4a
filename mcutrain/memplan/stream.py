"""Parts of a step that are computed row by row: which nodes, which rows are kept, in what memory.

In a segment every operator keeps only the rows that its readers still need, so that none of its
images lies in memory as a whole. Each stage computes a strip of rows of its output as soon as its
inputs have what the strip needs and its output has room; no row is computed twice. The input may
come row by row from outside. firmware/runtime/mct_stream.c does on the device what `RowFlow` does
here. After MCUNetV2's patches (Lin et al. 2021, section 3), without their overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.op import Rows
from mcutrain.memplan.calls import node_call, overwriting_bytes
from mcutrain.memplan.plan import align_up

STRIPS = (1, 2, 4, 8, 16)
"""Rows of output per call of a kernel, of which the planner chooses for each segment."""
PROGRESS_BYTES = 4
"""mct_progress of firmware/runtime/mct_stream.h: two numbers of 16 bits per tensor."""
CALL, WEIGHT, READ_AGAIN = 300, 8, 7
"""Instructions that a call of a kernel costs by itself, per weight, and per element of input that
an earlier call read too: about a Cortex-M7's. Their sum decides between segments of one size."""
MOST_ROWS = 32767
"""Most rows of a tensor: what mct_progress can count."""


@dataclass(frozen=True)
class Stage:
    """A node that computes `strip` rows of its output per call."""

    node: Node
    rows: Rows
    strip: int = 1

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The tensors that it reads row by row, each once."""
        return tuple(dict.fromkeys(self.node.inputs[i] for i in self.rows.inputs))


@dataclass(frozen=True)
class RowTensor:
    """A tensor whose rows come from top to bottom: room for `room` of them, or for all.

    over: the tensor in whose place it is written, row upon row.
    """

    name: str
    rows: int
    row_bytes: int
    room: int
    over: str | None = None

    @property
    def size_bytes(self) -> int:
        """What it takes in the arena."""
        return 0 if self.over else self.room * self.row_bytes

    @property
    def is_ring(self) -> bool:
        """Whether rows make room for later ones."""
        return self.room < self.rows


@dataclass(frozen=True)
class Segment:
    """Nodes of a schedule, from step `first` on, that are computed row by row.

    tensors: `sources` that other nodes made, or the input, then the output of each stage.
    is_fed: the one source is the input of which rows come from outside while the segment runs.
    scratch_bytes: what its stages share.
    """

    first: int
    stages: tuple[Stage, ...]
    tensors: tuple[RowTensor, ...]
    sources: int
    is_fed: bool
    scratch_bytes: int

    @property
    def last(self) -> int:
        """The last step."""
        return self.first + len(self.stages) - 1

    @property
    def name(self) -> str:
        """After its first node."""
        return self.stages[0].node.name

    @property
    def nodes(self) -> frozenset[str]:
        """Their names."""
        return frozenset(stage.node.name for stage in self.stages)

    @property
    def progress_bytes(self) -> int:
        """How far every tensor is."""
        return PROGRESS_BYTES * len(self.tensors)

    @cached_property
    def flow(self) -> RowFlow:
        """Who reads what."""
        heights = tuple(t.rows for t in self.tensors)
        return row_flow_of(self.stages, [t.name for t in self.tensors], heights, self.is_fed)


@dataclass(frozen=True)
class RowFlow:
    """How rows flow: stage s makes tensor len(heights) - len(stages) + s.

    heights: rows of each tensor. inputs: of each stage, tensors. readers: of each tensor, stages.
    is_fed: the rows of tensor 0 come one by one; all other sources are there from the start.
    """

    stages: tuple[tuple[Rows, int], ...]
    heights: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    readers: tuple[tuple[int, ...], ...]
    is_fed: bool

    @cached_property
    def sources(self) -> int:
        """How many tensors no stage makes."""
        return len(self.heights) - len(self.stages)

    def strips(self) -> Iterator[tuple[int, int, int, int]]:
        """(stage, first row of its output, rows, rows of the output that must be kept with them).

        Of the stages that can go on, the last one whose rows somebody waits for does; that keeps
        the fewest rows. So does one whose rows nobody will read, so that its own input rows can go.
        Stage -1 is the input's next row. Whoever computes in another order, as the device does,
        needs no more room: it is never behind.
        """
        sources = self.sources
        done = [*self.heights[:sources], *(0 for _ in self.stages)]
        waiting = self.heights[0] if self.is_fed else 0
        if self.is_fed:
            done[0] = 0
        is_over = False
        while True:
            stage = len(self.stages) - 1
            while stage >= 0:
                count = self._possible(stage, done)
                if count == 0 or not (is_over or self._is_wanted(stage, done)):
                    stage -= 1
                    continue
                tensor = sources + stage
                yield stage, done[tensor], count, done[tensor] + count - self._oldest(tensor, done)
                done[tensor] += count
                stage = max(stage, *self.readers[tensor], stage)
            if waiting == 0 and is_over:
                return
            if waiting == 0:
                is_over = True
                continue
            yield -1, done[0], 1, done[0] + 1 - self._oldest(0, done)
            done[0] += 1
            waiting -= 1

    def _possible(self, stage: int, done: Sequence[int]) -> int:
        """Rows that a stage can compute now: a whole strip, or what is left."""
        rows, strip = self.stages[stage]
        tensor = self.sources + stage
        count = min(strip, self.heights[tensor] - done[tensor])
        for i in self.inputs[stage]:
            if rows.end(done[tensor] + count, self.heights[i]) > done[i]:
                return 0
        return count

    def _is_wanted(self, stage: int, done: Sequence[int]) -> bool:
        """Whether nobody in the segment will read more, or somebody's next strip needs more."""
        tensor, is_read = self.sources + stage, False
        for reader in self.readers[tensor]:
            rows, strip = self.stages[reader]
            first = done[self.sources + reader]
            count = min(strip, self.heights[self.sources + reader] - first)
            if count and rows.end(first + count, self.heights[tensor]) > done[tensor]:
                return True
            is_read |= count > 0
        return not is_read

    def _oldest(self, tensor: int, done: Sequence[int]) -> int:
        """The first row that a reader still needs."""
        oldest = done[tensor] if self.readers[tensor] else 0
        for stage in self.readers[tensor]:
            first, rows = done[self.sources + stage], self.stages[stage][0]
            if first < self.heights[self.sources + stage]:
                oldest = min(oldest, rows.begin(first, self.heights[tensor]))
        return oldest


def row_flow_of(
    stages: Sequence[Stage], names: Sequence[str], heights: tuple[int, ...], is_fed: bool
) -> RowFlow:
    """names, heights: of the tensors, sources first."""
    places = {name: i for i, name in enumerate(names)}
    inputs = tuple(tuple(places[name] for name in s.reads) for s in stages)
    readers: list[list[int]] = [[] for _ in names]
    for stage, tensors in enumerate(inputs):
        for tensor in tensors:
            readers[tensor].append(stage)
    pairs = tuple((s.rows, s.strip) for s in stages)
    return RowFlow(pairs, heights, inputs, tuple(map(tuple, readers)), is_fed)


@lru_cache(maxsize=1024)
def rooms(flow: RowFlow) -> tuple[int, ...]:
    """The rows that each tensor must have room for; all of them for those that nobody reads."""
    most = [0] * len(flow.heights)
    for stage, _, _, kept in flow.strips():
        tensor = 0 if stage < 0 else flow.sources + stage
        most[tensor] = max(most[tensor], kept)
    return tuple(most)


def in_strips(stages: Iterable[Stage], strip: int) -> tuple[Stage, ...]:
    """Let all stages compute the same number of rows at once."""
    return tuple(replace(stage, strip=strip) for stage in stages)


@dataclass(frozen=True)
class _Overlay:
    """y may be written in the place of x, row upon row, with so much scratch, aligned."""

    x: str
    y: str
    scratch_bytes: int


@dataclass(frozen=True)
class _Part:
    """What a stage adds to the segments that it is in. last: the last step that reads its output.

    overhead: instructions of more than one call.
    """

    output: str
    reads: tuple[str, ...]
    last: int
    scratch_bytes: int
    overhead: int


@dataclass(frozen=True)
class StreamableFront:
    """What segments are chosen of: the nodes of a schedule before its loss.

    nodes: all of the schedule. x: the input. known: tensors outside the arena. loads: bytes alive
    at each step if nothing is computed row by row. end: steps that may be. cut: of a step with a
    ladder, nodes before the latent, which has to be in memory as a whole, as the sample; else None.
    """

    graph: Graph
    nodes: Sequence[Node]
    x: str
    known: frozenset[str]
    loads: Sequence[int]
    end: int
    align_bytes: int
    cut: int | None = None

    @cached_property
    def last_reader(self) -> Mapping[str, int]:
        """The last step that reads a tensor."""
        return {name: step for step, node in enumerate(self.nodes) for name in node.inputs}

    def last(self, name: str) -> int:
        """Step of the last reader; beyond the schedule for what only others read."""
        return self.last_reader.get(name, len(self.nodes))

    def stage(self, node: Node) -> Stage | None:
        """The node as a stage, if it can be one."""
        if len(node.outputs) != 1 or node.op.is_view or not self._is_image(node.outputs[0]):
            return None
        if self.graph.tensors[node.outputs[0]].type.shape[1] == 1:
            return None
        rows = node.op.rows(self.graph.types(node.inputs), self.graph.types(node.outputs))
        if rows is None:
            return None
        images = [node.inputs[i] for i in rows.inputs]
        is_able = all(self._is_image(name) and name not in self.known for name in images)
        return Stage(node, rows) if is_able else None

    def _is_image(self, name: str) -> bool:
        shape = self.graph.tensors[name].type.shape
        return len(shape) == 4 and shape[0] == 1 and shape[1] <= MOST_ROWS

    def runs(self) -> Iterator[tuple[int, tuple[Stage, ...]]]:
        """(first step, stages) of all nodes in a row that can be stages."""
        run: list[Stage] = []
        made: set[str] = set()
        for step in range(self.end + 1):
            stage = self.stage(self.nodes[step]) if step < self.end else None
            is_end = stage is None or step == self.cut
            if run and (is_end or not made.isdisjoint(self._whole(stage) if stage else ())):
                yield step - len(run), tuple(run)
                run, made = [], set()
            if stage is not None:
                run.append(stage)
                made.add(stage.node.outputs[0])

    @staticmethod
    def _whole(stage: Stage) -> set[str]:
        """Return what it reads at once."""
        rows = stage.rows.inputs
        return {name for i, name in enumerate(stage.node.inputs) if i not in rows}

    def segment(self, first: int, stages: tuple[Stage, ...]) -> Segment:
        """Return a segment of the stages: what is read behind it whole, else what is needed."""
        outputs = [s.node.outputs[0] for s in stages]
        read = dict.fromkeys(name for s in stages for name in s.reads)
        sources = [name for name in read if name not in outputs]
        end = first + len(stages)
        is_fed = self._is_fed(first, end, sources)
        names = [*sources, *outputs]
        heights = tuple(self.graph.tensors[name].type.shape[1] for name in names)
        most = rooms(row_flow_of(stages, names, heights, is_fed))
        tensors = []
        for i, (name, height, room) in enumerate(zip(names, heights, most, strict=True)):
            is_whole = self.last(name) >= end or (i < len(sources) and not is_fed)
            row_bytes = self.graph.tensors[name].type.size_bytes // height
            tensors.append(RowTensor(name, height, row_bytes, height if is_whole else room))
        scratch = [node_call(self.graph, s.node).scratch_bytes for s in stages]
        if not is_fed:
            able = [o for o in self._overlays(first, stages) if o.x in sources]
            sizes = {t.name: self._aligned(t, t.room) for t in tensors}
            over = _chosen(able, sizes)
            tensors = [
                replace(t, room=t.rows, over=over[t.name].x) if t.name in over else t
                for t in tensors
            ]
            scratch += [overlay.scratch_bytes for overlay in over.values()]
        return Segment(first, stages, tuple(tensors), len(sources), is_fed, max(scratch))

    def sizes(
        self, first: int, stages: tuple[Stage, ...], strip: int
    ) -> Iterator[tuple[int, int, int, int]]:
        """(begin, end, bytes, overhead) of all segments within a run.

        The rows that a tensor needs room for follow from its readers alone, so one course of the
        whole run tells them for every segment in it.
        """
        stages = in_strips(stages, strip)
        run = self.segment(first, stages)
        rooms_of_flow = rooms(run.flow)
        known = {
            t.name: (align_up(t.rows * t.row_bytes, self.align_bytes), self._aligned(t, room))
            for t, room in zip(run.tensors, rooms_of_flow, strict=True)
        }
        rows = {t.name: t.rows for t in run.tensors}
        parts = []
        for stage in stages:
            output = stage.node.outputs[0]
            scratch = align_up(node_call(self.graph, stage.node).scratch_bytes, self.align_bytes)
            overhead = self._overhead(stage, rows[output])
            parts.append(_Part(output, stage.reads, self.last(output), scratch, overhead))
        overlays = self._overlays(first, stages)
        for begin in range(len(stages)):
            yield from self._sizes_from(first, begin, parts, known, overlays)

    def _is_fed(self, first: int, end: int, sources: Iterable[str]) -> bool:
        """Return whether the steps [first, end) run first, and nobody else reads the input."""
        is_first = self.cut is None and first == 0
        return is_first and set(sources) == {self.x} and self.last(self.x) < end

    def _aligned(self, tensor: RowTensor, room: int) -> int:
        return align_up(room * tensor.row_bytes, self.align_bytes)

    def _sizes_from(
        self,
        first: int,
        begin: int,
        parts: Sequence[_Part],
        known: Mapping[str, tuple[int, int]],
        overlays: Sequence[_Overlay],
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield the sizes of segments that begin with one stage."""
        kept = sum(self._alive_before[first + begin].values())
        ending: dict[int, int] = {}
        sources: set[str] = set()
        overhead = most_scratch = 0
        may_be_fed = first + begin == 0
        made: set[str] = set()
        for i in range(begin, len(parts)):
            part, end = parts[i], first + i + 1
            sources.update(name for name in part.reads if name not in made)
            made.add(part.output)
            whole, ring = known[part.output]
            kept += whole
            ending[part.last] = ending.get(part.last, 0) + whole - ring
            kept -= ending.pop(end - 1, 0)
            most_scratch = max(most_scratch, part.scratch_bytes)
            overhead += part.overhead
            progress = align_up(PROGRESS_BYTES * (len(sources) + len(made)), self.align_bytes)
            scratch, total = most_scratch, kept + progress
            if may_be_fed and self._is_fed(first + begin, end, sources):
                total -= known[self.x][0] - known[self.x][1]
            elif overlays:
                able = [o for o in overlays if o.x in sources and o.y in made]
                sizes = {o.y: known[o.y][self.last(o.y) < end] for o in able}
                over = _chosen(able, sizes)
                total -= sum(sizes[y] for y in over)
                scratch = max(scratch, *(o.scratch_bytes for o in over.values()), 0)
            yield first + begin, end, total + scratch, overhead

    def _overlays(self, first: int, stages: tuple[Stage, ...]) -> list[_Overlay]:
        """Return pairs of whole images of one size: one may be written in the other's place.

        Where both are in a segment that does not make x, of any of the stages.
        """
        viewed = {
            n for node in self.nodes if node.op.is_view for n in (*node.inputs, *node.outputs)
        }
        found = []
        for place, stage in enumerate(stages):
            y = stage.node.outputs[0]
            for i in stage.node.op.may_overwrite.get(0, ()):
                x = stage.node.inputs[i]
                is_last = self.last(x) == first + place and stage.node.inputs.count(x) == 1
                types = [self.graph.tensors[name].type for name in (x, y)]
                is_alike = types[0].layout() == types[1].layout() and i in stage.rows.inputs
                by_row = (stage.rows.span, stage.rows.stride, stage.rows.pad) == (1, 1, 0)
                is_able = is_last and is_alike and by_row and x not in viewed
                if is_able and _are_ahead(stages, place, x, self._heights):
                    rows = min(stage.strip, self._heights[y])
                    scratch = overwriting_bytes(self.graph, stage.node, rows)
                    found.append(_Overlay(x, y, align_up(scratch, self.align_bytes)))
        return found

    @cached_property
    def _heights(self) -> Mapping[str, int]:
        """Rows of all images."""
        types = {name: t.type.shape for name, t in self.graph.tensors.items()}
        return {name: shape[1] for name, shape in types.items() if len(shape) == 4}

    @cached_property
    def _alive_before(self) -> list[dict[str, int]]:
        """Return, for each step, bytes of what was there before it, and it or a later one reads."""
        found, made = [], {self.x}
        for step, node in enumerate(self.nodes[: self.end]):
            made = {name for name in made if self.last(name) >= step and name not in self.known}
            types = {name: self.graph.tensors[name].type for name in made}
            found.append({n: align_up(t.size_bytes, self.align_bytes) for n, t in types.items()})
            made.update(node.outputs)
        return found

    @cached_property
    def _options(self) -> list[list[tuple[int, int, int, int]]]:
        """Return, for each step, the parts that end before it: (begin, bytes, overhead, strip).

        A strip of 0 is a node by itself.
        """
        options: list[list[tuple[int, int, int, int]]] = [[] for _ in range(self.end + 1)]
        for step in range(self.end):
            options[step + 1].append((step, self.loads[step], 0, 0))
        for first, stages in self.runs():
            for strip in STRIPS:
                for begin, end, size_bytes, overhead in self.sizes(first, stages, strip):
                    options[end].append((begin, size_bytes, overhead, strip))
        return options

    @cached_property
    def least_bytes(self) -> int:
        """The smallest peak of the steps before the loss, over all ways to part them."""
        peaks = [0]
        for found in self._options[1:]:
            peaks.append(min(max(peaks[begin], size_bytes) for begin, size_bytes, _, _ in found))
        return peaks[-1]

    def choose(self, least: bool = False, enough_bytes: int = 0) -> tuple[Segment, ...]:
        """The segments with which the arena is smallest, of these the ones with least overhead.

        least: as small as the front can be, even if other steps need more. enough_bytes: that the
        arena has in any case.
        """
        others = (enough_bytes, *self.loads[self.end :])
        limit = self.least_bytes if least else max(self.least_bytes, *others)
        chosen = _least_overhead(self._options, limit)
        runs = self.runs()
        stage_of = {first + i: s for first, stages in runs for i, s in enumerate(stages)}
        return tuple(
            self._widened(
                self.segment(begin, in_strips((stage_of[i] for i in range(begin, end)), strip)),
                limit,
            )
            for begin, end, strip in chosen
            if strip
        )

    def _widened(self, segment: Segment, limit: int) -> Segment:
        """Compute more rows at once where that fits the limit, the largest overhead first."""
        is_open = [True] * len(segment.stages)
        while any(is_open):
            setups = [
                self._overhead(stage, tensor.rows) if is_open[place] else -1
                for place, (tensor, stage) in enumerate(
                    zip(segment.tensors[segment.sources :], segment.stages, strict=True)
                )
            ]
            place = setups.index(max(setups))
            stage = segment.stages[place]
            stages = list(segment.stages)
            stages[place] = replace(stage, strip=2 * stage.strip)
            wider = self.segment(segment.first, tuple(stages))
            rows = segment.tensors[segment.sources + place].rows
            if stage.strip < rows and self._size(wider) <= limit:
                segment = wider
            else:
                is_open[place] = False
        return segment

    def _overhead(self, stage: Stage, rows: int) -> int:
        """Instructions that more than one call costs, for so many rows of output."""
        calls = -(-rows // stage.strip)
        weights = sum(self.graph.tensors[n].type.elements for n in self._whole(stage))
        x = self.graph.tensors[stage.reads[0]].type
        again = max(stage.rows.span - stage.rows.stride, 0) * (x.elements // x.shape[1])
        return (calls - 1) * (CALL + WEIGHT * weights + READ_AGAIN * again)

    def _size(self, segment: Segment) -> int:
        """Bytes alive while it runs."""
        alive = dict(self._alive_before[segment.first])
        if segment.is_fed:
            del alive[self.x]
        own = segment.tensors if segment.is_fed else segment.tensors[segment.sources :]
        sizes = [t.size_bytes for t in own] + [segment.scratch_bytes, segment.progress_bytes]
        return sum(alive.values()) + sum(align_up(size, self.align_bytes) for size in sizes)


def _chosen(overlays: Iterable[_Overlay], sizes: Mapping[str, int]) -> dict[str, _Overlay]:
    """Choose overlays by y, the first of each that saves something; an x is in one at most.

    sizes: of each y where it has a place of its own.
    """
    over: dict[str, _Overlay] = {}
    for overlay in overlays:
        if overlay.scratch_bytes < sizes[overlay.y]:
            over.setdefault(overlay.y, overlay)
    return over


def _are_ahead(stages: Sequence[Stage], place: int, x: str, heights: Mapping[str, int]) -> bool:
    """Whether all others that read x are done with a row before the stage at `place` computes it.

    For how far they are at least follows from what must be there for that row.
    """
    makers = {s.node.outputs[0]: i for i, s in enumerate(stages[:place])}
    readers = [i for i, s in enumerate(stages[:place]) if x in s.node.inputs]
    if any(stages[i].node.inputs.index(x) not in stages[i].rows.inputs for i in readers):
        return False
    if not readers:
        return True
    strip, rows = stages[place].strip, heights[stages[place].node.outputs[0]]
    for begin in range(0, rows, strip):
        end = min(begin + strip, rows)
        done = [0] * place + [end]
        for i in range(place, -1, -1):
            for name in stages[i].reads if done[i] else ():
                if name in makers:
                    needed = stages[i].rows.end(done[i], heights[name])
                    done[makers[name]] = max(done[makers[name]], needed)
        open_ = (i for i in readers if done[i] < heights[stages[i].node.outputs[0]])
        if any(stages[i].rows.begin(done[i], heights[x]) < end for i in open_):
            return False
    return True


def _least_overhead(
    options: Sequence[Iterable[tuple[int, int, int, int]]], limit: int
) -> list[tuple[int, int, int]]:
    """(begin, end, strip) of the parts, none above the limit, with the least overhead in all.

    Nodes by themselves, whose strip is 0, before segments that cost no less.
    """
    best: list[tuple[int, int, int, int]] = [(0, 0, 0, 0)]  # overhead, segments, begin, strip
    for found in options[1:]:
        within = [
            (best[begin][0] + overhead, best[begin][1] + (strip > 0), begin, strip)
            for begin, size_bytes, overhead, strip in found
            if size_bytes <= limit
        ]
        best.append(min(within, default=(1 << 60, 0, 0, 0)))
    parts, end = [], len(options) - 1
    while end > 0:
        _, _, begin, strip = best[end]
        parts.append((begin, end, strip))
        end = begin
    return parts[::-1]

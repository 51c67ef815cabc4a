"""Whether buffers fit into an arena of given size: a search over skylines, exact if it ends.

Steps are merged to sections, one for each set of buffers alive together that no other set contains.
Over every section lies a floor, below which nothing more is placed; a valley is a run of sections
between higher floors. Whatever lies lowest in a valley begins on its floor. So a node asks which of
the buffers that live within the valley begins there first (in steps), or whether none does. The
sections before it are then raised, and the bytes lost must be spare there.

The search cuts losses that a buffer left over would fill: it could be moved down, and all stays
valid. It cuts states seen before. After a failure it cuts choices that did not cause it
(conflict-directed backjumping: Prosser, "Hybrid algorithms for the constraint satisfaction
problem", 1993). Which valley is next is decided by the fewest choices and by failures seen
(Boussemart et al., "Boosting systematic search by weighting constraints", 2004). Sections and parts
that no buffer joins follow Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
Hardware-Accelerated Machine Learning" (ASPLOS 2023).

A node costs about 0.1 ms. No result depends on time, floats or the order of a set.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import or_
from random import Random
from typing import Any, NamedTuple, TypeVar

from mcutrain_host.dataclass import dataclass

Box = tuple[int, int, int]
"""A buffer: its first section, the one behind its last, its size."""

SKY = 1 << 62
"""The floor beside the outermost sections: nothing reaches over it."""


@dataclass(frozen=True)
class Guide:
    """What is tried first. It changes how soon an arrangement is found, never whether there is."""

    size: int = 9
    length: int = 5
    load: int = 5
    wall: int = 0
    width: int = 0
    loss: int = 0
    lowest: bool = False
    noise: tuple[int, ...] = ()

    @classmethod
    def drawn(cls, rng: Random, boxes: int) -> Guide:
        """Any; the same for the same numbers on every machine."""
        most = _choose(rng, (0, 500, 1500))
        return cls(
            size=_choose(rng, range(10)),
            length=_choose(rng, range(10)),
            load=_choose(rng, range(10)),
            wall=_choose(rng, (0, 500, 1500, 5000)),
            width=_choose(rng, (0, 800, 3000)),
            loss=_choose(rng, (0, 20, 170)),
            lowest=_choose(rng, (False, False, True)),
            noise=tuple(int(rng.random() * most) for _ in range(boxes)),
        )

    def changed(self, rng: Random, worst: Sequence[int]) -> Guide:
        """One much like this: other turns for some of the boxes `worst`, or another weight."""
        other = Guide.drawn(rng, len(self.noise))
        weights: dict[str, Any] = {}
        for _ in range(_choose(rng, (0, 0, 0, 1, 2))):
            name = _choose(rng, ("size", "length", "load", "wall", "width", "loss", "lowest"))
            weights[name] = getattr(other, name)
        share = _choose(rng, (20, 50, 200, 500))
        noise = list(self.noise)
        for box in worst:
            if rng.random() * 1000 < share:
                noise[box] = int(rng.random() * 4000) - 2000
        return replace(self, noise=tuple(noise), **weights)


T = TypeVar("T")


def _choose(rng: Random, items: Sequence[T]) -> T:
    """A seeded choice by `random()` alone, whose sequence Python guarantees to keep."""
    return items[int(rng.random() * len(items))]


class Found(NamedTuple):
    """An attempt's end: the offsets, or none; whether there can be none; the nodes it took."""

    offsets: tuple[int, ...] | None
    is_refuted: bool
    nodes: int


class Placement(NamedTuple):
    """A buffer on the valley's floor (-1: none), and by how much the sections before it rise."""

    box: int
    until: int
    raised: int


class Valley(NamedTuple):
    """Sections `begin` to before `end`, between higher floors, and who can begin there."""

    begin: int
    end: int
    choices: tuple[Placement, ...]


@dataclass(frozen=True)
class BoxIndex:
    """Boxes and, as sets of bits, which of them lie where."""

    boxes: tuple[Box, ...]
    sections: int
    load: tuple[int, ...]
    starts: tuple[int, ...]
    """Boxes whose first section this is."""
    since: tuple[int, ...]
    """Boxes that begin here or later."""
    until: tuple[int, ...]
    """Boxes that end before this section."""
    across: tuple[int, ...]
    """Boxes that live both in this section and in the one before."""
    sizes: tuple[int, ...]
    """All sizes in ascending order, and of them as many masks of the boxes of at most that size."""
    at_most: tuple[int, ...]
    ranks: tuple[tuple[int, int, int], ...]
    """How large, long and loaded each box is, 0 to 1000 among all."""

    @classmethod
    def of(cls, boxes: Sequence[Box]) -> BoxIndex:
        sections = max((end for _, end, _ in boxes), default=0)
        starts, ends, load = [0] * (sections + 1), [0] * (sections + 1), [0] * sections
        for i, (first, end, size) in enumerate(boxes):
            starts[first] |= 1 << i
            ends[end] |= 1 << i
            for s in range(first, end):
                load[s] += size
        since = tuple(accumulate(reversed(starts), or_))[::-1]
        until = tuple(accumulate(ends, or_))
        everyone = (1 << len(boxes)) - 1
        by_size = sorted(range(len(boxes)), key=lambda i: boxes[i][2])
        return cls(
            tuple(boxes),
            sections,
            tuple(load),
            tuple(starts),
            since,
            until,
            tuple(everyone & ~(a | b) for a, b in zip(since, until, strict=True)),
            tuple(boxes[i][2] for i in by_size),
            (0, *accumulate((1 << i for i in by_size), or_)),
            _ranks(boxes, load),
        )

    def small(self, size: int) -> int:
        """The boxes of at most this size."""
        return self.at_most[bisect_right(self.sizes, size)]

    def within(self, begin: int, end: int) -> int:
        """The boxes that live in these sections only."""
        return self.since[begin] & self.until[end]

    def mirrored(self) -> BoxIndex:
        """Return the index with time running backwards."""
        n = self.sections
        return BoxIndex.of([(n - end, n - first, size) for first, end, size in self.boxes])


def _ranks(boxes: Sequence[Box], load: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    values = [(size, end - first, max(load[first:end])) for first, end, size in boxes]
    columns = []
    for column in zip(*values, strict=True):
        order = sorted(column)
        columns.append([1000 * bisect_left(order, value) // len(order) for value in column])
    return tuple(zip(*columns, strict=True))


def sections_of(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return, for lifetimes (first, last), the first section and the one behind the last.

    Only steps at which a buffer is born, followed by a death before the next birth, count: any
    other step's buffers are among those of such a one.
    """
    events = sorted([(first, 0) for first, _ in spans] + [(last, 1) for _, last in spans])
    steps = [a for (a, kind), (_, then) in pairwise(events) if kind < then]
    return [(bisect_left(steps, first), bisect_right(steps, last)) for first, last in spans]


class Subproblem(NamedTuple):
    """Neighbouring sections that no box left over joins to others; those boxes; the valleys."""

    begin: int
    end: int
    left_over: int
    valleys: tuple[Valley, ...]


@dataclass(frozen=True)
class State:
    """Boxes without a place; floors, what is to spare and, as bits, the choices that touched each
    section; the parts not yet filled.
    """

    left_over: int
    floors: list[int]
    spare: list[int]
    touched: list[int]
    parts: tuple[Subproblem, ...]


@dataclass
class _Frame:
    """A node on the way down: what it chooses from, and the choices that its failures hang on."""

    state: State
    valley: Valley
    choices: Iterator[Placement]
    conflict: int
    placed: Placement = Placement(-1, 0, 0)


@dataclass
class Attempt:
    """One search under one guide; `left_over` boxes were without a place when it got furthest."""

    layout: BoxIndex
    capacity: int
    guide: Guide

    def __post_init__(self) -> None:
        g, self.left_over = self.guide, len(self.layout.boxes)
        self._merit = [
            g.size * size + g.length * length + g.load * load + extra
            for (size, length, load), extra in zip(self.layout.ranks, g.noise, strict=True)
        ]
        self._failures = [0] * self.layout.sections
        self._seen: set[tuple[int, int, tuple[int, ...]]] = set()

    def run(self, patience: int, most_nodes: int, floors: Sequence[int] = ()) -> Found:
        """Until solved, refuted, `most_nodes`, or `patience` nodes without getting further.

        floors: what of each section is taken at the bottom; nothing without them.
        """
        layout = self.layout
        floors = list(floors) or [0] * layout.sections
        nothing = Subproblem(0, layout.sections, (1 << len(layout.boxes)) - 1, ())
        spare = [
            self.capacity - load - floor for load, floor in zip(layout.load, floors, strict=True)
        ]
        if not layout.boxes or min(spare) < 0:
            return Found(None if layout.boxes else (), bool(layout.boxes), 0)
        parts = self._parts(nothing, floors, spare, 0, layout.sections)
        state = State(self.left_over, floors, spare, [0] * layout.sections, parts)
        return self._descend(state, patience, most_nodes)

    def worst(self) -> tuple[int, ...]:
        """The boxes that live in the section where most choices failed."""
        s = max(range(self.layout.sections), key=self._failures.__getitem__)
        boxes = enumerate(self.layout.boxes)
        return tuple(i for i, (first, end, _) in boxes if first <= s < end)

    def _descend(self, state: State, patience: int, most_nodes: int) -> Found:
        stack: list[_Frame] = []
        nodes, give_up = 0, patience
        while state.parts:
            nodes += 1
            if state.left_over < self.left_over:
                self.left_over, give_up = state.left_over, nodes + patience
            if nodes > min(give_up, most_nodes):
                return Found(None, False, nodes)
            conflict = self._enter(stack, state)
            following = self._advance(stack) if conflict < 0 else self._retreat(stack, conflict)
            if following is None:
                return Found(None, True, nodes)
            state = following
        return Found(self._offsets(stack), False, nodes)

    def _enter(self, stack: list[_Frame], state: State) -> int:
        """Put a node upon the stack; or what its failure hangs on, if the state cannot be."""
        part = state.parts[0]
        if self._key(state) in self._seen:
            return _union(state.touched[part.begin : part.end])
        valley = self._pick(state)
        begin, end = max(valley.begin - 1, part.begin), min(valley.end + 1, part.end)
        conflict = _union(state.touched[begin:end])
        if not valley.choices:
            for s in range(valley.begin, valley.end):
                self._failures[s] += 1
            return conflict
        stack.append(_Frame(state, valley, iter(valley.choices), conflict))
        return -1

    def _key(self, state: State) -> tuple[int, int, tuple[int, ...]]:
        part = state.parts[0]
        return part.begin, part.left_over, tuple(state.floors[part.begin : part.end])

    def _retreat(self, stack: list[_Frame], conflict: int) -> State | None:
        """The next state from the last node that the failure hangs on; None if there is none."""
        while stack:
            if conflict >> (len(stack) - 1) & 1:
                stack[-1].conflict |= conflict
                following = self._advance(stack)
                if following is not None:
                    return following
                self._seen.add(self._key(stack[-1].state))
                conflict = stack[-1].conflict & ~(1 << (len(stack) - 1))
            stack.pop()
        return None

    def _pick(self, state: State) -> Valley:
        """One without choices, or with one; else the lowest, or the narrowest by its failures."""
        valleys = state.parts[0].valleys
        floors, failures = state.floors, self._failures
        if self.guide.lowest:
            return min(valleys, key=lambda v: (min(len(v.choices), 2), floors[v.begin], v.begin))
        return min(
            valleys,
            key=lambda v: (
                len(v.choices) / (1 + max(failures[v.begin : v.end])),
                floors[v.begin],
                v.begin,
            ),
        )

    def _advance(self, stack: list[_Frame]) -> State | None:
        """The state after the last node's next choice; None if there is no choice left."""
        frame = stack[-1]
        choice = next(frame.choices, None)
        if choice is None:
            return None
        frame.placed = choice
        state, part = frame.state, frame.state.parts[0]
        floors, spare, touched = state.floors[:], state.spare, state.touched[:]
        level = 1 << (len(stack) - 1)
        begin = end = frame.valley.begin
        floor = floors[begin]
        if choice.raised:
            spare = spare[:]
            for s in range(begin, choice.until):
                floors[s] += choice.raised
                spare[s] -= choice.raised
                touched[s] |= level
            end = choice.until
        if choice.box >= 0:
            first, end, size = self.layout.boxes[choice.box]
            begin = begin if choice.raised else first
            for s in range(first, end):
                floors[s] = floor + size
                touched[s] |= level
            part = part._replace(left_over=part.left_over & ~(1 << choice.box))
        parts = (*self._parts(part, floors, spare, begin, end), *state.parts[1:])
        left_over = state.left_over - (choice.box >= 0)
        return State(left_over, floors, spare, touched, parts)

    def _parts(
        self, part: Subproblem, floors: list[int], spare: list[int], begin: int, end: int
    ) -> tuple[Subproblem, ...]:
        """The parts that a part falls into after a change of the sections `begin` to `end`."""
        layout, left_over, across = self.layout, part.left_over, self.layout.across
        cuts = [s for s in range(begin + 1, end) if not left_over & across[s]]
        parts = []
        for first, last in pairwise((part.begin, *cuts, part.end)):
            inside = left_over & layout.within(first, last)
            if inside:
                valleys = [v for v in part.valleys if first <= v.begin and v.end < begin]
                valleys += self._valleys(first, last, inside, floors, spare, begin, end)
                valleys += [v for v in part.valleys if end < v.begin and v.end <= last]
                parts.append(Subproblem(first, last, inside, tuple(valleys)))
        return tuple(sorted(parts, key=lambda p: (p.left_over.bit_count(), p.begin)))

    def _valleys(
        self,
        first: int,
        last: int,
        left_over: int,
        floors: list[int],
        spare: list[int],
        begin: int,
        end: int,
    ) -> Iterator[Valley]:
        """Yield the valleys within `first` to `last` that touch sections `begin` to `end`."""
        s, end = max(begin - 1, first), min(end + 1, last)
        while s > first and floors[s - 1] == floors[s]:
            s -= 1
        left = floors[s - 1] if s > first else SKY
        while s < end:
            floor, start = floors[s], s
            while s < last and floors[s] == floor:
                s += 1
            right = floors[s] if s < last else SKY
            if left > floor < right:
                choices = self._choices(start, s, left, right, left_over, floor, spare)
                yield Valley(start, s, choices)
            left = floor

    def _choices(
        self,
        begin: int,
        end: int,
        left: int,
        right: int,
        left_over: int,
        floor: int,
        spare: list[int],
    ) -> tuple[Placement, ...]:
        """Who can be the first to begin on the floor, the best first; at last none, if it may."""
        layout, boxes = self.layout, self.layout.boxes
        inside = left_over & layout.within(begin, end)
        if left == SKY == right:
            whole = inside & layout.starts[begin] & ~layout.until[end - 1]
            if whole:
                return (Placement(whole.bit_length() - 1, begin, 0),)
        choices = []
        least_spare = SKY
        for s in range(begin, end):
            candidates = inside & layout.starts[s]
            while candidates:
                box = candidates.bit_length() - 1
                candidates ^= 1 << box
                raised = min(left - floor, boxes[box][2]) if s > begin else 0
                if raised <= least_spare:
                    fills = inside & layout.until[s] & layout.small(raised) if raised else 0
                    if not fills:
                        choices.append(Placement(box, s, raised))
            least_spare = min(least_spare, spare[s])
            if least_spare == 0:
                break
        choices.sort(key=lambda c: (-self._worth(c, end, left - floor, right - floor), c.box))
        raised = min(left, right) - floor
        if raised <= least_spare and not inside & layout.small(raised):
            choices.append(Placement(-1, end, raised))
        return tuple(choices)

    def _worth(self, choice: Placement, end: int, left: int, right: int) -> int:
        """Large boxes first, by the guide; those that end at walls and fill the width; no loss."""
        guide = self.guide
        _, last, size = self.layout.boxes[choice.box]
        worth = self._merit[choice.box]
        worth -= guide.loss * 1000 * choice.raised // self.capacity
        if not choice.raised and size == left:
            worth += guide.wall
        if last == end:
            worth += guide.wall if size == right else 0
            worth += guide.width if not choice.raised else 0
        return worth

    def _offsets(self, stack: Sequence[_Frame]) -> tuple[int, ...]:
        offsets = [0] * len(self.layout.boxes)
        for frame in stack:
            if frame.placed.box >= 0:
                offsets[frame.placed.box] = frame.state.floors[frame.valley.begin]
        return tuple(offsets)


def _union(masks: Sequence[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union

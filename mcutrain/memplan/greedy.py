"""Offsets by greedy placement in several orders, then a bounded, seeded search.

The search follows the hill climbing of Arm's Vela compiler (ethosu/vela/hillclimb_allocation.py):
move the turns of the buffers that hold up the top of the arena, keep what is not worse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from mcutrain.errors import PlanError
from mcutrain.memplan.plan import Buffer, MemoryPlan, align_up, load_profile, peak

Fit = Callable[[list[tuple[int, int]], int], int]

SEARCH_PAIRS = 2_000_000
"""Work of the search: pairs of neighbours visited in all its rounds, about half a second."""

MAX_SEARCH_ROUNDS = 2_000


def solve(
    buffers: Sequence[Buffer], align_bytes: int = 4, search_pairs: int = SEARCH_PAIRS
) -> MemoryPlan:
    """A plan near the lower bound; the same offsets for any order of the same buffers.

    `search_pairs` bounds the work of the search that follows the greedy placements (0: none).
    Raises PlanError when names repeat, a size or lifetime is empty, or the alignment is not
    positive. Takes O(n^2) time per placement.
    """
    _check(buffers, align_bytes)
    problem = _Problem.of(buffers, align_bytes)
    offsets = _search(problem, _best_greedy(problem), search_pairs)
    names = [buffer.name for buffer in problem.buffers]
    return MemoryPlan(
        tuple(buffers), dict(zip(names, offsets, strict=True)), problem.top(offsets), align_bytes
    )


def first_fit(taken: list[tuple[int, int]], size_bytes: int) -> int:
    """The lowest offset of `size_bytes` free bytes beside sorted `taken` (begin, end) ranges."""
    free_from = 0
    for begin, end in taken:
        if begin - free_from >= size_bytes:
            return free_from
        if end > free_from:
            free_from = end
    return free_from


def best_fit(taken: list[tuple[int, int]], size_bytes: int) -> int:
    """The offset of the smallest sufficient gap between sorted `taken` ranges, else their top."""
    free_from = 0
    best: tuple[int, int] | None = None
    for begin, end in taken:
        gap_bytes = begin - free_from
        if gap_bytes >= size_bytes and (best is None or gap_bytes < best[0]):
            best = (gap_bytes, free_from)
        if end > free_from:
            free_from = end
    return free_from if best is None else best[1]


_FITS = (first_fit, best_fit)


@dataclass(frozen=True)
class _Problem:
    """Buffers sorted by name (so an index breaks ties), aligned sizes, and who overlaps whom."""

    buffers: tuple[Buffer, ...]
    sizes_bytes: tuple[int, ...]
    neighbours: tuple[tuple[int, ...], ...]
    contention_bytes: tuple[int, ...]
    lower_bound_bytes: int

    @classmethod
    def of(cls, buffers: Sequence[Buffer], align_bytes: int) -> _Problem:
        by_name = tuple(sorted(buffers, key=lambda buffer: buffer.name))
        return cls(
            by_name,
            tuple(align_up(buffer.size_bytes, align_bytes) for buffer in by_name),
            _neighbours(by_name),
            _contention(by_name, align_bytes),
            peak(by_name, align_bytes)[1],
        )

    def top(self, offsets: Sequence[int]) -> int:
        """The arena that these offsets need."""
        ends = (start + size for start, size in zip(offsets, self.sizes_bytes, strict=True))
        return max(ends, default=0)


def _check(buffers: Sequence[Buffer], align_bytes: int) -> None:
    if align_bytes < 1:
        raise PlanError(f"the alignment is {align_bytes} bytes; it must be at least 1")
    repeated = sorted(name for name, n in Counter(b.name for b in buffers).items() if n > 1)
    if repeated:
        raise PlanError(f"buffer names repeat: {repeated}; give each buffer its own name")
    for buffer in buffers:
        if buffer.size_bytes < 1 or buffer.first > buffer.last:
            raise PlanError(
                f"buffer '{buffer.name}' has {buffer.size_bytes} bytes in steps {buffer.first} to "
                f"{buffer.last}; it needs at least one byte and one step"
            )


def _neighbours(buffers: Sequence[Buffer]) -> tuple[tuple[int, ...], ...]:
    """For each buffer the indices of those that are alive together with it."""
    return tuple(
        tuple(
            j for j, b in enumerate(buffers) if i != j and a.first <= b.last and b.first <= a.last
        )
        for i, a in enumerate(buffers)
    )


def _contention(buffers: Sequence[Buffer], align_bytes: int) -> tuple[int, ...]:
    """For each buffer the largest sum of live bytes within its lifetime."""
    profile = load_profile(buffers, align_bytes)
    return tuple(
        max(live_bytes for step, live_bytes in profile if buffer.is_live(step))
        for buffer in buffers
    )


def _orders(problem: _Problem) -> list[list[int]]:
    """Sensible orders of placement: the hardest buffers first, by four meanings of hard."""
    indices = range(len(problem.buffers))
    size = problem.sizes_bytes
    steps = [buffer.last - buffer.first + 1 for buffer in problem.buffers]
    contention = problem.contention_bytes
    return [
        sorted(indices, key=lambda i: (-size[i], -steps[i], i)),
        sorted(indices, key=lambda i: (-size[i] * steps[i], -size[i], i)),
        sorted(indices, key=lambda i: (-steps[i], -size[i], i)),
        sorted(indices, key=lambda i: (-contention[i], -steps[i], -size[i], i)),
    ]


def _place(problem: _Problem, order: Sequence[int], fit: Fit) -> list[int]:
    """Place buffers one after the other, each where `fit` puts it beside its placed neighbours."""
    taken: list[list[tuple[int, int]]] = [[] for _ in order]
    offsets = [0] * len(order)
    for i in order:
        size_bytes = problem.sizes_bytes[i]
        taken[i].sort()
        offsets[i] = fit(taken[i], size_bytes)
        placed = (offsets[i], offsets[i] + size_bytes)
        for j in problem.neighbours[i]:
            taken[j].append(placed)
    return offsets


def _stack(problem: _Problem, order: Sequence[int]) -> list[int]:
    """Fill the arena from the ground: next is always the buffer that can lie lowest.

    Where several lie equally low, the first of `order` goes. After the best-fit heuristic of
    Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (2018).
    """
    offsets = [0] * len(order)
    unplaced = list(order)
    while unplaced:
        i = min(unplaced, key=offsets.__getitem__)
        unplaced.remove(i)
        end = offsets[i] + problem.sizes_bytes[i]
        for j in set(unplaced).intersection(problem.neighbours[i]):
            offsets[j] = max(offsets[j], end)
    return offsets


def _best_greedy(problem: _Problem) -> list[int]:
    """The lowest of all orders and ways to place; the earlier one where they tie."""
    orders = _orders(problem)
    ways = [partial(_place, order=order, fit=fit) for order in orders for fit in _FITS]
    ways += [partial(_stack, order=order) for order in orders]
    best = ways[0](problem)
    for way in ways[1:]:
        if problem.top(best) <= problem.lower_bound_bytes:
            break
        best = min(best, way(problem), key=problem.top)
    return best


def _search(problem: _Problem, offsets: list[int], search_pairs: int) -> list[int]:
    """Lower the arena by moving the buffers under its top; never worse than `offsets`.

    First fit in ascending order of offsets puts each buffer where it was or lower, because all
    neighbours placed before it began, hence ended, no higher than it begins.
    """
    rng = Random(0)
    order = sorted(range(len(offsets)), key=lambda i: (offsets[i], i))
    offsets = _place(problem, order, first_fit)
    pairs = len(order) + sum(map(len, problem.neighbours))
    for _ in range(min(MAX_SEARCH_ROUNDS, search_pairs // max(pairs, 1))):
        if problem.top(offsets) <= problem.lower_bound_bytes:
            break
        trial_order = _reorder(problem, order, offsets, rng)
        trial = _place(problem, trial_order, first_fit)
        if problem.top(trial) <= problem.top(offsets):
            order, offsets = trial_order, trial
    return offsets


def _reorder(
    problem: _Problem, order: Sequence[int], offsets: Sequence[int], rng: Random
) -> list[int]:
    """Move a buffer that holds up the top to just before one that is alive beside that pile."""
    pile = _pile(problem, offsets, rng)
    beside = sorted({j for i in pile for j in problem.neighbours[i]})
    moved, before = _choose(pile, rng), _choose(beside, rng)
    rest = [i for i in order if i != moved]
    turn = 0 if before == moved else rest.index(before)
    return [*rest[:turn], moved, *rest[turn:]]


def _pile(problem: _Problem, offsets: Sequence[int], rng: Random) -> list[int]:
    """A buffer that ends at the arena's top, one it lies on, and so on down to the ground."""
    top = problem.top(offsets)
    ends = [start + size for start, size in zip(offsets, problem.sizes_bytes, strict=True)]
    pile = [_choose([i for i, end in enumerate(ends) if end == top], rng)]
    while offsets[pile[-1]] > 0:
        below = [j for j in problem.neighbours[pile[-1]] if ends[j] == offsets[pile[-1]]]
        pile.append(_choose(below, rng))
    return pile


def _choose(items: Sequence[int], rng: Random) -> int:
    """A seeded choice by `random()` alone, whose sequence Python guarantees to keep."""
    return items[int(rng.random() * len(items))]

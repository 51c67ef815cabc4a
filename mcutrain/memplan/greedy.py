"""Offsets by greedy placement in several orders: nearly always at the lower bound, and at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mcutrain_host.dataclass import dataclass

from mcutrain.memplan.plan import Buffer, align_up, load_profile, peak

Fit = Callable[[list[tuple[int, int]], int], int]


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
class PlacementProblem:
    """Buffers sorted by name (so an index breaks ties), aligned sizes, and who overlaps whom."""

    buffers: tuple[Buffer, ...]
    sizes_bytes: tuple[int, ...]
    neighbours: tuple[tuple[int, ...], ...]
    contention_bytes: tuple[int, ...]
    lower_bound_bytes: int

    @classmethod
    def of(cls, buffers: Sequence[Buffer], align_bytes: int) -> PlacementProblem:
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


def _neighbours(buffers: Sequence[Buffer]) -> tuple[tuple[int, ...], ...]:
    """Return, for each buffer, the indices of those that are alive together with it."""
    return tuple(
        tuple(
            j for j, b in enumerate(buffers) if i != j and a.first <= b.last and b.first <= a.last
        )
        for i, a in enumerate(buffers)
    )


def _contention(buffers: Sequence[Buffer], align_bytes: int) -> tuple[int, ...]:
    """Return, for each buffer, the largest sum of live bytes within its lifetime."""
    profile = load_profile(buffers, align_bytes)
    return tuple(
        max(live_bytes for step, live_bytes in profile if buffer.is_live(step))
        for buffer in buffers
    )


def _orders(problem: PlacementProblem) -> list[list[int]]:
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


def _place(problem: PlacementProblem, order: Sequence[int], fit: Fit) -> list[int]:
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


def _stack(problem: PlacementProblem, order: Sequence[int]) -> list[int]:
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


def place_greedily(problem: PlacementProblem) -> list[int]:
    """The lowest of all orders and ways to place; the earlier one where they tie.

    In the end all sink: first fit in ascending order of offsets puts each buffer where it was, or
    lower. All neighbours placed before it began no higher than it begins, hence ended no higher.
    """
    orders = _orders(problem)
    ways = [partial(_place, order=order, fit=fit) for order in orders for fit in _FITS]
    ways += [partial(_stack, order=order) for order in orders]
    best = ways[0](problem)
    for way in ways[1:]:
        if problem.top(best) <= problem.lower_bound_bytes:
            break
        best = min(best, way(problem), key=problem.top)
    ascending = sorted(range(len(best)), key=lambda i: (best[i], i))
    return _place(problem, ascending, first_fit)

"""Offsets for buffers: greedy first; where that misses the lower bound, an exact search follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import gcd

from mcutrain.errors import PlanError
from mcutrain.memplan.exact import Packing, Report, pack, silent
from mcutrain.memplan.greedy import PlacementProblem, place_greedily
from mcutrain.memplan.plan import Buffer, MemoryPlan
from mcutrain.memplan.skyline import sections_of

SEARCH_NODES = 200_000
"""Work of the search: a node takes 0.03 to 0.1 ms, so 5 to 20 seconds if it does not succeed. Its
parts follow from it: with less, some of the published problems are missed. Our training steps that
greedy placement leaves above the bound took less than 100 nodes so far."""


def solve(
    buffers: Sequence[Buffer],
    align_bytes: int = 4,
    search_nodes: int = SEARCH_NODES,
    enough_bytes: int = 0,
    report: Report = silent,
) -> MemoryPlan:
    """The smallest plan that is found; the same offsets for any order of the same buffers.

    Nearly always the greedy one, which takes O(n^2) time. If it misses the lower bound, a search
    of at most `search_nodes` (0: none) lowers it, or proves that nothing is lower: the plan's
    `needed_bytes` say what was proven. Below `enough_bytes` nothing is sought. report: told how far
    the search is.
    Raises PlanError when names repeat, a size or lifetime is empty, or the alignment is not
    positive.
    """
    _check(buffers, align_bytes)
    problem = PlacementProblem.of(buffers, align_bytes)
    found = _searched(problem, place_greedily(problem), search_nodes, enough_bytes, report)
    names = [buffer.name for buffer in problem.buffers]
    offsets = dict(zip(names, found.offsets, strict=True))
    return MemoryPlan(tuple(buffers), offsets, found.size, align_bytes, found.needed, found.nodes)


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


def _searched(
    problem: PlacementProblem,
    offsets: Sequence[int],
    most_nodes: int,
    enough_bytes: int,
    report: Report,
) -> Packing:
    """Search in units of the largest size that divides all: sunken buffers lie at multiples."""
    top, bound = problem.top(offsets), problem.lower_bound_bytes
    if top <= max(bound, enough_bytes) or most_nodes < 1:
        return Packing(tuple(offsets), top, bound)
    unit = gcd(*problem.sizes_bytes)
    spans = sections_of([(buffer.first, buffer.last) for buffer in problem.buffers])
    boxes = [
        (first, end, size // unit)
        for (first, end), size in zip(spans, problem.sizes_bytes, strict=True)
    ]
    known = Packing(tuple(start // unit for start in offsets), top // unit, bound // unit)
    found = pack(boxes, known, enough_bytes // unit, most_nodes, report)
    starts = tuple(start * unit for start in found.offsets)
    return Packing(starts, found.size * unit, found.needed * unit, found.nodes)

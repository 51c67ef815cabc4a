"""The smallest arena for boxes, found and proven by searches over skylines; bounded by nodes.

Boxes that no section joins are packed apart, and what lives throughout lies at the bottom. Each
size is tried by many short attempts. The first are drawn. Most later ones change the guide of one
that got furthest, above all for the boxes alive where it failed most, as in Joslin and Clements,
"Squeaky Wheel Optimization" (1999).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from mcutrain.memplan.skyline import Attempt, Box, BoxIndex, Found, Guide

PATIENCE = 100
"""Nodes without getting further after which an attempt is given up."""

FIRST_PATIENCE = 3_000
"""Nodes of the first attempt at a size: it solves or refutes what is small."""

SERIES = 2_000_000
"""Series of random numbers by which all problems of minimalloc's paper are solved.

Of 16 tried, only this one solved the hardest of them within 65,000 nodes. Another series gives no
wrong result.
"""

DRAWN_FIRST = 10
DRAWN_OF = 6
ELITE = 3
"""How many drawn guides come first, and how many of the best ones others change."""

Report = Callable[[int, int], None]
"""Called now and then during a search, with the nodes so far and the most that there can be."""


def silent(nodes: int, of: int) -> None:
    """Nobody is told."""


class Packing(NamedTuple):
    """Offsets of all boxes, the size that they need, and the size below which there are none."""

    offsets: tuple[int, ...]
    size: int
    needed: int
    nodes: int = 0


class Block(NamedTuple):
    """Boxes that are packed above `base`, by their index, in both directions of time."""

    indices: tuple[int, ...]
    base: int
    sides: tuple[BoxIndex, BoxIndex]


class _Failed(NamedTuple):
    """An attempt: how many boxes found no place, its turn (negative), and what to learn from."""

    left_over: int
    turn: int
    side: int
    guide: Guide
    worst: tuple[int, ...]


def pack(
    boxes: Sequence[Box],
    known: Packing,
    enough: int,
    most_nodes: int,
    report: Report = silent,
) -> Packing:
    """`known`, or the lowest that is found in `most_nodes`; none below `enough` is sought.

    The first size to be tried is the bound, or `enough`; then always the one half-way between
    what failed and the lowest packing. Each gets half of the nodes that are left.
    known: with the largest sum of sizes in a section, or more, as `needed`. report: called after
    each attempt with the nodes so far and `most_nodes`.
    """
    bottom, blocks = _blocks(boxes)
    best, needed, nodes = known, known.needed, 0

    def spend(more: int) -> None:
        nonlocal nodes
        nodes += more
        report(nodes, most_nodes)

    tried = size = max(needed, enough)
    while size < best.size:
        found = _within(blocks, size, (most_nodes - nodes) // 2, spend)
        if isinstance(found, dict):
            offsets = bottom | found
            placed = tuple(offsets[i] for i in range(len(boxes)))
            ends = (start + box[2] for start, box in zip(placed, boxes, strict=True))
            best = Packing(placed, max(ends), needed)
        else:
            needed = size + 1 if found else needed
            tried = size + 1
        size = (tried + best.size) // 2
    return best._replace(needed=needed, nodes=nodes)


def _within(
    blocks: Sequence[Block], size: int, most_nodes: int, spend: Callable[[int], None]
) -> dict[int, int] | bool:
    """Offsets of the boxes of all blocks, or whether that is impossible."""
    offsets: dict[int, int] = {}
    nodes = 0
    for block in blocks:
        found = _trials(block.sides, size - block.base, most_nodes - nodes, spend)
        nodes += found.nodes
        if found.offsets is None:
            return found.is_refuted
        places = (block.base + start for start in found.offsets)
        offsets.update(zip(block.indices, places, strict=True))
    return offsets


def _trials(
    sides: tuple[BoxIndex, BoxIndex], capacity: int, most_nodes: int, spend: Callable[[int], None]
) -> Found:
    """Attempts until one succeeds or proves that none can. spend: told the nodes of each."""
    failed: list[_Failed] = []
    nodes = turn = 0
    while nodes < most_nodes:
        patience = PATIENCE if turn else FIRST_PATIENCE
        guide, side = _next_guide(failed, turn, len(sides[0].boxes))
        attempt = Attempt(sides[side], capacity, guide)
        found = attempt.run(patience, most_nodes - nodes)
        nodes += found.nodes
        spend(found.nodes)
        if found.offsets is not None or found.is_refuted:
            return found._replace(nodes=nodes)
        insort(failed, _Failed(attempt.left_over, -turn, side, guide, attempt.worst()))
        turn += 1
    return Found(None, False, nodes)


def _next_guide(failed: Sequence[_Failed], turn: int, boxes: int) -> tuple[Guide, int]:
    if turn == 0:
        return Guide(noise=(0,) * boxes), 0
    rng = Random(SERIES + turn)
    if turn < DRAWN_FIRST or int(rng.random() * DRAWN_OF) == 0:
        return Guide.drawn(rng, boxes), turn % 2
    best = failed[int(rng.random() * min(len(failed), ELITE))]
    return best.guide.changed(rng, best.worst), best.side


def _blocks(boxes: Sequence[Box]) -> tuple[dict[int, int], list[Block]]:
    """Offsets of the boxes that lie at the bottom, and the blocks above them, largest first."""
    bottom: dict[int, int] = {}
    blocks = []
    open_ = [(indices, 0) for indices in _apart(boxes, range(len(boxes)))]
    while open_:
        indices, base = open_.pop()
        first, end = min(boxes[i][0] for i in indices), max(boxes[i][1] for i in indices)
        rest = [i for i in indices if boxes[i][:2] != (first, end)]
        for i in indices:
            if boxes[i][:2] == (first, end):
                bottom[i] = base
                base += boxes[i][2]
        if len(rest) < len(indices):
            open_ += [(part, base) for part in _apart(boxes, rest)]
        else:
            moved = [(a - first, b - first, size) for a, b, size in (boxes[i] for i in indices)]
            layout = BoxIndex.of(moved)
            blocks.append(Block(indices, base, (layout, layout.mirrored())))
    return bottom, sorted(blocks, key=lambda block: (-len(block.indices), block.indices))


def _apart(boxes: Sequence[Box], indices: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The boxes in groups that share no section."""
    group: list[int] = []
    end = 0
    for i in sorted(indices, key=lambda i: boxes[i]):
        if group and boxes[i][0] >= end:
            yield tuple(group)
            group = []
        group.append(i)
        end = max(end, boxes[i][1])
    if group:
        yield tuple(group)

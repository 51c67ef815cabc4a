"""The smallest arena by trying every byte for every buffer. Shares no code with the solvers."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain.memplan import Buffer


def smallest_arena(buffers: Sequence[Buffer]) -> int:
    """For few buffers of few bytes, aligned to one."""
    largest_first = sorted(buffers, key=lambda b: -b.size_bytes)
    alive = [[b.size_bytes for b in buffers if b.first <= a.first <= b.last] for a in buffers]
    arena_bytes = max(map(sum, alive), default=0)
    while not _fit(largest_first, [], arena_bytes):
        arena_bytes += 1
    return arena_bytes


def fit_above(buffers: Sequence[Buffer], floors: Sequence[int], arena_bytes: int) -> bool:
    """Whether they fit above the bytes of `floors`, which are taken at each step."""
    taken = [(Buffer(f"floor{i}", size, i, i), 0) for i, size in enumerate(floors) if size]
    return _fit(sorted(buffers, key=lambda b: -b.size_bytes), taken, arena_bytes)


def _fit(left: Sequence[Buffer], placed: list[tuple[Buffer, int]], arena_bytes: int) -> bool:
    if not left:
        return True
    buffer = left[0]
    free = (
        offset
        for offset in range(arena_bytes - buffer.size_bytes + 1)
        if not any(_clash(buffer, offset, *other) for other in placed)
    )
    return any(_fit(left[1:], [*placed, (buffer, offset)], arena_bytes) for offset in free)


def _clash(a: Buffer, a_begin: int, b: Buffer, b_begin: int) -> bool:
    in_time = a.first <= b.last and b.first <= a.last
    return in_time and a_begin < b_begin + b.size_bytes and b_begin < a_begin + a.size_bytes

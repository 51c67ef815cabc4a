"""What a memory plan is: buffers with lifetimes, their offsets in one arena, its lower bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mcutrain_host.dataclass import dataclass


@dataclass(frozen=True)
class Buffer:
    """Bytes alive from step `first` to step `last`, both included."""

    name: str
    size_bytes: int
    first: int
    last: int

    def is_live(self, step: int) -> bool:
        """Return whether this buffer holds a value at `step`."""
        return self.first <= step <= self.last


@dataclass(frozen=True)
class MemoryPlan:
    """Where every buffer lies in an arena of `arena_bytes`; sound only if `validate` is silent.

    `offsets` maps a buffer's name to its first byte, a multiple of `align_bytes`. `needed_bytes`:
    no arena can be smaller, as a search of `search_nodes` has shown (0: none was needed).
    """

    buffers: tuple[Buffer, ...]
    offsets: Mapping[str, int]
    arena_bytes: int
    align_bytes: int
    needed_bytes: int = 0
    search_nodes: int = 0

    @property
    def is_smallest(self) -> bool:
        """Whether no arrangement of the buffers needs fewer bytes; False if that is not known."""
        return self.arena_bytes <= max(self.lower_bound_bytes, self.needed_bytes)

    @property
    def lower_bound_bytes(self) -> int:
        """The largest sum of aligned sizes alive at one step: no arena can be smaller."""
        return peak(self.buffers, self.align_bytes)[1]

    @property
    def peak_step(self) -> int:
        """The first step that reaches the lower bound (0 when there are no buffers)."""
        return peak(self.buffers, self.align_bytes)[0]

    def live_at(self, step: int) -> tuple[Buffer, ...]:
        """The buffers alive at `step`, from the lowest offset to the highest."""
        live = [buffer for buffer in self.buffers if buffer.is_live(step)]
        return tuple(sorted(live, key=lambda b: (self.offsets[b.name], b.name)))


def align_up(size_bytes: int, align_bytes: int) -> int:
    """The least multiple of `align_bytes` that is not less than `size_bytes`."""
    return -(-size_bytes // align_bytes) * align_bytes


def load_profile(buffers: Iterable[Buffer], align_bytes: int) -> tuple[tuple[int, int], ...]:
    """(step, aligned bytes alive from that step on) at every step where the sum may change."""
    change_bytes: dict[int, int] = defaultdict(int)
    for buffer in buffers:
        size_bytes = align_up(buffer.size_bytes, align_bytes)
        change_bytes[buffer.first] += size_bytes
        change_bytes[buffer.last + 1] -= size_bytes
    profile = []
    live_bytes = 0
    for step in sorted(change_bytes):
        live_bytes += change_bytes[step]
        profile.append((step, live_bytes))
    return tuple(profile)


def peak(buffers: Iterable[Buffer], align_bytes: int) -> tuple[int, int]:
    """(first step, bytes) of the largest sum of aligned sizes alive at once; (0, 0) if none."""
    profile = load_profile(buffers, align_bytes)
    return max(profile, key=lambda entry: (entry[1], -entry[0]), default=(0, 0))

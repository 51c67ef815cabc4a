"""Flash as bytes that survive a power cut, whole or half-programmed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mcutrain_host.dataclass import dataclass
from mcutrain_host.virtual.bus import Board

ERASED = 0xFF


@dataclass(frozen=True)
class FlashTiming:
    """How long operations take, in instructions: far shorter than real, long enough to be cut."""

    program: int = 6
    erase: int = 2000


@dataclass(frozen=True)
class Operation:
    """Something that changes the bytes from `offset` on, and is not done before `ends`.

    broken: words there whose checksum was wrong before.
    """

    offset: int
    before: bytes
    after: bytes
    ends: int
    broken: frozenset[int] = frozenset()

    def broken_off(self, draw: random.Random) -> bytes:
        """Return what a power cut leaves: any of the bits that should change have changed."""
        count = len(self.before)
        share = draw.randrange(5)
        mask = (0, (1 << 8 * count) - 1)[share == 4]
        if share in (1, 2, 3):
            mask = int.from_bytes(draw.randbytes(count), "little")
            other = int.from_bytes(draw.randbytes(count), "little")
            mask = (mask & other, mask, mask | other)[share - 1]
        before = int.from_bytes(self.before, "little")
        after = int.from_bytes(self.after, "little")
        return (before ^ (before ^ after) & mask).to_bytes(count, "little")


class FlashMemory:
    """bytes: the content. sectors: offset and length of each unit of erasing.

    word_bytes: that have one checksum in the flash, of which no software knows; 0: there is none.
    broken: offsets of words that a power cut left half-changed, so that the checksum is wrong.
    """

    def __init__(
        self,
        origin: int,
        content: bytearray,
        sectors: Sequence[tuple[int, int]],
        word_bytes: int = 0,
    ) -> None:
        self.origin, self.bytes, self.sectors = origin, content, tuple(sectors)
        self.word_bytes = word_bytes
        self.broken: set[int] = set()
        self.operation: Operation | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole flash."""
        return len(self.bytes)

    def change(self, board: Board, offset: int, after: bytes, duration: int) -> Operation:
        """Begin an operation; the new bytes can be read at once, because until it is done a reader
        would be made to wait."""
        end = offset + len(after)
        before = bytes(self.bytes[offset:end])
        broken = frozenset(word for word in self.broken if offset <= word < end)
        self.broken -= broken
        self.bytes[offset:end] = after
        self.operation = Operation(offset, before, after, board.now + duration, broken)
        return self.operation

    def busy(self, now: int) -> bool:
        """Is an operation under way?"""
        if self.operation is not None and now >= self.operation.ends:
            self.operation = None
        return self.operation is not None

    def wait(self, board: Board) -> None:
        """The core's access waits for the operation under way."""
        if self.operation is not None and self.busy(board.now):
            board.skip(self.operation.ends - board.now)

    def power_cut(self, now: int, draw: random.Random) -> None:
        """An operation under way leaves any mixture of old and new bits."""
        operation = self.operation
        if operation is not None and self.busy(now):
            end = operation.offset + len(operation.after)
            self.bytes[operation.offset : end] = operation.broken_off(draw)
            self._break_words(operation)
        self.operation = None

    def _break_words(self, operation: Operation) -> None:
        """Words that are neither as before nor as they should be have a wrong checksum."""
        size = self.word_bytes
        for at in range(0, len(operation.after), size) if size else ():
            word = operation.offset + at
            now = self.bytes[word : word + size]
            if now == operation.before[at : at + size]:
                self.broken |= operation.broken & {word}
            elif now != operation.after[at : at + size]:
                self.broken.add(word)

    def broken_words(self, offset: int, count: int) -> list[int]:
        """Return which words a reader of these bytes comes to whose checksum is wrong."""
        if not self.broken:
            return []
        first = offset // self.word_bytes * self.word_bytes
        return [w for w in range(first, offset + count, self.word_bytes) if w in self.broken]

    def broken_spans(self, page_bytes: int) -> list[tuple[int, int]]:
        """Return offset and length of each run of whole pages that have such words."""
        spans: list[tuple[int, int]] = []
        for page in sorted({word // page_bytes for word in self.broken}):
            if spans and sum(spans[-1]) == page * page_bytes:
                spans[-1] = (spans[-1][0], spans[-1][1] + page_bytes)
            else:
                spans.append((page * page_bytes, page_bytes))
        return spans

    def erase_now(self, sector: int) -> None:
        """As the ROM's routines do, from outside of time."""
        offset, count = self.sectors[sector]
        self.bytes[offset : offset + count] = bytes([ERASED]) * count
        self.broken = {word for word in self.broken if not offset <= word < offset + count}

    def put(self, address: int, data: bytes) -> None:
        """Content that a debug probe wrote. Bytes outside are the caller's mistake."""
        offset = address - self.origin
        assert offset >= 0
        assert offset + len(data) <= self.size_bytes
        self.bytes[offset : offset + len(data)] = data


def equal_sectors(size_bytes: int, sector_bytes: int) -> list[tuple[int, int]]:
    """Sectors of one length."""
    return [(offset, sector_bytes) for offset in range(0, size_bytes, sector_bytes)]


def stacked_sectors(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Sectors of these lengths, one behind the other."""
    return [(sum(lengths[:i]), length) for i, length in enumerate(lengths)]

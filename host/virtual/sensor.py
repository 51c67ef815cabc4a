"""A source of samples on each virtual board, which no real one has.

At 0x5F000000: word 0 says how many samples wait, at most DEPTH. Word 4 is the next number, an int16
with its sign; a sample's numbers come one after the other. It is 0 where none waits. Word 8 says 1
if the next sample is the first row of a camera's frame. Reading changes nothing else, and what is
written is a fault. Samples come by the board's time, one in so many instructions; those that find
no room are lost, of a camera with the rest of their frame. Or they wait until they are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from mcutrain_host.virtual.bus import Board
from mcutrain_host.virtual.errors import BoardFault

ADDRESS = 0x5F000000
COUNT, DATA, BEGIN = 0, 4, 8
DEPTH = 64


class Sensor:
    """What plays. A Peripheral; a reset of the board leaves it alone."""

    name = "the source of samples"

    def __init__(self, board: Board) -> None:
        self.board = board
        self.lost = 0
        self._coming: Sequence[Sequence[int]] = []
        self._next = self._begin = self._instructions = 0
        self._repeats = False
        self._waiting: deque[int] = deque()
        self._begins: deque[bool] = deque()
        self._width, self._frame, self._is_broken = 1, 0, False

    def play(
        self,
        rows: Sequence[Sequence[int]],
        instructions_per_sample: int = 0,
        *,
        repeats: bool = False,
        frame: int = 0,
    ) -> None:
        """Play samples, each with its numbers, in the place of what has not come yet.

        instructions_per_sample: 0 lets samples wait until they are read. repeats: again and again.
        frame: rows of a camera's frame.
        """
        self._repeats = repeats and bool(rows)
        self._coming = rows
        self._width = len(self._coming[0]) if self._coming else 1
        self._next, self._begin = 0, self.board.now
        self._instructions, self._frame = instructions_per_sample, frame

    @property
    def is_playing(self) -> bool:
        """Does anything come, or wait?"""
        return self._repeats or self._next < len(self._coming) or bool(self._waiting)

    def until_next(self) -> int:
        """Instructions until something waits."""
        if self._waiting or not self._instructions:
            return 0
        return max(0, self._begin + (self._next + 1) * self._instructions - self.board.now)

    def reset(self) -> None:
        """Nothing: it is not the board's."""

    def read(self, offset: int, size: int) -> int:
        """Return what the core reads."""
        if size != 4 or offset not in (COUNT, DATA, BEGIN):
            raise BoardFault(f"{self.name} has words at {COUNT}, {DATA} and {BEGIN} only")
        self._arrive()
        if offset == COUNT:
            return len(self._waiting) // self._width
        if offset == BEGIN:
            return int(bool(self._begins) and self._begins[0])
        if not self._waiting:
            return 0
        if len(self._waiting) % self._width == 1 % self._width:  # the last number of a sample
            self._begins.popleft()
        return self._waiting.popleft() & 0xFFFFFFFF

    def write(self, offset: int, size: int, value: int) -> None:
        """What the core writes."""
        raise BoardFault(f"{self.name} cannot be written")

    def _arrive(self) -> None:
        room = DEPTH - len(self._waiting) // self._width
        due = before = room
        if self._instructions:
            due = (self.board.now - self._begin) // self._instructions - self._next
        come = due if self._repeats else min(due, len(self._coming) - self._next)
        for i in range(self._next, self._next + (come if self._frame else min(come, room))):
            begins = self._frame > 0 and i % self._frame == 0
            self._is_broken = not room or (self._is_broken and not begins)
            if self._is_broken:
                continue
            room -= 1
            self._waiting += self._coming[i % len(self._coming)]
            self._begins.append(begins)
        self.lost += max(0, come) - (before - room)
        self._next += come

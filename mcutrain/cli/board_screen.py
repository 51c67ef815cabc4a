"""A run on a board on the screen: a bar on stderr; where none can be drawn, a line now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcutrain.cli.output import err, training_bar
from mcutrain.cli.training import Lines
from mcutrain.functions.board_watch import BoardWatch

if TYPE_CHECKING:
    from mcutrain_host.protocol import Identity, Step
    from mcutrain_host.trainer import Lessons

    from mcutrain.functions.smoothed import Smoothed


@contextmanager
def watching_board(
    lessons: Lessons, is_quiet: bool, *, is_drawn: bool = False
) -> Iterator[BoardWatch]:
    """Show a run while it lasts. is_drawn: something else draws how far it is."""
    with training_bar(is_drawn) as bar:
        yield _Screen(lessons, is_quiet, bar)


class _Screen(BoardWatch):
    """Draws a bar."""

    def __init__(self, lessons: Lessons, is_quiet: bool, bar: Any) -> None:
        super().__init__(self.say, self.say)
        self.lessons, self.is_quiet, self.bar = lessons, is_quiet, bar
        self.task = bar.add_task("", total=lessons.total, facts="connecting")
        self._lines = Lines("")
        self._first, self._since = 0, 0.0
        self._sram = ""

    def connected(self, identity: Identity, first: int) -> None:
        """Say what the board is, and from where training goes on."""
        self._lines = Lines(identity.board)
        self._first, self._sram = first, f"{identity.sram_bytes:,} B SRAM"
        self.bar.update(self.task, description=identity.board, completed=first)
        self.say(
            f"{identity.board}: {identity.model}, scheme {identity.scheme}, "
            f"{identity.sram_bytes:,} bytes of SRAM; {first:,} of {self.lessons.total:,} steps done"
        )

    def tested(self, done: int, of: int) -> None:
        """Show how far the test is."""
        self._show(f"testing {done:,} of {of:,}", done, of)

    def trained(self, step: Step, means: Smoothed) -> None:
        """Show running means of loss and accuracy, and the speed."""
        now = time.monotonic()
        if not self._since:
            self._since, self._first = now, step.position - 1
        speed = (step.position - self._first) / max(now - self._since, 1e-9)
        self.bar.update(self.task, completed=step.position)
        total = self.lessons.total
        facts = f"{means.text}  {speed:,.1f} samples/s  {step.cycles:,} cycles  {self._sram}"
        steps = f"{step.position:,} of {total:,} steps  "  # which the bar draws
        self._show(facts, step.position, total, steps)

    def transferred(self, what: str, done: int, of: int) -> None:
        """Show how far a state is."""
        self._show(f"{what}: {done:,} of {of:,} bytes", done, of)

    def say(self, sentence: str) -> None:
        """A line on stderr, above the bar."""
        if not self.is_quiet:
            err.print(sentence, markup=False, soft_wrap=True)

    def doubted(self, sentence: str) -> None:
        """Say a doubt as the command says it."""
        self.say(f"mcutrain: {sentence}")

    def _show(self, facts: str, done: int, of: int, steps: str = "") -> None:
        self.bar.update(self.task, facts=facts)
        if not self.is_quiet:
            self._lines.tell(f"{steps}{facts}", done, of)

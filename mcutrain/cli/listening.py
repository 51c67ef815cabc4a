"""What a function tells the command line: notes as lines on stderr, progress as bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from mcutrain.cli import INTERRUPTED
from mcutrain.cli.board_screen import watching_board
from mcutrain.cli.live import LiveFlags
from mcutrain.cli.output import count_bar, say
from mcutrain.cli.training import Lines, counting, placing, rate_line, searching, watching
from mcutrain.cli.trials import watching_trials
from mcutrain.functions.listener import Done, Listener, Progress

if TYPE_CHECKING:
    from pathlib import Path

    from mcutrain_host.client import Device
    from mcutrain_host.log import Log
    from mcutrain_host.trainer import Lessons

    from mcutrain.data import Split
    from mcutrain.experiments.parallel import Standing
    from mcutrain.functions.alternatives import AutoScheme
    from mcutrain.functions.board_watch import BoardWatch
    from mcutrain.functions.memory_limit import MemoryLimit
    from mcutrain.pipeline import TrainingStep
    from mcutrain.runs.watch import Watch
    from mcutrain.simulation import FoundRate, Run


class OnScreen(Listener):
    """Says notes and draws bars. is_quiet: no bars, nor what was chosen."""

    def __init__(self, is_quiet: bool = False, looking: LiveFlags = LiveFlags()) -> None:
        self.is_quiet, self.looking = is_quiet, looking

    def note(self, text: str) -> None:
        """Say it on stderr."""
        say(f"mcutrain: note: {text}")

    def detail(self, text: str) -> None:
        """Say it, too."""
        self.note(text)

    def decided(self, line: str) -> None:
        """Say it."""
        if not self.is_quiet:
            say(line)

    def chosen(self, found: AutoScheme, memory: MemoryLimit) -> None:
        """Say what was chosen, and why."""
        from mcutrain.functions.memory_limit import NO_BOARD

        if self.is_quiet:
            return
        assumed = ""
        if memory.is_usual:
            assumed = f"{NO_BOARD}, so {memory.name} of SRAM are assumed; "
        self.note(
            f"{assumed}--scheme {found.scheme} is chosen: {found.reason}; `mcutrain generate` "
            "takes the same text"
        )

    def doubt(self, text: str) -> None:
        """Say it."""
        say(f"mcutrain: {text}")

    def result_says(self, text: str) -> None:
        """Leave it to the command."""

    def planned(self, step: TrainingStep, split: Split) -> None:
        """Say what is trained."""
        if not self.is_quiet:
            say(headline(step, split))

    def found_rate(self, rate: float, found: FoundRate | None, split: Split | None = None) -> None:
        """Say the rate, as it can be given again."""
        if not self.is_quiet:
            say(rate_line(rate, found, split))

    def placing(self) -> AbstractContextManager[Done]:
        """Show a search for a smaller arena that takes long."""
        return placing()

    @contextmanager
    def reading(self) -> Iterator[Done]:
        """Show how many files are read."""
        with count_bar() as bar:
            task, lines = bar.add_task("reading samples"), Lines("reading samples")

            def report(done: int, of: int) -> None:
                bar.update(task, completed=done, total=of)
                lines.tell(f"{done:,} of {of:,} files", done, of)

            yield report

    def counting(self, title: str) -> AbstractContextManager[Progress]:
        """Show each part of the work."""
        return counting(title, self.is_quiet)

    def searching(self, before: str = "") -> AbstractContextManager[Done]:
        """Show how many trials are done."""
        return searching(before)

    def training_board(self, lessons: Lessons) -> AbstractContextManager[BoardWatch]:
        """Draw a bar."""
        return watching_board(lessons, self.is_quiet, is_drawn=self.looking.is_drawn)

    def logging_board(self, log: Log, device: Device, path: Path) -> AbstractContextManager[Log]:
        """Show what is logged, where flags ask for that."""
        return self.looking.logging(log, device, path)

    def finishing(self) -> None:
        """Say it."""
        say("mcutrain: finishing this step and saving; Ctrl-C again leaves at once")

    @contextmanager
    def running(self, run: Run, title: str, checkpoint: Path | None) -> Iterator[Watch]:
        """Show a run; after Ctrl-C say how it goes on."""
        try:
            with watching(run, title) as shown:
                yield replace(shown, noting=self.doubt)
        except KeyboardInterrupt:
            done = f"{run.state.trained:,} of {run.total:,} steps are done"
            if checkpoint is None:
                self.doubt(f"interrupted, {done} and lost; --checkpoint FILE would keep them")
            else:
                self.doubt(f"interrupted, {done}; the same command continues from {checkpoint}")
            raise typer.Exit(INTERRUPTED) from None

    def trials(
        self, title: str, names: Sequence[str], count: int, each: str
    ) -> AbstractContextManager[Callable[[Standing], None]]:
        """Show a bar over all steps, and a line for each run that is done."""
        return watching_trials(title, names, count, each)


def headline(step: TrainingStep, split: Split) -> str:
    """Return what is trained, on how many samples, in how many bytes."""
    plan = step.plan
    learns = plan.training.learns
    return (
        f"{step.graph.name}, scheme {step.scheme.name}: {learns}, "
        f"{len(split.train):,} training and {len(split.test):,} test samples; "
        f"{plan.arena_bytes:,} bytes of arena, {plan.state_bytes:,} of trainable state"
    )

"""Who hears what a function has to say, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from mcutrain.arguments import warn

if TYPE_CHECKING:
    from pathlib import Path

    from mcutrain_host.client import Device
    from mcutrain_host.log import Log
    from mcutrain_host.trainer import Lessons

    from mcutrain.analysis.problem import Problem
    from mcutrain.analysis.progress import TrialsDone
    from mcutrain.data import Split
    from mcutrain.experiments.parallel import Standing
    from mcutrain.functions.alternatives import AutoScheme
    from mcutrain.functions.board_watch import BoardWatch
    from mcutrain.functions.memory_limit import MemoryLimit
    from mcutrain.pipeline import TrainingStep
    from mcutrain.runs.watch import Watch
    from mcutrain.simulation import FoundRate, Run

Done = Callable[[int, int], None]
"""Called with how much is done, and of how much."""
Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and of how much."""


class Listener:
    """Turns notes into Python warnings, and shows no progress. The command line has another."""

    def note(self, text: str) -> None:
        """Hear something that is worth knowing."""
        warn(text)

    def detail(self, text: str) -> None:
        """Hear something that is no surprise."""

    def decided(self, line: str) -> None:
        """Hear what `fit` decided, why, and which flag decides it otherwise."""

    def chosen(self, found: AutoScheme, memory: MemoryLimit) -> None:
        """Hear which scheme was chosen for a memory."""

    def doubt(self, text: str) -> None:
        """Hear what is doubtful about a run that is over."""
        warn(text)

    def result_says(self, text: str) -> None:
        """Hear what stands in the result, too, which a command prints."""
        warn(text)

    def planned(self, step: TrainingStep, split: Split) -> None:
        """Hear what is trained, on which samples."""

    def analysing(self, problem: Problem) -> None:
        """Hear what is analysed."""

    def found_rate(self, rate: float, found: FoundRate | None, split: Split | None = None) -> None:
        """Hear the learning rate that was found.

        found: None for one that a checkpoint kept. split: the samples of trials, if they may have
        some for validation.
        """
        if found is not None and found.doubt:
            self.note(f"the learning rate {rate:g} was found, but {found.doubt}")

    def placing(self) -> AbstractContextManager[Done]:
        """Hear of a search for a smaller arena, in nodes."""
        return nullcontext(lambda done, of: None)

    def reading(self) -> AbstractContextManager[Done]:
        """Hear how many files of a data set are read."""
        return nullcontext(lambda done, of: None)

    def counting(self, title: str) -> AbstractContextManager[Progress]:
        """Hear of work in several parts. title: of all of it."""
        return nullcontext(lambda what, done, of: None)

    def searching(self, before: str = "") -> AbstractContextManager[Done]:
        """Hear of trials that search for a learning rate. before: what is done first."""
        return nullcontext(lambda done, of: None)

    def training_board(self, lessons: Lessons) -> AbstractContextManager[BoardWatch]:
        """Hear of a run on a board."""
        from mcutrain.functions.board_watch import BoardWatch

        return nullcontext(BoardWatch(self.note, self.doubt))

    def logging_board(self, log: Log, device: Device, path: Path) -> AbstractContextManager[Log]:
        """Hear what a run on a board logs. path: of the log so far. Returns what is written to."""
        from mcutrain_host.live.sources import AskingLog

        return nullcontext(AskingLog(log, device))

    def finishing(self) -> None:
        """Hear that Ctrl-C was pressed: the board ends this step and saves."""

    def running(
        self, run: Run, title: str, checkpoint: Path | None
    ) -> AbstractContextManager[Watch]:
        """Hear of a run. checkpoint: where an interrupted one goes on."""
        from mcutrain.runs.watch import Watch

        return nullcontext(Watch())

    def trials(
        self, title: str, names: Sequence[str], count: int, each: str
    ) -> AbstractContextManager[Callable[[Standing], None]]:
        """Hear of many runs. names: of what is trained. count: of runs. each: how these differ."""
        return nullcontext(lambda standing: None)

    def candidates(self, *, are_kept: bool) -> AbstractContextManager[Callable[[TrialsDone], None]]:
        """Hear how many parts of a network are measured. are_kept: when this is interrupted."""
        return nullcontext(lambda done: None)


SILENT = Listener()
"""Nobody but Python's warnings."""

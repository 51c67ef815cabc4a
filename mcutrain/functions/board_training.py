"""A board learns, and this computer sends the samples."""

from __future__ import annotations

import hashlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from mcutrain_host.client import Device, Patience
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError, LinkError, LogError
from mcutrain_host.link import SerialLink
from mcutrain_host.locks import alone
from mcutrain_host.log import last_kept
from mcutrain_host.logged import LoggedRuns
from mcutrain_host.manifest import BoardProject
from mcutrain_host.saved import StateFile
from mcutrain_host.trainer import Begin, Outcome, Settings, Training, ring_facts

from mcutrain.arguments import PathLike, Seed, checked
from mcutrain.data import Data
from mcutrain.features import FACTS
from mcutrain.functions.board_lessons import BoardCourse, settings_for
from mcutrain.functions.board_line import find_baud, find_port, may_be_virtual
from mcutrain.functions.board_options import (
    LOG,
    STATE,
    BoardChoices,
    BoardDataOptions,
    LineOptions,
    RecordOptions,
    StateOptions,
    WaitOptions,
)
from mcutrain.functions.board_watch import Averaging
from mcutrain.functions.files import check_writable
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.run_options import ScheduledOptions
from mcutrain.runs.log import opened
from mcutrain.runs.training import check_after
from mcutrain.shown import Record, Shown


@dataclass(frozen=True, repr=False)
class BoardRun(Shown):
    """What a board has learnt.

    outcome: of the run, as mcutrain_host.trainer.Outcome has it. begin: from where it started.
    saved: the trained state, as mct_state_save writes it; state, log: the files.
    features: what gate, proxy cascade and so on have counted.
    warning: what is doubtful about the run, if anything.
    is_virtual: whether the board may be `mcutrain board`, which counts instructions for cycles.
    """

    outcome: Outcome
    begin: Begin
    saved: bytes
    state: Path
    log: Path
    features: Record
    warning: str = ""
    is_virtual: bool = False

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended it; the same call goes on."""
        return self.outcome.interrupted

    @property
    def accuracy(self) -> float | None:
        """Accuracy on the test samples; None without a test."""
        return self.outcome.accuracy

    @property
    def again(self) -> str:
        """The command that goes on."""
        return again(self.begin, self.outcome.position)

    def summary(self) -> str:
        """Return a line that describes it."""
        outcome, tested = self.outcome, ""
        before = outcome.resumed if outcome.before is None else outcome.before
        if before is not None and outcome.accuracy is not None:
            tested = f"accuracy {100 * before:.1f} → {100 * outcome.accuracy:.1f} %, "
        errors = [(scores or {}).get("mae") for scores in (outcome.scores_before, outcome.scores)]
        if None not in errors:
            tested = f"MAE {errors[0]:.4g} → {errors[1]:.4g}, "
        done = f"{outcome.position:,} of {outcome.total:,} steps"
        return f"{tested}{done} on {outcome.identity.board}"

    def to_dict(self) -> Record:
        """Return it as `mcutrain train --json` prints it."""
        outcome, identity = self.outcome, self.outcome.identity
        warning = "; ".join(filter(None, (outcome.doubt, self.warning)))
        return {
            "board": identity.board,
            "model": identity.model,
            "scheme": identity.scheme,
            "model_hash": f"{identity.model_hash:016x}",
            "steps": outcome.position,
            "steps_in_all": outcome.total,
            "steps_of_this_run": outcome.steps,
            **_scores(outcome),
            "resumed_at": outcome.first if outcome.is_resumed else None,
            "seconds": outcome.seconds,
            "step_cycles": outcome.train_cycles,
            "clock_hz": identity.clock_hz,
            "sram_bytes": identity.sram_bytes,
            "stack_bytes": identity.stack_bytes,
            "stack_used_bytes": outcome.statistics.stack_used_bytes,
            "restarts": outcome.restarts,
            "requests_resent": outcome.resent,
            "has_slots": identity.has_slots,
            **FACTS.none(),
            **self.features,
            "save_number": outcome.saved.number if outcome.saved else None,
            **ring_facts(outcome.statistics),
            "state": str(self.state),
            "state_sha256": hashlib.sha256(self.saved).hexdigest(),
            "log": str(self.log),
            "interrupted": outcome.interrupted,
            "warning": warning or None,
        }


def _scores(outcome: Outcome) -> Record:
    """Return what the test said before, where the run went on, and after, by name."""
    before, resumed, after = outcome.scores_before, outcome.scores_resumed, outcome.scores
    if before is resumed is after is None:
        return {
            "accuracy_before": outcome.before,
            "accuracy_resumed": outcome.resumed,
            "accuracy": outcome.accuracy,
        }
    times = {"_before": before or {}, "_resumed": resumed or {}, "": after or {}}
    names = dict.fromkeys(name for scores in times.values() for name in scores)
    return {name + when: scores.get(name) for when, scores in times.items() for name in names}


def again(begin: Begin, position: int) -> str:
    """Return the command that goes on from a position, without the flag that begins anew."""
    without = {Begin.BOARD: "", Begin.FRESH: " without --fresh", Begin.FILE: " without --from"}
    return f"the same command{without[begin] if position else ''}"


@with_keywords
@checked
def train_board(
    project: PathLike,
    data: Data,
    *,
    model: PathLike | None = None,
    line: LineOptions = LineOptions(),
    learning: ScheduledOptions = ScheduledOptions(),
    choices: BoardChoices = BoardChoices(),
    reading: BoardDataOptions = BoardDataOptions(),
    saving: StateOptions = StateOptions(),
    waiting: WaitOptions = WaitOptions(),
    record: RecordOptions = RecordOptions(),
    seed: Seed = 0,
    listener: Listener = SILENT,
) -> BoardRun:
    """Train on a board; this computer sends samples and learning rates.

    With the options that `simulate` had, the board ends with the simulation's bits. The run goes on
    where the board is: after Ctrl-C, a power cut or an unplugged cable, the same call continues.
    Ctrl-C ends the step and saves, and the result says so; a second one leaves at once.

    Fields of line, learning, choices, reading, saving, waiting and record are keywords, too;
    mcutrain.functions.board_options and mcutrain.functions.run_options explain each.

    project: a folder of `generate` with a board.
    data: as `simulate` takes it.
    model: for a project of part "tail", the file that the tail was cut from. This computer computes
        its front, and the board gets latents. Without it the data are latents.
    line: port, found by itself if only one fits.
    saving: state, the file that the trained state is brought to.
    record: log, a file of JSON lines.

    Raises DataError if the data does not fit; BuildError with what the line, the project or the
    board say; ArgumentError.

    >>> train_board("project", (x, y), port="/dev/ttyACM0", epochs=2, learning_rate=0.03).accuracy
    """
    saving.check()
    record.check()
    _ = reading.normalization  # or a sentence
    board_project = BoardProject.read(Path(project))
    settings = settings_for(board_project, choices, learning.settings(seed))
    if saving.after:
        check_after(settings)
    state = Path(saving.state or board_project.folder / STATE)
    check_writable(state)
    port, baud = (
        find_port(board_project, line.port, listener.detail),
        find_baud(board_project, line.baud),
    )
    log = Path(record.log or board_project.folder / LOG)
    board_log = None if record.tensorboard is None else Path(record.tensorboard)
    tail_of = None if model is None else Path(model)
    course = BoardCourse.of(board_project, data, reading, settings, tail_of, saving.after, listener)
    session = _Session(port, baud, waiting, log, board_log, listener)
    outcome, loss = session.run(course, state, saving)
    saved = _state_in(state)
    warning = course.doubts(outcome, loss, saved)
    if warning:
        listener.result_says(warning)
    features = FACTS.read(saved, board_project.manifest.table)
    is_virtual = may_be_virtual(board_project, port)
    return BoardRun(outcome, saving.begin, saved, state, log, features, warning, is_virtual)


def _state_in(path: Path) -> bytes:
    """Return what the run has left in its file."""
    file = StateFile.of(path)
    return file.read(file.saved_bytes).raw


@dataclass(frozen=True)
class _Session:
    """A connection with a board, and the logs of what happens there."""

    port: str
    baud: int
    waiting: WaitOptions
    log: Path
    tensorboard: Path | None
    listener: Listener

    def run(self, course: BoardCourse, state: Path, saving: StateOptions) -> tuple[Outcome, float]:
        """Return what the run did, and the mean loss of its last steps. Raises HostError."""
        lessons, earlier = course.lessons, LoggedRuns.read(self.log)
        with (
            SerialLink(self.port, self.baud) as link,
            alone(state),
            alone(self.log),
            _stopping(self.listener) as stop,
            opened(self.log, self.tensorboard) as logs,
            self.listener.training_board(lessons) as watch,
        ):
            told = Averaging(watch, lessons)
            how = replace(
                course.run_settings(state, saving, self.waiting.reconnect, told.doubt),
                earlier=last_kept(self.log),
            )
            how = _knowing(how, earlier, lessons.first)
            device = Device(link, Patience(work_seconds=self.waiting.patience))
            with self.listener.logging_board(logs, device, self.log) as log:
                outcome = _trained(Training(device, lessons, how, log, told, stop), how)
            return outcome, told.means.loss


def _knowing(how: Settings, earlier: LoggedRuns, first: int) -> Settings:
    """Return how a run is done, with what the log says of the runs before. first: of its steps."""
    facts, model_hash = how.facts or {}, f"{how.firmware.model_hash:016x}"
    is_known = how.begin is Begin.BOARD and earlier.course is not None
    return replace(
        how,
        is_other_course=is_known and earlier.course != facts["course"],
        before=earlier.tested(model_hash, facts["tests"], facts["course"], first),
    )


def _trained(training: Training, how: Settings) -> Outcome:
    """Train. Raises HostError with the command that goes on."""
    try:
        return training.run()
    except LogError as error:
        raise HostError(
            f"{error}; {training.saved_position:,} steps are done and saved, and "
            f"{again(how.begin, training.saved_position)} goes on when it can be written"
        ) from error
    except LinkError as error:
        raise HostError(
            f"{error}; {training.position:,} of {training.lessons.total:,} steps were done, and "
            f"{again(how.begin, training.position)} goes on from what the board kept"
        ) from error


class _Stop:
    """Whether Ctrl-C was pressed."""

    def __init__(self, listener: Listener) -> None:
        self.is_asked, self.listener = False, listener

    def __call__(self) -> bool:
        return self.is_asked

    def note(self, number: int, frame: FrameType | None) -> None:
        """Ask for an end; the second time, be one."""
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True
        self.listener.finishing()


@contextmanager
def _stopping(listener: Listener) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C asks for an end, the second is one."""
    stop = _Stop(listener)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before: Any = signal.signal(signal.SIGINT, stop.note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)

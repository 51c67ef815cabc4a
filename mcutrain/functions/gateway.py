"""A gateway: boards of a fleet that one computer owns, and what they learn in a round."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError
from mcutrain_host.json_values import ValuesError, from_values
from mcutrain_host.reading import read_text
from mcutrain_host.saved import SavedState, StateFile
from mcutrain_host.text import reason

from mcutrain.data import Outputs
from mcutrain.errors import ArgumentError, McutrainError
from mcutrain.fleets import Contribution, FleetLayout
from mcutrain.fleets.privacy import clipped
from mcutrain.functions.averaging import Fleet, total_of
from mcutrain.functions.board_options import (
    BoardDataOptions,
    LineOptions,
    RecordOptions,
    StateOptions,
    WaitOptions,
)
from mcutrain.functions.board_samples import with_codes
from mcutrain.functions.board_training import train_board
from mcutrain.functions.chosen import read_samples
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.preparing import Asked
from mcutrain.functions.run_options import DataOptions, ScheduledOptions
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import RunSettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Told = Callable[[str], None]
PREFIX = "mcutrain-fleet-"
"""Of the folder of a round, which has the base."""
LEFT_SECONDS = 7 * 24 * 3600
"""After so long nobody works in such a folder any more."""
START_SECONDS = 60.0
"""A program that is a board says its port meanwhile."""
END_SECONDS = 10.0
"""A program that is a board ends meanwhile, or is killed."""
GUARD = """
read -r _
kill -s TERM -- "-$1"
i=0
while kill -s 0 -- "-$1" && [ "$i" -lt "$2" ]; do sleep 1; i=$((i + 1)); done
kill -s KILL -- "-$1"
"""
"""Of a shell whose input ends with the gateway, also where it is killed: ends a group, $1."""


@dataclass(frozen=True)
class GatewayBoard:
    """A board of a gateway.

    name: no other board of the fleet has it.
    data: what the board learns from, as `train` takes it.
    project: a folder of `generate --board`. Without one, this computer computes what a board would.
    port: where the board is. Without it, only one board may answer.
    start: for a board that is a program, the command that runs it in the project's folder for the
        board's turn. The program prints its port as the last word of its first line.
    """

    name: str
    data: str
    project: str = ""
    port: str | None = None
    start: str = ""


@dataclass(frozen=True)
class GatewayFile:
    """What a gateway.toml says. model: that boards train. class_names: as `--class-names`.

    Paths are seen from the file's folder. frontend, mean, std: as the flags of that name.
    reconnect: seconds that a round waits for a board whose line or power was cut.
    """

    model: str
    boards: tuple[GatewayBoard, ...]
    class_names: tuple[str, ...] | None = None
    frontend: str = ""
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    reconnect: float = 60.0


@dataclass(frozen=True)
class FleetRound:
    """How boards train in a round. number: of the round, from 1."""

    number: int
    epochs: int = 1
    learning_rate: float = 0.02


@dataclass(frozen=True)
class Learned:
    """What boards of a gateway learnt in a round.

    contributions: of each that did. failed: why others did not, by name. accuracy: of test samples
    of their own data, with the base, weighted by what they learnt from; None without such samples.
    tested: the weight of the boards that have some. accuracies: of each of these boards. layout: of
    the step. saves: that the flash of each board has borne so far, of those that are no part of
    this computer and can save; `plan --board` says how many it outlives.
    """

    layout: FleetLayout
    contributions: tuple[Contribution, ...]
    failed: Mapping[str, str]
    accuracy: float | None
    tested: int = 0
    accuracies: Mapping[str, float] = field(default_factory=dict)
    saves: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> Contribution:
        """The sum of all."""
        return total_of(self.contributions)


class _BoardNotes(Listener):
    """Tells what is unusual about a board."""

    def __init__(self, board: str, tell: Told) -> None:
        self.board, self.tell = board, tell

    def note(self, text: str) -> None:
        self.tell(f"{self.board}: {text}")

    doubt = result_says = note


@dataclass(frozen=True)
class _TrainedBoard:
    """A board's state after a round, and how its test samples were classified with the base.

    saves: of its flash so far; 0 where there is none.
    """

    state: SavedState
    accuracy: float | None
    saves: int = 0


@dataclass(frozen=True)
class _Boards:
    """Boards after a round, by name, and why others failed."""

    fleet: Fleet
    boards: dict[str, _TrainedBoard] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def accuracies(self) -> dict[str, float]:
        """The accuracy of each board that has test samples, by its name."""
        found = {name: board.accuracy for name, board in self.boards.items()}
        return {name: accuracy for name, accuracy in found.items() if accuracy is not None}


@dataclass(frozen=True)
class Gateway:
    """Boards and where their files are. tell: gets a line for each board."""

    folder: Path
    file: GatewayFile
    tell: Told = lambda _: None

    @staticmethod
    def read(path: Path, tell: Told = lambda _: None) -> Gateway:
        """Raise ArgumentError with a sentence for a file that is no gateway.toml."""
        try:
            values: dict[str, Any] = tomllib.loads(read_text(path))
            file = from_values(GatewayFile, values, str(path))
        except (HostError, ValuesError, OSError, ValueError, RecursionError) as error:
            raise ArgumentError(f"cannot read the gateway {path}: {reason(error)}") from error
        names = [board.name for board in file.boards]
        if not names or len(set(names)) < len(names) or "" in names:
            raise ArgumentError(f"{path}: each of [[boards]] needs a name of its own")
        for board in file.boards:
            if board.start and (board.port or not board.project):
                raise ArgumentError(
                    f"{path}: {board.name!r} has start, so it is a program: name the project "
                    "that it runs in, and give no port; the program prints it"
                )
        said = [file.model, *(t for b in file.boards for t in vars(b).values() if t)]
        if any("\0" in text for text in said):
            raise ArgumentError(f"{path}: a name or a path has a character of code 0")
        return Gateway(path.parent, file, tell)

    def learn(self, base: bytes, lesson: FleetRound, clip: int = 0) -> Learned:
        """Train all boards from a base, one after the other.

        base: a saved state with its recipe. clip: the norm of each difference at most; 0: any.
        A board that cannot be reached or breaks off does not keep others from it. Raises
        McutrainError where no board learnt anything.
        """
        done: list[Contribution] = []
        right = tested = 0.0
        results = self._each(base, lesson)
        for name, board in results.boards.items():
            try:
                one = results.fleet.contribution(board.state, name)
                if clip:
                    exponent = results.fleet.layout.output_exponent(results.fleet.base)
                    one = clipped(one, clip, exponent)
            except McutrainError as error:
                results.failed[name] = reason(error)
                self.tell(f"{name} learnt nothing: {reason(error)}")
                continue
            done.append(one)
            if board.accuracy is not None:
                right, tested = right + board.accuracy * one.weight, tested + one.weight
            worn = f"; its flash bore {board.saves:,} saves so far" if board.saves else ""
            self.tell(f"{name} learnt from {one.weight:,} samples{worn}")
        if not done:
            raise McutrainError("no board learnt anything: " + "; ".join(results.failed.values()))
        accuracy = right / tested if tested else None
        return Learned(
            results.fleet.layout,
            tuple(done),
            results.failed,
            accuracy,
            int(tested),
            results.accuracies,
            {name: board.saves for name, board in results.boards.items() if board.saves},
        )

    def test(self, base: bytes, number: int) -> dict[str, float]:
        """Return each board's accuracy on its own test samples, of those that have some.

        This computer computes it, to a board's bits. base: a saved state with its recipe. number:
        of the round.
        """
        return self._each(base, FleetRound(number, epochs=0)).accuracies

    def _each(self, base: bytes, lesson: FleetRound) -> _Boards:
        """Train all boards from a base, one after the other."""
        _remove_left()
        with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
            begin = Path(folder) / "base.mcts"
            begin.write_bytes(base)
            found = _Boards(Fleet.of(self.folder / self.file.model, begin))
            for board in self.file.boards:
                try:
                    found.boards[board.name] = self._train(board, found.fleet, begin, lesson)
                except (McutrainError, HostError) as error:
                    found.failed[board.name] = reason(error)
                    self.tell(f"{board.name} learnt nothing: {reason(error)}")
        return found

    def _train(
        self, board: GatewayBoard, fleet: Fleet, begin: Path, lesson: FleetRound
    ) -> _TrainedBoard:
        data = str(self.folder / board.data)
        reading = DataOptions(
            class_names=self.file.class_names,
            frontend=self.file.frontend,
            mean=self.file.mean,
            std=self.file.std,
        )
        if board.project and lesson.epochs:
            with _started(board, self.folder / board.project) as port:
                trained = self._on_board(replace(board, port=port), fleet, begin, lesson, reading)
            tested = self._train(board, fleet, begin, replace(lesson, epochs=0))  # a board's bits
            return replace(trained, accuracy=tested.accuracy)
        step, options = fleet.layout.step, fleet.recipe.options
        training, names = step.plan.training, options.class_names or step.graph.class_names
        graph = replace(step.graph, class_names=names)
        split = read_samples(graph, data, reading, Asked(), lesson.number, SILENT)
        if options.targets is not None:
            split = with_codes(split, options.targets, training.label_type.elements)
        elif training.has_labels and not training.positions:
            given = tuple(reading.class_names or ())
            outputs = Outputs.of(training.classes, names, given, options.added)
            split = outputs.labelled(split)
        settings = RunSettings(
            epochs=lesson.epochs,
            learning_rate=lesson.learning_rate,
            schedule="constant",
            seed=lesson.number,
            test_every=0,
        )
        run = prepare_run(step, split, settings, normalization=reading.normalization)
        run.state = replace(run.state, saved=fleet.base.raw)
        result = run.train()
        state = fleet.layout.saved(result.saved, board.name)
        accuracy = None if result.before is None else result.before.accuracy
        return _TrainedBoard(state, accuracy)

    def _on_board(
        self,
        board: GatewayBoard,
        fleet: Fleet,
        begin: Path,
        lesson: FleetRound,
        reading: DataOptions,
    ) -> _TrainedBoard:
        accumulate = fleet.layout.step.plan.training.accumulate
        state, log = begin.with_name("trained.mcts"), begin.with_name("train.jsonl")
        for path in (state, log):
            path.unlink(missing_ok=True)
        done = train_board(
            self.folder / board.project,
            str(self.folder / board.data),
            line=LineOptions(port=board.port),
            learning=ScheduledOptions(
                epochs=lesson.epochs, learning_rate=lesson.learning_rate, schedule="constant"
            ),
            reading=BoardDataOptions(**{**vars(reading), "test_samples": 0}),
            saving=StateOptions(
                state=state, begin_from=begin, after=fleet.base.position(accumulate), save_every=0
            ),
            waiting=WaitOptions(reconnect=self.file.reconnect),
            # boards that are programs have one project, whose log one run at a time may write
            record=RecordOptions(log=log if board.start else None),
            seed=lesson.number,
            listener=_BoardNotes(board.name, self.tell),
        )
        if done.is_interrupted:
            raise KeyboardInterrupt
        file = StateFile.of(state)
        saves = done.outcome.saved.number if done.outcome.saved else 0
        learnt = fleet.layout.saved(file.read(file.saved_bytes).raw, board.name)
        return _TrainedBoard(learnt, None, saves)


@contextmanager
def _started(board: GatewayBoard, folder: Path) -> Iterator[str | None]:
    """The port of a board, whose program runs meanwhile if it is one. Raises ArgumentError."""
    if not board.start:
        yield board.port
        return
    try:
        words = shlex.split(board.start)
        if not words:
            raise ValueError("it names no program")
        program = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=sys.platform != "win32",  # what it starts ends with it
        )
    except (OSError, ValueError) as error:
        raise ArgumentError(f"cannot start {board.start!r} in {folder}: {reason(error)}") from error
    said: Queue[str] = Queue()
    threading.Thread(target=_read, args=(program, said), daemon=True).start()
    try:
        with _guarded(program):
            line = ""
            with suppress(Empty):
                line = said.get(timeout=START_SECONDS)
            if not line.strip():
                raise ArgumentError(f"{board.start!r} in {folder} said no port, or ended")
            yield line.split()[-1]
    finally:
        _end(program)
        with suppress(subprocess.TimeoutExpired):
            program.wait(END_SECONDS)
        _end(program, at_once=True)
        program.wait()


@contextmanager
def _guarded(program: subprocess.Popen[str]) -> Iterator[None]:
    """Have a program ended where this one is killed meanwhile; Windows has no shell for it."""
    if sys.platform == "win32":
        yield
        return
    guard = subprocess.Popen(
        ["sh", "-c", GUARD, "sh", str(program.pid), f"{END_SECONDS:.0f}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for us
    )
    with guard:
        try:
            yield
        finally:
            guard.kill()  # before the program's number may be another's


def _read(program: subprocess.Popen[str], said: Queue[str]) -> None:
    """Hand over the first line of what a program prints, and the rest to nobody: none may wait."""
    assert program.stdout is not None
    with program.stdout as lines:
        said.put(lines.readline())
        deque(lines, maxlen=0)


def _end(program: subprocess.Popen[str], *, at_once: bool = False) -> None:
    """Ask a program, and what it has started, to end; or kill them."""
    with suppress(OSError):  # it has ended
        if sys.platform == "win32":
            program.kill() if at_once else program.terminate()
        else:
            os.killpg(program.pid, signal.SIGKILL if at_once else signal.SIGTERM)


def _remove_left() -> None:
    """Remove the folders of rounds that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - LEFT_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)

"""The demo's last part: the same training on a virtual microcontroller, whose power fails once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcutrain_host.build import build
from mcutrain_host.client import Device
from mcutrain_host.dataclass import dataclass
from mcutrain_host.flashing import Job, choose
from mcutrain_host.link import SerialLink
from mcutrain_host.manifest import BoardProject
from mcutrain_host.memory import Memory, linked_memory
from mcutrain_host.packages import OPTIONAL, Package
from mcutrain_host.protocol import Identity, Step
from mcutrain_host.trainer import Lessons, Outcome, Settings, Training

from mcutrain import data
from mcutrain.cost.schemes import has_compiler
from mcutrain.demo import SETTINGS
from mcutrain.pipeline import TrainingStep
from mcutrain.runs.lessons import board_lessons
from mcutrain.runs.training import prepare_run
from mcutrain.simulation import Run, rounding_seed
from mcutrain.target import load_target

BOARD = "nucleo-f446re"
"""Cortex-M4, 128 KB of SRAM, 512 KB of flash; its ROM has a serial bootloader."""
Report = Callable[[str, int, int], None]
"""Called with what is being done, how much of it, and of how much."""


@dataclass(frozen=True)
class BoardSize:
    """Training steps and test images on the board, and the step after which the power fails."""

    train: int = 300
    test: int = 100
    save_every: int = 50
    power_cut: int = 180


QUICK = BoardSize(24, 10, 8, 13)


@dataclass(frozen=True)
class Facts:
    """What happened. equal: whether the board's state is the simulation's, byte for byte."""

    outcome: Outcome
    memory: Memory
    flashed: str
    state_bytes: int
    equal: bool
    went_on_from: int


def missing() -> tuple[Package, ...]:
    """The packages without which there is no virtual board here; none if it can be had."""
    wanted = [OPTIONAL["unicorn"], OPTIONAL["stm32loader"]]
    lacking = [package for package in wanted if not package.is_installed]
    if not has_compiler(load_target(BOARD)):
        lacking.append(OPTIONAL["ziglang"])
    return tuple(lacking)


def firmware(step: TrainingStep, folder: Path, report: Report) -> Memory:
    """Generate and build the board's program."""
    step.firmware(load_target(BOARD)).write(folder)
    build(folder, progress=lambda done, of: report("compiling for the board", done, of))
    memory = linked_memory(folder)
    assert memory is not None, "a microcontroller has a memory map"
    return memory


def train(
    step: TrainingStep, sensor: data.Split, size: BoardSize, seed: int, folder: Path, report: Report
) -> Facts:
    """Generate, build and flash, train, cut the power, go on, and compare with the host."""
    run = _run(step, sensor, size, seed)
    lessons = board_lessons(run.course, size.test)
    memory = firmware(step, folder, report)
    project = BoardProject.read(folder)
    settings = Settings(
        project.firmware,
        rounding_seed(seed),
        folder / "trained.mcts",
        size.save_every,
        reconnect_seconds=10.0,
    )
    settings.state.unlink(missing_ok=True)
    with _virtual_board(folder) as board:
        job = Job(project, port=board.port, progress=report)
        flashed = choose(job, "stm32").run(job)
        with SerialLink(board.port, project.board.uart.baud) as link:
            watch = _CuttingWatch(lessons, size.power_cut, board.power_cycle, report)
            training = Training(Device(link), lessons, settings, _Unlogged(), watch)
            outcome = training.run()
    expected, found = run.train().saved, settings.state.read_bytes()
    return Facts(outcome, memory, flashed, len(found), expected == found, watch.went_on_from)


def _run(step: TrainingStep, sensor: data.Split, size: BoardSize, seed: int) -> Run:
    """Prepare the board's lessons for the simulation on the host."""
    split = data.Split(sensor.train.subset(size.train), sensor.test.subset(size.test))
    return prepare_run(step, split, replace(SETTINGS, epochs=1, seed=seed))


@contextmanager
def _virtual_board(folder: Path) -> Iterator[Any]:
    """The board as it comes from the shop: nothing in its flash, on a pseudo-terminal."""
    from mcutrain_host.virtual.board import VirtualBoard

    with VirtualBoard.from_folder(folder, "pty", loaded=False) as board:
        yield board


class _Unlogged:
    """The demo keeps no log."""

    def write(self, event: str, position: int, facts: Any) -> None:
        pass

    def close(self) -> None:
        pass


class _CuttingWatch:
    """Reports progress, and cuts the power once."""

    def __init__(
        self, lessons: Lessons, cut_at: int, cut: Callable[[], None], report: Report
    ) -> None:
        self.lessons, self.report = lessons, report
        self.cut_at: int | None = cut_at
        self.cut = cut
        self.went_on_from = -1
        self._is_before = True

    def connected(self, identity: Identity, first: int) -> None:
        pass

    def tested(self, done: int, of: int) -> None:
        when = "before" if self._is_before else "after"
        self.report(f"testing on the board {when} training", done, of)

    def trained(self, step: Step, label: int | bytes) -> None:
        self._is_before = False
        if self.cut_at is None and self.went_on_from < 0:
            self.went_on_from = step.position - 1
        self.report("training on the board", step.position, self.lessons.total)
        if step.position == self.cut_at:
            self.cut_at = None
            self.cut()

    def transferred(self, what: str, done: int, of: int) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass

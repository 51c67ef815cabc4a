"""The work that a board proves itself by, and its report as a file."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from mcutrain_host.build import build, find_toolchain
from mcutrain_host.client import Device
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError
from mcutrain_host.flashing import Job, choose
from mcutrain_host.json_values import ValuesError, from_values, known, parse, to_json
from mcutrain_host.link import SerialLink, check_port
from mcutrain_host.manifest import BoardProject
from mcutrain_host.protocol import Rate
from mcutrain_host.reading import read_text
from mcutrain_host.selftest import (
    FORMAT,
    STEPS_BEFORE_A_CUT,
    Check,
    CountedNode,
    KnownStep,
    SelfTest,
    Work,
    run_checks,
)
from mcutrain_host.virtual.errors import check_installed

from mcutrain import __version__, demo
from mcutrain.arguments import PathLike, checked
from mcutrain.codegen import Interface, Project
from mcutrain.cost.profile import timing_of
from mcutrain.cost.timing import time_on_board
from mcutrain.errors import ArgumentError, McutrainError, PlanError
from mcutrain.functions.board_line import find_baud, find_port
from mcutrain.functions.board_options import ProofOptions
from mcutrain.functions.files import replace_file
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.pipeline import TrainingStep
from mcutrain.shown import Record, Shown
from mcutrain.simulation.rates import LearningRate
from mcutrain.simulation.replay import with_replays
from mcutrain.target import Target, load_target

Report = Callable[[str, int, int], None]
"""Called with what is being done, how much of it, and of how much."""
STEPS, MOST_STEPS = 100, 2000
EMULATED_CUTS = 10
TITLE = "selftest"
SEED = 1
REMEMBER = 8
"""Latents in the ring: it is full, and written over, long before the last step."""
RATE = LearningRate.of(0.03)
SCHEMES = ("fashion-sparse", "head")
"""Schemes of the demo's network; the first that fits the board is taken."""


@dataclass(frozen=True, repr=False)
class SelfTestResult(Shown):
    """What a board proved. bits_of_this_version: of a report in a file, whether they are ours."""

    report: SelfTest
    bits_of_this_version: bool | None = None

    @property
    def passed(self) -> bool:
        """Whether every check that was done passed, and the bits are those of this version."""
        return self.report.passed and self.bits_of_this_version is not False

    @staticmethod
    def read(path: PathLike, report: Report = lambda what, done, of: None) -> SelfTestResult:
        """Read a report, and simulate whether its bits are ours. Raises McutrainError."""
        found = read_selftest(Path(path))
        return SelfTestResult(found, has_our_bits(found, report))

    def write(self, path: PathLike) -> None:
        """Write the report, for `read`. Raises OSError."""
        replace_file(Path(path), write_selftest(self.report).encode())

    def summary(self) -> str:
        """Return a line that describes it."""
        found = self.report
        verdict = "passed" if self.passed else "FAILED"
        return f"{found.board}: {verdict}, {found.steps:,} steps, {len(found.checks)} checks"

    def records(self) -> list[Record]:
        """A row for each check."""
        return [asdict(check) for check in self.report.checks]

    def to_dict(self) -> Record:
        """Return it as `mcutrain selftest --json` prints it."""
        facts: Record = asdict(self.report) | {"passed": self.report.passed}
        ours = self.bits_of_this_version
        return facts if ours is None else facts | {"bits_of_this_version": ours}


@with_keywords
@checked
def selftest(
    board: Target | PathLike,
    *,
    how: ProofOptions = ProofOptions(),
    port: str | None = None,
    flash: bool = True,
    may_flash: Callable[[str], bool] = lambda title: True,
    cut: Callable[[int], None] | None = None,
    listener: Listener = SILENT,
) -> SelfTestResult:
    """Flash a board, train on it, disturb it, and compare every state with the simulation's.

    What it trains comes with mcutrain. Its program replaces the board's, and what that has saved.

    board: its name, or a folder with a board.toml. how: its fields are keywords, too.
    port: where the board is; None takes the only one that answers.
    flash: False goes on with the program that is there.
    may_flash: is asked with the board's title before it is flashed. cut: cuts the power of a board
        with a cable, by the cut's number. listener: hears progress.

    Raises TargetError, PlanError if the board is too small, BuildError, ArgumentError.

    >>> selftest("nucleo-f446re", emulator=True).passed
    """
    usual = EMULATED_CUTS if how.emulator else 0
    cuts = usual if how.power_cuts is None else how.power_cuts
    if cuts and not how.emulator and cut is None:
        raise ArgumentError(
            "power_cuts need a way to cut the power of a board with a cable: give cut"
        )
    if port is not None and not how.emulator:
        check_port(port)
    where = board if isinstance(board, Target) else Path(board)
    with TemporaryDirectory() as scratch:
        with listener.counting(TITLE) as report:
            prepared = prepare_selftest(where, Path(how.keep or scratch), how.steps, cuts, report)
        if how.emulator:
            check_installed()
            from mcutrain_host.virtual.board import VirtualBoard  # needs what was checked

            with VirtualBoard.from_folder(prepared.project.folder, "pty") as virtual:
                line = SerialLink(virtual.port, find_baud(prepared.project, None))
                with line as link, listener.counting(TITLE) as report:
                    cycle = lambda number: virtual.power_cycle()  # noqa: E731
                    found = run_selftest(prepared, Device(link), cuts, cycle, False, report)
            return SelfTestResult(found)
        if flash:
            _flash(prepared, port, may_flash, listener)
        place = find_port(prepared.project, port, listener.note)
        with SerialLink(place, find_baud(prepared.project, None)) as link:
            if cut is not None and cuts:  # progress would write over what it asks
                return SelfTestResult(run_selftest(prepared, Device(link), cuts, cut))
            with listener.counting(TITLE) as report:
                found = run_selftest(prepared, Device(link), 0, lambda number: None, True, report)
            return SelfTestResult(found)


def _flash(
    prepared: Prepared, port: str | None, may_flash: Callable[[str], bool], listener: Listener
) -> None:
    if not may_flash(prepared.project.board.title):
        raise ArgumentError("the board was not flashed; with flash=False its program goes on")
    with listener.counting(TITLE) as report:
        job = Job(prepared.project, port, None, report)
        done = choose(job).run(job)
    listener.detail(done)


@dataclass(frozen=True)
class Prepared:
    """A built project for a board, and the work that it is to do."""

    project: BoardProject
    target: Target
    work: Work
    compiler: str


def prepare_selftest(
    board: Target | str | Path,
    folder: Path,
    steps: int = STEPS,
    cuts: int = 0,
    report: Report = lambda what, done, of: None,
) -> Prepared:
    """Generate and build the program, and simulate what it is to do.

    Its network is the demo's, which comes with mcutrain. It trains the first of SCHEMES that fits,
    with timed nodes. Where the board has slots, it has a ring of remembered samples. Raises
    PlanError if none fits, McutrainError, HostError.

    steps: whose states are compared. cuts: power cuts that there will be afterwards.
    """
    if not 1 <= steps <= MOST_STEPS:
        raise ArgumentError(f"steps = {steps}: a self test trains 1 to {MOST_STEPS:,} steps")
    target = board if isinstance(board, Target) else load_target(str(board))
    step, interface, program = _fitting(target)
    program.write(folder)
    build(folder, progress=lambda done, of: report("compiling for the board", done, of))
    project = BoardProject.read(folder)
    course = _course(step, steps + STEPS_BEFORE_A_CUT * cuts, interface.remember, report)
    remembers = interface.remember > 0
    keeps = target.erasures is not None or target.is_hosted
    work = Work(SEED, course, steps, project.manifest.table, remembers, keeps)
    return Prepared(project, target, work, _compiler(project))


def run_selftest(
    prepared: Prepared,
    device: Device,
    cuts: int,
    cut: Callable[[int], None],
    hardware: bool = True,
    report: Report = lambda what, done, of: None,
) -> SelfTest:
    """Bring the work to the board that runs the prepared program. Raises HostError."""
    identity = device.identify()
    project = prepared.project
    if identity.model_hash != project.model_hash:
        raise HostError(
            f"the board at {device.link.name} runs another program ({identity.model}): flash "
            f"{project.folder} first"
        )
    checks = [*run_checks(device, prepared.work, cuts, cut, report)]
    nodes, timed = _times(device, project, report)
    return SelfTest(
        generator=f"mcutrain {__version__}",
        board=project.board.name,
        title=project.board.title,
        core=project.board.core,
        hardware=hardware,
        clock_hz=identity.clock_hz,
        compiler=prepared.compiler,
        scheme=identity.scheme,
        steps=prepared.work.steps,
        digest=hashlib.sha256(prepared.work.state).hexdigest(),
        checks=(*checks, timed),
        nodes=nodes,
    )


def write_selftest(result: SelfTest) -> str:
    """Return the file's text."""
    return to_json(result)


def read_selftest(path: Path) -> SelfTest:
    """Raises McutrainError for a file that is no report of a self test."""
    where = str(path)
    try:
        values = parse(read_text(path), where)
        found = values.get("format") if isinstance(values, dict) else None
        if found != FORMAT:
            raise McutrainError(
                f"{path} is no report of `mcutrain selftest` of this version: its format is "
                f"{found!r}, not {FORMAT}"
            )
        result = from_values(SelfTest, known(SelfTest, values), where)
    except ValuesError as error:
        raise McutrainError(str(error)) from error
    if not 1 <= result.steps <= MOST_STEPS:
        raise McutrainError(
            f"{path} says that {result.steps:,} steps were trained; a self test trains 1 to "
            f"{MOST_STEPS:,}"
        )
    return result


def has_our_bits(result: SelfTest, report: Report = lambda what, done, of: None) -> bool:
    """Did the board end with what this version simulates for it? Raises McutrainError."""
    step, interface, _ = _fitting(load_target(result.board))
    course = _course(step, result.steps, interface.remember, report)
    return hashlib.sha256(course[-1].state).hexdigest() == result.digest


def _compiler(project: BoardProject) -> str:
    """Return what it says of itself, in its first line."""
    command = [*find_toolchain(project.board.compile, None).command, "--version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, errors="replace").stdout
    except OSError:
        said = ""
    return next(iter(said.splitlines()), "") or command[0]


def _fitting(target: Target) -> tuple[TrainingStep, Interface, Project]:
    """The step, and the board's program of it. Raises PlanError if none fits, TargetError."""
    target.check_firmware()
    reason = ""
    for scheme in SCHEMES:
        step = demo.training_step(demo.network(), scheme)
        timing = timing_of(step.plan, target.costs)
        for remember in (REMEMBER, 0):
            interface = Interface(timing=timing, remember=remember)
            try:
                return step, interface, step.firmware(target, interface)
            except McutrainError as error:
                reason = str(error)
    raise PlanError(f"no step of the self test fits {target.name}: {reason}")


def _course(step: TrainingStep, steps: int, remember: int, report: Report) -> tuple[KnownStep, ...]:
    """Steps, and what the simulation has after each; with a ring every second one is a replay."""
    new = -(-steps // 2) if remember else steps
    split = demo.deployed(demo.upright(demo.Size(new, 1)))
    run = demo.training_run(step, split, demo.Size(new, 1, 1), 0)
    x, y = run.samples.train(np.arange(new), 0, 0), split.train.y
    order = with_replays(np.arange(new), 1, remember)[:steps] if remember else np.arange(new)
    simulator = step.simulator(SEED)
    rate = Rate(RATE.mult_q31, RATE.shift)
    lessons = []
    for position, index in enumerate(order):
        simulator.train(x[[index]], y[[index]], [RATE])
        is_replay = remember > 0 and position % 2 == 1
        sample = None if is_replay else x[index].tobytes()
        lessons.append(KnownStep(sample, int(y[index]), rate, simulator.save()))
        report("simulating", position + 1, steps)
    return tuple(lessons)


def _times(
    device: Device, project: BoardProject, report: Report
) -> tuple[tuple[CountedNode, ...], Check]:
    """Cycles of each node beside the planned instructions."""
    name = "cycles"
    timing = project.manifest.timing
    assert timing is not None, "prepare_selftest makes programs that time their nodes"
    try:
        cycles, _ = time_on_board(device, project, report)
    except HostError as error:
        return (), Check(name=name, passed=None, found=str(error))
    nodes = tuple(
        CountedNode(name=node.name, cycles=cycles[node.name], instructions=node.estimated)
        for node in timing.nodes
    )
    total, planned = sum(n.cycles for n in nodes), sum(n.instructions for n in nodes)
    per = total / planned if planned else 0.0
    found = f"{total:,} a step, {per:.2f} for each planned instruction"
    return nodes, Check(name=name, passed=True, found=found)

"""The work that a board proves itself by, and its report as a file."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mcutrain_host.build import build, find_toolchain
from mcutrain_host.client import Device
from mcutrain_host.errors import HostError
from mcutrain_host.json_values import ValuesError, from_values, known, parse, to_json
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

from mcutrain import __version__, demo
from mcutrain.codegen import Interface, Project
from mcutrain.cost.profile import timing_of
from mcutrain.cost.timing import time_on_board
from mcutrain.errors import ArgumentError, McutrainError, PlanError
from mcutrain.pipeline import TrainingStep
from mcutrain.simulation.rates import LearningRate
from mcutrain.simulation.replay import with_replays
from mcutrain.target import Target, load_target

Report = Callable[[str, int, int], None]
"""Called with what is being done, how much of it, and of how much."""
STEPS, MOST_STEPS = 100, 2000
SEED = 1
REMEMBER = 8
"""Latents in the ring: it is full, and written over, long before the last step."""
RATE = LearningRate.of(0.03)
SCHEMES = ("fashion-sparse", "head")
"""Schemes of the demo's network; the first that fits the board is taken."""


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

    Its network is the demo's, which comes with mcutrain: the first of SCHEMES that fits, with
    timed nodes, and where the board has slots with a ring of remembered samples. Raises PlanError
    if none fits, McutrainError, HostError.

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
    """What it says of itself, in its first line."""
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

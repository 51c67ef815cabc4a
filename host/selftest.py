"""A board proves itself: its work has a result that is known to the bit, and is disturbed.

Whoever prepares the work (mcutrain.functions.selftest) simulates it; this module brings it to the
board and compares. Each check is one function, and each ends in a `Check`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from mcutrain_host import frames
from mcutrain_host.client import Device
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import HostError, LinkError, RefusedError
from mcutrain_host.protocol import Command, Frame, Rate
from mcutrain_host.saved import HEADER_BYTES
from mcutrain_host.state import StateTable

FORMAT = 1
"""Format of the file that keeps a report."""
SAVES = 5
DAMAGED_FRAMES = 200
STEPS_BEFORE_A_CUT = 3
LONGEST_GARBAGE = 400
ATTEMPTS, BETWEEN_SECONDS = 30, 0.2
Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it, and of how much."""


@dataclass(frozen=True)
class KnownStep:
    """A training step. sample: None replays one that the board remembers. state: afterwards."""

    sample: bytes | None
    label: int
    rate: Rate
    state: bytes


@dataclass(frozen=True)
class Work:
    """What the board is to do.

    seed: what it begins from. steps: of the lessons, those whose states are all compared; it trains
    on with the others between power cuts. table: of its state. saves_alone: a ring of remembered
    samples makes it save by itself, too, when the log in its flash is full. keeps: what is saved
    outlives a power cut.
    """

    seed: int
    lessons: tuple[KnownStep, ...]
    steps: int
    table: StateTable
    saves_alone: bool = False
    keeps: bool = True

    @property
    def state(self) -> bytes:
        """After the compared steps."""
        return self.lessons[self.steps - 1].state


@dataclass(frozen=True, kw_only=True)
class Check:
    """What was found. passed: None if it was not done, and `found` says why."""

    name: str
    passed: bool | None
    found: str


@dataclass(frozen=True, kw_only=True)
class CountedNode:
    """Cycles of a node in a step, counted by the board, beside the planned instructions."""

    name: str
    cycles: int
    instructions: int


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """The report of a board, as its file keeps it.

    compiler: of the firmware. hardware: false for an emulator, whose clock counts instructions.
    clock_hz: 0 where none counts. nodes: empty where nothing was timed. digest: of the last state.
    """

    format: int = FORMAT
    generator: str
    board: str
    title: str
    core: str
    hardware: bool
    clock_hz: int
    compiler: str
    scheme: str
    steps: int
    digest: str
    checks: tuple[Check, ...]
    nodes: tuple[CountedNode, ...] = ()

    @property
    def passed(self) -> bool:
        """Did every check that was done pass?"""
        return all(check.passed is not False for check in self.checks)

    @property
    def cycles(self) -> int:
        """Cycles of a step."""
        return sum(node.cycles for node in self.nodes)

    @property
    def instructions(self) -> int:
        """Planned instructions of a step."""
        return sum(node.instructions for node in self.nodes)


def run_checks(
    device: Device,
    work: Work,
    cuts: int,
    cut: Callable[[int], None],
    progress: Progress = lambda what, done, of: None,
) -> Iterator[Check]:
    """All checks, one after the other. cuts: power cuts; cut: makes one, given its number, from 1.

    A check that a broken line ends has failed, and says how; those behind it are tried all the
    same. Raises HostError only if the board does not answer at all at the beginning.
    """
    device.identify()
    checks: Sequence[tuple[str, Callable[[], tuple[bool | None, str]]]] = (
        ("the same bits", lambda: _train_all(device, work, progress)),
        ("damaged frames", lambda: _damage(device, work, progress)),
        ("saves and restarts", lambda: _restart(device, work, progress)),
        ("power cuts", lambda: _cut(device, work, cuts, cut, progress)),
    )
    for name, check in checks:
        try:
            passed, found = check()
        except HostError as error:
            passed, found = False, str(error)
        yield Check(name=name, passed=passed, found=found)


def _train(device: Device, lesson: KnownStep, position: int) -> None:
    if lesson.sample is None:
        device.replay(position, lesson.rate)
    else:
        device.send_sample(lesson.sample)
        device.train(lesson.label, position, lesson.rate)


def _train_all(device: Device, work: Work, progress: Progress) -> tuple[bool, str]:
    """The state after each step."""
    device.reset(work.seed)
    lessons = work.lessons[: work.steps]
    for position, lesson in enumerate(lessons):
        _train(device, lesson, position)
        state = device.read_state()
        if state != lesson.state:
            where = difference(work.table, lesson.state, state)
            return False, f"after step {position + 1} {where}"
        progress("training", position + 1, work.steps)
    replays = sum(lesson.sample is None for lesson in lessons)
    which = f", {replays} of them replays," if replays else ""
    size = len(work.state)
    return True, f"after each of {work.steps} steps{which} all {size:,} bytes of state are equal"


def difference(table: StateTable, wanted: bytes, found: bytes) -> str:
    """Return where two saved states differ first, in words."""
    if len(wanted) != len(found):
        return f"the state has {len(found):,} bytes, the simulation's {len(wanted):,}"
    mine, theirs = wanted[HEADER_BYTES:], found[HEADER_BYTES:]
    for section in table.sections:
        pairs = list(zip(section.read(mine), section.read(theirs), strict=True))
        differing = [i for i, (a, b) in enumerate(pairs) if a != b]
        if differing:
            right, wrong = pairs[differing[0]]
            return (
                f"{len(differing):,} of {section.count:,} numbers of {section.name} differ: the "
                f"first, number {differing[0]}, is {wrong} and not {right}"
            )
    return "the state's header differs, and none of its numbers"


def _damage(device: Device, work: Work, progress: Progress) -> tuple[bool, str]:
    """Frames that no board may take: cut, changed, foreign; the state stays as it is."""
    draw = random.Random(1)
    before = device.statistics()
    for number in range(DAMAGED_FRAMES):
        device.link.write(_damaged(draw, work))
        if number % 10 == 9:
            device.statistics()
            progress("sending damaged frames", number + 1, DAMAGED_FRAMES)
    after = device.statistics()
    refused = after.frames_refused - before.frames_refused
    if after.position != before.position or device.read_state() != work.state:
        return False, f"after {DAMAGED_FRAMES} damaged frames the state is another"
    return refused > 0, f"{DAMAGED_FRAMES} were sent, {refused} refused; the state stayed as it was"


def _damaged(draw: random.Random, work: Work) -> bytes:
    """A step of training with another label whose frame is cut or changed, or plain noise."""
    kind = draw.randrange(3)
    if kind == 0:
        return draw.randbytes(draw.randrange(1, LONGEST_GARBAGE)) + b"\0"
    body = draw.randbytes(16)
    whole = frames.encode(Frame(Command.TRAIN, 1, draw.randrange(65536), body=body).pack())
    if kind == 1:
        return whole[: draw.randrange(2, len(whole) - 1)] + b"\0"
    at = draw.randrange(1, len(whole) - 1)
    changed = whole[at] % 255 + 1  # another byte, and none that ends a frame
    return whole[:at] + bytes([changed]) + whole[at + 1 :]


def _restart(device: Device, work: Work, progress: Progress) -> tuple[bool | None, str]:
    """Saves, and a restart after each."""
    for number in range(SAVES):
        try:
            device.save()
        except RefusedError as error:
            return None, f"this program does not save: {error}"
        device.restart()
        _come_back(device)
        if device.identify().position != work.steps or device.read_state() != work.state:
            return False, f"after restart {number + 1} the board holds another state"
        progress("restarting", number + 1, SAVES)
    return True, f"{SAVES} of {SAVES} saves are there after a restart"


def _cut(
    device: Device, work: Work, cuts: int, cut: Callable[[int], None], progress: Progress
) -> tuple[bool | None, str]:
    """The power goes while the board trains on from what it saved; it comes back with the save."""
    if not cuts:
        return None, "none was asked for (--power-cuts)"
    if not work.keeps:
        return None, "what this board saves lies in RAM, which a power cut empties"
    saved = work.steps
    for number in range(1, cuts + 1):
        last = min(saved + STEPS_BEFORE_A_CUT, len(work.lessons))
        for position in range(saved, last):
            _train(device, work.lessons[position], position)
        cut(number)
        _come_back(device)
        found = device.identify().position
        expected = range(saved, last + 1 if work.saves_alone else saved + 1)
        if found not in expected:
            return False, f"after power cut {number} the board is at step {found}, not {saved}"
        if device.read_state() != work.lessons[found - 1].state:
            return False, f"after power cut {number} the board holds another state than it saved"
        saved = found
        progress("cutting the power", number, cuts)
    return True, f"after {cuts} of {cuts} power cuts the board holds what it saved"


def _come_back(device: Device) -> None:
    """Open the port until somebody answers; a port over USB was gone. Raises LinkError."""
    for _ in range(ATTEMPTS):
        with suppress(HostError):
            device.reopen()
            return
        time.sleep(BETWEEN_SECONDS)
    raise LinkError(f"nobody answers at {device.link.name} any more")

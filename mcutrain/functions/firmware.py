"""Firmware of a project: built, written to a board, or run on a virtual one."""

from __future__ import annotations

import time
from array import array
from dataclasses import asdict, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from mcutrain_host import ports
from mcutrain_host.build import build as compile_project
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import LinkError, ModelMismatchError, PortError, ProjectError
from mcutrain_host.finding import ports_that_fit, told
from mcutrain_host.flashing import Job, choose
from mcutrain_host.manifest import BoardProject
from mcutrain_host.memory import Memory, linked_memory
from mcutrain_host.protocol import Identity
from mcutrain_host.virtual.errors import check_installed
from mcutrain_host.virtual.link import LinkFaults
from mcutrain_host.virtual.qemu import QemuBoard

from mcutrain.arguments import PathLike, checked
from mcutrain.errors import DataError, OptionError
from mcutrain.functions.board_line import find_baud
from mcutrain.functions.board_options import BuildOptions, EmulationOptions, FlashOptions
from mcutrain.functions.keywords import given_of, with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.raw_samples import front_of, played
from mcutrain.shown import Record, Shown

if TYPE_CHECKING:
    from mcutrain_host.virtual.board import VirtualBoard

START_SECONDS = 3.0
"""Seconds in which new firmware must answer."""


@dataclass(frozen=True, repr=False)
class Built(Shown):
    """A board's firmware.

    elf: the program. uf2: the same for a board's drive, where it has one. memory: what is linked,
    part by part, beside what was planned; None for a board with an operating system. why_no_saves:
    why the board forgets without power, if it does.
    """

    elf: Path
    uf2: Path | None
    memory: Memory | None
    why_no_saves: str = ""

    def summary(self) -> str:
        """Return a line that describes it."""
        memory = self.memory
        if memory is None:
            return str(self.elf)
        agrees = "as planned" if memory.agrees else f"planned were {memory.planned_bytes:,}"
        return (
            f"{self.elf}, {memory.linked_bytes:,} bytes of SRAM ({agrees}), {memory.flash_bytes:,} "
            "of flash"
        )

    def records(self) -> list[Record]:
        """A row for each part of the SRAM."""
        return [asdict(part) for part in self.memory.sram] if self.memory else []

    def to_dict(self) -> Record:
        """Return it as `mcutrain build --json` prints it."""
        memory = None if self.memory is None else self.memory.facts()
        return {"elf": str(self.elf), "memory": memory, "why_no_saves": self.why_no_saves}


@with_keywords
@checked
def build(
    project: PathLike,
    *,
    how: BuildOptions = BuildOptions(),
    listener: Listener = SILENT,
) -> Built:
    """Compile a board's firmware, and compare its memory with the plan.

    project: a folder of `generate` with a board. how: compiler and optimize, keywords, too.

    Raises BuildError where there is no compiler, or something does not fit; ArgumentError.

    >>> build("project").memory.agrees
    """
    folder = Path(project)
    with listener.counting("compiling") as tell:
        elf = compile_project(
            folder, how.compiler, f"-O{how.optimize}", lambda n, of: tell("compiling", n, of)
        )
    uf2 = elf.with_suffix(".uf2")
    why = BoardProject.read(folder).board.memory.why_no_saves
    return Built(elf, uf2 if uf2.is_file() else None, linked_memory(folder), why)


@dataclass(frozen=True, repr=False)
class Flashed(Shown):
    """Firmware that was written to a board.

    way: how, by its name; done: what that did. identity: what the new firmware says of itself; None
    if it was not asked, or did not answer. silent: why it may not have answered, where it was.
    """

    way: str
    done: str
    identity: Identity | None = None
    silent: str = ""

    def summary(self) -> str:
        """Return a line that describes it."""
        answer = f"; {told(self.identity)}" if self.identity else ""
        return f"{self.way}: {self.done}{answer}"

    def to_dict(self) -> Record:
        """Return it as `mcutrain flash --json` prints it."""
        return {
            "way": self.way,
            "done": self.done,
            "answered": self.identity is not None,
            "position": self.identity.position if self.identity else None,
        }


@with_keywords
@checked
def flash(
    project: PathLike,
    *,
    where: FlashOptions = FlashOptions(),
    listener: Listener = SILENT,
) -> Flashed:
    """Write built firmware to its board. What was trained and saved there stays.

    where: port, way and to, keywords, too; mcutrain.functions.board_options explains each.

    Raises BuildError where the project is not built, the way lacks something, or another firmware
    answers afterwards; ArgumentError.

    >>> flash("project", port="/dev/ttyUSB0").identity
    """
    board_project = BoardProject.read(Path(project))
    board_project.built_elf()
    with listener.counting("flash") as tell:
        port = where.port or _that_restarts(board_project)
        job = Job(board_project, port, where.to, tell)
        chosen = choose(job, where.way)
        done = chosen.run(job)
        if port is None or not chosen.talks:
            return Flashed(chosen.name, done)
        identity = _ask(board_project, port)
    silent = f"at {port}; it talks on {board_project.board.uart.pins or 'another port'}"
    return Flashed(chosen.name, done, identity, "" if identity else silent)


def answers(project: PathLike, port: str) -> bool:
    """Return whether a board with this project's firmware answers at a port."""
    found = BoardProject.read(Path(project))
    try:
        device = ports.connect(port, find_baud(found, None), ports.PROBE)
    except (LinkError, PortError):
        return False
    device.close()
    return device.identity.model_hash == found.model_hash


def _that_restarts(project: BoardProject) -> str | None:
    """The port of the one board of this kind that runs, and restarts into its bootloader by it."""
    fitting = ports_that_fit(project.board.uart.usb) if project.board.flash.touch_baud else []
    return fitting[0].path if len(fitting) == 1 else None


def _ask(project: BoardProject, port: str) -> Identity | None:
    """Who the new firmware is; None if it does not talk at this port. Raises ModelMismatchError."""
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            device = ports.connect(port, find_baud(project, None), ports.PROBE)
        except (LinkError, PortError):
            if time.monotonic() > until:
                return None
            continue
        device.close()
        if device.identity.model_hash != project.model_hash:
            raise ModelMismatchError(
                f"the firmware that answers at {port}",
                device.identity.model_hash,
                project.model_hash,
                "is another board connected there?",
            )
        return device.identity


@dataclass(frozen=True, repr=False)
class RunningBoard(Shown):
    """A virtual board, which runs within a `with` block. board: its name."""

    board: str
    machine: VirtualBoard | QemuBoard = field(repr=False)

    @property
    def port(self) -> str:
        """The port, for `train_board` and others."""
        return self.machine.port

    @property
    def is_running(self) -> bool:
        """Whether it runs; a fault ends it."""
        return self.machine.running

    def __enter__(self) -> RunningBoard:
        self.machine.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, t: TracebackType | None
    ) -> None:
        self.machine.__exit__(kind, value, t)

    def summary(self) -> str:
        """Return a line that describes it."""
        return f"{self.board} at {self.port}, {'running' if self.is_running else 'stopped'}"

    def to_dict(self) -> Record:
        """All of it."""
        return {"board": self.board, "port": self.port, "running": self.is_running}


@with_keywords
@checked
def virtual_board(
    project: PathLike,
    *,
    how: EmulationOptions = EmulationOptions(),
    listener: Listener = SILENT,
) -> RunningBoard:
    """Make a virtual board of built firmware: the same ELF file, the same bits.

    It runs in a `with` block, in a thread of this process; `port` is what other functions take.
    how: link, flash (a file that keeps the flash), empty, noise, play (a file that it hears) and
    emulator, keywords, too; mcutrain.functions.board_options explains each.
    listener: hears notes; by default they are Python warnings.

    Raises BuildError where the project is not built, or the board has no emulator, and at the end
    of the block if the firmware failed; ArgumentError.

    >>> virtual_board("project", link="tcp").port  # in a `with`, for train_board and others
    """
    folder = Path(project)
    if how.emulator == "qemu":
        given = [name for name in given_of(how) if name != "emulator"]
        if given:
            raise OptionError(
                given[0],
                "needs Unicorn: QEMU has a TCP port and no flash controller; leave it out",
            )
        qemu = QemuBoard.from_folder(folder)
        return RunningBoard(qemu.spec.name, qemu)
    check_installed()
    from mcutrain_host.virtual.board import VirtualBoard  # needs what was checked

    found = BoardProject.read(folder)
    played = None if how.play is None else _Played.of(found, Path(how.play), listener)
    fault = LinkFaults(drop=how.noise / 3, corrupt=how.noise / 3, double=how.noise / 3)
    machine = VirtualBoard.from_folder(
        folder,
        how.link,
        loaded=not how.empty,
        flash_file=None if how.flash is None else Path(how.flash),
        faults=(fault, fault) if how.noise else None,
        pace_hz=0 if played is None else played.clock_hz,
    )
    if played is not None:
        each = played.clock_hz // played.rate_hz
        machine.machine.sensor.play(played.rows, each, repeats=True, frame=played.frame)
    return RunningBoard(found.board.name, machine)


@dataclass(frozen=True)
class _Played:
    """What a virtual board hears. rate_hz: samples a second; clock_hz: of the core. frame: rows of
    a camera's frame; 0 of others."""

    rows: list[array[int]]
    rate_hz: int
    clock_hz: int
    frame: int

    @staticmethod
    def of(project: BoardProject, path: Path, listener: Listener) -> _Played:
        """Raises DataError for a file that does not fit, ProjectError for other firmware."""
        front = front_of(project)
        if not project.board.sensor or front is None:
            raise ProjectError(
                f"the firmware of {project.folder} reads no source of samples: generate it with "
                "--app learn --sensor, or leave out --play"
            )
        if not front.rate_hz:
            raise DataError(
                f"the front end {front.kind} does not say how many rows come in a second: give "
                "`rate` to it, such as motion:rate=50, when you quantize"
            )
        rows = played(front, path, listener.note)
        clock_hz = int(project.board.define["CLOCK_HZ"])
        frame = front.hop if front.takes_images else 0
        small = [array("h", row.tobytes()) for row in rows]  # a folder of images may be large
        return _Played(small, front.rate_hz, clock_hz, frame)

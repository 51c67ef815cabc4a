"""A virtual board that runs beside the program that uses it, or in step with it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from mcutrain_host.files import write_whole
from mcutrain_host.manifest import BoardProject
from mcutrain_host.reading import read_file
from mcutrain_host.text import reason
from mcutrain_host.virtual.errors import VirtualBoardError
from mcutrain_host.virtual.image import Image, read_uf2
from mcutrain_host.virtual.link import (
    FaultyLink,
    LinkFaults,
    LoopbackLink,
    PtyLink,
    TcpLink,
    UartLink,
    make_link,
)
from mcutrain_host.virtual.machine import Machine, Stop

JOIN_SECONDS = 5.0
MOST_FLASH_BYTES = 64 << 20
"""More than any board here has."""


def load_machine(
    folder: Path,
    link: UartLink | None = None,
    *,
    loaded: bool = True,
    flash_file: Path | None = None,
    **options: Any,
) -> Machine:
    """The board that a built project is for.

    loaded: with the project's firmware in the flash; otherwise the flash is empty and the ROM's
    bootloader runs, as if the boot button were held. flash_file: what the flash held at the end of
    an earlier run; it is taken in place of both if it exists. options: those of Machine.

    Raises ProjectError or VirtualBoardError.
    """
    project = BoardProject.read(folder)
    image = Image.from_elf(project.built_elf()) if loaded else Image()
    saved = _saved_flash(flash_file)
    boot0 = bool(options.pop("boot0", not loaded and saved is None))
    machine = Machine(project.board, image, link, boot0=boot0, **options)
    if saved is not None:
        put_flash(machine, saved)
    return machine


def put_flash(machine: Machine, content: bytes) -> None:
    """Replace all of the flash, and reset. Raises VirtualBoardError if the sizes differ."""
    flash = machine.chip.flash
    if flash is None or flash.size_bytes != len(content):
        raise VirtualBoardError("the saved flash is not of this board's chip")
    flash.bytes[:] = content
    machine.code_changed()
    machine.reset()


def put_uf2(machine: Machine, data: bytes) -> None:
    """What the boot ROM's drive does with a UF2 file: writes it, and starts it.

    Raises VirtualBoardError if the chip has no such drive or the file is damaged.
    """
    flash = machine.chip.flash
    family = machine.chip.uf2_family
    if family is None or flash is None:
        raise VirtualBoardError("this board's chip takes no UF2 files")
    blocks = read_uf2(data, family)
    for address, _ in blocks:
        flash.erase_now((address - flash.origin) // flash.sectors[0][1])
    for address, content in blocks:
        flash.put(address, content)
    machine.boot0 = False
    machine.code_changed()
    machine.reset()


class DirectLink:
    """The host's end of a board that runs only while the host waits: always the same course.

    A `mcutrain_host.link.Link`. machine: made with a LoopbackLink, maybe behind a FaultyLink.
    """

    name = "the virtual board"

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        inner = machine.link.inner if isinstance(machine.link, FaultyLink) else machine.link
        if not isinstance(inner, LoopbackLink):
            raise VirtualBoardError("a DirectLink needs a machine with a LoopbackLink")
        self._wire = inner

    def write(self, data: bytes) -> None:
        """For the board, when it runs next."""
        self._wire.host_write(data)

    def read(self, seconds: float) -> bytes:
        """Let the board run until it waits for a byte, and return what it sent; b"" if nothing.

        The time does not matter: what waits will not send. Raises BoardFault.
        """
        data = self._wire.host_read()
        while not data:
            stop = self.machine.run(until_idle=True)
            data = self._wire.host_read()
            if stop is not Stop.IDLE or not data:
                break
        return data

    def clear(self) -> None:
        """Forget what has come."""
        self._wire.host_read()

    def open(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class VirtualBoard:
    """A machine that runs in a thread, with a port that serial programs open.

        with VirtualBoard.from_folder(folder, link="pty") as board:
            device = Device(SerialLink(board.port))

    flash_file: where the flash is kept from one run to the next.
    """

    def __init__(self, machine: Machine, flash_file: Path | None = None) -> None:
        self.machine = machine
        self.flash_file = flash_file
        self.fault: BaseException | None = None
        self.stopped: Stop | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = False

    @staticmethod
    def from_folder(
        folder: Path,
        link: str | UartLink = "pty",
        *,
        loaded: bool = True,
        flash_file: Path | None = None,
        faults: tuple[LinkFaults, LinkFaults] | None = None,
        **options: Any,
    ) -> VirtualBoard:
        """Make a board of a built project. link: a UartLink, or what make_link takes.

        faults: of the cable, to the board and to the host. Others: see load_machine.
        """
        made: UartLink = make_link(link) if isinstance(link, str) else link
        try:
            if faults is not None:
                made = FaultyLink(made, *faults, seed=int(options.get("seed", 0)))
            machine = load_machine(folder, made, loaded=loaded, flash_file=flash_file, **options)
        except BaseException:
            made.close()
            raise
        return VirtualBoard(machine, flash_file)

    @property
    def port(self) -> str:
        """What pyserial opens."""
        return self.machine.link.url

    @property
    def running(self) -> bool:
        """Does the board run? Not after a power cut or a fault."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Let the board run."""
        with self._lock:
            if not self.running:
                self._wanted = True
                self._thread = threading.Thread(target=self._run, name="virtual board", daemon=True)
                self._thread.start()

    def pause(self) -> None:
        """Let it stand still between two instructions; `machine` may be used until `start`."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._wanted = False
            if thread is not None:
                self.machine.stop()
                thread.join(JOIN_SECONDS)
                if thread.is_alive():
                    raise VirtualBoardError("the virtual board does not stop")

    @contextlib.contextmanager
    def paused(self) -> Iterator[Machine]:
        """The machine, standing still."""
        self.pause()
        yield self.machine
        self.start()

    def power_cycle(self) -> None:
        """Take the power away, and give it back."""
        with self.paused() as machine:
            if machine.powered:
                machine.power_cut()
            machine.power_on()

    def press_reset(self, boot0: bool = False) -> None:
        """Push the reset button; boot0: while the boot button is held, into the ROM bootloader."""
        with self.paused() as machine:
            machine.boot0 = boot0
            machine.reset()

    def unplug(self) -> None:
        """Pull the cable's data lines; the board keeps its power."""
        self._plug(lambda wire: wire.unplug())

    def plug(self) -> None:
        """Put the cable back, at the same port."""
        self._plug(lambda wire: wire.plug())

    def close(self) -> None:
        """Stop for good; the flash is kept if there is a file for it."""
        self.pause()
        self.machine.link.close()
        self.keep_flash()

    def keep_flash(self) -> None:
        """Write the flash to its file."""
        flash = self.machine.chip.flash
        if self.flash_file is not None and flash is not None:
            write_whole(self.flash_file, bytes(flash.bytes))

    def __enter__(self) -> VirtualBoard:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, t: TracebackType | None
    ) -> None:
        self.close()
        if value is None and self.fault is not None:
            raise self.fault

    def _run(self) -> None:
        while self._wanted:
            try:
                self.stopped = self.machine.run()
            except BaseException as error:  # handed over to whoever closes the board
                self.fault = error
                return
            if self.stopped is not Stop.REQUESTED:
                return

    def _plug(self, act: Callable[[PtyLink | TcpLink | LoopbackLink], None]) -> None:
        wire = self.machine.link
        wire = wire.inner if isinstance(wire, FaultyLink) else wire
        if not isinstance(wire, PtyLink | TcpLink | LoopbackLink):
            raise VirtualBoardError("this link cannot be unplugged")
        with self.paused():
            act(wire)


def _saved_flash(path: Path | None) -> bytes | None:
    if path is None or not path.is_file():
        return None
    try:
        return read_file(path, MOST_FLASH_BYTES)
    except OSError as error:
        raise VirtualBoardError(f"cannot read the saved flash {path}: {reason(error)}") from error

"""STM32 chips by the bootloader in their ROM, over a serial line (ST AN2606, AN3155).

The library stm32loader speaks the protocol. Only the sectors that hold the program are erased, so
what was trained and saved stays.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from typing import Any, ClassVar

import serial
from mcutrain_host.client import Device, Patience
from mcutrain_host.errors import FlashError, HostError, PortError, RefusedError
from mcutrain_host.flashing.image import LoadSegment, load_segments, sectors_of
from mcutrain_host.flashing.job import Job
from mcutrain_host.link import GONE, SerialLink, open_port, turned_away
from mcutrain_host.packages import OPTIONAL, install

BOOTLOADER_BAUD = 115_200
SYNC_SECONDS = 0.5
ACK_SECONDS = 2.0
RESTART_SECONDS = 0.3
"""From the firmware's answer until the bootloader listens."""
ASK = Patience(answer_seconds=0.3, attempts=2)
PIECE_BYTES = 256
"""The most that WRITE MEMORY and READ MEMORY take."""
VECTOR_BYTES = 32
"""With the initial stack pointer and the start address; the other vectors come with the rest. The
STM32H7 programs no less than 32 bytes, and each once."""


class Stm32:
    """`stm32`: needs --port, on the pins where the bootloader listens."""

    name: ClassVar = "stm32"
    talks: ClassVar = True

    def missing(self, job: Job) -> str:
        """A port, the library, or what the board should say of its sectors."""
        loader = OPTIONAL["stm32loader"]
        if not loader.is_installed:
            return f"{loader.name}: {install((loader,))}"
        if not job.facts.sectors:
            return "the sectors of the chip's flash in board.toml; generate the project anew"
        if job.port is None:
            return f"--port, a serial port wired to the bootloader: {_where(job)}"
        return ""

    def run(self, job: Job) -> str:
        """Erase, write, read back, start."""
        assert job.port is not None, "missing() asked for it"
        segments = load_segments(job.project.built_elf())
        first, rest = _vectors_apart(segments, _start(job, segments))
        origin, sizes = job.facts.origin or 0, list(job.facts.sectors)
        sectors = sectors_of(segments, origin, sizes)
        sectors.sort(key=lambda number: number not in sectors_of(first, origin, sizes))
        with _bootloader(job) as loader:
            for done, sector in enumerate(sectors):
                job.progress("erasing", done, len(sectors))
                loader.erase_memory([sector])
            for part in (rest, first):
                _write(loader, part, job)
                _verify(loader, part, job)
            loader.go(_start(job, segments))
        size = sum(len(s.data) for s in segments)
        return f"{size:,} bytes in {len(sectors)} sectors were written, read back and started"


def _where(job: Job) -> str:
    return job.project.board.bootloader or "see the chip's datasheet"


def _ask_for_bootloader(job: Job) -> bool:
    """Ask the firmware, if it runs and listens at this port. Returns whether it did."""
    baud = job.project.board.uart.baud or BOOTLOADER_BAUD
    with suppress(HostError), SerialLink(str(job.port), baud) as link:
        device = Device(link, ASK)
        device.identify()
        with suppress(RefusedError):
            device.bootloader()
            time.sleep(RESTART_SECONDS)
            return True
    return False


@contextmanager
def _bootloader(job: Job) -> Iterator[Any]:
    """stm32loader's bootloader, synchronised; its errors as ours, its prints nowhere."""
    from stm32loader.bootloader import Stm32LoaderError

    loader = _entered(job)
    loader.connection.timeout = ACK_SECONDS
    try:
        with redirect_stderr(io.StringIO()):
            loader.get()
            yield loader
    except Stm32LoaderError as error:
        raise FlashError(
            f"the bootloader at {job.port} refused: {error}; a protected flash is unprotected "
            "with ST's STM32CubeProgrammer"
        ) from error
    except (serial.SerialException, IndexError) as error:  # IndexError: nothing was read
        raise FlashError(f"the bootloader at {job.port} fell silent: {error}") from error
    finally:
        loader.connection.close()


def _entered(job: Job) -> Any:
    """The bootloader; where none answers, after the firmware was asked to leave for it.

    Not the other way round: a bootloader takes its speed from the first byte that it hears.
    """
    loader = _synchronised(job)
    if loader is None:
        asked = _ask_for_bootloader(job)
        loader = _synchronised(job) if asked else None
        if loader is None:
            raise FlashError(_no_bootloader(job, asked))
    return loader


def _synchronised(job: Job) -> Any | None:
    from stm32loader.bootloader import Stm32Bootloader, Stm32LoaderError

    port = _open(str(job.port), job.facts.baud or BOOTLOADER_BAUD)
    loader = Stm32Bootloader(port, verbosity=0)
    try:
        port.reset_input_buffer()
        with redirect_stderr(io.StringIO()):
            loader.reset_from_system_memory()
    except Stm32LoaderError:
        port.close()
        return None
    except GONE as error:
        port.close()
        raise turned_away(str(job.port)) from error
    except BaseException:
        port.close()
        raise
    return loader


def _open(path: str, baud: int) -> serial.SerialBase:
    """With even parity, as the bootloader has it; a pseudo-terminal cannot have any."""
    with suppress(PortError, *GONE):
        port = open_port(path, baud, serial.PARITY_EVEN)
        try:
            port.timeout = SYNC_SECONDS
            return port
        except BaseException:
            port.close()
            raise
    port = open_port(path, baud)
    port.timeout = SYNC_SECONDS
    return port


def _no_bootloader(job: Job, asked: bool) -> str:
    how = job.facts.boot or "set BOOT0 to 1 and reset the board"
    begin = "the firmware left for it, but" if asked else "no firmware answered there, and"
    return (
        f"{begin} no bootloader answers at {job.port}: {how}, and connect the port to where it "
        f"listens ({_where(job)})"
    )


def _start(job: Job, segments: list[LoadSegment]) -> int:
    """The vector table."""
    memory = job.project.board.memory
    region = memory.vectors or memory.flash
    return segments[0].address if region is None else region.origin


def _vectors_apart(
    segments: list[LoadSegment], start: int
) -> tuple[list[LoadSegment], list[LoadSegment]]:
    """The begin of the vector table, and all the rest.

    Its sector is erased first, and it is written last, when the rest was read back. So a chip whose
    flashing broke off has no start address, and does not run half of a program.
    """
    first = [LoadSegment(start, s.data[:VECTOR_BYTES]) for s in segments if s.address == start]
    rest = [
        LoadSegment(start + VECTOR_BYTES, s.data[VECTOR_BYTES:]) if s.address == start else s
        for s in segments
    ]
    return first, [segment for segment in rest if segment.data]


def _pieces(segments: list[LoadSegment]) -> Iterator[LoadSegment]:
    for segment in segments:
        for offset in range(0, len(segment.data), PIECE_BYTES):
            data = segment.data[offset : offset + PIECE_BYTES]
            yield LoadSegment(segment.address + offset, data)


def _write(loader: Any, segments: list[LoadSegment], job: Job) -> None:
    pieces = list(_pieces(segments))
    for done, piece in enumerate(pieces):
        job.progress("writing", done, len(pieces))
        loader.write_memory(piece.address, piece.data)


def _verify(loader: Any, segments: list[LoadSegment], job: Job) -> None:
    pieces = list(_pieces(segments))
    for done, piece in enumerate(pieces):
        job.progress("reading back", done, len(pieces))
        if bytes(loader.read_memory(piece.address, len(piece.data))) != piece.data:
            raise FlashError(
                f"what was written at 0x{piece.address:08x} does not read back; is the flash "
                "protected or worn?"
            )

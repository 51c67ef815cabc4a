"""Chips whose bootloader is a USB drive that takes .uf2 files, such as the RP2040."""

from __future__ import annotations

import os
import re
import shlex
import string
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from mcutrain_host.errors import FlashError
from mcutrain_host.flashing.job import Job
from mcutrain_host.link import open_port
from mcutrain_host.reading import read_file

MARK = "INFO_UF2.TXT"
BOARD_ID = "RPI-RP2"
PIECE_BYTES = 64 * 1024
MOST_IMAGE_BYTES = 64 << 20
"""UF2 takes twice the bytes of a flash."""
DRIVE_SECONDS = 15.0
"""In which a system finds a drive and mounts it."""
POLL_SECONDS = 0.2


class Uf2:
    """`uf2`: needs the board in its bootloader, its drive mounted.

    A board that runs is brought there where its port is known and takes the sign for it.
    """

    name: ClassVar = "uf2"
    talks: ClassVar = True

    def missing(self, job: Job) -> str:
        """The drive."""
        if job.to is not None:
            return "" if (Path(job.to) / MARK).is_file() else f"--to with the drive that has {MARK}"
        if _drives(job) or (job.port is not None and job.facts.touch_baud):
            return ""
        how = job.facts.boot or "hold BOOTSEL while you plug the cable in"
        how += ", or give the --port of a board that runs" if job.facts.touch_baud else ""
        return f"the board as a USB drive: {how}, mount the drive, or name it with --to"

    def run(self, job: Job) -> str:
        """Copy. The board restarts when the last block is there, and the drive is gone."""
        image = job.project.folder / "build" / "firmware.uf2"
        folder = shlex.quote(str(job.project.folder))
        try:
            data = read_file(image, MOST_IMAGE_BYTES)
        except OSError as error:
            raise FlashError(
                f"{image} is not there: run `mcutrain build {folder}` first"
            ) from error
        drive = Path(job.to) if job.to else _only(_drives(job) or _restarted(job))
        try:
            _copy(data, drive / image.name, job)
        except OSError as error:
            raise FlashError(f"cannot write to {drive}: {error.strerror}") from error
        return f"{image} was copied to {drive}; the board has started it"


def _restarted(job: Job) -> list[Path]:
    """The drives that are there after the sign for the bootloader. Raises HostError."""
    assert job.port is not None, "without a port nothing is run that has no drive"
    open_port(job.port, job.facts.touch_baud).close()
    until = time.monotonic() + DRIVE_SECONDS
    while time.monotonic() < until:
        if found := _drives(job):
            return found
        time.sleep(POLL_SECONDS)
    raise FlashError(
        f"the board at {job.port} was told to restart into its bootloader, and no drive of it was "
        f"mounted within {DRIVE_SECONDS:.0f} s: mount it, or name it with --to; if there is none, "
        "hold BOOTSEL while you plug the cable in"
    )


def _copy(data: bytes, path: Path, job: Job) -> None:
    """Write a file whose drive vanishes with its last bytes: that is no error."""
    with path.open("wb", buffering=0) as file:
        for offset in range(0, len(data), PIECE_BYTES):
            job.progress("writing", offset, len(data))
            piece = memoryview(data)[offset : offset + PIECE_BYTES]
            while piece:
                piece = piece[file.write(piece) :]
        with suppress(OSError):
            os.fsync(file.fileno())


def _only(drives: list[Path]) -> Path:
    if len(drives) != 1:
        listed = ", ".join(map(str, drives))
        raise FlashError(f"there are {len(drives)} such drives: {listed}; name one with --to")
    return drives[0]


def _drives(job: Job) -> list[Path]:
    """Mounted drives of this kind of board."""
    board = job.facts.drive or BOARD_ID
    return [place for place in _mounted() if _is_board(place, board)]


def _is_board(place: Path, board: str) -> bool:
    try:
        text = (place / MARK).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return board in text


def _mounted() -> Iterator[Path]:
    """Return where drives are mounted: Linux, macOS, Windows."""
    if sys.platform == "win32":
        yield from (Path(f"{letter}:/") for letter in string.ascii_uppercase)
    elif sys.platform == "darwin":
        yield from Path("/Volumes").glob("*")
    else:
        with suppress(OSError):
            yield from mount_points(Path("/proc/mounts").read_bytes())


def mount_points(mounts: bytes) -> Iterator[Path]:
    """Yield mount points of devices, as Linux lists them: a space is \\040."""
    for line in mounts.split(b"\n"):
        device, _, rest = line.partition(b" ")
        if device.startswith(b"/dev/"):
            place = rest.partition(b" ")[0]
            name = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8) & 255]), place)
            yield Path(os.fsdecode(name))

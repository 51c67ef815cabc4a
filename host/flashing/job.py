"""What is flashed, and what a way to do it is."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import FlashError
from mcutrain_host.manifest import BoardProject, Flashing

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it, and of how much."""


@dataclass(frozen=True)
class Job:
    """A built project and where it goes.

    port: of the chip's own bootloader. to: a drive's folder (uf2), USER@HOST (scp), a path (local).
    """

    project: BoardProject
    port: str | None = None
    to: str | None = None
    progress: Progress = lambda what, done, of: None

    @property
    def facts(self) -> Flashing:
        """board.toml's [flash]."""
        return self.project.board.flash


class Way(Protocol):
    """One way to flash. talks: whether the firmware can be asked who it is at the job's port."""

    name: ClassVar[str]
    talks: ClassVar[bool]

    def missing(self, job: Job) -> str:
        """Return what is needed and not there, with how to get it; empty if nothing is."""

    def run(self, job: Job) -> str:
        """Bring the firmware there. Returns what was done, in words. Raises HostError."""


def run_tool(command: Sequence[str], what: str) -> str:
    """Run another program. Returns what it printed. Raises FlashError with its last line."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise FlashError(f"cannot run {command[0]}: {error.strerror}") from error
    printed = done.stdout + done.stderr
    if done.returncode != 0:
        lines = [line.strip() for line in printed.splitlines() if line.strip()]
        raise FlashError(f"{what} failed: {lines[-1] if lines else f'exit {done.returncode}'}")
    return printed

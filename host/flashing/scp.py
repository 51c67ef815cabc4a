"""A computer with Linux and SSH as the board, such as a Raspberry Pi."""

from __future__ import annotations

import shlex
import shutil
from typing import ClassVar

from mcutrain_host.errors import FlashError
from mcutrain_host.flashing.job import Job, run_tool
from mcutrain_host.flashing.local import EXAMPLE_PORT

PROGRAM = "mcutrain-firmware"


class Scp:
    """`scp`: needs the program scp, and --to USER@HOST."""

    name: ClassVar = "scp"
    talks: ClassVar = False

    def missing(self, job: Job) -> str:
        """The program, or where to copy to."""
        if shutil.which("scp") is None:
            return "the program scp: apt-get install openssh-client"
        if job.to is None:
            return "--to USER@HOST"
        return ""

    def run(self, job: Job) -> str:
        """Copy, and say how the program is started and reached."""
        assert job.to is not None, "missing() asked for it"
        host, colon, path = job.to.partition(":")
        if not host or host.startswith("-"):
            raise FlashError(f"{job.to!r} is no USER@HOST or USER@HOST:PATH")
        place = path if colon and path else PROGRAM
        job.progress("copying", 0, 1)
        program = job.project.built_elf().resolve()  # a:b/firmware is a file of the host a to scp
        run_tool(["scp", "-q", str(program), f"{host}:{place}"], "scp")
        begin = place if "/" in place else f"./{place}"
        tunnel = f"ssh -L {EXAMPLE_PORT}:127.0.0.1:{EXAMPLE_PORT} {shlex.quote(host)}"
        folder = shlex.quote(str(job.project.folder))
        return (
            f"the firmware is the program {place} at {host}; start it with "
            f"`{tunnel} {begin} --port tcp:{EXAMPLE_PORT}`, then "
            f"`mcutrain train {folder} --port socket://127.0.0.1:{EXAMPLE_PORT} --data DATA`"
        )

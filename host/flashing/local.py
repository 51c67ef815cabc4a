"""This computer as the board: the firmware is a program."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import ClassVar

from mcutrain_host.errors import FlashError
from mcutrain_host.files import whole
from mcutrain_host.flashing.job import Job

EXAMPLE_PORT = 5000


class Local:
    """`local`: needs nothing."""

    name: ClassVar = "local"
    talks: ClassVar = False

    def missing(self, job: Job) -> str:
        """Nothing ever."""
        return ""

    def run(self, job: Job) -> str:
        """Copy the program to --to, if that is given, and say how it is started."""
        program = job.project.built_elf()
        if job.to is not None:
            program = copy_program(program, Path(job.to))
        start = f"{shlex.quote(str(program.resolve()))} --port tcp:{EXAMPLE_PORT}"
        folder = shlex.quote(str(job.project.folder))
        return (
            f"the firmware is the program {program}; start it with `{start}`, then "
            f"`mcutrain train {folder} --port socket://127.0.0.1:{EXAMPLE_PORT} --data DATA`"
        )


def copy_program(program: Path, to: Path) -> Path:
    """Copy a program so that it can be run, as a whole or not at all. Returns where it is."""
    target = to / program.name if to.is_dir() else to
    try:
        with whole(target) as part:
            shutil.copyfile(program, part)
            part.chmod(0o755)
    except OSError as error:
        raise FlashError(f"cannot write {target}: {error.strerror}") from error
    return target

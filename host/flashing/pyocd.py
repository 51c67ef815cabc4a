"""Any Cortex-M by a debug probe (ST-LINK, CMSIS-DAP, J-Link), by the program pyOCD."""

from __future__ import annotations

import shutil
import sys
from typing import ClassVar

from mcutrain_host.errors import FlashError
from mcutrain_host.flashing.job import Job, run_tool
from mcutrain_host.packages import OPTIONAL, install


class PyOcd:
    """`pyocd`: needs the package, and the probe on USB."""

    name: ClassVar = "pyocd"
    talks: ClassVar = True

    def missing(self, job: Job) -> str:
        """The program, or the board's name for it."""
        if not _command():
            return f"pyOCD and a debug probe: {install((OPTIONAL['pyocd'],))}"
        if not job.facts.pyocd_target:
            return "pyOCD's name of the chip in board.toml; generate the project anew"
        return ""

    def run(self, job: Job) -> str:
        """Only sectors that the program needs are erased, so that saved states stay."""
        target = job.facts.pyocd_target
        elf = job.project.built_elf()
        job.progress("writing", 0, 1)
        options = ["--no-wait", "--target", target, "--erase", "sector"]
        command = [*_command(), "load", *options, str(elf)]
        try:
            run_tool(command, "pyOCD")
        except FlashError as error:
            if "not recognized" in str(error):
                raise FlashError(
                    f"pyOCD does not know {target} yet: `pyocd pack install {target}` teaches it"
                ) from error
            if "No target device" in str(error):
                raise FlashError(
                    "pyOCD sees no debug probe: is the board's USB cable plugged in, and may you "
                    "use the device (udev rules)? --way names another way"
                ) from error
            raise
        return f"{elf} was written through the debug probe and started"


def _command() -> list[str]:
    """pyOCD of this Python, or the one on the PATH; nothing if there is none."""
    if OPTIONAL["pyocd"].is_installed:
        return [sys.executable, "-m", "pyocd"]
    found = shutil.which("pyocd")
    return [found] if found else []

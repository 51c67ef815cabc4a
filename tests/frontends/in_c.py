"""The C of front ends: libraries of this machine, and programs on it and on emulated cores."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mcutrain.simulation.build import SANITIZE, WARNINGS
from mcutrain.target import FIRMWARE
from tests.boards.test_library_on_cores import BARE, CHIP, ON_LINUX, SCRIPT, SECONDS
from tests.codegen.test_own_program import compiler
from tests.compiled import linked, that_differ

FOLDER = FIRMWARE / "frontends"
UNDEFINED = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
"""Both compilers know this older flag; it needs no library, and ends the process."""
GUARD = 16
"""Bytes behind an array that nothing may change."""


def libraries(
    sources: Sequence[str],
    compilers: Sequence[tuple[str, ...]],
    sanitizing: Mapping[str, tuple[str, ...]],
    folder: Path,
) -> list[ctypes.CDLL]:
    """By each compiler, and with sanitizers where a compiler has them."""
    kinds = [(command, ("-O2",)) for command in that_differ(compilers)]
    kinds += [(command, ("-O1", *UNDEFINED)) for command in sanitizing.values()]
    found = []
    for i, (command, flags) in enumerate(kinds):
        target, paths = folder / f"{i}.so", [str(FOLDER / name) for name in sources]
        shared = ["-shared", "-fPIC", "-o", str(target)]
        made = linked([*command, "-std=c11", *flags, *WARNINGS, *shared, *paths], folder)
        found.append(ctypes.CDLL(str(made)))
    return found


class Guarded:
    """Memory that C may write, and bytes behind it that it may not."""

    def __init__(self, size_bytes: int) -> None:
        self._size = size_bytes
        self._bytes = np.full(size_bytes + GUARD, 0xA5, np.uint8)
        self.pointer = ctypes.c_void_p(self._bytes.ctypes.data)

    def array(self, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        """A copy of what was written."""
        assert (self._bytes[self._size :] == 0xA5).all(), "written behind its end"
        return np.frombuffer(self._bytes[: self._size].tobytes(), dtype)


@dataclass(frozen=True)
class Machine:
    """One of QEMU's."""

    name: str
    cpu: str


MACHINES = {
    "cortex-m0plus": Machine("mps2-an385", "cortex-m0plus"),  # a Cortex-M3 executes its code
    "cortex-m4": Machine("mps2-an386", "cortex-m4"),
    "cortex-m7": Machine("mps2-an500", "cortex-m7"),
}
RV32, SANITIZED = "rv32", "this machine, with sanitizers"
CORES = (*MACHINES, RV32, SANITIZED)
TAIL = """
#include <stdio.h>
int main(void)
{
    const int wrong = learn();
    fputs("front\\n", stdout);
    fwrite(saved, 1, sizeof saved, stdout);
    return wrong;
}
"""


def saved_by(core: str, text: str, sources: Sequence[str], folder: Path) -> bytes:
    """What a program leaves in `saved`, on a core.

    text: with `int learn(void)`, which returns 0, and `saved`.
    """
    head = '#include <stdint.h>\n#include <string.h>\n#define MCT_ISA_NAME "front"\n'
    paths = [str(FOLDER / name) for name in sources]
    tail = BARE if core in MACHINES else ON_LINUX if core == RV32 else TAIL
    (folder / "main.c").write_text(head + text + tail)
    program = str(folder / "program")
    if core in MACHINES:
        command = _for_cortex_m(MACHINES[core], paths, folder)
    elif core == RV32:
        command = [compiler("qemu-riscv32"), program]
        target = ("-march=rv32imc", "-mabi=ilp32", "-ffreestanding", "-O2", "-std=gnu11")
        include = (f"-I{CHIP / 'include'}", f"-I{FOLDER}")
        bare = ("-nostdlib", "-Wl,--no-relax", CHIP / "mct_libc.c", "-lgcc")  # nobody sets gp
        gcc = compiler("riscv64-unknown-elf-gcc")
        linked([gcc, *target, *include, "main.c", *paths, *bare, "-o", program], folder)
    else:
        command = [program]
        linked([compiler("gcc"), *SANITIZE, f"-I{FOLDER}", "main.c", *paths, "-o", program], folder)
    done = subprocess.run(command, capture_output=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[:2000]
    name, _, found = done.stdout.partition(b"\n")
    assert name == b"front"
    return found


def _for_cortex_m(machine: Machine, paths: Sequence[str], folder: Path) -> list[str]:
    gcc, qemu = compiler("arm-none-eabi-gcc"), compiler("qemu-system-arm")
    (folder / "link.ld").write_text(SCRIPT.format(code="0", ram="0x20000000"))
    flags = [f"-mcpu={machine.cpu}", "-mthumb", f"-I{CHIP / 'include'}", f"-I{FOLDER}"]
    sources = ["main.c", *paths, CHIP / "mct_libc.c"]
    link = ["-nostdlib", "-T", "link.ld", *sources, "-lgcc", "-o", "program.elf"]
    linked([gcc, "-O2", "-std=gnu11", *flags, *link], folder)
    kernel = ["-M", machine.name, "-kernel", str(folder / "program.elf"), "-display", "none"]
    quiet = ["-monitor", "none", "-serial", "none"]
    return [qemu, *kernel, *quiet, "-semihosting-config", "enable=on,target=native"]


def array_in_c(ctype: str, name: str, values: npt.NDArray[np.generic]) -> str:
    """A constant array, of any shape, as one row."""
    numbers = ",".join(map(str, values.reshape(-1).tolist()))
    return f"static const {ctype} {name}[{values.size}] = {{{numbers}}};\n"

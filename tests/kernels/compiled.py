"""Bodies of an instruction set and the plain ones they stand in for, compiled to be compared."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mcutrain.simulation.build import SANITIZE
from tests.ops.c_harness import FIRMWARE, HARNESS, Toolchain, plain_body, shared_sources

BARE = Path(__file__).with_name("bare")
"""A C library of what the harness calls, for programs that have none."""
CHIP = FIRMWARE / "chips" / "cortex_m"
GCC = ("arm-none-eabi-gcc",)
IN_QEMU = (
    *("-mcpu=cortex-a7", "-mthumb", "-O1", "-ffreestanding", f"-I{BARE}", f"-I{CHIP / 'include'}"),
    *("-nostartfiles", "-nolibc"),
)
"""A processor with the DSP extension for which QEMU runs programs."""


@dataclass(frozen=True)
class BodiesOfSet:
    """files: by function. isa: the instruction set's name."""

    isa: str
    files: Mapping[str, Path]

    def plain(self, command: tuple[str, ...], folder: Path) -> Toolchain:
        """What they stand in for."""
        return _compiled(command, ("-O1",), folder, map(plain_body, self.files.values()))

    def own(self, command: tuple[str, ...], flags: Sequence[str], folder: Path) -> Toolchain:
        """Themselves, and what they call."""
        sources = (*self.files.values(), *shared_sources(self.isa))
        return _compiled(command, flags, folder, sources)

    def in_qemu(self, flags: Sequence[str], folder: Path) -> Toolchain:
        """Themselves, run by qemu-arm with their instructions as they are; skips without it."""
        for program, package in ((*GCC, "gcc-arm-none-eabi"), ("qemu-arm", "qemu-user")):
            if shutil.which(program) is None:
                pytest.skip(f"no {program}: apt install {package}")
        made = self.own(GCC, (*IN_QEMU, *flags), folder)
        made.compile_objects([BARE / "bare.c", CHIP / "mct_libc.c"])
        return replace(made, emulator=("qemu-arm", "-cpu", "cortex-a7"))

    def sanitized(
        self,
        compilers: list[tuple[str, ...]],
        sanitizing: Mapping[str, tuple[str, ...]],
        folder: Path,
        flags: Sequence[str] = (),
    ) -> Toolchain:
        """The same, with sanitizers and each buffer alone where a compiler has them.

        Not optimised, which takes a compiler longer than the sanitized program runs.
        """
        if not sanitizing:
            return self.own(compilers[0], ("-O0", *flags), folder)
        command = next(iter(sanitizing.values()))
        return self.own(command, ("-O0", "-DEXACT_BUFFERS", *flags, *SANITIZE), folder)

    def objects(self, command: tuple[str, ...], flags: Sequence[str], folder: Path) -> None:
        """Compile them for a chip, where nothing runs them."""
        folder.mkdir(exist_ok=True)
        sources = [*self.files.values(), *shared_sources(self.isa)]
        Toolchain(command, tuple(flags), folder).compile_objects(sources)
        assert {path.stem for path in folder.glob("*.o")} == {source.stem for source in sources}


def _compiled(
    command: tuple[str, ...], flags: Sequence[str], folder: Path, bodies: Iterable[Path]
) -> Toolchain:
    made = Toolchain(command, tuple(flags), folder)
    made.compile_objects([*bodies, *FIRMWARE.glob("runtime/*.c"), HARNESS])
    return made

"""A board's firmware around a generated library, as a program of one's own has it.

Start-up, drivers and protocol are the board's. The training step is the archive that the library's
own Makefile builds with the board's flags, so that a virtual board can count what users get.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from mcutrain_host.build import build, find_toolchain
from mcutrain_host.manifest import FILE, BoardDescription, Manifest

from mcutrain.codegen import Interface
from mcutrain.pipeline import TrainingStep
from mcutrain.target import FIRMWARE, load_target

LIBRARY = "library"
HEADERS = FIRMWARE / "chips" / "cortex_m" / "include"
"""string.h, which a compiler without a C library lacks."""


def build_as_library(
    step: TrainingStep, board: str, folder: Path, optimize: str = "-O3", isa: str = "all"
) -> Path:
    """Write and build both, with the board's gcc. Returns the archive.

    isa: as `mcutrain generate --isa` takes it. Raises BuildError, CalledProcessError.
    """
    step.firmware(load_target(board)).write(folder)
    step.library(Interface(isa=isa)).write(folder / LIBRARY)
    manifest = Manifest.read(folder / FILE)
    assert manifest.board is not None
    archive = make(folder / LIBRARY, manifest.board, optimize)
    described = replace(manifest, board=_with_archive(manifest.board, archive.relative_to(folder)))
    (folder / FILE).write_text(described.to_json())
    build(folder, "gcc", optimize)
    return archive


def make(folder: Path, board: BoardDescription, optimize: str) -> Path:
    """libmct.a, as the library's Makefile builds it for the board's processor."""
    gcc = find_toolchain(board.compile, "gcc").command[0]
    flags = " ".join((*board.compile.flags, f"-I{HEADERS}"))
    tools = [f"CC={gcc}", f"AR={gcc.removesuffix('gcc')}ar", f"OPT={optimize}", f"CFLAGS={flags}"]
    run_make(folder, *tools)
    return folder / "libmct.a"


def run_make(folder: Path, *arguments: str) -> None:
    """Raises CalledProcessError."""
    command = ["make", "-s", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)


def _with_archive(board: BoardDescription, archive: Path) -> BoardDescription:
    """Describe the same firmware with its training step in an archive."""
    own = tuple(name for name in board.compile.sources if not name.startswith("src/"))
    link = (*board.compile.link, "-Wl,--whole-archive", str(archive), "-Wl,--no-whole-archive")
    return replace(board, compile=replace(board.compile, sources=own, link=link))

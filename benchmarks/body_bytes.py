"""Flash of each kernel body in a linked program, and of bodies that it does not call.

    .venv/bin/python benchmarks/body_bytes.py [--boards mps2-an386] [--gradient-bits 16]

Firmware of the demo's network under three schemes, by the board's gcc at -O3: bytes of functions
and constants in the ELF file by the C file that has them. "Not called" is what else it has of
kernels. The last lines link a library with the bodies of all instruction sets in the place of the
firmware's own.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from as_library import build_as_library
from elftools.elf.elffile import ELFFile
from mcutrain_host.build import build
from mcutrain_host.manifest import BoardProject
from mcutrain_host.memory import linked_memory
from rich.console import Console
from rich.table import Table

from mcutrain import demo, prepare
from mcutrain.cost.flash import kernel_calls
from mcutrain.pipeline import TrainingStep, load
from mcutrain.target import FIRMWARE, load_target

SCHEMES = ("head", "fashion-sparse", "full")
NONE = "not called"
CODE = ("STT_FUNC", "STT_OBJECT")


def main() -> None:
    """A table for each board."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", nargs="+", default=["mps2-an386"])
    parser.add_argument("--schemes", nargs="+", default=SCHEMES)
    parser.add_argument("--gradient-bits", type=int, choices=(8, 16), default=8)
    options = parser.parse_args()
    console = Console(width=110)
    for board in options.boards:
        steps = {
            scheme: prepare(load(demo.MODEL), scheme, gradient_dtype=f"int{options.gradient_bits}")
            for scheme in options.schemes
        }
        console.print(table_of(board, steps))
        for scheme, step in steps.items():
            own, library = linked(step, board), linked(step, board, library=True)
            console.print(f"{board}, {scheme}: firmware {own:,} bytes, with a library {library:,}")


def table_of(board: str, steps: dict[str, TrainingStep]) -> Table:
    """Bytes by C file and scheme."""
    found = {scheme: kernel_bytes(step, board) for scheme, step in steps.items()}
    table = Table("bytes of flash", *steps, title=f"{board}, bodies {load_target(board).isa}")
    for file in sorted({file for counts in found.values() for file in counts}):
        sizes_of = [counts[file] for counts in found.values()]
        table.add_row(file, *(f"{size:,}" if size or file == NONE else "" for size in sizes_of))
    return table


def kernel_bytes(step: TrainingStep, board: str) -> Counter[str]:
    """Count bytes by C file: kernels, and what they share. Code that no call needs is one entry."""
    called = {PurePosixPath(call.source).name for call in kernel_calls(step.plan.training)}
    shared = {path.name for path in FIRMWARE.glob("isa/*/*.c")}
    kernels = {path.name for path in FIRMWARE.glob("kernels/**/*.c")}
    plain = {path.name for path in FIRMWARE.glob("kernels/*/*.c")}
    found: Counter[str] = Counter({NONE: 0})
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        step.firmware(load_target(board)).write(folder)
        build(folder, "gcc", "-O3")
        for file, size in sizes(folder):
            if file in called or file in shared or file in kernels - plain:
                found[file] += size
            elif file in kernels:
                found[NONE] += size
    return found


def sizes(folder: Path) -> Iterator[tuple[str, int]]:
    """C file and bytes of each function and constant of a built project's ELF file.

    A symbol of a file alone stands behind the file's name there; objects say where others are from.
    """
    owners = {
        symbol.name: path.name.removesuffix(".o")
        for path in folder.glob("build/**/*.o")
        for symbol in symbols(path)
        if symbol["st_info"]["bind"] != "STB_LOCAL" and symbol["st_shndx"] != "SHN_UNDEF"
    }
    file = ""
    ram = BoardProject.read(folder).board.memory.ram
    for symbol in symbols(BoardProject.read(folder).built_elf()):
        kind = symbol["st_info"]["type"]
        if kind == "STT_FILE":
            file = symbol.name
        in_ram = ram is not None and ram.origin <= symbol["st_value"] < ram.origin + ram.size_bytes
        if kind in CODE and symbol["st_shndx"] != "SHN_UNDEF" and not in_ram:
            is_local = symbol["st_info"]["bind"] == "STB_LOCAL"
            owner = file if is_local else owners.get(symbol.name, "")
            yield f"{PurePosixPath(owner).name.removesuffix('.c')}.c", symbol["st_size"]


def symbols(path: Path) -> list:
    """Read the symbols of an object or ELF file."""
    with path.open("rb") as file:
        return list(ELFFile(file).get_section_by_name(".symtab").iter_symbols())


def linked(step: TrainingStep, board: str, library: bool = False) -> int:
    """Bytes of flash of the whole program."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "project"
        if library:
            build_as_library(step, board, folder)
        else:
            step.firmware(load_target(board)).write(folder)
            build(folder, "gcc", "-O3")
        memory = linked_memory(folder)
    assert memory is not None
    return memory.flash_bytes


if __name__ == "__main__":
    main()

"""How large compiled code is, for the estimate of flash before anything is compiled.

    python benchmarks/code_bytes.py [--only rv32imc] [--write]

Every kernel body is compiled at -O3 for every board, with arm-none-eabi-gcc and zig where they
are installed; the largest size counts. Firmware of the demo's network is linked, too: what its ELF
has in flash beyond weights, tables, parameters and kernels is the code of the generated calls (per
call) and of everything else (fixed). Both are rounded up, so that the estimate is an upper bound.
On RISC-V, where mcutrain has no firmware, it is a library in the program of riscv_nodes.py.
--write puts the result into firmware/costs/code.toml, which mcutrain.cost.flash reads. --only
measures some sections, and keeps the others as they are there.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import riscv_nodes
from elftools.elf.elffile import ELFFile
from mcutrain_host.build import Toolchain, _run, build, find_toolchain
from mcutrain_host.errors import BuildError
from mcutrain_host.manifest import BoardProject
from mcutrain_host.memory import linked_memory

from mcutrain import demo
from mcutrain.codegen import firmware
from mcutrain.cost.flash import CODE_FILE, CodeSizes, code_sizes, flash_parts, kernel_calls
from mcutrain.errors import PlanError
from mcutrain.memplan import check_board
from mcutrain.pipeline import TrainingStep, prepare
from mcutrain.target import FIRMWARE, PORTABLE, Target, load_target

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

BOARDS = (
    *("nucleo-f446re", "stm32f746g-disco", "mps2-an386", "mps2-an500", "rpi-pico"),
    "mps3-an547",
    "rpi-pico-usb",
)
COMPILERS = ("gcc", "zig")
RISCV = "rv32imc"
"""The section of these sizes, which the board.toml of such a core names as its `costs`."""
ZIG_RISCV = '"riscv32-freestanding-none", "-mcpu=generic_rv32+m+c"'
SCHEMES = ("head", "fashion-sparse", "full")
ALLOC, EXECUTED, EXEC_OR_DATA = 2, 4, "SHT_PROGBITS"
OBJECT = "one.o"
COMPILER_RT = "compiler_rt"  # zig puts its run-time library into every object
CALL_ROUNDS_TO, FIXED_ROUNDS_TO = 4, 1024
MARGIN = 1024
"""Added for drivers on boards that the largest scheme does not fit, where they are not measured."""


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", nargs="+", help="sections of the file")
    arguments = parser.parse_args()
    kernels: dict[str, dict[str, int]] = defaultdict(dict)
    fixed: dict[str, int] = defaultdict(int)
    calls: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        builds = list(_builds(Path(folder), arguments.only))
        for target, _, toolchain, project in builds:
            sizes = kernels[target.costs]
            for name, size in _kernel_sizes(target, toolchain, project).items():
                sizes[name] = max(sizes.get(name, 0), size)
        for target, compiler, toolchain, _ in builds:
            for scheme in filter(lambda name: fits(target, name), SCHEMES):
                if target.costs == RISCV and compiler != "gcc":
                    continue  # riscv_nodes.py links with gcc
                project = Path(folder) / f"{target.name}-{target.costs}-{compiler}-{scheme}"
                sizes = kernels[target.costs]
                rest, per_call, total = _linked(target, toolchain, scheme, sizes, project)
                fixed[target.costs] = max(fixed[target.costs], rest)
                calls[target.costs] = max(calls[target.costs], per_call)
                print(
                    f"{target.name:18} {target.costs:8} {compiler:4} {scheme:15} ELF {total:8,}  "
                    f"rest {rest:7,}  per call {per_call:5.1f}",
                    flush=True,
                )
    found = {name: _section(kernels[name], fixed[name], calls[name]) for name in kernels}
    kept = _kept() if arguments.only else {}
    text = _toml({**kept, **found})
    print(text)
    if arguments.write:
        CODE_FILE.write_text(text, encoding="utf-8")


def _builds(folder: Path, only: list[str] | None) -> Iterator[tuple[Target, str, Toolchain, Path]]:
    for target in (*map(load_target, BOARDS), _portable(folder), _riscv(folder)):
        if only and target.costs not in only:
            continue
        project = folder / f"{target.name}-{target.costs}"
        demo_step("head").firmware(target).write(project)
        for compiler in COMPILERS:
            try:
                toolchain = find_toolchain(BoardProject.read(project).board.compile, compiler)
            except BuildError as error:
                print(f"{target.name}, {compiler}: {error}")
                continue
            yield target, compiler, toolchain, project


def _portable(folder: Path) -> Target:
    """A board for the bodies that stand in where an instruction set has none: no other has them."""
    return _like_pico(folder / PORTABLE, {'isa = "armv6m"': f'isa = "{PORTABLE}"'})


def _riscv(folder: Path) -> Target:
    """The same bodies for RISC-V. Its kernels are compiled; nothing of the board is."""
    flags = ", ".join(f'"{flag}"' for flag in riscv_nodes.ARCHITECTURE)
    return _like_pico(
        folder / RISCV,
        {
            'isa = "armv6m"': f'isa = "{PORTABLE}"\ncosts = "{RISCV}"\ngcc = "{riscv_nodes.GCC}"',
            'flags = ["-mcpu=cortex-m0plus", "-mthumb", "-mfloat-abi=soft"]': f"flags = [{flags}]",
            '"thumb-freestanding-eabi", "-mcpu=cortex_m0plus"': ZIG_RISCV,
        },
    )


def _like_pico(folder: Path, changes: Mapping[str, str]) -> Target:
    """A Pico with other lines in its file."""
    own = load_target("rpi-pico")
    copied = Path(shutil.copytree(own.folder, folder / own.name))
    text = (copied / "board.toml").read_text(encoding="utf-8")
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (copied / "board.toml").write_text(text, encoding="utf-8")
    return load_target(copied)


@lru_cache(maxsize=4)
def demo_step(scheme: str) -> TrainingStep:
    """The demo's network under a scheme."""
    return prepare(demo.network(), scheme)


def fits(target: Target, scheme: str) -> bool:
    """Whether the board has the SRAM."""
    try:
        check_board(demo_step(scheme).plan, target)
    except PlanError:
        return False
    return True


def _kernel_sizes(target: Target, toolchain: Toolchain, project: Path) -> dict[str, int]:
    """Bytes of code and constants of every kernel body."""
    names = sorted(str(p.relative_to(FIRMWARE)) for p in FIRMWARE.glob("kernels/*/*.c"))
    files = {name: (FIRMWARE / name).read_text(encoding="utf-8") for name in names}
    files.update(firmware.isa_bodies(files, target.isa))
    files = firmware.with_includes(files, target.isa)
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    found = {}
    for name in names:
        _compile(toolchain, project, name, sorted({str(Path(n).parent) for n in files}))
        found[name] = _object_bytes(project / OBJECT)
    return found


def _compile(toolchain: Toolchain, project: Path, name: str, folders: list[str]) -> None:
    """One C file."""
    facts = BoardProject.read(project).board.compile
    includes = [f"-I{f}" for f in sorted({*folders, *facts.include_dirs})]
    command = [*toolchain.command, "-O3", *toolchain.compile_flags, *facts.common_flags, *includes]
    _run([*command, "-c", "-o", OBJECT, name], project, name)


def _object_bytes(path: Path, wanted: int = ALLOC) -> int:
    with path.open("rb") as file:
        return sum(
            -(-section["sh_size"] // 8) * 8
            for section in ELFFile(file).iter_sections()
            if section["sh_flags"] & wanted
            and section["sh_type"] == EXEC_OR_DATA
            and COMPILER_RT not in section.name
        )


def _linked(
    target: Target, toolchain: Toolchain, scheme: str, kernels: dict[str, int], project: Path
) -> tuple[int, float, int]:
    """Bytes that are neither data nor kernels nor calls; bytes of mct_model.c per call; all."""
    step = demo_step(scheme)
    step.firmware(target).write(project)
    is_riscv = target.costs == RISCV
    total = _library_bytes(step, project) if is_riscv else _firmware_bytes(toolchain, project)
    source = "library/src" if is_riscv else "src"
    training = step.plan.training
    found = list(kernel_calls(training))
    bodies = {call.source for call in found}
    data = sum(part.size_bytes for part in flash_parts(training).values())
    _compile(toolchain, project, f"{source}/mct_model.c", [source])
    model = _object_bytes(project / OBJECT, EXECUTED)
    code = sum(kernels[name] for name in bodies)
    return total - data - code - model, model / len(found), total


def _firmware_bytes(toolchain: Toolchain, project: Path) -> int:
    """Flash of a board's firmware, which is built."""
    build(project, "zig" if toolchain.name == "zig cc" else "gcc")
    memory = linked_memory(project)
    assert memory is not None
    return memory.flash_bytes


def _library_bytes(step: TrainingStep, project: Path) -> int:
    """Flash of a program for RISC-V around a library, which is built beside the firmware."""
    library = project / "library"
    library.mkdir()
    begin, end = riscv_nodes.constant_span(riscv_nodes.built(step, library))
    return end - begin


def _section(kernels: dict[str, int], fixed: int, call: float) -> CodeSizes:
    """Bounds that are rounded up."""
    rest = math.ceil((max(fixed, 0) + MARGIN) / FIXED_ROUNDS_TO) * FIXED_ROUNDS_TO
    return CodeSizes(rest, math.ceil(call / CALL_ROUNDS_TO) * CALL_ROUNDS_TO, kernels)


def _kept() -> dict[str, CodeSizes]:
    """What the file has."""
    names = tomllib.loads(CODE_FILE.read_text(encoding="utf-8"))
    found = {name: code_sizes(name) for name in names}
    return {name: sizes for name, sizes in found.items() if sizes is not None}


def _toml(sections: dict[str, CodeSizes]) -> str:
    lines = [
        "# Bytes of compiled code at -O3, the largest over boards and compilers;",
        "# written by benchmarks/code_bytes.py, read by mcutrain/cost/flash.py.",
    ]
    for name, sizes in sorted(sections.items()):
        lines += ["", f"[{name}]", f"fixed = {sizes.fixed}", f"call = {sizes.call}"]
        lines += ["", f"[{name}.kernels]"]
        lines += [f'"{file}" = {size}' for file, size in sorted(sizes.kernels.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

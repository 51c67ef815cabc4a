"""How large compiled code is, for the estimate of flash before anything is compiled.

    python benchmarks/code_bytes.py [--write]

Every kernel body is compiled at -O3 for every board, with arm-none-eabi-gcc and zig where they
are installed; the largest size counts. Firmware of the demo's network is linked, too: what its ELF
has in flash beyond weights, tables, parameters and kernels is the code of the generated calls (per
call) and of everything else (fixed). Both are rounded up, so that the estimate is an upper bound.
--write puts the result into firmware/costs/code.toml, which mcutrain.cost.flash reads.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from elftools.elf.elffile import ELFFile
from mcutrain_host.build import Toolchain, _run, build, find_toolchain
from mcutrain_host.errors import BuildError
from mcutrain_host.manifest import BoardProject
from mcutrain_host.memory import linked_memory

from mcutrain import demo
from mcutrain.codegen import firmware
from mcutrain.cost.flash import CODE_FILE, flash_parts, kernel_calls
from mcutrain.errors import PlanError
from mcutrain.memplan import check_board
from mcutrain.pipeline import TrainingStep, prepare
from mcutrain.target import FIRMWARE, Target, load_target

BOARDS = (
    *("nucleo-f446re", "stm32f746g-disco", "mps2-an386", "mps2-an500", "rpi-pico"),
    "mps3-an547",
    "rpi-pico-usb",
)
COMPILERS = ("gcc", "zig")
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
    arguments = parser.parse_args()
    kernels: dict[str, dict[str, int]] = defaultdict(dict)
    fixed: dict[str, int] = defaultdict(int)
    calls: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        builds = list(_builds(Path(folder)))
        for target, _, toolchain, project in builds:
            sizes = kernels[target.isa]
            for name, size in _kernel_sizes(target, toolchain, project).items():
                sizes[name] = max(sizes.get(name, 0), size)
        for target, compiler, toolchain, _ in builds:
            for scheme in filter(lambda name: fits(target, name), SCHEMES):
                project = Path(folder) / f"{target.name}-{target.isa}-{compiler}-{scheme}"
                sizes = kernels[target.isa]
                rest, per_call, total = _linked(target, toolchain, scheme, sizes, project)
                fixed[target.isa] = max(fixed[target.isa], rest)
                calls[target.isa] = max(calls[target.isa], per_call)
                print(
                    f"{target.name:18} {compiler:4} {scheme:15} ELF {total:8,}  rest {rest:7,}  "
                    f"per call {per_call:5.1f}",
                    flush=True,
                )
    text = _toml(kernels, fixed, calls)
    print(text)
    if arguments.write:
        CODE_FILE.write_text(text, encoding="utf-8")


def _builds(folder: Path) -> Iterator[tuple[Target, str, Toolchain, Path]]:
    for target in (*map(load_target, BOARDS), _portable(folder)):
        project = folder / f"{target.name}-{target.isa}"
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
    own = load_target("rpi-pico")
    copied = Path(shutil.copytree(own.folder, folder / "portable" / own.name))
    text = (copied / "board.toml").read_text(encoding="utf-8")
    changed = text.replace(f'isa = "{own.isa}"', 'isa = "portable"', 1)
    (copied / "board.toml").write_text(changed, encoding="utf-8")
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
    build(project, "zig" if toolchain.name == "zig cc" else "gcc")
    memory = linked_memory(project)
    assert memory is not None
    training = step.plan.training
    found = list(kernel_calls(training))
    bodies = {call.source for call in found}
    data = sum(part.size_bytes for part in flash_parts(training).values())
    _compile(toolchain, project, "src/mct_model.c", [])
    model = _object_bytes(project / OBJECT, EXECUTED)
    code = sum(kernels[name] for name in bodies)
    return memory.flash_bytes - data - code - model, model / len(found), memory.flash_bytes


def _toml(
    kernels: dict[str, dict[str, int]], fixed: dict[str, int], calls: dict[str, float]
) -> str:
    lines = [
        "# Bytes of compiled code at -O3, the largest over boards and compilers;",
        "# written by benchmarks/code_bytes.py, read by mcutrain/cost/flash.py.",
    ]
    for isa in sorted(kernels):
        call = math.ceil(calls[isa] / CALL_ROUNDS_TO) * CALL_ROUNDS_TO
        rest = math.ceil((max(fixed[isa], 0) + MARGIN) / FIXED_ROUNDS_TO) * FIXED_ROUNDS_TO
        lines += ["", f"[{isa}]", f"fixed = {rest}", f"call = {call}", "", f"[{isa}.kernels]"]
        lines += [f'"{name}" = {size}' for name, size in sorted(kernels[isa].items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

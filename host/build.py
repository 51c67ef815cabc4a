"""Builds a generated project: with the compiler of its board, else with the ziglang package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import BuildError
from mcutrain_host.files import whole
from mcutrain_host.manifest import BoardMemory, BoardProject, BuildOutput, Compilation
from mcutrain_host.objects import BUILD, KeptObjects, kept_objects, put, take
from mcutrain_host.packages import OPTIONAL, install
from mcutrain_host.toolchain import ZIG, compiler_identity, find_host_compiler

COMPILE_SECONDS = 600
RUN_TIME_FLAG = "-rtlib="
RUN_TIME = f"{BUILD}/run_time_library"
TOO_SMALL = {
    "RAM": "the SRAM that was planned: train fewer layers or smaller shares and generate the "
    "project anew; or, if you have added variables of your own, raise driver_bytes in the board's "
    "board.toml by that much",
    "FLASH": "the board's flash for code: use a smaller model, build with `--optimize s`, or take "
    "a board with more flash",
    "VECTORS": "the flash sector of the vector table: keep only start-up code there",
}


SLOTS_OFF = (
    "the board's flash for code beside the slots that keep the trained state: generate the project "
    "anew with --slots off, which gives their flash to the program, and a trained state then does "
    "not survive a power cut; or use a smaller model, or build with `--optimize s`"
)


RING_TOO_LARGE = (
    "the board's flash for code beside the slots that keep the trained state and {:,} latents: "
    "generate the project anew with a smaller --remember, or build with `--optimize s`"
)


@dataclass(frozen=True)
class Toolchain:
    """A compiler for a board, with the flags it needs for it."""

    name: str
    command: tuple[str, ...]
    flags: tuple[str, ...]
    libraries: tuple[str, ...]

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """Without the one that puts zig's whole run-time library into every object, 1.5 MB."""
        return tuple(flag for flag in self.flags if not flag.startswith(RUN_TIME_FLAG))

    @property
    def has_run_time_flag(self) -> bool:
        """Whether an object of its own has to bring that library."""
        return self.compile_flags != self.flags


def find_toolchain(facts: Compilation, wanted: str | None = None) -> Toolchain:
    """The board's gcc if it is installed, else zig. wanted: `gcc`, `zig`, or a compiler's name.

    Raises BuildError if there is neither.
    """
    gcc = facts.gcc
    chip = facts.linker_script is not None
    libraries = ("-lgcc",) if chip else ()
    flags = facts.flags
    if wanted not in (None, "gcc", "zig"):
        path = shutil.which(str(wanted))
        if path is None:
            raise BuildError(f"there is no compiler {wanted!r} on PATH")
        return Toolchain(str(wanted), (path,), flags, libraries)
    names = [gcc, "gcc", "clang"] if gcc == "cc" else [gcc]
    found = next((path for path in map(shutil.which, names) if path), None)
    if wanted != "zig" and found is not None:
        return Toolchain(Path(found).name, (found,), flags, libraries)
    zig = OPTIONAL["ziglang"]
    if wanted != "gcc" and zig.is_installed:
        return Toolchain("zig cc", ZIG, facts.zig, ())
    raise BuildError(
        f"there is no compiler for this board: install {gcc} (apt-get install "
        f"{'gcc-arm-none-eabi' if chip else 'gcc'}), or {install((zig,))}"
    )


def build(
    folder: Path,
    compiler: str | None = None,
    optimize: str = "-O3",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Compile and link a project. Returns the ELF file (DIR/build/firmware.elf or firmware).

    A board whose boot ROM takes UF2 files gets firmware.uf2 beside it.

    compiler: see find_toolchain. progress: called with objects compiled and their number. Raises
    BuildError with the compiler's first message; the last good build is then kept. Objects that an
    earlier build has made, of this project or another, are taken from the user's cache.
    """
    project = BoardProject.read(folder)
    facts = project.board.compile
    toolchain = find_toolchain(facts, compiler)
    output = project.elf
    sources = facts.sources
    flags = [optimize, *toolchain.compile_flags, *facts.common_flags]
    includes = [f"-I{name}" for name in facts.include_dirs]
    objects = [f"{BUILD}/{source.removesuffix('.c')}.o" for source in sources]
    for name in {Path(name).parent for name in objects}:
        (folder / name).mkdir(parents=True, exist_ok=True)

    kept = kept_objects(folder, toolchain.command, facts.include_dirs)

    def compile_one(pair: tuple[str, str]) -> None:
        source, target = pair
        place = kept.place(flags, source)
        if take(place, folder / target):
            return
        command = [*toolchain.command, *flags, *includes, "-c", "-o", target, source]
        _run(command, folder, source)
        put(place, folder / target)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for done, _ in enumerate(pool.map(compile_one, zip(sources, objects, strict=True)), 1):
            progress(done, len(sources))
    if toolchain.has_run_time_flag:
        objects.append(_run_time_library(folder, toolchain, optimize))
        flags[0] = "-O3"  # nothing is compiled here; with -Os zig takes the symbols away
    options = list(facts.link)
    if toolchain.command == ZIG and facts.linker_script is not None:
        script = _without_debug_information(folder, facts.linker_script)
        options = [script if option == facts.linker_script else option for option in options]
    try:
        with whole(output) as part:
            to = ["-o", str(part.relative_to(folder))]
            link = [*toolchain.command, *flags, *options, *to, *objects, *toolchain.libraries]
            _run(link, folder, f"linking {project.board.name}", project.board.memory)
            if project.board.output.uf2_base is not None:
                tool = _uf2_tool(folder, kept)
                _uf2(folder, part, project.board.output, output.with_suffix(".uf2"), tool)
    except OSError as error:
        raise BuildError(f"cannot write {output}: {error.strerror}") from error
    return output


def _run_time_library(folder: Path, toolchain: Toolchain, optimize: str) -> str:
    """An object that holds zig's run-time library; the linker takes what is called."""
    source, target = f"{RUN_TIME}.c", f"{RUN_TIME}.o"
    (folder / source).write_text("", encoding="utf-8")
    flags = (optimize, *toolchain.flags)
    _run([*toolchain.command, *flags, "-c", "-o", target, source], folder, source)
    return target


def _uf2_tool(folder: Path, kept: KeptObjects) -> str:
    """The project's own tool, a program; one that was made of the same C before is taken."""
    tool, source, flags = f"{BUILD}/bin2uf2", "tools/bin2uf2.c", ("-O2", "-o", "bin2uf2")
    compiler = find_host_compiler()
    place = replace(kept, identity=compiler_identity(compiler)).place(flags, source)
    if not take(place, folder / tool):
        _run([*compiler, "-O2", "-o", tool, source], folder, source)
        put(place, folder / tool)
    (folder / tool).chmod(0o755)
    return tool


def _uf2(folder: Path, elf: Path, facts: BuildOutput, output: Path, tool: str) -> None:
    """What the boot ROM's drive takes, made by the project's own tool as its Makefile does."""
    from elftools.elf.elffile import ELFFile  # slow to import
    from mcutrain_host.elf import loaded_segments

    base = facts.uf2_base
    assert base is not None
    flat = bytearray()
    with elf.open("rb") as file:
        for address, data in sorted(loaded_segments(ELFFile(file))):
            flat.extend(bytes(address - base - len(flat)))
            flat.extend(data)
    binary = f"{BUILD}/firmware.bin"
    (folder / binary).write_bytes(flat)
    with whole(output) as part:
        to = str(part.relative_to(folder))
        family = [] if facts.uf2_family is None else [str(facts.uf2_family)]  # an earlier project
        _run([str(folder.resolve() / tool), str(base), *family, binary, to], folder, tool)


def _without_debug_information(folder: Path, script: str) -> str:
    """A copy of the linker script for zig, whose run-time library brings 40 MB of it."""
    copy = Path("build", Path(script).name)
    text = (folder / script).read_text(encoding="utf-8")
    discards = text.replace("/DISCARD/ : {", "/DISCARD/ : { *(.debug*)")
    (folder / copy).write_text(discards, encoding="utf-8")
    return str(copy)


def _run(
    command: Sequence[str], folder: Path, what: str, memory: BoardMemory | None = None
) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"{command[0]} does not run: {error}") from error
    if done.returncode != 0:
        raise BuildError(f"{what}: {_message(done.stderr, memory)}")


def _flash_advice(missing: int, memory: BoardMemory) -> str:
    """Return what gives the program so many bytes of the slots' flash; empty if nothing does."""
    if missing <= memory.ring_flash_bytes:
        return RING_TOO_LARGE.format(memory.remember)
    is_enough = not memory.remember and missing <= memory.slots_flash_bytes
    return SLOTS_OFF if is_enough else ""


def _message(text: str, memory: BoardMemory | None) -> str:
    """Return what went wrong: missing memory in our words, anything else in the compiler's."""
    for region, advice in TOO_SMALL.items():
        pattern = rf"region ['`]{region}'(?:: | )overflowed by (\d+) bytes"
        found = re.findall(pattern, text)
        if found:
            missing = max(map(int, found))  # lld says it anew of each section that is too many
            if memory and region == "FLASH":
                advice = _flash_advice(missing, memory) or advice
            return f"{missing} bytes too many for {advice}"
    lines = [line.strip() for line in text.splitlines()]
    errors = [line for line in lines if "error" in line] or lines or ["no message"]
    return errors[0]

"""One object per C file: what does not depend on the model is compiled once and kept."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path, PurePosixPath

from mcutrain_host.cache import is_sound, keep
from mcutrain_host.dataclass import dataclass
from mcutrain_host.includes import Units, needed
from mcutrain_host.toolchain import ZIG

from mcutrain.errors import BuildError

GENERATED = ("mct_model", "mct_constants")
"""Written for one model and scheme: calls and tables. Optimising them gains no speed (measured on
mcunet-5fps, all trained: 1.2 s of gcc -O3, 0.2 s of -O0), and integers come out the same."""
UNIT = "mct_unit.c"
UNOPTIMISED = (UNIT, "constants")
CONSTANTS = "src/mct_constants.c"
KEPT_CHARACTERS = 4096
"""A constant with a longer definition has a file and an object of its own: other schemes of the
same model have it too."""
VECTORS = "mct_simd.h"
WORTH_PRECOMPILING = 5
"""C files to compile: 0.7 s of gcc -O3 once, and 0.25 s less for each of them."""
COMPILE_SECONDS = 600


@dataclass(frozen=True)
class ObjectCompiler:
    """How C files become objects. identity: of compiler, flags and processor. cache: a folder."""

    command: tuple[str, ...]
    flags: tuple[str, ...]
    identity: str
    cache: Path


def link(folder: Path, files: Mapping[str, str], tools: ObjectCompiler) -> Path:
    """The shared library of all C files, made in `folder`. Raises BuildError."""
    files = split_constants(files)
    files, units = one_unit(files, needed(files))
    for parent in {PurePosixPath(name).parent for name in files}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    _precompile(folder, units, files, tools)
    with ThreadPoolExecutor(min(len(units), os.cpu_count() or 1)) as pool:
        objects = list(pool.map(lambda unit: _object(folder, unit, files, tools), units.values()))
    library = folder / "library.so"
    run(tools, [*tools.flags, "-shared", "-fPIC", "-o", str(library), *map(str, objects)], folder)
    return library


def split_constants(files: Mapping[str, str]) -> dict[str, str]:
    """The files with every large constant in one of its own, named by its content."""
    split = dict(files)
    if CONSTANTS not in files:
        return split
    kept = []
    for block in files[CONSTANTS].split("\n\n"):
        if len(block) > KEPT_CHARACTERS and block.startswith("/* "):
            text = f"#include <stdint.h>\n\n{block}\n"
            split[f"constants/{text_hash(text)}.c"] = text
        else:
            kept.append(block)
    split[CONSTANTS] = "\n\n".join(kept).rstrip("\n") + "\n"
    return split


def one_unit(files: Mapping[str, str], units: Units) -> tuple[dict[str, str], Units]:
    """All C files that depend on the model are one: the compiler reads their headers once.

    0.15 s instead of 0.21 s for the demo's network.
    """
    generated = {
        name: unit
        for name, unit in units.items()
        if any(PurePosixPath(n).stem in GENERATED for n in unit)
    }
    if not generated:
        return dict(files), units
    text = "".join(f'#include "{name}"\n' for name in sorted(generated))
    others = {name: unit for name, unit in units.items() if name not in generated}
    inside = sorted({n for unit in generated.values() for n in unit})
    return {**files, UNIT: text}, {UNIT: (UNIT, *inside), **others}


def run(tools: ObjectCompiler, arguments: Sequence[str], folder: Path) -> None:
    """Call the compiler. Raises BuildError with its first error."""
    try:
        done = subprocess.run(
            [*tools.command, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"the C compiler {tools.command[0]!r} failed: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
        raise BuildError(f"{tools.command[0]!r} refused the generated C: {lines[0]}")


def _object(
    folder: Path, unit: tuple[str, ...], files: Mapping[str, str], tools: ObjectCompiler
) -> Path:
    """A C file compiled, or found in the cache; the model's own is not kept."""
    name = unit[0]
    if PurePosixPath(name).parts[0] in UNOPTIMISED:
        tools = replace(tools, flags=(*tools.flags, "-O0"))
    if name == UNIT:
        return _compiled(folder, unit, files, tools)
    kept = _place(unit, files, tools)
    if not is_sound(kept):
        keep(_compiled(folder, unit, files, tools), kept)
    return kept


def _place(unit: tuple[str, ...], files: Mapping[str, str], tools: ObjectCompiler) -> Path:
    """Where an object is kept, by the compiler, its flags, the file and all that it includes."""
    key = _hash(repr((tools.identity, tools.flags, [(n, text_hash(files[n])) for n in unit])))
    return tools.cache / "objects" / f"{key}.o"


def _precompile(
    folder: Path, units: Units, files: Mapping[str, str], tools: ObjectCompiler
) -> None:
    """The header of vectors, if enough C files that include it are to be compiled.

    Behind it is a megabyte of intrinsics, which takes a compiler longer than such a file. gcc and
    clang take what is precompiled in its place, and make the same objects; zig's would differ.
    """
    using = [unit for unit in units.values() if unit[0] != UNIT and _vectors(unit)]
    missing = [unit for unit in using if not is_sound(_place(unit, files, tools))]
    if len(missing) < WORTH_PRECOMPILING or tools.command == ZIG:
        return
    header = _vectors(missing[0])
    _write(folder, missing[0], files)
    made = ["-fPIC", "-x", "c-header", "-o", f"{header}.gch", header]
    with suppress(BuildError):  # each file says itself what is wrong
        run(tools, [*tools.flags, *_folders(files), *made], folder)


def _vectors(unit: tuple[str, ...]) -> str:
    """The header's name, or nothing if none of the files includes it."""
    return next((name for name in unit if PurePosixPath(name).name == VECTORS), "")


def _compiled(
    folder: Path, unit: tuple[str, ...], files: Mapping[str, str], tools: ObjectCompiler
) -> Path:
    """The object of a unit's first file."""
    _write(folder, unit, files)
    made = folder / f"{unit[0]}.o"
    arguments = [*tools.flags, *_folders(files), "-c", "-fPIC", "-o", str(made), unit[0]]
    header = _vectors(unit)
    if header and (folder / f"{header}.gch").is_file():
        arguments = ["-include", header, *arguments]
    run(tools, arguments, folder)
    return made


def _folders(files: Mapping[str, str]) -> list[str]:
    return sorted({f"-I{PurePosixPath(n).parent}" for n in files if n.endswith(".h")})


def _write(folder: Path, unit: tuple[str, ...], files: Mapping[str, str]) -> None:
    """A unit's files, where the compiler finds them."""
    for name in unit:
        if not (folder / name).is_file():
            part = folder / f"{name}.{threading.get_ident()}.part"
            part.write_text(files[name], encoding="utf-8")
            part.replace(folder / name)


@lru_cache(maxsize=256)
def text_hash(text: str) -> str:
    """Kept: an analysis builds hundreds of libraries from the same kernels."""
    return _hash(text)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]

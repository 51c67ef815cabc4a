"""Find a C compiler and build a generated project into a shared library, once per content."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import mcutrain_firmware
from mcutrain_host.cache import LIBRARIES, cache_folder, check_cache, is_sound, keep
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import BuildError as HostBuildError
from mcutrain_host.errors import CacheError
from mcutrain_host.toolchain import ZIG, compiler_identity, compiler_version, find_host_compiler

from mcutrain.codegen import Project, with_bodies
from mcutrain.errors import BuildError
from mcutrain.simulation.objects import ObjectCompiler, link, text_hash

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g")


@dataclass(frozen=True)
class Compiler:
    """A command that compiles C for this machine, and where it comes from."""

    command: tuple[str, ...]
    origin: str

    def version(self) -> str:
        """The first line that it prints of itself. Raises BuildError if it does not run."""
        try:
            return compiler_version(self.command)
        except HostBuildError as error:
            raise BuildError(str(error)) from error


def find_compiler() -> Compiler:
    """$CC, else cc, gcc or clang on PATH, else the ziglang package. Raises BuildError."""
    try:
        command = find_host_compiler()
    except HostBuildError as error:
        raise BuildError(str(error)) from error
    if os.environ.get("CC"):
        return Compiler(command, "CC")
    return Compiler(command, "ziglang" if command == ZIG else "PATH")


def check_can_build() -> None:
    """Raise BuildError now rather than after data were read, if no library can be built or kept."""
    find_compiler()
    try:
        check_cache()
    except CacheError as error:
        raise BuildError(str(error)) from error


def host_flags(compiler: Compiler, portable: bool) -> tuple[str, ...]:
    """Optimisation for this very machine, unless portable."""
    native = () if portable else ("-march=native",)
    # zig traps undefined behaviour by default, which tests do with gcc's and clang's sanitizers
    zig = ("-fno-sanitize=all",) if compiler.origin == "ziglang" else ()
    return ("-std=c11", "-O3", "-pthread", *native, *zig)


def build_library(
    project: Project,
    compiler: Compiler | None = None,
    portable: bool = False,
    extra_flags: Sequence[str] = (),
) -> Path:
    """The shared library of a project, built or found in the cache. Raises BuildError.

    Faster bodies for hosts replace the kernels' portable ones, unless `portable`; the bits are the
    same. The same library is never loaded twice into one process with one state: callers copy it.
    """
    compiler = compiler or find_compiler()
    bodies = with_bodies(project.files, "portable" if portable else "host")
    files = {**bodies, **_own_files()}
    flags = (*host_flags(compiler, portable), *WARNINGS, *extra_flags)
    compiler.version()  # raises BuildError of this package if it does not run
    identity = compiler_identity(compiler.command)
    contents = sorted((name, text_hash(text)) for name, text in files.items())
    key = hashlib.sha256(repr((identity, flags, contents)).encode())
    library = cache_folder() / LIBRARIES / f"{key.hexdigest()[:32]}.so"
    if is_sound(library):
        return library
    tools = ObjectCompiler(compiler.command, flags, identity, cache_folder())
    try:
        check_cache()  # before a minute of compiling
        with tempfile.TemporaryDirectory(prefix="mcutrain-") as scratch:
            keep(_compile(Path(scratch), files, tools), library)
    except CacheError as error:
        raise BuildError(str(error)) from error
    return library


@lru_cache(maxsize=1)
def _own_files() -> dict[str, str]:
    """The calls of the simulation."""
    root = Path(mcutrain_firmware.__file__).parent
    paths = sorted(root.glob("simulation/*.[ch]"))
    return {str(p.relative_to(root)): p.read_text(encoding="utf-8") for p in paths}


def _compile(folder: Path, files: dict[str, str], tools: ObjectCompiler) -> Path:
    return link(folder, files, tools)

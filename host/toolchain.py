"""The C compiler of this computer, and libraries of one file that it builds."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from mcutrain_host.cache import LIBRARIES, is_sound, keep
from mcutrain_host.cache import cache_folder as cache_folder
from mcutrain_host.errors import BuildError
from mcutrain_host.packages import OPTIONAL, install

COMPILE_SECONDS = 300
LIBRARY_FLAGS = ("-std=c11", "-O2")


def _zig() -> tuple[str, ...]:
    """The program itself: started by `python -m`, a third of a small file's time is Python's."""
    found = importlib.util.find_spec("ziglang")
    for folder in (found and found.submodule_search_locations) or ():
        program = Path(folder, "zig")
        if program.is_file():
            return (str(program), "cc")
    return (sys.executable, "-m", "ziglang", "cc")


ZIG = _zig()
"""The command of the ziglang package, whether it is installed or not."""


def find_host_compiler() -> tuple[str, ...]:
    """The command: $CC, else cc, gcc or clang on PATH, else the ziglang package.

    Raises BuildError if there is none.
    """
    chosen = os.environ.get("CC")
    if chosen:
        return _words(chosen)
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path:
            return (path,)
    zig = OPTIONAL["ziglang"]
    if zig.is_installed:
        return ZIG
    raise BuildError(
        f"there is no C compiler: install one (apt-get install gcc), or {install((zig,))}"
    )


def _words(chosen: str) -> tuple[str, ...]:
    """Split $CC as a shell does. Raises BuildError if it is no command, or a quote is open."""
    with suppress(ValueError):
        if words := tuple(shlex.split(chosen)):
            return words
    raise BuildError(f"CC is {chosen!r}, which is no command: give one as gcc, or unset it")


def compiler_identity(command: tuple[str, ...]) -> str:
    """What an object depends on besides flags and text. Raises BuildError if it does not run."""
    return repr((_name(command), compiler_version(command), processor()))


def _name(command: tuple[str, ...]) -> tuple[str, ...]:
    """What tells a compiler from others of one version: not the environment that zig lies in."""
    if command == ZIG:
        from importlib import metadata  # slow to import

        with suppress(metadata.PackageNotFoundError):  # it lies on the path without being installed
            return "ziglang", metadata.version("ziglang")
    return command


@lru_cache(maxsize=16)
def compiler_version(command: tuple[str, ...]) -> str:
    """The first line that a compiler prints of itself. Raises BuildError if it does not run."""
    try:
        done = subprocess.run(
            [*command, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"the C compiler {command[0]!r} does not run: {error}") from error
    return done.stdout.splitlines()[0] if done.stdout else command[0]


@lru_cache(maxsize=1)
def processor() -> str:
    """Return what -march=native depends on, so that a shared cache serves different machines."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if line.startswith(("flags", "Features"))]
    return lines[0] if lines else ""


def shared_library(source: Path) -> Path:
    """The shared library of one C file, built once per content and compiler.

    Raises BuildError or CacheError.
    """
    compiler = find_host_compiler()
    key = hashlib.sha256(repr((compiler, LIBRARY_FLAGS)).encode() + source.read_bytes()).hexdigest()
    library = cache_folder() / LIBRARIES / f"{source.stem}-{key[:24]}.so"
    if is_sound(library):
        return library
    with tempfile.TemporaryDirectory(prefix="mcutrain-") as folder:
        made = Path(folder, library.name)
        _compile(
            [*compiler, *LIBRARY_FLAGS, "-shared", "-fPIC", "-o", str(made), str(source)],
            source.name,
        )
        keep(made, library)
    return library


def _compile(command: Sequence[str], name: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=COMPILE_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"the C compiler {command[0]!r} failed: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
        raise BuildError(f"{command[0]!r} refused {name}: {lines[0]}")

"""The C compiler of this computer, and the folder where what it built is kept."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mcutrain_host.errors import BuildError
from mcutrain_host.packages import OPTIONAL, install

COMPILE_SECONDS = 300
ZIG = (sys.executable, "-m", "ziglang", "cc")


def find_host_compiler() -> tuple[str, ...]:
    """The command: $CC, else cc, gcc or clang on PATH, else the ziglang package.

    Raises BuildError if there is none.
    """
    chosen = os.environ.get("CC")
    if chosen:
        return tuple(shlex.split(chosen))
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


def cache_folder() -> Path:
    """Where built files are kept: $MCUTRAIN_CACHE, or mcutrain in the user's cache folder."""
    chosen = os.environ.get("MCUTRAIN_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mcutrain"


def shared_library(source: Path, flags: Sequence[str] = ("-std=c11", "-O2")) -> Path:
    """The shared library of one C file, built once per content and compiler. Raises BuildError."""
    compiler = find_host_compiler()
    key = hashlib.sha256(repr((compiler, tuple(flags))).encode() + source.read_bytes()).hexdigest()
    library = cache_folder() / f"{source.stem}-{key[:24]}.so"
    if library.is_file():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    part = library.with_suffix(f".{os.getpid()}.part")
    command = [*compiler, *flags, "-shared", "-fPIC", "-o", str(part), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"the C compiler {compiler[0]!r} failed: {error}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
        raise BuildError(f"{compiler[0]!r} refused {source.name}: {lines[0]}")
    part.replace(library)
    return library

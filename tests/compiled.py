"""C files of libraries, compiled once: those of other models and choices of bodies are the same."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mcutrain_firmware
from mcutrain_host.cache import cache_folder, keep
from mcutrain_host.toolchain import compiler_identity

from mcutrain.simulation.build import WARNINGS

TOGETHER = 2
OF_CONDITIONS = "typedef int mct_isa_number;\n"
"""What a file under a condition says besides, so that it is not empty where it does not hold."""


def compiled(command: Sequence[str], folder: Path, sources: Sequence[str]) -> list[Path]:
    """An object for each C file, named relative to `folder`, where `command` is called.

    Two files are the same if the preprocessor makes the same text of them: a kernel under a
    condition that holds, and that kernel without the condition.
    """
    with ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(lambda source: _object(tuple(command), folder, source), sources))


def _object(command: tuple[str, ...], folder: Path, source: str) -> Path:
    text = _run((*command, "-E", "-P", source), folder).replace(OF_CONDITIONS, "")
    flags = tuple(flag for flag in command[1:] if not flag.startswith(("-I", "-D")))
    facts = repr((compiler_identity(command[:1]), flags, text))
    place = cache_folder() / "objects" / f"{hashlib.sha256(facts.encode()).hexdigest()[:32]}.o"
    if not place.is_file():
        made = folder / f"{source}.o"
        _run((*command, "-c", source, "-o", str(made)), folder)
        keep(made, place)
    return place


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    assert done.stderr == ""
    return done.stdout


def of_runtime(compilers: Sequence[Sequence[str]], folder: Path, program: str) -> list[ctypes.CDLL]:
    """A C program that includes headers of firmware/runtime, as a library of each compiler.

    Undefined behaviour of its integers ends the test.
    """
    source = folder / "program.c"
    source.write_text(program, encoding="utf-8")
    runtime = Path(mcutrain_firmware.__file__).parent / "runtime"
    flags = ["-std=c11", "-O2", "-ftrapv", *WARNINGS, f"-I{runtime}", "-shared", "-fPIC"]
    loaded = []
    for i, command in enumerate(compilers):
        target = folder / f"{i}.so"
        arguments = [*command, *flags, "-o", str(target), str(source)]
        done = subprocess.run(arguments, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        loaded.append(ctypes.CDLL(str(target)))
    return loaded

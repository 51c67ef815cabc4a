"""C files of libraries, compiled once: those of other models and choices of bodies are the same."""

from __future__ import annotations

import ctypes
import hashlib
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import mcutrain_firmware
from mcutrain_host.cache import cache_folder, keep
from mcutrain_host.includes import Units, deciding, missing, needed
from mcutrain_host.objects import put, take
from mcutrain_host.toolchain import ZIG, compiler_identity

from mcutrain.simulation.build import WARNINGS

HEADERS = Path(mcutrain_firmware.__file__).parent / "chips" / "cortex_m" / "include"
TOGETHER = 2
OF_CONDITIONS = "typedef int mct_isa_number;\n"
"""What a file under a condition says besides, so that it is not empty where it does not hold."""


def compiled(command: Sequence[str], folder: Path, sources: Sequence[str]) -> list[Path]:
    """An object for each C file, named relative to `folder`, where `command` is called.

    Two files are the same if the preprocessor makes the same text of them: a kernel under a
    condition that holds, and that kernel without the condition. It is not asked about a file whose
    includes are the same as in an earlier call.
    """
    texts = Texts.of(folder)

    def made(source: str) -> Path:
        known = texts.place(Compilation(tuple(command), source))
        if known is not None and known.is_file():
            return known
        found = _object(tuple(command), folder, source)
        put(known, found)
        return found

    with ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(made, sources))


def objects(
    command: Sequence[str], folder: Path, sources: Sequence[str], *elsewhere: Path
) -> list[str]:
    """An object in `folder` for each C file there; the compiler must print nothing.

    What an earlier call has compiled alike is copied. elsewhere: folders with headers.
    """
    texts = Texts.of(folder, *elsewhere)

    def made(source: str) -> str:
        target = f"{Path(source).stem}.o"
        place = texts.place(Compilation(tuple(command), source))
        if not take(place, folder / target):
            _run((*command, "-c", source, "-o", target), folder)
            put(place, folder / target)
        return target

    with ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(made, sources))


def shared(command: Sequence[str], folder: Path) -> ctypes.CDLL:
    """All C files of a folder as one library. command: a compiler of this machine, and flags."""
    sources = sorted(path.name for path in folder.glob("*.c"))
    made = objects([*command, "-std=c11", "-fPIC", *WARNINGS, "-I."], folder, sources)
    _run((*command, "-shared", *made, "-o", "library.so"), folder)
    return ctypes.CDLL(str(folder / "library.so"))


def make(folder: Path, *arguments: str) -> str:
    """Run make, and return the commands that it says it runs from the start.

    What an earlier run has compiled of the same text by the same command is put there before, so
    that make finds the object made. The rest make compiles itself.
    """
    commands = _run(("make", "-n", *arguments), folder)
    texts = Texts.of(folder, HEADERS)
    compilations = [found for line in commands.splitlines() if (found := Compilation.read(line))]
    places = {found.target: texts.place(found) for found in compilations}
    for target in places:
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
    unknown = [target for target, place in places.items() if not take(place, folder / target)]
    _run(("make", "-s", f"-j{TOGETHER}", *arguments), folder)
    for target in unknown:
        put(places[target], folder / target)
    return commands


def linked(command: Sequence[object], folder: Path) -> Path:
    """What a compiler makes of C files and archives, called in `folder`. Linkers may warn.

    What an earlier call has made of the same files by the same command is copied.
    """
    words = [str(word) for word in command]
    target = folder / words[words.index("-o") + 1]
    place = _place(repr(_decided_by(words, folder)))
    if not take(place, target):
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]
        put(place, target)
    target.chmod(0o755)
    return target


def _decided_by(words: Sequence[str], folder: Path) -> list[object]:
    """All that decides what a compiler makes, without names of folders of this machine."""
    compiler = ZIG if tuple(words[: len(ZIG)]) == ZIG else words[:1]
    found: list[object] = [compiler_identity(tuple(compiler))]
    searched: set[Path] = set()
    at = words.index("-o")
    for word in (*words[len(compiler) : at], *words[at + 2 :]):
        path = folder / word
        if word.startswith("-I"):
            searched.add(folder / word.removeprefix("-I"))
            found.append("-I")
        elif path.is_file():
            searched.add(path.parent)
            found.append((path.name, path.read_bytes()))
        elif path.is_dir():
            searched.add(path)
        else:
            found.append(word)
    for place in sorted(searched):
        found += [(path.name, path.read_bytes()) for path in sorted(place.rglob("*.h"))]
    return found


@dataclass(frozen=True)
class Compilation:
    """A command with its flags, without the names of the C file and the object."""

    command: tuple[str, ...]
    source: str
    target: str = ""

    @staticmethod
    def read(line: str) -> Compilation | None:
        """What a line of make's compiles; None if it does something else."""
        words = shlex.split(line)
        sources = [word for word in words if word.endswith(".c")]
        if "-c" not in words or "-o" not in words or len(sources) != 1:
            return None
        at = words.index("-o")
        left = words[:at] + words[at + 2 :]
        left.remove(sources[0])
        return Compilation(tuple(left), sources[0], words[at + 1])

    @property
    def compiler(self) -> tuple[str, ...]:
        """The words before the flags."""
        return ZIG if self.command[: len(ZIG)] == ZIG else self.command[:1]


@dataclass(frozen=True)
class Texts:
    """The C files and headers of a folder, and the headers of other folders."""

    folders: tuple[Path, ...]
    files: Mapping[str, str]
    units: Units

    @staticmethod
    def of(folder: Path, *elsewhere: Path) -> Texts:
        files = _read(folder, "*.c", "*.h")
        for number, place in enumerate(elsewhere, 1):
            files |= {f"{number}/{name}": text for name, text in _headers(place).items()}
        return Texts((folder, *elsewhere), files, needed(files))

    def place(self, made: Compilation) -> Path | None:
        """Where the object is kept, by all that decides it; None if it includes other files."""
        unit = self.units.get(made.source)
        flags = [self._alike(flag) for flag in made.command[len(made.compiler) :]]
        if unit is None or None in flags or missing(unit, self.files):
            return None
        texts = deciding(unit, self.files, made.command)
        return _place(repr((compiler_identity(made.compiler), flags, made.source, texts)))

    def _alike(self, flag: str) -> str | None:
        """A flag without names of this machine; None for a folder that is not known."""
        if not flag.startswith("-I/"):
            return flag
        searched = Path(flag.removeprefix("-I"))
        for number, folder in enumerate(self.folders):
            if searched.is_relative_to(folder):
                return f"-I{number}/{searched.relative_to(folder)}"
        return None


@lru_cache(maxsize=8)
def _headers(folder: Path) -> dict[str, str]:
    """Headers that stay as they are."""
    return _read(folder, "*.h")


def _read(folder: Path, *kinds: str) -> dict[str, str]:
    """Files by their names relative to the folder."""
    paths = sorted(path for kind in kinds for path in folder.rglob(kind))
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}


def _place(facts: str) -> Path:
    return cache_folder() / "objects" / f"{hashlib.sha256(facts.encode()).hexdigest()[:32]}.o"


def _object(command: tuple[str, ...], folder: Path, source: str) -> Path:
    text = _run((*command, "-E", "-P", source), folder).replace(OF_CONDITIONS, "")
    flags = tuple(flag for flag in command[1:] if not flag.startswith(("-I", "-D")))
    place = _place(repr((compiler_identity(command[:1]), flags, text)))
    if not place.is_file():
        made = folder / f"{source}.o"
        _run((*command, "-c", source, "-o", str(made)), folder)
        keep(made, place)
    return place


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    assert done.stderr == "", done.stderr[:4000]
    return done.stdout


def that_differ(compilers: Sequence[tuple[str, ...]]) -> Sequence[tuple[str, ...]]:
    """zig only if it is alone: it is clang once more, and makes a runtime of its own first."""
    return [command for command in compilers if command != ZIG] or compilers


def of_runtime(
    compilers: Sequence[tuple[str, ...]], folder: Path, program: str
) -> list[ctypes.CDLL]:
    """A C program that includes headers of firmware/runtime, as a library of each compiler.

    Undefined behaviour of its integers ends the test.
    """
    source = folder / "program.c"
    source.write_text(program, encoding="utf-8")
    runtime = Path(mcutrain_firmware.__file__).parent / "runtime"
    flags = ["-std=c11", "-O2", "-ftrapv", *WARNINGS, f"-I{runtime}", "-shared", "-fPIC"]
    loaded = []
    for i, command in enumerate(that_differ(compilers)):
        target = folder / f"{i}.so"
        loaded.append(ctypes.CDLL(str(linked([*command, *flags, "-o", target, source], folder))))
    return loaded

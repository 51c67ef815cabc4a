"""Objects of firmware, kept from one build to the next: most of its C is the same kernels.

A key holds all that decides the compiler's result: the compiler, its flags, the file, what it
includes, and the folders that are searched. Boards of one core share kernels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath

from mcutrain_host.cache import cache_folder, keep, read
from mcutrain_host.dataclass import dataclass
from mcutrain_host.errors import BuildError, CacheError
from mcutrain_host.includes import Units, deciding, missing, needed
from mcutrain_host.toolchain import compiler_identity

BUILD = "build"
"""The folder of a project that objects are made in."""


@dataclass(frozen=True)
class KeptObjects:
    """What was compiled before. identity: of the compiler; None if nothing is known to be equal.

    files: all C of a project. include_dirs: where the compiler searches, relative to the project.
    """

    identity: str | None
    include_dirs: tuple[str, ...]
    files: dict[str, str]
    units: Units

    def place(self, flags: Sequence[str], source: str) -> Path | None:
        """Where the object of a C file is kept; None if it includes what is not in the project."""
        unit = self.units.get(source)
        if self.identity is None or unit is None or missing(unit, self.files):
            return None
        searched = [d for d in self.include_dirs if _is_above(d, unit)]
        texts = [(name, _digest(text)) for name, text in deciding(unit, self.files, flags)]
        key = repr((self.identity, tuple(flags), searched, texts))
        with suppress(CacheError):
            return cache_folder() / "objects" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.o"
        return None


def kept_objects(folder: Path, command: Sequence[str], include_dirs: Sequence[str]) -> KeptObjects:
    """Those of a project; what lies in its folder BUILD is none of its C."""
    try:
        identity = compiler_identity(tuple(command))
    except BuildError:
        return KeptObjects(None, (), {}, {})
    files = {}
    for path in sorted(p for end in ("*.c", "*.h") for p in folder.rglob(end)):
        name = path.relative_to(folder)
        if name.parts[0] != BUILD:
            with suppress(OSError):
                files[str(name)] = path.read_bytes().decode("latin-1")  # any bytes, all different
    return KeptObjects(identity, tuple(include_dirs), files, needed(files))


def take(place: Path | None, target: Path) -> bool:
    """Return whether the object was kept; then it is at `target`."""
    content = None if place is None else read(place)
    if content is None:
        return False
    target.write_bytes(content)
    return True


def put(place: Path | None, made: Path) -> None:
    """Keep an object. Without a cache, or with a full disk, the next build compiles again."""
    with suppress(CacheError):
        if place is not None:
            keep(made, place)


@lru_cache(maxsize=1024)
def _digest(text: str) -> str:
    """Digest of a file: forty units include the same headers."""
    return hashlib.sha256(text.encode("latin-1")).hexdigest()


def _is_above(folder: str, unit: Sequence[str]) -> bool:
    return any(PurePosixPath(name).is_relative_to(PurePosixPath(folder)) for name in unit)

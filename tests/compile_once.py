"""Objects that some test has compiled before: kernels are most of every firmware, and the same."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from mcutrain.simulation.objects import needed

Run = Callable[[Sequence[str], Path, str], None]
"""Of a command, the folder that it runs in, and what it is in messages: as host/build.py has it."""


def compiling_once(run: Run, kept: Path) -> Run:
    """As `run`, but an object that is in `kept` is linked from there."""

    def run_or_copy(command: Sequence[str], folder: Path, what: str) -> None:
        if "-c" not in command:
            run(command, folder, what)
            return
        made = folder / command[command.index("-o") + 1]
        before = kept / f"{key_of(command, folder, command[-1])}.o"
        made.unlink(missing_ok=True)  # it may be a link, and nobody may write into what is kept
        if before.is_file():
            os.link(before, made)
            return
        run(command, folder, what)
        with suppress(FileExistsError):  # another process was first
            os.link(made, before)

    return run_or_copy


def key_of(command: Sequence[str], folder: Path, source: str) -> str:
    """Of all that decides what the compiler makes: its flags, the source, what that includes."""
    headers = folder.rglob("*.h")
    paths = {str(p.relative_to(folder)): p for p in (folder / source, *headers)}
    texts = {name: _text(path, path.stat().st_mtime_ns) for name, path in paths.items()}
    (unit,) = needed(texts).values()
    key = repr((tuple(command), [(name, texts[name]) for name in unit]))
    return hashlib.sha256(key.encode()).hexdigest()[:32]


@lru_cache(maxsize=4096)
def _text(path: Path, changed_ns: int) -> str:
    return path.read_text(encoding="utf-8")

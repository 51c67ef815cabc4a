"""Objects that some test has compiled before: kernels are most of every firmware, and the same."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)

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
    by_name: dict[bytes, list[Path]] = {}
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".h", ".inc")):
        by_name.setdefault(path.name.encode(), []).append(path)
    key = hashlib.sha256(repr(tuple(command)).encode())
    waiting, seen = [folder / source], {folder / source}
    while waiting:
        path = waiting.pop()
        text = path.read_bytes()
        key.update(repr((str(path.relative_to(folder)), text)).encode())
        for name in INCLUDE.findall(text):
            new = [p for p in by_name.get(name.rpartition(b"/")[2], ()) if p not in seen]
            seen.update(new)
            waiting += new
    return key.hexdigest()[:32]

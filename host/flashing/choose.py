"""Which of the ways of a board is taken."""

from __future__ import annotations

from mcutrain_host.errors import FlashError
from mcutrain_host.flashing.job import Job, Way
from mcutrain_host.flashing.local import Local
from mcutrain_host.flashing.pyocd import PyOcd
from mcutrain_host.flashing.scp import Scp
from mcutrain_host.flashing.stm32 import Stm32
from mcutrain_host.flashing.uf2 import Uf2

_ALL: tuple[Way, ...] = (Stm32(), PyOcd(), Uf2(), Scp(), Local())
WAYS = {way.name: way for way in _ALL}


def choose(job: Job, wanted: str | None = None) -> Way:
    """The wanted way, or the first of the board's that has what it needs. Raises FlashError."""
    board = job.project.board.name
    names = [name for name in job.facts.ways if name in WAYS]
    if not names:
        raise FlashError(f"{board} is not flashed: it is a virtual board")
    if wanted is not None and wanted not in names:
        raise FlashError(f"{board} is flashed by {' or '.join(names)}, not by {wanted}")
    reasons = {name: WAYS[name].missing(job) for name in ([wanted] if wanted else names)}
    for name, reason in reasons.items():
        if not reason:
            return WAYS[name]
    raise FlashError(
        f"{board} cannot be flashed yet: "
        + "; or ".join(f"--way {name} needs {reason}" for name, reason in reasons.items())
    )

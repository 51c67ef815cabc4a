"""--scheme auto: what a memory holds, which scheme is chosen for it, what the next bytes buy."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from mcutrain_host.dataclass import dataclass

from mcutrain.cli import shared_flags
from mcutrain.cli.output import say
from mcutrain.errors import McutrainError

if TYPE_CHECKING:
    from mcutrain.cost.time import StepTime
    from mcutrain.functions.alternatives import Alternative, AutoScheme
    from mcutrain.functions.chosen import Choosing
    from mcutrain.functions.memory_limit import MemoryLimit
    from mcutrain.functions.preparing import Asked
    from mcutrain.pipeline import TrainingStep

HEAD = "head"
STEP_PERCENT = 5
"""What gradients say is known no better."""
NOT_WITH_ANOTHER = ("--scheme", "--checkpoint", "--save-state", "--save-model")
"""Flags that a run with another scheme must not have: a checkpoint belongs to one scheme, and what
this run wrote would be lost."""


def used(choosing: Choosing, asked: Asked, step: TrainingStep, choice: AutoScheme | None) -> Used:
    """Return what a step takes of the memory, and what takes more. choice: if it was chosen."""
    from mcutrain.cost.time import step_time

    found = _used(choosing, asked, step, choice)
    return replace(found, time=step_time(step.plan, choosing.memory.target))


def _used(choosing: Choosing, asked: Asked, step: TrainingStep, choice: AutoScheme | None) -> Used:
    """Return what is used, without the time."""
    memory = choosing.memory
    needs = memory.needs(step)
    if choice is not None:
        return Used(needs, memory, choice.larger, choice.smaller)
    limit = memory.sram_bytes
    with suppress(McutrainError):
        has_fitting = limit is not None and needs > limit and choosing.chooser(asked).head().fits
        return Used(needs, memory, choosing.larger(asked, step), None, has_fitting)
    return Used(needs, memory)


def say_head(memory: MemoryLimit) -> None:
    """Say that nothing was chosen for a known memory, and the command that chooses."""
    if memory.is_usual:
        return
    command = command_with(shared_flags.AUTO)
    if not any(word.startswith("--data") for word in sys.argv):
        command += " --data DIR"
    say(
        "mcutrain: note: only the classifier is trained (--scheme head). Training samples "
        f"choose what else fits {memory.name}: {command}; or give the scheme that `mcutrain "
        "simulate` chose"
    )


@dataclass(frozen=True)
class Used:
    """What a run takes of the memory that there is, the next better scheme, and a smaller one.

    has_fitting: where this does not fit, whether another does. time: of a step on the board.
    """

    sram_bytes: int
    memory: MemoryLimit
    larger: Alternative | None = None
    smaller: Alternative | None = None
    has_fitting: bool = False
    time: StepTime | None = None

    def lines(self) -> Iterator[str]:
        """Return what is told at the end of a run."""
        if self.time is not None:
            yield f"step            {self.time.text} on {self.memory.name}: {self.time.reason}"
        limit = self.memory.sram_bytes
        if limit is None:
            return
        what = self.memory.title
        over = self.sram_bytes - limit
        text = f"used            {self.sram_bytes:,} of {limit:,} bytes{what}"
        if over > 0:
            other = "nothing that trains takes less"
            if self.has_fitting:
                other = f"one that fits: {command_with(shared_flags.AUTO)}"
            yield f"{text}, {over:,} too many; {other}"
            return
        if self.larger is None:
            yield f"{text}: memory is not the limit, no scheme trains more"
        else:
            takes = f"{self.larger.sram_bytes:,}"
            if not self.larger.fits:
                takes += f", {self.larger.sram_bytes - limit:,} too many"
            command = command_with(self.larger.scheme)
            yield f"{text}; the next scheme takes {takes}{_gains(self.larger)}: {command}"
        if self.smaller is not None:
            takes = f"{self.smaller.sram_bytes:,} bytes{_gains(self.smaller)}"
            yield f"smaller         {takes}: {command_with(self.smaller.scheme)}"

    def to_dict(self) -> dict[str, Any]:
        """Return values for --json."""
        target = self.memory.target
        return {
            "board": None if target is None else target.name,
            "sram_bytes": self.sram_bytes,
            "limit_bytes": self.memory.sram_bytes,
            "is_assumed": self.memory.is_usual,
            "step_time": None if self.time is None else self.time.to_dict(),
            "larger": _facts(self.larger),
            "smaller": _facts(self.smaller),
        }


def _facts(other: Alternative | None) -> dict[str, Any] | None:
    return None if other is None else {**asdict(other), "command": command_with(other.scheme)}


def _gains(other: Alternative) -> str:
    """What is known of what it learns beside this one; the head is what all of them learn."""
    if other.scheme == HEAD:
        return ", the classifier alone"
    if other.share is None:
        return ""
    percent = STEP_PERCENT * round(100 * other.share / STEP_PERCENT)
    return f", roughly {percent} % of what this one adds to the classifier by gradients"


def command_with(scheme: str) -> str:
    """The command that was typed, with another scheme."""
    kept, words = ["mcutrain"], iter(sys.argv[1:])
    for word in words:
        if word in NOT_WITH_ANOTHER:
            next(words, None)
        elif not word.startswith(tuple(f"{flag}=" for flag in NOT_WITH_ANOTHER)):
            kept.append(word)
    return shlex.join([*kept, "--scheme", scheme])

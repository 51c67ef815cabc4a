"""--scheme auto: what a memory holds, which scheme is chosen for it, what the next bytes buy."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import options
from mcutrain.cli.output import say
from mcutrain.cli.samples import TEST_SHARE, DataSource
from mcutrain.cli.training import counting
from mcutrain.errors import McutrainError

if TYPE_CHECKING:
    from mcutrain.cost.time import StepTime
    from mcutrain.data import Normalization, Split
    from mcutrain.functions.automatic import Alternative, AutoScheme, Chooser, MemoryLimit, Scheme
    from mcutrain.ir.graph import Graph
    from mcutrain.pipeline import TrainingStep
    from mcutrain.sparse import UpdateScheme

HEAD = "head"
STEP_PERCENT = 5
"""What gradients say is known no better."""
NOT_WITH_ANOTHER = ("--scheme", "--checkpoint")
"""Flags that a run with another scheme must not have: a checkpoint belongs to one scheme."""


@dataclass(frozen=True)
class MemoryFlags(options.BoardFlags):
    """Flags of the board that a simulated run is for, or of the memory that there is."""

    board: Annotated[
        str | None,
        typer.Option(
            metavar="BOARD",
            help="The board that it is for: what its memory holds is trained, unless --scheme says "
            "what, and --elastic shares out its time. Without it, 256K of arena and state are "
            "assumed.",
            autocompletion=options.boards,
            show_default=False,
        ),
    ] = None
    sram: Annotated[
        int | None,
        typer.Option(
            parser=options.parse_bytes,
            metavar="BYTES",
            help="What arena and state may take, such as 64K; with --board, all that the firmware "
            "takes. It decides as --board does.",
            show_default=False,
        ),
    ] = None

    @property
    def memory(self) -> MemoryLimit:
        """What a step may take. Raises TargetError."""
        from mcutrain.functions.automatic import MemoryLimit

        return MemoryLimit.of(self.target, self.sram)


@dataclass(frozen=True)
class Choosing:
    """How a scheme is chosen for a model, with the flags of a step. seed: draws samples."""

    graph: Graph
    classes: int | None
    memory: MemoryLimit
    seed: int = 0
    is_quiet: bool = False

    def chosen(
        self, flags: options.StepRequest, split: Split, normalization: Normalization | None
    ) -> tuple[options.StepRequest, AutoScheme]:
        """The flags with the scheme, which is said, and why it is that. Raises PlanError."""
        with counting("choosing what to train", self.is_quiet) as tell:
            chooser = replace(self._chooser(flags), report=tell)
            found = chooser.choose(split, normalization)
        self._say(found)
        return replace(flags, scheme=found.scheme), found

    def compared(
        self, flags: options.StepRequest, split: Split, normalization: Normalization | None
    ) -> tuple[options.StepRequest, AutoScheme]:
        """Choose, and also estimate what smaller and larger schemes would learn."""
        with counting("choosing what to train", self.is_quiet) as tell:
            chooser = replace(self._chooser(flags), report=tell)
            found = chooser.compared(split, normalization)
        self._say(found)
        return replace(flags, scheme=found.scheme), found

    def used(
        self, flags: options.StepRequest, step: TrainingStep, choice: AutoScheme | None
    ) -> Used:
        """Return what a step takes of the memory, and what takes more. choice: if it was chosen."""
        from mcutrain.cost.time import step_time

        return replace(
            self._used(flags, step, choice), time=step_time(step.plan, self.memory.target)
        )

    def _used(
        self, flags: options.StepRequest, step: TrainingStep, choice: AutoScheme | None
    ) -> Used:
        """Return what is used, without the time."""
        needs = self.memory.needs(step)
        if choice is not None:
            return Used(needs, self.memory, choice.larger, choice.smaller)
        chooser, limit = self._chooser(flags), self.memory.sram_bytes
        with suppress(McutrainError):
            has_fitting = limit is not None and needs > limit and chooser.head().fits
            return Used(needs, self.memory, chooser.larger(needs), None, has_fitting)
        return Used(needs, self.memory)

    def say_head(self) -> None:
        """Say that nothing was chosen for a known memory, and the command that chooses."""
        if self.is_quiet or self.memory.is_usual:
            return
        command = command_with(options.AUTO)
        if not any(word.startswith("--data") for word in sys.argv):
            command += " --data DIR"
        say(
            "mcutrain: note: only the classifier is trained (--scheme head); what else "
            f"{self.memory.name} can hold is chosen by training samples: {command}; or take what "
            "`mcutrain simulate` chose"
        )

    def _say(self, found: AutoScheme) -> None:
        """What was chosen."""
        from mcutrain.functions.automatic import NO_BOARD

        if self.is_quiet:
            return
        assumed = ""
        if self.memory.is_usual:
            assumed = f"{NO_BOARD}, so {self.memory.name} of SRAM are assumed; "
        say(
            f"mcutrain: note: {assumed}--scheme {found.scheme} is chosen: {found.reason}; "
            "`mcutrain generate` takes the same text"
        )

    @staticmethod
    def asked(flags: options.StepRequest, scheme: Scheme) -> options.StepRequest:
        """The flags with a scheme, or what says which."""
        from mcutrain.sparse import UpdateScheme

        if isinstance(scheme, UpdateScheme):
            return replace(flags, scheme=scheme.name, kept=scheme)
        return replace(flags, scheme=str(scheme))

    def _chooser(self, flags: options.StepRequest) -> Chooser:
        from mcutrain.functions.automatic import Chooser

        def plan(scheme: UpdateScheme) -> TrainingStep:
            asked = replace(flags, scheme=scheme.name, kept=scheme)
            return asked.planned(self.graph, self.classes, self.seed)

        bits = replace(flags, scheme="head", kept=None).update_scheme()
        asked = replace(flags.options, classes=self.classes)
        return Chooser(self.graph, self.classes, self.memory, plan, asked, bits)


def with_scheme(
    flags: options.StepRequest,
    choosing: Choosing,
    classes: str,
    data: Path | None,
    fixed: Mapping[str, object],
    normalization: Normalization | None = None,
) -> options.StepRequest:
    """The flags as they are, or with what auto chooses by the training samples of `data`.

    Without a scheme it is auto if there are samples, else, and beside what is `fixed`, the head:
    where a memory is known, a sentence says so. classes: as --classes has it. fixed: as
    wanted_scheme takes it. Raises McutrainError.
    """
    from mcutrain.functions.automatic import wanted_scheme
    from mcutrain.runs.training import model_input

    if not flags.scheme and (data is None or any(fixed.values())):
        if not any(fixed.values()):
            choosing.say_head()
        return replace(flags, scheme=HEAD)
    if flags.scheme not in ("", options.AUTO):
        return flags
    wanted_scheme(options.AUTO, (), fixed)  # or a sentence
    if data is None:
        raise typer.BadParameter(
            "auto chooses by training samples: give them, too (--data)", param_hint="--scheme"
        )
    source = DataSource(data, None, None, TEST_SHARE, normalization, choosing.seed)
    split = source.for_model(choosing.graph).read(model_input(choosing.graph))
    outputs, fitting, split = options.fit_to_data(choosing.graph, split, classes, flags)
    found, _ = replace(choosing, classes=outputs).chosen(fitting, split, normalization)
    return replace(flags, scheme=found.scheme)


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
        """What is told at the end of a run."""
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
                other = f"one that fits: {command_with(options.AUTO)}"
            yield f"{text}, {over:,} too many; {other}"
            return
        if self.larger is None:
            yield f"{text}; nothing trains more"
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

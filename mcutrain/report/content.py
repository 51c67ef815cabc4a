"""What a report says, as frozen values: every part is optional but the model's name."""

from __future__ import annotations

from dataclasses import field

from mcutrain_host.dataclass import dataclass

from mcutrain.report.answers import Answers, Predicted
from mcutrain.report.checks import at_least_0, one_of
from mcutrain.report.learning import (
    Analysis,
    Chosen,
    Compared,
    ElasticChoices,
    LearningCurve,
    Profile,
    SweepPoint,
)

FORMAT = 1
KINDS = ("activation", "ring", "mask", "gradient", "weights", "scratch", "other")
"""Kinds of buffers. weights: trained and frozen ones put together for a kernel."""


@dataclass(frozen=True)
class NetworkNode:
    """A node of the forward network.

    layer: its number in update schemes, None without weights; the head has the last one. share:
    of its input channels whose weights are trained. output: shape without the batch.
    """

    name: str
    operator: str
    output: tuple[int, ...]
    macs: int = 0
    weights: int = 0
    layer: int | None = None
    is_head: bool = False
    share: float = 0.0
    trains_bias: bool = False

    def __post_init__(self) -> None:
        at_least_0(macs=self.macs, weights=self.weights, layer=self.layer)
        if not 0 <= self.share <= 1:
            raise ValueError(f"share is {self.share}, not in 0 to 1")


@dataclass(frozen=True)
class ArenaBuffer:
    """A buffer of the arena, alive from step first to step last, both included."""

    name: str
    kind: str
    size_bytes: int
    first: int
    last: int
    offset: int

    def __post_init__(self) -> None:
        at_least_0(size_bytes=self.size_bytes, first=self.first, offset=self.offset)
        if self.last < self.first:
            raise ValueError(f"last is {self.last}, before first, {self.first}")
        one_of("kind", self.kind, KINDS)


@dataclass(frozen=True)
class ArenaMap:
    """The arena over the steps of the schedule. steps: the node that runs in each."""

    arena_bytes: int
    lower_bound_bytes: int
    peak_step: int
    steps: tuple[str, ...]
    buffers: tuple[ArenaBuffer, ...]

    def __post_init__(self) -> None:
        at_least_0(arena_bytes=self.arena_bytes, lower_bound_bytes=self.lower_bound_bytes)
        if not 0 <= self.peak_step < max(len(self.steps), 1):
            raise ValueError(f"peak_step is {self.peak_step} of {len(self.steps)} steps")
        late = [b.name for b in self.buffers if b.last >= len(self.steps)]
        if late:
            raise ValueError(f"buffer {late[0]!r} lives longer than the {len(self.steps)} steps")


@dataclass(frozen=True)
class FrontMap:
    """A front of a proxy cascade, or its policy, and what it takes.

    flash_bytes: besides the step and the fronts before it. memory: the arena while it computes;
    None if it is not known, or the step's, whose first nodes the whole front is.
    """

    name: str
    macs: int
    instructions: int = 0
    flash_bytes: int = 0
    memory: ArenaMap | None = None

    def __post_init__(self) -> None:
        at_least_0(macs=self.macs, instructions=self.instructions, flash_bytes=self.flash_bytes)


@dataclass(frozen=True)
class UsagePart:
    """Bytes by what they are for."""

    name: str
    size_bytes: int

    def __post_init__(self) -> None:
        at_least_0(size_bytes=self.size_bytes)


@dataclass(frozen=True)
class Usage:
    """SRAM and flash by category. is_linked: counted in the ELF file, otherwise planned.

    board: title; empty without one. sram_limit, flash_limit: what the chip has; None: not known.
    """

    sram: tuple[UsagePart, ...]
    flash: tuple[UsagePart, ...] = ()
    board: str = ""
    sram_limit: int | None = None
    flash_limit: int | None = None
    is_linked: bool = False

    def __post_init__(self) -> None:
        at_least_0(sram_limit=self.sram_limit, flash_limit=self.flash_limit)

    @property
    def sram_bytes(self) -> int:
        """All SRAM that is counted."""
        return sum(part.size_bytes for part in self.sram)

    @property
    def counts_code(self) -> bool:
        """Whether flash has the code in it."""
        return self.is_linked or any(part.name.startswith("code") for part in self.flash)

    @property
    def flash_bytes(self) -> int:
        """All flash that is counted."""
        return sum(part.size_bytes for part in self.flash)


@dataclass(frozen=True)
class Executed:
    """Instructions of one node in one step."""

    name: str
    operator: str
    count: int

    def __post_init__(self) -> None:
        at_least_0(count=self.count)


@dataclass(frozen=True)
class Instructions:
    """Estimated instructions of a training step by node. measured: of a whole step, on a board.

    time: how long the board takes for it, and how that is known, in a sentence.
    """

    isa: str
    nodes: tuple[Executed, ...]
    measured: int | None = None
    time: str = ""

    def __post_init__(self) -> None:
        at_least_0(measured=self.measured)

    @property
    def total(self) -> int:
        """Estimated instructions of a whole step."""
        return sum(node.count for node in self.nodes)


@dataclass(frozen=True)
class Report:
    """Everything that is known of a model's training on a board.

    scheme: its name, scheme_toml: the whole of it. fronts: of a proxy cascade, its policy first,
    then the whole one. selection: what `mcutrain select` chose and why; sweep: the same for each
    budget. choices: what an elastic run trained; profile: what a step takes. answers, predictions:
    of the trained network to the test samples, by classes or real targets. commands: what was typed
    to make this.
    """

    model: str
    scheme: str = ""
    classes: int = 0
    generator: str = ""
    scheme_toml: str = ""
    network: tuple[NetworkNode, ...] = ()
    memory: ArenaMap | None = None
    fronts: tuple[FrontMap, ...] = ()
    usage: Usage | None = None
    instructions: Instructions | None = None
    analysis: Analysis | None = None
    selection: Chosen | None = None
    sweep: tuple[SweepPoint, ...] = ()
    curves: tuple[LearningCurve, ...] = ()
    comparison: tuple[Compared, ...] = ()
    commands: tuple[str, ...] = ()
    choices: ElasticChoices | None = None
    profile: Profile | None = None
    answers: Answers | None = None
    predictions: tuple[Predicted, ...] = ()
    format: int = field(default=FORMAT)

    def __post_init__(self) -> None:
        at_least_0(classes=self.classes)
        if self.format != FORMAT:
            raise ValueError(f"format is {self.format}; this mcutrain reads {FORMAT}")

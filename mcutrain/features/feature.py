"""What a feature of a training step tells the stages that know no feature by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from mcutrain_host.dataclass import dataclass
from mcutrain_host.manifest import FrontCost, Timing

from mcutrain.autodiff.classifier import Classifier
from mcutrain.autodiff.rewriting import Rewriting
from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.features.reference import Array, StepRate
from mcutrain.features.turns import RunPart
from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.sparse.elastic import ElasticTimes
from mcutrain.sparse.scheme import UpdateScheme


@dataclass(frozen=True)
class Words:
    """A row of the state's table: numbers that a feature of the step keeps.

    kind: a name of mcutrain_host.state. count: how many of them a step has; 0 if it has not that
    feature. purpose: what they are for.
    """

    kind: str
    dtype: str
    count: Callable[[TrainGraph], int]
    purpose: str


class Statement(Protocol):
    """A statement of C. condition: in C, on which it runs; empty for always.

    node: whose it is; segment: the C structure of nodes that compute row by row, else empty.
    """

    @property
    def comment(self) -> str:
        """What it computes."""

    @property
    def code(self) -> str:
        """The statement itself."""

    @property
    def node(self) -> str:
        """The node that it computes; of a segment the first."""

    @property
    def condition(self) -> str:
        """What has to be true for it to run."""

    @property
    def segment(self) -> str:
        """The C structure of a segment."""


class RowSegment(Protocol):
    """Nodes that compute row by row."""

    @property
    def name(self) -> str:
        """Their C structure."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their names, a node for each stage."""

    @property
    def is_fed(self) -> bool:
        """Whether they compute while the sample comes in."""


class FrontPieces(Protocol):
    """A front in C. takes, gives: statements that move its sample and its latent, or empty."""

    @property
    def takes(self) -> str:
        """What moves the sample to where it reads it."""

    @property
    def calls(self) -> Sequence[Statement]:
        """What it computes."""

    @property
    def gives(self) -> str:
        """What moves its latent to where the tail reads it."""


class FrontLatent(Protocol):
    """What a step may begin with. tensor: its name."""

    @property
    def tensor(self) -> str:
        """The name of the tensor that it is."""

    @property
    def type(self) -> TensorType:
        """What its numbers are."""


class Fronts(Protocol):
    """The fronts of a proxy cascade in C: functions, and how samples and latents get to them."""

    @property
    def policy(self) -> FrontPieces:
        """The function of the policy."""

    @property
    def proxies(self) -> Sequence[FrontPieces]:
        """Those of levels 1 and higher."""

    @property
    def whole(self) -> str:
        """What moves the sample to where the step's own front reads it."""

    @property
    def scores(self) -> str:
        """The C pointer to what the policy gives."""


class StreamingSteps(Protocol):
    """Steps of a streaming network in C."""

    @property
    def x_bytes(self) -> int:
        """Bytes of a step's new rows."""

    @property
    def ring_bytes(self) -> int:
        """Bytes that are kept between steps."""


class Code(Protocol):
    """A program that is being written in C, as far as features ask it."""

    @property
    def training(self) -> TrainGraph:
        """The step."""

    @property
    def fronts(self) -> Fronts | None:
        """Those that a policy chooses from; None where there are none."""

    @property
    def steps(self) -> StreamingSteps | None:
        """Return how a streaming network steps; None for others."""

    @property
    def backing(self) -> str:
        """The constant with the backing store as it is at first."""

    @property
    def nodes(self) -> Sequence[Node]:
        """Nodes of the step, in order of execution."""

    @property
    def front(self) -> Sequence[Statement]:
        """The step before its latent; none where it begins with its sample."""

    @property
    def forward(self) -> Sequence[Statement]:
        """The rest of its forward pass."""

    @property
    def loss(self) -> Sequence[Statement]:
        """Its loss."""

    @property
    def backward(self) -> Sequence[Statement]:
        """What lies behind the loss."""

    @property
    def apply(self) -> Sequence[Statement]:
        """Updates after a group of samples; none if each sample has its own."""

    @property
    def segments(self) -> Sequence[RowSegment]:
        """Nodes that compute row by row, of the step and of its fronts."""

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena."""

    @property
    def is_library(self) -> bool:
        """Whether somebody takes it into a program of his own."""

    @property
    def latent(self) -> FrontLatent | None:
        """What steps and inferences may begin with; None for the sample alone."""

    @property
    def classifier(self) -> Classifier | None:
        """Whose features an inference can add up; None if it does not."""

    def expression(self, graph: Graph, name: str) -> str:
        """The C pointer to a tensor."""

    def first(self, name: str) -> str:
        """The C constant that a tensor of the state begins with; NULL of zeros."""

    def words(self, kind: str, ctype: str) -> str:
        """The C pointer to the words of a kind, as this type."""

    def words_offset(self, kind: str) -> int:
        """The first byte of the words of a kind."""

    def front_macs(self) -> tuple[int, ...]:
        """Multiply-accumulates of the policy and of each level, the whole front first."""

    def state_offset(self, name: str) -> int:
        """The first byte of a tensor in the state."""

    def backing_place(self, name: str) -> int:
        """The first byte of a weight in the backing store."""


class Estimated(Protocol):
    """Estimated instructions with the kernels of one instruction set."""

    @property
    def isa(self) -> str:
        """Its name."""

    def of(self, front: int | None, node: str) -> int:
        """Estimate a node of the step, or of a front of a proxy cascade, 0 the policy."""


class Told(Protocol):
    """What a program has besides its step, as whoever makes it has chosen."""

    @property
    def fronts(self) -> Sequence[FrontCost]:
        """What policy and levels take; none if nobody said it."""

    @property
    def elastic(self) -> ElasticTimes | None:
        """By which the program selects the tensors of an elastic step; None if it does not."""

    @property
    def estimates(self) -> Sequence[Estimated]:
        """What calls take, for each instruction set; none if nobody said it."""

    @property
    def remember(self) -> int:
        """Latents that it remembers."""

    @property
    def latent(self) -> str | None:
        """The tensor that steps may begin with, too, by name; None for none of its own."""

    @property
    def centre(self) -> tuple[int, ...]:
        """Centre of the classifier's features, where classes are imprinted; else empty."""

    @property
    def timing(self) -> Timing | None:
        """The nodes that are timed; None if none are."""


class PlannedMemory(Protocol):
    """A step whose memory is planned, as far as features ask it."""

    @property
    def training(self) -> TrainGraph:
        """The step."""

    @property
    def backing_bytes(self) -> int:
        """Bytes of flash behind a saved state."""


@dataclass(frozen=True)
class PlanRow:
    """What `mcutrain plan` says of a feature.

    name: of its value in JSON, and of its line. value: ready for JSON; steps that have not the
    feature have None. line: what its line says behind the name, from the value.
    """

    name: str
    value: Callable[[PlannedMemory], Any]
    line: Callable[[Any], str]


class LevelChoice(Protocol):
    """What helps to choose the front of a proxy cascade for a sample, by numpy.

    words: those of the state, by kind. counts: samples of each front so far.
    """

    def level(self, words: Mapping[str, Array], scores: Sequence[int]) -> int:
        """The level for a sample with these scores of the policy."""

    def probes(self, words: Mapping[str, Array], counts: Sequence[int]) -> bool:
        """Return whether the next step takes the whole front, whatever the sample."""

    def follow(
        self, words: Mapping[str, Array], wanted: int, loss_q16: int, is_probe: bool
    ) -> None:
        """Take into account, in the words, what a step with the wanted level gave."""


@dataclass(frozen=True, kw_only=True)
class StepFeature:
    """A feature of a training step.

    name: of its folder, and of its values in templates. is_on: whether a step has it. over: parts
    of programs whose place it takes in the C, or to whose C it adds. words: what it keeps in the
    state. identity: what of it fixes the meaning of a saved state, for the model's hash.

    code: values for its C; None where the program has no code of it. condition: in C, on which a
    node runs; "" for always. sources: files of firmware/ that its C needs. commands: of a board's
    protocol, the name of mct_NAME_commands.h in firmware/protocol; commands_without: those of
    firmware that has it not. resident_bytes: of a board's SRAM, besides the state. manifest: what a
    project's manifest has of it, by field. plan_row: what a plan says of it, if anything.

    flags: how those of the command line that ask for it read, of StepOptions. option: a field of
    StepOptions that is true where a step has it. rewriting: what it adds to the training graph;
    None if options do not ask for it. Raises ArgumentError for a value of no meaning. check,
    check_made: raise SchemeError for a graph, or a step, that cannot have it though options ask for
    it. conflicts: why a run cannot have something as well, by what it wishes: `batches` of samples
    of one level, `replay`, or `no ladder`.

    By numpy, where a FeatureState is the step. decide: takes the inputs of a sample and its rate,
    lets it be learnt or not, and gives the results; the last feature that has it decides. left_out:
    nodes that do not run. level_choice: what corrects a proxy cascade.

    run: what it does between the steps of a run.
    """

    name: str
    is_on: Callable[[TrainGraph], bool]
    over: tuple[str, ...] = ()
    words: tuple[Words, ...] = ()
    identity: Callable[[TrainGraph], str] = lambda training: ""
    code: Callable[[Code], Mapping[str, Any] | None]
    condition: Callable[[TrainGraph, Node], str] = lambda training, node: ""
    sources: Callable[[TrainGraph], tuple[str, ...]] = lambda training: ()
    commands: str = ""
    commands_without: str = ""
    resident_bytes: int = 0
    manifest: Callable[[Code, Told], Mapping[str, Any]] = lambda code, told: {}
    plan_row: PlanRow | None = None
    rewriting: Callable[[Any], Rewriting | None] = lambda options: None
    check: Callable[[Any, Graph, UpdateScheme], None] | None = None
    check_made: Callable[[Any, TrainGraph, UpdateScheme], None] | None = None
    decide: Callable[[Any, Mapping[str, Array], StepRate], dict[str, Array]] | None = None
    left_out: Callable[[Any], frozenset[str]] | None = None
    level_choice: LevelChoice | None = None
    flags: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    option: str = ""
    conflicts: Mapping[str, str] = field(default_factory=dict)
    run: RunPart | None = None


@dataclass(frozen=True, kw_only=True)
class ProgramFeature:
    """What a program has besides its step, whose bits stay as they are.

    name: of its folder. value: of its values in templates, by default the name. is_on: whether a
    program has it, by what an Interface says. over, commands: as of a StepFeature. check: takes the
    step, the interface, and whether the program is a board's firmware; raises McutrainError if an
    interface asks for what cannot be. code: values for its C. sources: files of firmware/ that its
    C needs.
    """

    name: str
    value: str = ""
    is_on: Callable[[Code, Any], bool]
    over: tuple[str, ...] = ()
    check: Callable[[TrainGraph, Told, bool], None] | None = None
    code: Callable[[Code, Told], Any]
    sources: Callable[[Code, Any], tuple[str, ...]] = lambda code, told: ()
    commands: str = ""
    commands_without: str = ""

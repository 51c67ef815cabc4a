"""Where the tensors of some nodes lie in the arena: of a step, or of a front of a proxy cascade."""

from __future__ import annotations

from collections.abc import Mapping

from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node
from mcutrain.memplan.lifetimes import SCRATCH_PREFIX
from mcutrain.memplan.plan import MemoryPlan
from mcutrain.memplan.stream import Segment

POLICY = "policy"


def level_name(level: int) -> str:
    """Return what files and pictures call a front."""
    return f"level {level}"


@dataclass(frozen=True)
class Placed:
    """arena: where every buffer lies; its steps are nodes. buffer_of: tensor → buffer. segments:
    nodes that are computed row by row."""

    arena: MemoryPlan
    buffer_of: Mapping[str, str]
    segments: tuple[Segment, ...]

    def scratch_of(self, node: str) -> int | None:
        """The offset of a node's scratch, if it has any."""
        return self.arena.offsets.get(self.scratch_buffer(node))

    def scratch_buffer(self, node: str) -> str:
        """Return what a node's scratch is called, if it has any."""
        segment = next((s for s in self.segments if node in s.nodes), None)
        return SCRATCH_PREFIX + (segment.name if segment else node)

    def overwrites(self, node: Node) -> bool:
        """Return whether an output of a node lies upon one of its inputs."""
        inputs = {self.buffer_of[name] for name in node.inputs if name in self.buffer_of}
        return any(self.buffer_of.get(name) in inputs for name in node.outputs)

    def offset_of(self, tensor: str) -> int:
        """The first byte of a tensor in the arena."""
        return self.arena.offsets[self.buffer_of[tensor]]


@dataclass(frozen=True)
class PlannedFront(Placed):
    """A proxy, or the cascade's policy, while nothing else is in the arena.

    graph: an int8 network; its names are no other's.
    """

    graph: Graph

    @property
    def nodes(self) -> tuple[Node, ...]:
        """In execution order."""
        return self.graph.nodes

    @property
    def x(self) -> str:
        """The sample."""
        return self.graph.inputs[0]

    @property
    def y(self) -> str:
        """What it makes of it."""
        return self.graph.outputs[0]


@dataclass(frozen=True)
class PlannedSteps(PlannedFront):
    """A step of a streaming network, while nothing else is in the arena.

    graph: with the step's new rows as its first input; its constants and what training changes have
    the names of the training step. offsets: of each tensor that is kept between steps, in memory
    behind the state; both names of a ring have one. fills: what the rings begin with, as offset,
    bytes and value.
    """

    offsets: Mapping[str, int]
    fills: tuple[tuple[int, int, int], ...]

    @property
    def ring_bytes(self) -> int:
        """Bytes of all rings."""
        return sum(size_bytes for _, size_bytes, _ in self.fills)


@dataclass(frozen=True)
class PlannedLadder:
    """The fronts of a step in its arena, one after the other, each of the whole arena.

    latent: what they make, a tensor of the step. position: how many nodes of it come before that,
    the whole front's. The policy leaves the sample as it is; it and what a front makes are moved
    to where the next ones find them.
    """

    latent: str
    position: int
    policy: PlannedFront
    proxies: tuple[PlannedFront, ...]

    @property
    def fronts(self) -> tuple[PlannedFront, ...]:
        """The policy, and the proxies."""
        return (self.policy, *self.proxies)

    @property
    def named(self) -> dict[str, PlannedFront]:
        """Planned fronts by name, the policy first."""
        levels = {level_name(i): front for i, front in enumerate(self.proxies, 1)}
        return {POLICY: self.policy, **levels}

    @property
    def levels(self) -> int:
        """How many there are to choose from, the whole front among them."""
        return 1 + len(self.proxies)

    @property
    def arena_bytes(self) -> int:
        """The most of one of them."""
        return max(front.arena.arena_bytes for front in self.fronts)

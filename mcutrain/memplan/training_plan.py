"""The memory of one training step and of inference: one arena, one state, one set of constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.state_kinds import USUAL
from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import PlanError
from mcutrain.features import features_of
from mcutrain.ir.graph import Graph, Node
from mcutrain.memplan.calls import node_call
from mcutrain.memplan.contents import check_contents
from mcutrain.memplan.exact import Report, silent
from mcutrain.memplan.lifetimes import SCRATCH_PREFIX, lifetimes
from mcutrain.memplan.placed import Placed, PlannedLadder, PlannedSteps
from mcutrain.memplan.plan import Buffer, MemoryPlan, load_profile, peak
from mcutrain.memplan.schedule import schedule
from mcutrain.memplan.solver import SEARCH_NODES, solve
from mcutrain.memplan.state import StateLayout, bytes_by_kind, state_layout
from mcutrain.memplan.steps import plan_steps
from mcutrain.memplan.stream import Segment, StreamableFront
from mcutrain.memplan.validate import validate
from mcutrain.target import Target

Array = npt.NDArray[Any]

Stream = Literal["auto", "least", "off", "max"]
"""What is computed row by row: as much as the memory asks for; as much as makes the arena smallest;
nothing; or what makes the steps before the loss smallest, even if others need more. Whoever does
not know the memory takes auto as least."""
LADDER_BYTES = 8
"""Which front made the latent, and whether it is still to be learnt from."""


@dataclass(frozen=True)
class LeastMemory:
    """The least SRAM of a step whose plan takes more, to save instructions.

    more_instructions: that the step would then take, an estimate.
    """

    sram_bytes: int
    more_instructions: int


@dataclass(frozen=True)
class TrainingPlan(Placed):
    """A scheduled training step with a place for every tensor.

    training: the scheduled graph. arena: where every buffer lies; its steps are the nodes of the
    graph, then those of `apply`. buffer_of: tensor → buffer. state: where the sections of the state
    lie. tail: the nodes that only inference runs, from the head on; their buffers are counted at
    the head's step. segments: nodes that are computed row by row. ladder: fronts that stand in for
    the step's own, in the same arena. least: of the same step with more nodes that compute row by
    row, if this plan has fewer to save instructions. steps: of a streaming network, in the same
    arena.
    """

    training: TrainGraph
    state: StateLayout
    constant_bytes: int
    tail: tuple[Node, ...]
    ladder: PlannedLadder | None = None
    least: LeastMemory | None = None
    steps: PlannedSteps | None = None

    @cached_property
    def state_offsets(self) -> Mapping[str, int]:
        """State tensor → first byte, in what a saved state has behind its header."""
        return {section.name: section.offset for section in self.state.tensors}

    @cached_property
    def backing_offsets(self) -> Mapping[str, int]:
        """Offset of each tensor in the backing store."""
        return {section.name: section.offset for section in self.state.backing}

    @property
    def state_bytes(self) -> int:
        """Bytes of SRAM that training changes."""
        return self.state.state_bytes

    @property
    def kept_bytes(self) -> int:
        """What a saved state has behind its header: the state, and the backing store."""
        return self.state.kept_bytes

    @property
    def backing_bytes(self) -> int:
        """Bytes of the weights whose trained columns change."""
        return self.kept_bytes - self.state_bytes

    @property
    def resident_bytes(self) -> int:
        """Bytes of a chip's SRAM besides the arena: the state, and what the C of features keeps,
        such as the rings of a streaming network.
        """
        features_bytes = sum(f.resident_bytes for f in features_of(self.training))
        ladder_bytes = 0 if self.ladder is None else LADDER_BYTES
        return self.state_bytes + features_bytes + ladder_bytes + self.ring_bytes

    @property
    def ring_bytes(self) -> int:
        """Bytes that the steps of a streaming network keep."""
        return 0 if self.steps is None else self.steps.ring_bytes

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of a step, in execution order."""
        return (*self.training.graph.nodes, *self.training.apply)

    @property
    def arena_bytes(self) -> int:
        """Activations, gradients and scratch; of the step, or of a front if one needs more."""
        fronts_bytes = 0 if self.ladder is None else self.ladder.arena_bytes
        steps_bytes = 0 if self.steps is None else self.steps.arena.arena_bytes
        return max(self.arena.arena_bytes, fronts_bytes, steps_bytes)

    @property
    def front_arenas(self) -> dict[str, MemoryPlan]:
        """By name: where the buffers of policy and proxies lie, while nothing else does."""
        fronts = {} if self.ladder is None else self.ladder.named
        return {name: front.arena for name, front in fronts.items()}

    @property
    def sram_bytes(self) -> int:
        """Arena and trainable state."""
        return self.arena_bytes + self.state_bytes


@dataclass(frozen=True)
class ScheduledStep:
    """A scheduled step and its buffers before they have offsets.

    training: the scheduled graph. buffers: sorted by name. buffer_of: tensor → buffer. tail,
    segments: see TrainingPlan.
    """

    training: TrainGraph
    buffers: tuple[Buffer, ...]
    buffer_of: Mapping[str, str]
    tail: tuple[Node, ...]
    segments: tuple[Segment, ...] = ()


def lay_out(
    training: TrainGraph,
    align_bytes: int,
    stream: Stream = "least",
    cut: int | None = None,
    room_bytes: int = 0,
) -> ScheduledStep:
    """Schedule the step, choose what is computed row by row, and compute lifetimes.

    cut: nodes before the latent of a proxy cascade, which no segment then crosses; and the sample
    is in memory as a whole, since a policy sees it first. room_bytes: that the arena may take
    anyway.
    """
    plain = _laid_out(replace(training, graph=schedule(training.graph)), ())
    is_small = stream == "least" and peak(plain.buffers, align_bytes)[1] <= room_bytes
    if stream == "off" or is_small:
        return plain
    segments = _front(plain, align_bytes, cut).choose(stream == "max", room_bytes)
    streamed = _laid_out(plain.training, segments)
    peaks = [peak(layout.buffers, align_bytes)[1] for layout in (streamed, plain)]
    return streamed if peaks[0] < peaks[1] or stream == "max" else plain


def _front(plain: ScheduledStep, align_bytes: int, cut: int | None = None) -> StreamableFront:
    """plain: without segments. cut: see lay_out."""
    training = plain.training
    steps = len(training.graph.nodes) + len(training.apply)
    return StreamableFront(
        graph=training.graph,
        nodes=(*training.graph.nodes, *training.apply),
        x=training.x,
        known=_outside(training),
        loads=_loads(plain.buffers, steps, align_bytes),
        end=training.loss_step,
        align_bytes=align_bytes,
        cut=cut,
    )


def least_front_bytes(graph: Graph, align_bytes: int) -> int:
    """The smallest peak of an inference, row by row: no training step before its loss has less."""
    (x,) = graph.inputs
    known = frozenset(name for name, t in graph.tensors.items() if t.is_constant)
    found = lifetimes(graph, graph.nodes, known, (x,))
    buffers = [Buffer(name, *span) for name, span in found.spans.items()]
    steps = len(graph.nodes)
    loads = _loads(buffers, steps, align_bytes)
    return StreamableFront(graph, graph.nodes, x, known, loads, steps, align_bytes).least_bytes


def lasting(training: TrainGraph, align_bytes: int) -> ScheduledStep:
    """A layout without what a segment might keep in part: a sum of no more than any plan takes.

    Of the steps that can be computed row by row, its buffers hold only what is read behind all of
    them. So what tensors take adds up, whatever segments are chosen.
    """
    plain = lay_out(training, align_bytes, "off")
    front = _front(plain, align_bytes)
    run_end = {
        step: first + len(stages)
        for first, stages in front.runs()
        for step in range(first, first + len(stages))
    }
    made = {name: step for step, n in enumerate(front.nodes) for name in n.outputs}
    tensors: dict[str, list[tuple[int, int]]] = {}
    for name, place in plain.buffer_of.items():
        tensors.setdefault(place, []).append((made.get(name, 0), front.last_reader.get(name, 0)))
    buffers: list[Buffer] = []
    for buffer in plain.buffers:
        is_scratch = buffer.name.startswith(SCRATCH_PREFIX)
        lives = [
            step not in run_end
            or (not is_scratch and buffer.name not in made and buffer.name != training.x)
            or any(b <= step and e >= run_end[step] for b, e in tensors.get(buffer.name, ()))
            for step in range(buffer.first, buffer.last + 1)
        ]
        buffers += _pieces(buffer, lives)
    return replace(plain, buffers=tuple(buffers))


def _pieces(buffer: Buffer, lives: Sequence[bool]) -> list[Buffer]:
    """The parts of a buffer's life in which it counts. lives: for each of its steps."""
    found: list[Buffer] = []
    step = buffer.first
    for counts, run in groupby(lives):
        end = step + len(list(run))
        if counts:
            found.append(replace(buffer, first=step, last=end - 1))
        step = end
    return found


def _loads(buffers: Sequence[Buffer], steps: int, align_bytes: int) -> list[int]:
    """Bytes alive at each step."""
    changes = dict(load_profile(buffers, align_bytes))
    loads: list[int] = []
    for step in range(steps):
        loads.append(changes.get(step, loads[-1] if loads else 0))
    return loads


def _outside(training: TrainGraph) -> frozenset[str]:
    """Tensors that do not lie in the arena."""
    arguments = [training.step, training.loss, training.prediction]
    if not training.positions:
        arguments.append(training.label)
    constants = (n for n, t in training.graph.tensors.items() if t.is_constant)
    kept = (*training.state, *training.backing, *training.updated.values())
    return frozenset([*kept, *arguments, *constants])


def _laid_out(scheduled: TrainGraph, segments: tuple[Segment, ...]) -> ScheduledStep:
    nodes = (*scheduled.graph.nodes, *scheduled.apply)
    graph = _with_apply(scheduled)
    given = (scheduled.label,) if scheduled.positions else ()
    found = lifetimes(graph, nodes, _outside(scheduled), (scheduled.x, *given), segments)
    tail = _tail(scheduled)
    tail_buffers = _tail_buffers(scheduled, tail, found.buffer_of)
    head_steps = _head_steps(scheduled, tail)
    spans = dict(found.spans)
    buffer_of = dict(found.buffer_of)
    for name, (buffer, size) in tail_buffers.items():
        buffer_of[name] = buffer
        spans.setdefault(buffer, (size, *head_steps))
    buffers = tuple(Buffer(name, *span) for name, span in sorted(spans.items()))
    return ScheduledStep(scheduled, buffers, buffer_of, tail, segments)


def plan_training(
    training: TrainGraph,
    align_bytes: int = 4,
    search: bool = True,
    stream: Stream = "least",
    room_bytes: int = 0,
    report: Report = silent,
) -> TrainingPlan:
    """Schedule the step, compute lifetimes, solve, validate, check the contents.

    align_bytes: of every buffer, at least; sums of int64 need 8. room_bytes: that the arena may
    take anyway, so that fewer nodes compute row by row; gaps between buffers can make it larger.
    report: told how far a search for a smaller arena is.
    """
    align_bytes = max(align_bytes, needed_alignment(training))
    layout = lay_out(training, align_bytes, stream, room_bytes=room_bytes)
    plan = place(layout, align_bytes, SEARCH_NODES if search else 0, report)
    check_contents(plan)
    return plan


def with_whole_images(plan: TrainingPlan) -> TrainingPlan:
    """Plan the step without rows: every image lies in a larger arena as a whole.

    For a computer with memory enough. Nodes, their order and the saved state stay as they are.
    """
    return place(_laid_out(plan.training, ()), plan.arena.align_bytes, search_nodes=0)


def place(
    layout: ScheduledStep, align_bytes: int, search_nodes: int, report: Report = silent
) -> TrainingPlan:
    """A layout with offsets, which are validated; contents are not checked."""
    scheduled = layout.training
    arena = solve(layout.buffers, align_bytes, search_nodes, report=report)
    validate(arena)
    return TrainingPlan(
        arena,
        layout.buffer_of,
        layout.segments,
        training=scheduled,
        state=state_layout(scheduled),
        constant_bytes=sum(constant_sizes(scheduled).values()),
        tail=layout.tail,
        steps=plan_steps(scheduled, align_bytes),
    )


def needed_alignment(training: TrainGraph) -> int:
    """Alignment that the scratch of all nodes needs."""
    graph = _with_apply(training)
    calls = [node_call(graph, node) for node in graph.nodes if not node.op.is_view]
    return max((call.align_bytes for call in calls), default=1)


def state_parts(plan: TrainingPlan) -> dict[str, int]:
    """Bytes of the trainable state by what they hold; the sum is state_bytes."""
    parts = dict.fromkeys((kind.name for kind in USUAL), 0) | bytes_by_kind(plan.state.tensors)
    return {**parts, "counters_and_padding": plan.state_bytes - sum(parts.values())}


def rows_kept(plan: Placed) -> dict[str, str]:
    """Return what a picture says of the buffers of rings."""
    tensors = [t for segment in plan.segments for t in segment.tensors if t.is_ring]
    return {t.name: f"a ring of {t.room} of {t.rows} rows" for t in tensors}


def check_budget(plan: TrainingPlan, sram_bytes: int, listening_bytes: int = 0) -> None:
    """Raise PlanError with the missing bytes and the step that needs most, if it does not fit.

    listening_bytes: of a front end, besides arena and state.
    """
    needs = plan.sram_bytes + listening_bytes
    if needs > sram_bytes:
        needed = f"{plan.arena_bytes:,} arena, {plan.state_bytes:,} trainable state"
        needed += _of_listening(listening_bytes)
        raise _too_large(plan, needs, needed, sram_bytes, "there are")


def check_board(plan: TrainingPlan, target: Target, listening_bytes: int = 0) -> None:
    """Check that all that firmware keeps fits a board's SRAM. listening_bytes: of a front end."""
    if target.ram is None:
        return
    needs = target.sram_bytes(plan.arena_bytes, plan.resident_bytes) + listening_bytes
    if needs > target.ram.size_bytes:
        needed = (
            f"{plan.arena_bytes:,} arena, {plan.state_bytes:,} trainable state, "
            f"{target.stack_bytes:,} stack, {target.firmware_bytes():,} firmware"
        )
        needed += _of_listening(listening_bytes)
        raise _too_large(plan, needs, needed, target.ram.size_bytes, f"of {target.name}")


def _of_listening(size_bytes: int) -> str:
    return f", {size_bytes:,} front end" if size_bytes else ""


def _too_large(plan: TrainingPlan, needs: int, parts: str, limit: int, of: str) -> PlanError:
    missing = f"{needs - limit:,} more than the {limit:,}"
    more = f"the plan needs {needs:,} bytes of SRAM ({parts}), {missing}"
    if plan.arena_bytes > plan.arena.arena_bytes:
        return PlanError(
            f"{more} {of}; most of them a front of the cascade needs, {plan.arena.arena_bytes:,} "
            "the step itself: leave out the cascade, or use a smaller input"
        )
    step = plan.arena.peak_step
    return PlanError(
        f"{more} {of}; most is alive at step {step}, {plan.nodes[step].name!r}: train fewer "
        "layers, smaller shares, or use a smaller input"
    )


def _with_apply(training: TrainGraph) -> Graph:
    """The graph with the nodes that run once per update appended."""
    return replace(training.graph, nodes=(*training.graph.nodes, *training.apply))


def _tail(training: TrainGraph) -> tuple[Node, ...]:
    """The nodes of the forward graph that training replaces: the head and what follows."""
    computed = {node.outputs[0] for node in training.graph.nodes}
    return tuple(node for node in training.forward.nodes if node.outputs[0] not in computed)


def _head_steps(training: TrainGraph, tail: tuple[Node, ...]) -> tuple[int, int]:
    """When training runs its head: the step at which inference turns off.

    With several heads these are the steps from the first one's to that of the loss. All that is
    ahead of them is computed by then, and is kept, since the heads' weights are always trained.
    """
    if not tail:
        return (len(training.graph.nodes) - 1,) * 2
    first = tail[0]
    nodes = enumerate(training.graph.nodes)
    step = next(i for i, n in nodes if n.inputs == first.inputs or n.outputs[0] in first.inputs[:1])
    return step, training.loss_step if training.forward.row else step


def _tail_buffers(
    training: TrainGraph, tail: tuple[Node, ...], buffer_of: Mapping[str, str]
) -> dict[str, tuple[str, int]]:
    """Tensor → (buffer, bytes) for what only inference computes."""
    buffers: dict[str, tuple[str, int]] = {}
    tensors = training.forward.tensors
    for node in tail:
        for name in node.outputs:
            source = node.inputs[0]
            if node.op.is_view and source in buffers:
                buffers[name] = buffers[source]
            elif node.op.is_view and source in buffer_of:
                buffers[name] = (buffer_of[source], tensors[source].type.size_bytes)
            else:
                buffers[name] = (name, tensors[name].type.size_bytes)
    return buffers


def constant_sizes(training: TrainGraph) -> dict[str, int]:
    """Bytes of each weight and bias that stays in flash; tables of multipliers are not counted.

    What is in the backing store at first is there, too.
    """
    used = {name for node in training.graph.nodes for name in node.inputs}
    tensors = training.graph.tensors
    constant = {n: tensors[n].type.size_bytes for n in sorted(used) if tensors[n].is_constant}
    return {**constant, **{name: value.nbytes for name, value in training.backing.items()}}

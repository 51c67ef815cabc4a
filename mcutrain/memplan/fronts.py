"""The fronts of a proxy cascade in a training step's arena: each may take all of it, in turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import PlanError
from mcutrain.ir.graph import Graph, Node, TensorType
from mcutrain.memplan.calls import node_call
from mcutrain.memplan.contents import check_contents
from mcutrain.memplan.exact import Report, silent
from mcutrain.memplan.ladder import Ladder
from mcutrain.memplan.latent import find_latent
from mcutrain.memplan.lifetimes import lifetimes
from mcutrain.memplan.placed import POLICY, PlannedFront, PlannedLadder, level_name
from mcutrain.memplan.plan import Buffer, MemoryPlan, align_up, load_profile
from mcutrain.memplan.solver import SEARCH_NODES, solve
from mcutrain.memplan.stream import Segment, StreamableFront
from mcutrain.memplan.training_plan import (
    Stream,
    TrainingPlan,
    lay_out,
    needed_alignment,
    place,
)
from mcutrain.memplan.validate import validate


def plan_with_ladder(
    training: TrainGraph,
    ladder: Ladder,
    align_bytes: int = 4,
    stream: Stream = "least",
    report: Report = silent,
) -> TrainingPlan:
    """Plan as plan_training, with fronts in the place of the step's own.

    training: its levels are the cascade's. The sample is in memory as a whole, as the policy has to
    see it before a front does; fronts may still compute row by row. Raises PlanError if the cascade
    is of another network, or the step cannot begin with its latent.
    """
    graphs = [_renamed(ladder.policy, f"{POLICY}:")]
    graphs += [_renamed(g, f"{level_name(i)}:") for i, g in enumerate(ladder.proxies, 1)]
    align_bytes = max(align_bytes, needed_alignment(training), *map(_alignment, graphs))
    position = _position(training, ladder, align_bytes)
    layout = lay_out(training, align_bytes, stream, position)
    plan = place(layout, align_bytes, SEARCH_NODES, report)
    begin = plan.offset_of(training.x)
    policy = _planned(graphs[0], align_bytes, "off", plan.arena_bytes, begin, keeps_sample=True)
    room = max(plan.arena_bytes, policy.arena.arena_bytes)
    proxies = tuple(_planned(g, align_bytes, stream, room, begin) for g in graphs[1:])
    fronts = PlannedLadder(ladder.latent, position, policy, proxies)
    more = front_constant_bytes(plan, fronts.fronts)
    plan = replace(plan, ladder=fronts, constant_bytes=plan.constant_bytes + sum(more))
    check_contents(plan)
    return plan


def front_constant_bytes(plan: TrainingPlan, fronts: Iterable[PlannedFront]) -> list[int]:
    """Weights and biases in flash that each front has besides those of the step, and earlier ones.

    What is equal is there once, such as the weights of a stem that they share.
    """
    known = _contents(plan.training.graph)
    sizes = []
    for front in fronts:
        own = _contents(front.graph) - known
        sizes.append(sum(len(content) for _, content in own))
        known |= own
    return sizes


def _contents(graph: Graph) -> set[tuple[str, bytes]]:
    return {graph.tensors[name].content() for name in graph.constants()}


def _position(training: TrainGraph, ladder: Ladder, align_bytes: int) -> int:
    """How many nodes make the latent. Raises PlanError if the cascade does not fit the step."""
    if training.is_tail:
        raise PlanError(
            "a tail takes latents for samples, so there is no front that a cascade could stand in "
            "for: leave one of them out"
        )
    if training.positions:
        raise PlanError(
            "a sample has several labels (of positions, targets or outputs), and these wait in the "
            "memory that fronts compute in: leave out the cascade"
        )
    try:
        latent = find_latent(lay_out(training, align_bytes, "off"), ladder.latent)
    except PlanError as error:
        raise PlanError(f"a cascade of fronts makes latents, and {error}") from error
    (sample,) = ladder.policy.inputs
    kinds = (
        ("take samples", ladder.policy.tensors[sample].type, training.input_type),
        ("make latents", ladder.latent_type, latent.type),
    )
    for what, own, needed in kinds:
        if not _is_same(own, needed):
            raise PlanError(
                f"the fronts of the cascade {what} of {_text(own)}, but the model of "
                f"{_text(needed)}: make the cascade from this model"
            )
    return latent.position


def _is_same(a: TensorType, b: TensorType) -> bool:
    return (a.layout(), a.scales, a.zero_point) == (b.layout(), b.scales, b.zero_point)


def _text(kind: TensorType) -> str:
    shape = " x ".join(map(str, kind.shape[1:]))
    return f"{kind.dtype} {shape}, scale {kind.scale:.9g}, zero point {kind.zero_point}"


def _renamed(graph: Graph, prefix: str) -> Graph:
    """Give tensors names that no other front has, and drop what the output does not need."""

    def own(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(prefix + name for name in names)

    needed, nodes = set(graph.outputs), list[Node]()
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
            nodes.append(Node(prefix + node.name, node.op, own(node.inputs), own(node.outputs)))
    tensors = {prefix + n: replace(t, name=prefix + n) for n, t in graph.tensors.items()}
    found = Graph(graph.name, tensors, tuple(nodes), own(graph.inputs), own(graph.outputs))
    return found.with_nodes(reversed(nodes))


def _alignment(graph: Graph) -> int:
    calls = [node_call(graph, node) for node in graph.nodes if not node.op.is_view]
    return max((call.align_bytes for call in calls), default=1)


def _planned(
    graph: Graph,
    align_bytes: int,
    stream: Stream,
    room: int,
    begin: int,
    keeps_sample: bool = False,
) -> PlannedFront:
    """A front by itself, row by row only as far as it needs more than there is room, or all of it
    for max. begin: where the sample lies if that is possible."""
    segments: tuple[Segment, ...] = ()
    found = _solved(graph, align_bytes, segments, room, begin, keeps_sample)
    if stream == "off" or (stream != "max" and found.arena.arena_bytes <= room):
        return found
    segments = _front(found, align_bytes).choose(least=stream == "max", enough_bytes=room)
    streamed = _solved(graph, align_bytes, segments, room, begin, keeps_sample)
    is_less = streamed.arena.arena_bytes < found.arena.arena_bytes
    return streamed if stream == "max" or is_less else found


def _front(plain: PlannedFront, align_bytes: int) -> StreamableFront:
    graph, steps = plain.graph, len(plain.graph.nodes)
    known = frozenset(name for name, t in graph.tensors.items() if t.is_constant)
    changes, loads = dict(load_profile(plain.arena.buffers, align_bytes)), list[int]()
    for step in range(steps):
        loads.append(changes.get(step, loads[-1] if loads else 0))
    return StreamableFront(graph, graph.nodes, plain.x, known, loads, steps, align_bytes, cut=steps)


def _solved(
    graph: Graph,
    align_bytes: int,
    segments: tuple[Segment, ...],
    room: int,
    begin: int,
    keeps_sample: bool,
) -> PlannedFront:
    """Place a front's buffers; the sample stays where it is if that fits."""
    (x,), (y,) = graph.inputs, graph.outputs
    known = frozenset(name for name, t in graph.tensors.items() if t.is_constant)
    kept = (x, y) if keeps_sample else (y,)
    found = lifetimes(graph, graph.nodes, known, (x,), segments, kept)
    buffers = tuple(Buffer(name, *span) for name, span in sorted(found.spans.items()))
    arena = solve(buffers, align_bytes, SEARCH_NODES, room)
    arena = _moved(arena, found.buffer_of[x], begin, room)
    validate(arena)
    return PlannedFront(arena, found.buffer_of, segments, graph)


def _moved(arena: MemoryPlan, buffer: str, begin: int, room: int) -> MemoryPlan:
    """Move a plan up, or turn it upside down, so that a buffer begins there, if that is possible.

    Then nobody has to move what is in it.
    """
    sizes = {b.name: align_up(b.size_bytes, arena.align_bytes) for b in arena.buffers}
    top = arena.arena_bytes
    mirrored = {name: top - offset - sizes[name] for name, offset in arena.offsets.items()}
    for offsets in (arena.offsets, mirrored):
        up = begin - offsets[buffer]
        if up >= 0 and (up == 0 or top + up <= room):
            moved = {name: offset + up for name, offset in offsets.items()}
            return replace(arena, offsets=moved, arena_bytes=top + up)
    return arena

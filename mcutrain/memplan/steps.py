"""The memory of a streaming network's steps: rings of rows that stay, and the arena meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.ir.graph import Node
from mcutrain.memplan.lifetimes import lifetimes
from mcutrain.memplan.placed import PlannedSteps
from mcutrain.memplan.plan import Buffer
from mcutrain.memplan.solver import solve
from mcutrain.memplan.validate import validate
from mcutrain.quant.stepping import Stepped, stepwise

PREFIX = "step:"


def steps_of(training: TrainGraph) -> Stepped | None:
    """A step of the network that is trained; None if it does not stream."""
    forward = training.forward
    is_whole = forward.inputs[0] == training.x and not training.is_tail
    if not forward.step_rows or not is_whole or training.levels or training.positions:
        return None
    return _renamed(stepwise(forward, forward.step_rows), {*forward.inputs[1:]})


def plan_steps(training: TrainGraph, align_bytes: int) -> PlannedSteps | None:
    """Place what a step computes in the arena, and rings behind each other."""
    stepped = steps_of(training)
    if stepped is None:
        return None
    graph, offsets, fills = stepped.graph, dict[str, int](), list[tuple[int, int, int]]()
    end = 0
    for ring in stepped.rings:
        kind = graph.tensors[ring.kept].type
        offsets |= {ring.kept: end, ring.new: end}
        fills.append((end, kind.size_bytes, kind.zero_point))
        end += kind.size_bytes
    x, y = graph.inputs[0], graph.outputs[0]
    outside = frozenset((*offsets, *graph.constants(), *graph.inputs[1:]))
    found = lifetimes(graph, graph.nodes, outside, (x,), (), (y,))
    buffers = tuple(Buffer(name, *span) for name, span in sorted(found.spans.items()))
    arena = solve(buffers, align_bytes, 0)
    validate(arena)
    return PlannedSteps(arena, found.buffer_of, (), graph, offsets, tuple(fills))


def _renamed(stepped: Stepped, shared: set[str]) -> Stepped:
    """Give nodes, and tensors that a step computes, names that the training step does not have."""
    graph = stepped.graph

    def own(name: str) -> str:
        is_shared = name in shared or graph.tensors[name].is_constant
        return name if is_shared else PREFIX + name

    def all_own(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(own, names))

    nodes = [
        Node(PREFIX + n.name, n.op, all_own(n.inputs), all_own(n.outputs)) for n in graph.nodes
    ]
    tensors = {own(n): replace(t, name=own(n)) for n, t in graph.tensors.items()}
    made = replace(
        graph,
        tensors=tensors,
        nodes=tuple(nodes),
        inputs=all_own(graph.inputs),
        outputs=all_own(graph.outputs),
    )
    rings = tuple(replace(r, kept=own(r.kept), new=own(r.new)) for r in stepped.rings)
    return Stepped(made, rings)

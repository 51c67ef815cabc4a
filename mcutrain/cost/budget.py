"""What a program's functions take, for its header, and for steps that return in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcutrain.codegen.estimates import Estimates
from mcutrain.codegen.isa import taken
from mcutrain.cost.instructions import (
    HOST,
    USUAL_ISA,
    estimate,
    network_instructions,
    strip_instructions,
)
from mcutrain.ir.graph import Graph
from mcutrain.memplan import TrainingPlan
from mcutrain.memplan.stream import Segment


def program_estimates(plan: TrainingPlan, isa: str) -> tuple[Estimates, ...]:
    """Return those for each instruction set of a library. isa: as Interface has it."""
    return tuple(_estimates(plan, row.name) for row in taken(isa))


def _estimates(plan: TrainingPlan, isa: str) -> Estimates:
    """A host's nodes are compared with each other by the usual set's model."""
    model = USUAL_ISA if isa == HOST else isa
    training, ladder = plan.training, plan.ladder
    # an update counts whole, not its share for one sample
    whole = estimate(training, model, plan.segments)
    updates = {node.name for node in training.apply}
    nodes = {n: c * (training.accumulate if n in updates else 1) for n, c in whole.items()}
    fed = {name for segment in plan.segments if segment.is_fed for name in segment.nodes}
    feed = sum(nodes[name] for name in fed)
    own = training.graph.nodes[: 0 if ladder is None else ladder.position]
    front = sum(nodes[node.name] for node in own)
    policy, dearest = 0, front
    fronts: list[Mapping[str, int]] = []
    for i, one in enumerate(() if ladder is None else ladder.fronts):
        total = sum(network_instructions(one.graph, model, one.segments).values())
        policy, dearest = (total, dearest) if i == 0 else (policy, max(dearest, total))
        fronts.append(_pieces(one.graph, model, one.segments))
    inference = network_instructions(training.forward, model)
    beside = sum(inference[n.name] for n in training.forward.nodes if n.name not in nodes)
    shared = sum(nodes[n.name] for n in training.forward.nodes if n.name in nodes)
    more = policy + dearest - front - feed
    strips = [strip_instructions(training.graph, s, model) for s in plan.segments]
    rows = {} if plan.steps is None else network_instructions(plan.steps.graph, model)
    return Estimates(
        isa=isa,
        nodes={**nodes, **{name: cost for one in strips for name, cost in one.items()}},
        fronts=tuple(fronts),
        feed=feed,
        inference=beside + shared + more,
        step=sum(nodes.values()) + more,
        rows=sum(rows.values()),
    )


def _pieces(graph: Graph, isa: str, segments: Sequence[Segment]) -> Mapping[str, int]:
    """Instructions of each node of a front; of one strip where it computes row by row."""
    found = dict(network_instructions(graph, isa))
    for segment in segments:
        found |= strip_instructions(graph, segment, isa)
    return found

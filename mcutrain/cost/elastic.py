"""What the tensors of an elastic step take, by the instruction model."""

from __future__ import annotations

from collections.abc import Mapping

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.cost.instructions import USUAL_ISA, estimate
from mcutrain.memplan import TrainingPlan
from mcutrain.sparse.elastic import ElasticProblem, ElasticTimes


def estimated_times(plan: TrainingPlan, isa: str) -> ElasticTimes:
    """By the instruction model; by that of USUAL_ISA where there is none, as for the host."""
    estimated = estimate(plan.training, isa, plan.segments)
    nodes = estimated or estimate(plan.training, USUAL_ISA, plan.segments)
    return elastic_times(plan.training, nodes)


def elastic_times(
    training: TrainGraph, node_times: Mapping[str, int], unit: str = "instructions"
) -> ElasticTimes:
    """Of an elastic step. node_times: of each node, in this unit.

    A node that one tensor alone needs counts as its update; what several need is what passing the
    gradient back to them takes.
    """
    served = training.served
    count = len(training.elastic)
    updates = [0] * count
    shared = [name for name, tensors in served.items() if len(tensors) > 1]
    for name, tensors in served.items():
        if len(tensors) == 1:
            updates[next(iter(tensors))] += node_times[name]
    needs = [
        frozenset(i for i, name in enumerate(shared) if k in served[name]) for k in range(count)
    ]
    always = [k for k, tensor in enumerate(training.elastic) if tensor.is_always_trained]
    problem = ElasticProblem.of(needs, [node_times[name] for name in shared], updates, always)
    forward = sum(time for name, time in node_times.items() if name not in served)
    return ElasticTimes(forward, problem, unit)

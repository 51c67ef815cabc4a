"""What the tensors of an elastic step take, by the instruction model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.cost.instructions import estimate, model_for
from mcutrain.memplan import TrainingPlan
from mcutrain.sparse.elastic import ElasticProblem, ElasticTimes


def estimated_times(plan: TrainingPlan, isa: str) -> ElasticTimes:
    """Estimate times by the instruction model that `model_for` gives. Raises TargetError."""
    return elastic_times(plan.training, estimate(plan.training, model_for(isa), plan.segments))


def elastic_times(
    training: TrainGraph, node_times: Mapping[str, int], unit: str = "instructions"
) -> ElasticTimes:
    """Return the times of an elastic step. node_times: of each node, in this unit.

    A node that only one tensor needs counts as its update. Nodes that several need count as passing
    the gradient back to them.
    """
    always = [k for k, tensor in enumerate(training.elastic) if tensor.is_always_trained]
    problem = problem_of(training.served, len(training.elastic), always, node_times)
    forward = sum(time for name, time in node_times.items() if name not in training.served)
    return ElasticTimes(forward, problem, unit)


def problem_of(
    needed_by: Mapping[str, Collection[int]],
    count: int,
    always: Sequence[int],
    node_times: Mapping[str, int],
) -> ElasticProblem:
    """What there is to choose from. needed_by: of each node behind the loss, tensors of `count`."""
    updates = [0] * count
    shared = [name for name, tensors in needed_by.items() if len(tensors) > 1]
    for name, tensors in needed_by.items():
        if len(tensors) == 1:
            updates[next(iter(tensors))] += node_times[name]
    needs = [
        frozenset(i for i, name in enumerate(shared) if k in needed_by[name]) for k in range(count)
    ]
    return ElasticProblem.of(needs, [node_times[name] for name in shared], updates, always)

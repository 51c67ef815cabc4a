"""What each node and each trained tensor of a step takes: estimated, and counted if wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.cost.elastic import elastic_times, estimated_times
from mcutrain.cost.instructions import estimate, nodes_of
from mcutrain.errors import ModelError
from mcutrain.memplan import TrainingPlan
from mcutrain.sparse.elastic import ElasticTimes

Pass = Literal["forward", "backward", "update"]


@dataclass(frozen=True)
class NodeProfile:
    """Instructions of a node.

    kernel: its function. of: forward with the loss; backward if several tensors need what it makes
    of the gradient; update if one alone does: `tensor`. counted: None if nobody did.
    """

    name: str
    kernel: str
    of: Pass
    tensor: str | None
    estimated: int
    counted: int | None

    @property
    def instructions(self) -> int:
        """Counted if they were."""
        return self.estimated if self.counted is None else self.counted


@dataclass(frozen=True)
class TensorProfile:
    """Instructions of what a tensor alone needs, and of passing the gradient on to it."""

    name: str
    update: int
    backward: int
    is_always_trained: bool


@dataclass(frozen=True)
class StepProfile:
    """Of a step that trains everything. tensors: nearest to the loss first."""

    isa: str
    nodes: tuple[NodeProfile, ...]
    tensors: tuple[TensorProfile, ...]

    def instructions(self, of: Pass) -> int:
        """Of all nodes of a pass."""
        return sum(node.instructions for node in self.nodes if node.of == of)

    @property
    def error(self) -> float | None:
        """Of the estimate: its difference to what was counted, as a share of that."""
        counted = sum(node.counted or 0 for node in self.nodes)
        return sum(node.estimated for node in self.nodes) / counted - 1 if counted else None


def profile_step(
    plan: TrainingPlan, isa: str, counted: Mapping[str, int] | None = None
) -> StepProfile:
    """Of an elastic step. counted: what counting.count_instructions found, by node."""
    training = plan.training
    estimated = estimate(training, isa, plan.segments)
    nodes = tuple(
        NodeProfile(
            name,
            kernel,
            *_place(training, name),
            estimated[name],
            None if counted is None else counted[name],
        )
        for name, kernel in nodes_of(training).items()
        if kernel
    )
    problem = elastic_times(training, estimated if counted is None else counted).problem
    tensors = tuple(
        TensorProfile(
            tensor.name,
            problem.update_times[k],
            next(reach.time for reach in problem.reaches if k in reach.tensors),
            tensor.is_always_trained,
        )
        for k, tensor in enumerate(training.elastic)
    )
    return StepProfile(isa, nodes, tensors)


def times_of(plan: TrainingPlan, isa: str, profile: Path | None = None) -> ElasticTimes:
    """Of an elastic step: by a file as `read_times` takes it, or the instruction model."""
    return estimated_times(plan, isa) if profile is None else read_times(profile, plan)


def read_times(path: Path, plan: TrainingPlan) -> ElasticTimes:
    """Of an elastic step, by a file that `mcutrain profile -o` wrote; counted ones if it has them.

    Raises ModelError if it is none, or of another step.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        nodes = {str(n["name"]): (str(n["kernel"]), _time_of(n)) for n in values["nodes"]}
    except OSError as error:
        raise ModelError(f"cannot read the profile {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(
            f"{path} is no profile: write one with `mcutrain profile MODEL --scheme S -o FILE`"
        ) from error
    expected = nodes_of(plan.training)
    own = {name: kernel for name, kernel in expected.items() if kernel}
    if own != {name: kernel for name, (kernel, _) in nodes.items()}:
        missing = sorted(own.keys() - nodes.keys())
        which = f", which has no node {missing[0]!r}" if missing else ""
        raise ModelError(
            f"{path} is a profile of another step{which}: profile this model with this scheme and "
            "the same flags"
        )
    times = {name: nodes[name][1] if kernel else 0 for name, kernel in expected.items()}
    return elastic_times(plan.training, times)


def _time_of(node: Mapping[str, Any]) -> int:
    time = node["estimated"] if node.get("counted") is None else node["counted"]
    if type(time) is not int or not 0 <= time < 2**31:
        raise ValueError(f"a node takes {time!r}")
    return time


def _place(training: TrainGraph, node: str) -> tuple[Pass, str | None]:
    """Which pass a node belongs to, and the tensor that alone needs it."""
    needed_by = training.served.get(node)
    if needed_by is None:
        return "forward", None
    if len(needed_by) != 1:
        return "backward", None
    return "update", training.elastic[next(iter(needed_by))].name

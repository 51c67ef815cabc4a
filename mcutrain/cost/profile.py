"""What each node and each trained tensor of a step takes: estimated, and counted if wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from mcutrain_host.dataclass import dataclass
from mcutrain_host.manifest import TimedNode, Timing
from mcutrain_host.reading import read_text

from mcutrain.cost.elastic import elastic_times, estimated_times, problem_of
from mcutrain.cost.instructions import estimate, model_for, nodes_of
from mcutrain.errors import ModelError
from mcutrain.memplan import TrainingPlan
from mcutrain.sparse.elastic import ElasticTimes

Pass = Literal["forward", "backward", "update"]
INSTRUCTIONS, CYCLES, NANOSECONDS = "instructions", "cycles", "ns"


@dataclass(frozen=True)
class NodeProfile:
    """What a node takes.

    kernel: its function. of: forward with the loss; backward if several tensors need what it makes
    of the gradient; update if one alone does: `tensor`. estimated: instructions. counted: in the
    profile's unit; None if nobody did.
    """

    name: str
    kernel: str
    of: Pass
    tensor: str | None
    estimated: int
    counted: int | None

    @property
    def time(self) -> int:
        """Counted if it was."""
        return self.estimated if self.counted is None else self.counted


@dataclass(frozen=True)
class TensorProfile:
    """Time of what a tensor alone needs, and of passing the gradient on to it."""

    name: str
    update: int
    backward: int
    is_always_trained: bool


@dataclass(frozen=True)
class StepProfile:
    """Profile of a step that trains everything. tensors: the nearest to the loss first."""

    isa: str
    nodes: tuple[NodeProfile, ...]
    tensors: tuple[TensorProfile, ...]
    unit: str = INSTRUCTIONS

    def time(self, of: Pass) -> int:
        """Return the time of all nodes of a pass."""
        return sum(node.time for node in self.nodes if node.of == of)

    @property
    def per_instruction(self) -> float | None:
        """Return what was counted for each instruction that was estimated."""
        counted = sum(node.counted or 0 for node in self.nodes)
        return counted / sum(node.estimated for node in self.nodes) if counted else None

    @property
    def error(self) -> float | None:
        """Return the estimate's error as a share of the counted instructions."""
        counted = sum(node.counted or 0 for node in self.nodes)
        if not counted or self.unit != INSTRUCTIONS:
            return None
        return sum(node.estimated for node in self.nodes) / counted - 1

    @property
    def misplaced(self) -> float | None:
        """The share of the time that the estimate gives to other nodes than those that take it."""
        rate = self.per_instruction
        if rate is None:
            return None
        off = sum(abs(rate * node.estimated - (node.counted or 0)) for node in self.nodes)
        return off / 2 / sum(node.counted or 0 for node in self.nodes)


def timing_of(plan: TrainingPlan, isa: str) -> Timing:
    """The nodes of an elastic step for a program that times them, without views.

    isa: of the board, see mcutrain.cost.instructions.model_for. Raises TargetError.
    """
    training, isa = plan.training, model_for(isa)
    estimated = estimate(training, isa, plan.segments)
    applied = {node.name for node in training.apply}
    return Timing(
        isa=isa,
        nodes=tuple(
            TimedNode(
                name=name,
                kernel=kernel,
                estimated=estimated[name],
                needed_by=tuple(sorted(training.served.get(name, ()))),
                every=training.accumulate if name in applied else 1,
            )
            for name, kernel in nodes_of(training).items()
            if kernel
        ),
        tensors=tuple(tensor.name for tensor in training.elastic),
        always=tuple(i for i, t in enumerate(training.elastic) if t.is_always_trained),
    )


def profile_step(
    plan: TrainingPlan, isa: str, counted: Mapping[str, int] | None = None
) -> StepProfile:
    """Profile an elastic step. counted: what counting.count_instructions found, by node."""
    return profile_of(timing_of(plan, isa), counted)


def profile_of(
    timing: Timing, counted: Mapping[str, int] | None = None, unit: str = INSTRUCTIONS
) -> StepProfile:
    """Profile a timed step. counted: by node, in this unit."""
    nodes = tuple(
        NodeProfile(
            node.name,
            node.kernel,
            *_place(timing, node),
            node.estimated,
            None if counted is None else counted[node.name],
        )
        for node in timing.nodes
    )
    needed_by = {node.name: node.needed_by for node in timing.nodes if node.needed_by}
    times = {node.name: node.time for node in nodes}
    problem = problem_of(needed_by, len(timing.tensors), timing.always, times)
    tensors = tuple(
        TensorProfile(
            name,
            problem.update_times[k],
            next(reach.time for reach in problem.reaches if k in reach.tensors),
            k in timing.always,
        )
        for k, name in enumerate(timing.tensors)
    )
    return StepProfile(timing.isa, nodes, tensors, unit)


def times_of(plan: TrainingPlan, isa: str, profile: Path | None = None) -> ElasticTimes:
    """Return the times of an elastic step, from a profile's file or the instruction model."""
    return estimated_times(plan, isa) if profile is None else read_times(profile, plan)


def read_times(path: Path, plan: TrainingPlan) -> ElasticTimes:
    """Read the times of an elastic step from what `mcutrain profile -o` wrote.

    Raises ModelError if it is none, or of another step.
    """
    try:
        values = json.loads(read_text(path))
        nodes = {str(n["name"]): (str(n["kernel"]), _time_of(n)) for n in values["nodes"]}
        unit = str(values.get("unit", INSTRUCTIONS))
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
    return elastic_times(plan.training, times, unit)


def _time_of(node: Mapping[str, Any]) -> int:
    time = node["estimated"] if node.get("counted") is None else node["counted"]
    if type(time) is not int or not 0 <= time < 2**31:
        raise ValueError(f"a node takes {time!r}")
    return time


def _place(timing: Timing, node: TimedNode) -> tuple[Pass, str | None]:
    """Return which pass a node belongs to, and the tensor that alone needs it."""
    if not node.needed_by:
        return "forward", None
    if len(node.needed_by) != 1:
        return "backward", None
    return "update", timing.tensors[node.needed_by[0]]

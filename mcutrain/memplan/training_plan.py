"""The memory of one training step and of inference: one arena, one state, one set of constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import PlanError
from mcutrain.ir.graph import Graph, Node
from mcutrain.memplan.calls import node_call
from mcutrain.memplan.greedy import solve
from mcutrain.memplan.lifetimes import SCRATCH_PREFIX, lifetimes
from mcutrain.memplan.plan import Buffer, MemoryPlan, align_up
from mcutrain.memplan.replay import replay
from mcutrain.memplan.schedule import schedule
from mcutrain.memplan.validate import validate
from mcutrain.target import Target

Array = npt.NDArray[Any]

STATE_HEADER_BYTES = 12  # random state, updates done, samples of the current update


@dataclass(frozen=True)
class TrainingPlan:
    """A scheduled training step with a place for every tensor.

    training: the scheduled graph. arena: where every buffer lies; its steps are the nodes of the
    graph, then those of `apply`. buffer_of: tensor → buffer. state_offsets: state tensor → first
    byte behind the header. tail: the nodes that only inference runs, from the head on; their
    buffers are counted at the head's step.
    """

    training: TrainGraph
    arena: MemoryPlan
    buffer_of: Mapping[str, str]
    state_offsets: Mapping[str, int]
    state_bytes: int
    constant_bytes: int
    tail: tuple[Node, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of a step, in execution order."""
        return (*self.training.graph.nodes, *self.training.apply)

    @property
    def arena_bytes(self) -> int:
        """Activations, gradients and scratch."""
        return self.arena.arena_bytes

    @property
    def sram_bytes(self) -> int:
        """Arena and trainable state."""
        return self.arena_bytes + self.state_bytes

    def scratch_of(self, node: str) -> int | None:
        """The offset of a node's scratch, if it has any."""
        return self.arena.offsets.get(SCRATCH_PREFIX + node)

    def offset_of(self, tensor: str) -> int:
        """The first byte of a tensor in the arena."""
        return self.arena.offsets[self.buffer_of[tensor]]


@dataclass(frozen=True)
class Layout:
    """A scheduled step and its buffers before they have offsets.

    training: the scheduled graph. buffers: sorted by name. buffer_of: tensor → buffer. tail: see
    TrainingPlan.
    """

    training: TrainGraph
    buffers: tuple[Buffer, ...]
    buffer_of: Mapping[str, str]
    tail: tuple[Node, ...]


def lay_out(training: TrainGraph) -> Layout:
    """Schedule the step and compute lifetimes."""
    scheduled = replace(training, graph=schedule(training.graph))
    nodes = (*scheduled.graph.nodes, *scheduled.apply)
    graph = _with_apply(scheduled)
    persistent = frozenset(
        [
            *scheduled.state,
            *scheduled.updated.values(),
            *(scheduled.label, scheduled.step, scheduled.loss, scheduled.prediction),
        ]
    )
    found = lifetimes(graph, nodes, persistent, (scheduled.x,), ())
    tail = _tail(scheduled)
    tail_buffers = _tail_buffers(scheduled, tail, found.buffer_of)
    head_step = _head_step(scheduled, tail)
    spans = dict(found.spans)
    buffer_of = dict(found.buffer_of)
    for name, (buffer, size) in tail_buffers.items():
        buffer_of[name] = buffer
        spans.setdefault(buffer, (size, head_step, head_step))
    buffers = tuple(Buffer(name, *span) for name, span in sorted(spans.items()))
    return Layout(scheduled, buffers, buffer_of, tail)


def plan_training(training: TrainGraph, align_bytes: int = 4, search: bool = True) -> TrainingPlan:
    """Schedule the step, compute lifetimes, solve, validate, replay.

    align_bytes: of every buffer, at least; sums of int64 need 8.
    """
    layout = lay_out(training)
    scheduled = layout.training
    align_bytes = max(align_bytes, needed_alignment(scheduled))
    arena = solve(layout.buffers, align_bytes, **({} if search else {"search_pairs": 0}))
    validate(arena)
    offsets, state_bytes = state_layout(scheduled)
    constant_bytes = sum(constant_sizes(scheduled).values())
    plan = TrainingPlan(
        scheduled, arena, layout.buffer_of, offsets, state_bytes, constant_bytes, layout.tail
    )
    replay(plan)
    return plan


def needed_alignment(training: TrainGraph) -> int:
    """Of the scratch of all nodes."""
    graph = _with_apply(training)
    calls = [node_call(graph, node) for node in graph.nodes if not node.op.is_view]
    return max((call.align_bytes for call in calls), default=1)


def state_parts(plan: TrainingPlan) -> dict[str, int]:
    """Bytes of the trainable state by what they hold; the sum is state_bytes."""
    training = plan.training
    parts = dict.fromkeys(("weights", "residual_bits", "biases", "gradient_sums", "exponents"), 0)
    for name, value in training.state.items():
        array = np.asarray(value)
        if name in training.parameters:
            kind = "weights" if array.dtype == np.int8 else "biases"
        elif array.dtype == np.int8:
            kind = "exponents"
        else:
            kind = "residual_bits" if array.dtype == np.uint8 else "gradient_sums"
        parts[kind] += array.nbytes
    parts["counters_and_padding"] = plan.state_bytes - sum(parts.values())
    return parts


def check_budget(plan: TrainingPlan, sram_bytes: int) -> None:
    """Raise PlanError with the missing bytes and the step that needs most, if it does not fit."""
    if plan.sram_bytes > sram_bytes:
        needed = f"{plan.arena_bytes} arena, {plan.state_bytes} trainable state"
        raise _too_large(plan, plan.sram_bytes, needed, sram_bytes, "there are")


def check_board(plan: TrainingPlan, target: Target) -> None:
    """The same for all that firmware keeps in a board's SRAM."""
    if target.ram is None:
        return
    needs = target.sram_bytes(plan.arena_bytes, plan.state_bytes)
    if needs > target.ram.size_bytes:
        needed = (
            f"{plan.arena_bytes} arena, {plan.state_bytes} trainable state, "
            f"{target.stack_bytes} stack, {target.firmware_bytes()} firmware"
        )
        raise _too_large(plan, needs, needed, target.ram.size_bytes, f"of {target.name}")


def _too_large(plan: TrainingPlan, needs: int, parts: str, limit: int, of: str) -> PlanError:
    step = plan.arena.peak_step
    return PlanError(
        f"the plan needs {needs} bytes of SRAM ({parts}), {needs - limit} more than the {limit} "
        f"{of}; most is alive at step {step}, {plan.nodes[step].name!r}: train fewer layers, "
        "smaller shares, or use a smaller input"
    )


def _with_apply(training: TrainGraph) -> Graph:
    """The graph with the nodes that run once per update appended."""
    return replace(training.graph, nodes=(*training.graph.nodes, *training.apply))


def _tail(training: TrainGraph) -> tuple[Node, ...]:
    """The nodes of the forward graph that training replaces: the head and what follows."""
    computed = {node.outputs[0] for node in training.graph.nodes}
    return tuple(node for node in training.forward.nodes if node.outputs[0] not in computed)


def _head_step(training: TrainGraph, tail: tuple[Node, ...]) -> int:
    """When training runs its head: the step at which inference turns off."""
    if not tail:
        return len(training.graph.nodes) - 1
    first = tail[0]
    nodes = enumerate(training.graph.nodes)
    return next(i for i, n in nodes if n.inputs == first.inputs or n.outputs[0] in first.inputs[:1])


def _tail_buffers(
    training: TrainGraph, tail: tuple[Node, ...], buffer_of: Mapping[str, str]
) -> dict[str, tuple[str, int]]:
    """Tensor → (buffer, bytes) for what only inference computes."""
    found: dict[str, tuple[str, int]] = {}
    tensors = training.forward.tensors
    for node in tail:
        for name in node.outputs:
            source = node.inputs[0]
            if node.op.is_view and source in found:
                found[name] = found[source]
            elif node.op.is_view and source in buffer_of:
                found[name] = (buffer_of[source], tensors[source].type.size_bytes)
            else:
                found[name] = (name, tensors[name].type.size_bytes)
    return found


def state_layout(training: TrainGraph) -> tuple[dict[str, int], int]:
    """Offsets of the state tensors behind the header, four-byte values first, no gaps."""
    offsets: dict[str, int] = {}
    position = STATE_HEADER_BYTES
    wide_first = sorted(training.state.items(), key=lambda e: -np.asarray(e[1]).itemsize)
    for name, value in wide_first:
        offsets[name] = position
        position += int(np.asarray(value).nbytes)
    return offsets, align_up(position, 4)


def constant_sizes(training: TrainGraph) -> dict[str, int]:
    """Bytes of each weight and bias that stays in flash; tables of multipliers are not counted."""
    used = {name for node in training.graph.nodes for name in node.inputs}
    tensors = training.graph.tensors
    return {n: tensors[n].type.size_bytes for n in sorted(used) if tensors[n].is_constant}

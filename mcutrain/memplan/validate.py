"""Whether a memory plan is sound. Shares no code with the solvers, nor uses a plan's methods."""

from __future__ import annotations

from itertools import pairwise

from mcutrain.errors import PlanError
from mcutrain.memplan.plan import Buffer, MemoryPlan


def validate(plan: MemoryPlan) -> None:
    """Return if no live buffers overlap and every offset is usable; else raise PlanError.

    It checks the alignment and the arena, and that names are unique, sizes and lifetimes not empty.
    Each buffer has one offset, aligned and within the arena, and there is no other. No byte belongs
    to two buffers at any step.
    """
    if plan.align_bytes < 1:
        raise PlanError(f"the alignment is {plan.align_bytes} bytes; it must be at least 1")
    if plan.arena_bytes < 0:
        raise PlanError(f"the arena has {plan.arena_bytes} bytes; it cannot be negative")
    _check_names(plan)
    for buffer in plan.buffers:
        _check_buffer(plan, buffer)
    for step in sorted({buffer.first for buffer in plan.buffers}):
        _check_step(plan, step)


def _check_names(plan: MemoryPlan) -> None:
    seen: set[str] = set()
    for buffer in plan.buffers:
        if buffer.name in seen:
            raise PlanError(f"two buffers are called '{buffer.name}'; give each its own name")
        seen.add(buffer.name)
        if buffer.name not in plan.offsets:
            raise PlanError(f"buffer '{buffer.name}' has no offset; solve the plan again")
    for name in plan.offsets:
        if name not in seen:
            raise PlanError(f"offset of '{name}': there is no such buffer; solve the plan again")


def _check_buffer(plan: MemoryPlan, buffer: Buffer) -> None:
    begin = plan.offsets[buffer.name]
    if buffer.size_bytes <= 0:
        raise PlanError(f"buffer '{buffer.name}' has {buffer.size_bytes} bytes; it needs some")
    if buffer.first > buffer.last:
        raise PlanError(
            f"buffer '{buffer.name}' is alive from step {buffer.first} to step {buffer.last}: "
            "it dies before it is born"
        )
    if begin < 0:
        raise PlanError(f"buffer '{buffer.name}' begins before the arena, at byte {begin}")
    if begin % plan.align_bytes != 0:
        raise PlanError(
            f"buffer '{buffer.name}' begins at byte {begin}, "
            f"which is not a multiple of {plan.align_bytes}"
        )
    if begin + buffer.size_bytes > plan.arena_bytes:
        raise PlanError(f"{_place(plan, buffer)} ends after the arena of {plan.arena_bytes} bytes")


def _check_step(plan: MemoryPlan, step: int) -> None:
    """No two of the buffers alive at `step` share a byte.

    Enough for all steps if done at each birth: of two buffers that are ever alive together, the
    younger is born while the other lives. Enough between neighbours in address order: if any two
    overlap, the lower one also reaches into whatever begins next above it.
    """
    live = [buffer for buffer in plan.buffers if buffer.first <= step <= buffer.last]
    live.sort(key=lambda buffer: plan.offsets[buffer.name])
    for lower, upper in pairwise(live):
        if plan.offsets[lower.name] + lower.size_bytes > plan.offsets[upper.name]:
            raise PlanError(
                f"{_place(plan, lower)} and {_place(plan, upper)} overlap while both are alive, "
                f"in step {step}"
            )


def _place(plan: MemoryPlan, buffer: Buffer) -> str:
    begin = plan.offsets[buffer.name]
    return (
        f"buffer '{buffer.name}' (steps {buffer.first} to {buffer.last}, "
        f"bytes {begin} to {begin + buffer.size_bytes - 1})"
    )

"""How much of a step computes row by row: no more than its memory asks for.

Rows cost instructions: a kernel is called for a few of them at a time, and some are read twice. So
where a board or a budget is known, a step computes as little row by row as fits. Where none is, it
does so if that saves a larger share of SRAM than it costs of instructions. Every choice computes
the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mcutrain.cost.instructions import USUAL_ISA, estimate
from mcutrain.memplan import LeastMemory, TrainingPlan, lay_out, plan_training
from mcutrain.memplan.plan import peak
from mcutrain.pipeline import TrainingStep

WORTH = 0.01
"""Share of a step's instructions; for less no memory is taken, which other code may want."""
MOST_REPEATS = 4
"""Plans with less room, where buffers leave gaps between them and the arena takes more."""
Report = Callable[[int, int], None]


def fit_rows(
    step: TrainingStep, sram_bytes: int | None, report: Report = lambda nodes, of: None
) -> TrainingStep:
    """A step that computes as little row by row as the memory allows.

    step: planned with as much row by row as makes its arena smallest. sram_bytes: what arena and
    state may take; None: nobody knows. Returns the same step where it does not fit as it is, where
    less than WORTH is saved, and where it has a proxy cascade or is elastic. What an elastic step
    leaves out depends on what its parts take, and must be the same in a simulation that knows of no
    board.
    """
    least = step.plan
    if not least.segments or least.training.elastic or least.ladder is not None:
        return step
    work = work_of(least)
    if sram_bytes is None:
        found = _less_in_all(least, work, report)
    else:
        found = _fit(least, sram_bytes, report)
    if found is least:
        return step
    more = work - work_of(found)
    if more < WORTH * work:
        return step
    return replace(step, plan=replace(found, least=LeastMemory(_needs(least), more)))


def work_of(plan: TrainingPlan) -> int:
    """Instructions of a step on a Cortex-M4 or M7, by estimate."""
    return sum(estimate(plan.training, USUAL_ISA, plan.segments).values())


def _fit(least: TrainingPlan, sram_bytes: int, report: Report) -> TrainingPlan:
    """The plan with the fewest instructions in so many bytes, or that one."""
    room_bytes = sram_bytes - least.resident_bytes
    for _ in range(MOST_REPEATS):
        if room_bytes <= least.arena_bytes:
            break
        found = plan_training(
            least.training, least.arena.align_bytes, room_bytes=room_bytes, report=report
        )
        excess = _needs(found) - sram_bytes
        if excess <= 0:
            return found
        room_bytes -= excess
    return least


def _less_in_all(least: TrainingPlan, work: int, report: Report) -> TrainingPlan:
    """Return `least`, or the plan without rows if its bytes times its instructions are less.

    work: instructions of that plan.
    """
    training, align_bytes = least.training, least.arena.align_bytes
    most_bytes = _needs(least) * work / sum(estimate(training, USUAL_ISA).values())
    layout = lay_out(training, align_bytes, "off")
    if peak(layout.buffers, align_bytes)[1] + least.resident_bytes >= most_bytes:
        return least
    plain = plan_training(training, align_bytes, stream="off", report=report)
    return plain if _needs(plain) < most_bytes else least


def _needs(plan: TrainingPlan) -> int:
    """Bytes of arena and of what stays beside it."""
    return plan.arena_bytes + plan.resident_bytes

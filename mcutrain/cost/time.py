"""How long a step takes on a board: estimated instructions, assumed cycles, a known clock."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain.cost.instructions import estimate
from mcutrain.memplan import TrainingPlan
from mcutrain.target import Target


@dataclass(frozen=True)
class StepTime:
    """Time of one step, in milliseconds: as planned with, the least and the most.

    instructions: of a step, estimated. cycles, cycles_range: of an instruction, as the board's file
    has them; rests_on: what these rest on, in words. clock_hz: of the core.
    """

    ms: float
    least_ms: float
    most_ms: float
    instructions: int
    cycles: float
    cycles_range: tuple[float, float]
    clock_hz: int
    rests_on: str

    @property
    def text(self) -> str:
        """The milliseconds in words."""
        return f"{_digits(self.ms)} ms{self.bounds}"

    @property
    def bounds(self) -> str:
        """The least and the most, in brackets; empty where they are the same."""
        least, most = _digits(self.least_ms), _digits(self.most_ms)
        return "" if least == most else f" ({least} to {most})"

    @property
    def reason(self) -> str:
        """How they come about."""
        cycles = f"{self.cycles:g}"
        if self.cycles_range[0] != self.cycles_range[1]:
            cycles += " ({:g} to {:g})".format(*self.cycles_range)
        rests_on = f", assumed, from {self.rests_on}" if self.rests_on else ""
        return (
            f"{self.instructions / 1e6:.1f} M instructions, estimated, of {cycles} cycles at "
            f"{self.clock_hz / 1e6:g} MHz{rests_on}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON."""
        return {**asdict(self), "cycles_range": list(self.cycles_range)}


def step_time(plan: TrainingPlan, target: Target | None) -> StepTime | None:
    """Return a plan's time on a board; None where board, clock, cycles or instructions are unknown.

    An elastic step counts with all of its tensors trained, one with a gate as if it learnt.
    """
    if target is None:
        return None
    return time_of(sum(estimate(plan.training, target.costs, plan.segments).values()), target)


def time_of(instructions: int, target: Target) -> StepTime | None:
    """Return the time of so many instructions."""
    clock, cycles = target.clock_hz, target.cycles_per_instruction
    if clock is None or cycles is None or not instructions:
        return None
    least, most = target.cycles_range

    def ms(per_instruction: float) -> float:
        return 1000 * instructions * per_instruction / clock

    facts = (cycles, target.cycles_range, clock, target.cycles_source)
    return StepTime(ms(cycles), ms(least), ms(most), instructions, *facts)


def _digits(ms: float) -> str:
    """Two digits, or all before the point."""
    return f"{ms:,.0f}" if ms >= 10 else f"{ms:.2g}"

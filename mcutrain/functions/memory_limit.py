"""What a training step may take: a board, so many bytes, or the usual memory."""

from __future__ import annotations

from mcutrain_host.dataclass import dataclass

from mcutrain.cost.flash import code_sizes
from mcutrain.cost.memory import flash_bytes
from mcutrain.errors import ArgumentError, OptionError
from mcutrain.features import heard_bytes
from mcutrain.pipeline import TrainingStep
from mcutrain.selection.cost import Limits
from mcutrain.target import Target

USUAL_SRAM = 256 * 1024
"""Bytes of arena and state where neither a board nor a budget is known."""
NO_BOARD = "no board is named (--board, --sram)"


@dataclass(frozen=True)
class MemoryLimit:
    """What a training step may take. target: the board; without it, bytes of arena and state.

    is_usual: nobody said how much there is.
    """

    limits: Limits
    target: Target | None = None
    is_usual: bool = False

    @staticmethod
    def of(target: Target | None = None, sram: int | None = None) -> MemoryLimit:
        """Return the limit of a board, or of so many bytes, or the usual one."""
        if target is None and sram is None:
            return MemoryLimit(Limits(USUAL_SRAM), None, True)
        return MemoryLimit(limits_of(target, sram, None, None, None), target)

    @property
    def sram_bytes(self) -> int | None:
        """How much there is; None for a board that runs an operating system."""
        return self.limits.sram_bytes

    @property
    def name(self) -> str:
        """Name of the memory, for a sentence."""
        if self.target is not None:
            return self.target.name
        return f"{self.sram_bytes:,} bytes"

    @property
    def title(self) -> str:
        """What stands behind a number of its bytes."""
        if self.target is not None:
            return f" of {self.target.name}"
        return f", assumed: {NO_BOARD}" if self.is_usual else ""

    def needs(self, step: TrainingStep) -> int:
        """Bytes of SRAM: on a board all that its firmware takes, else arena and state.

        What a library hears by its front end is among them.
        """
        plan = step.plan
        heard = heard_bytes(plan.training, self.target)
        if self.target is None or self.target.ram is None:
            return plan.sram_bytes + heard
        return self.target.sram_bytes(plan.arena_bytes, plan.resident_bytes) + heard

    def fits(self, step: TrainingStep) -> bool:
        """Return whether there is enough SRAM, and enough flash as far as that is known."""
        if self.sram_bytes is not None and self.needs(step) > self.sram_bytes:
            return False
        flash = self.limits.flash_bytes
        return flash is None or self.flash_needs(step) <= flash

    def flash_needs(self, step: TrainingStep) -> int:
        """Bytes of flash, rather more than it is; 0 where that is not known."""
        code = None if self.target is None else code_sizes(self.target.costs)
        return 0 if code is None else flash_bytes(step.plan.training, code)


def limits_of(
    target: Target | None,
    sram: int | None,
    flash: int | None,
    instructions: int | None,
    step_seconds: float | None,
) -> Limits:
    """Return what all limits and the board together allow. Raises ArgumentError."""
    if target is None:
        others = {"flash": flash, "instructions": instructions, "step_seconds": step_seconds}
        for name, value in others.items():
            if value is not None:
                raise OptionError(name, "needs a board: give --board, too")
        if sram is None:
            raise OptionError("sram", "is needed as a limit: give --sram, --board or --sweep")
        return Limits(sram)
    counts = [n for n in (instructions, _instructions(target, step_seconds)) if n is not None]
    if counts and target.is_hosted:
        raise OptionError(
            "instructions" if step_seconds is None else "step_seconds",
            f"cannot be a limit: instructions of {target.name} are not known; take a "
            "microcontroller",
        )
    return Limits(
        sram if sram is not None or target.ram is None else target.ram.size_bytes,
        flash if flash is not None or target.flash is None else target.flash.size_bytes,
        min(counts, default=None),
        target.slots_flash_bytes if flash is None else 0,
    )


def _instructions(target: Target, step_seconds: float | None) -> int | None:
    """Return how many a board executes in that time."""
    if step_seconds is None:
        return None
    if target.clock_hz is None or target.cycles_per_instruction is None:
        raise ArgumentError(f"the clock or cycles_per_instruction of {target.name} is not known")
    return int(step_seconds * target.clock_hz / target.cycles_per_instruction)

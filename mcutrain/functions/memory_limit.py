"""What a training step may take: a board, so many bytes, or the usual memory."""

from __future__ import annotations

from dataclasses import dataclass

from mcutrain.cost.flash import code_sizes
from mcutrain.cost.memory import flash_bytes
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
        from mcutrain.functions.choosing import limits_of  # it imports what selects, too

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

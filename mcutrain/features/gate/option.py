"""The option of a step with a gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff import Gate
from mcutrain.autodiff.rewriting import Building, Rewriting


@dataclass(frozen=True, kw_only=True)
class GateOption:
    """A field of StepOptions.

    gate: a step learns only from samples with a loss above so many times the mean of late ones,
    such as 0.8; None from all.
    """

    gate: float | None = None


@dataclass(frozen=True)
class GateRewriting(Rewriting):
    """The gate of a step; nodes stay as they are."""

    gate: Gate

    def finish(self, building: Building) -> Mapping[str, Any]:
        """Return the gate."""
        return {"gate": self.gate}


def rewriting(options: GateOption) -> Rewriting | None:
    """Raises ArgumentError for what is no share of an average."""
    return None if options.gate is None else GateRewriting(Gate.of(options.gate))

"""The option of a step."""

from __future__ import annotations

from mcutrain_host.dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class DriftOption:
    """A field of StepOptions. drift: samples correct which front of a proxy cascade is taken."""

    drift: bool = False

"""Timing: a program keeps the fewest ticks that each node took."""

from __future__ import annotations

from mcutrain.features.feature import Code, ProgramFeature, Told

__all__ = ["FEATURE"]


def _nodes(code: Code, told: Told) -> int:
    """Return how many nodes are timed."""
    return 0 if told.timing is None else len(told.timing.nodes)


FEATURE = ProgramFeature(
    name="timing",
    value="timed",
    is_on=lambda code, told: told.timing is not None,
    over=("fed", "latents"),
    code=_nodes,
    commands="times",
)

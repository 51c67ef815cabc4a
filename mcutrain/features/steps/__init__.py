"""Steps: a streaming network computes some rows at a time, with the weights that are trained."""

from __future__ import annotations

from mcutrain.features.feature import Code, ProgramFeature, StreamingSteps, Told

__all__ = ["FEATURE"]


def _code(code: Code, told: Told) -> StreamingSteps:
    """Return what a step computes, and its rings."""
    assert code.steps is not None, "it is on"
    return code.steps


FEATURE = ProgramFeature(
    name="steps",
    is_on=lambda code, told: code.steps is not None,
    code=_code,
)

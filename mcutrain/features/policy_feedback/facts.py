"""What policy feedback has come to."""

from __future__ import annotations

from mcutrain_host.dataclass import dataclass

from mcutrain.features.facts import fact
from mcutrain.features.policy_feedback.policy import LEVEL_DRIFT, STEPS


def _line(drift: float, steps: int) -> str:
    if drift == 0:
        return "none: the fronts that the policy chooses"
    kind = "cheaper" if drift > 0 else "dearer"
    return f"{drift:+g} of a score for each level: {kind} fronts than the policy chooses"


@dataclass(frozen=True, kw_only=True)
class DriftFacts:
    """A field of results.

    drift: by how many units of a score each level is preferred to the one before, in the end.
    """

    drift: float | None = fact(
        LEVEL_DRIFT,
        lambda words: words[1] / STEPS,
        is_count=False,
        brief=lambda drift: f"drift {drift:+g}",
        line=_line,
    )

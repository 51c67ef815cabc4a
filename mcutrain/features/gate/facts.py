"""What a gate counts."""

from __future__ import annotations

from mcutrain_host.dataclass import dataclass
from mcutrain_host.state import GATE_SKIPPED

from mcutrain.features.facts import fact
from mcutrain.shown import percent


def _line(skipped: int, steps: int) -> str:
    share = percent(skipped / max(steps, 1))
    return f"{skipped:,} of {steps:,} steps, {share}: their loss did not pass the gate"


@dataclass(frozen=True, kw_only=True)
class GateFacts:
    """A field of results. skipped: samples that the gate kept from being learnt."""

    skipped: int | None = fact(
        GATE_SKIPPED,
        lambda words: words[0],
        is_count=True,
        brief=lambda skipped: f"{skipped:,} skipped",
        line=_line,
    )

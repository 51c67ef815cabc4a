"""What a proxy cascade counts."""

from __future__ import annotations

from collections.abc import Sequence

from mcutrain_host.dataclass import dataclass
from mcutrain_host.state import LEVEL_SAMPLES

from mcutrain.features.facts import fact
from mcutrain.shown import percent


def _sum(levels: Sequence[int]) -> str:
    return " + ".join(f"{count:,}" for count in levels)


def _line(levels: Sequence[int], steps: int) -> str:
    shares = ", ".join(percent(count / max(sum(levels), 1)) for count in levels)
    return f"{_sum(levels)} samples of the whole front and each proxy, {shares}"


@dataclass(frozen=True, kw_only=True)
class LadderFacts:
    """A field of results. levels: samples that each front took, the whole one first."""

    levels: tuple[int, ...] | None = fact(
        LEVEL_SAMPLES,
        tuple,
        is_count=True,
        brief=lambda levels: f"levels {_sum(levels)}",
        line=_line,
    )

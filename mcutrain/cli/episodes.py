"""What the command line tells of few-shot episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcutrain.cli.output import percent, show

if TYPE_CHECKING:
    from mcutrain.functions.episodes import FewShot


def episodes_facts(found: FewShot, facts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return values for --json. facts: of each run."""
    return {**found.to_dict(), "episodes": list(facts)}


def print_episodes(found: FewShot) -> None:
    """A line for each, and one for all."""
    for row in found.records():
        scores = f"{percent(row['accuracy_before'])} before, {percent(row['accuracy'])} after"
        title = f"episode {row['seed']}"
        show(f"{title:15} {scores}: {row['classes']}")
    error = found.interval
    if error is not None:
        show(
            f"test accuracy   {100 * found.accuracy:.1f} ± {100 * error:.1f} %, the mean of "
            f"{len(found.runs)} episodes and its 95 % confidence interval"
        )

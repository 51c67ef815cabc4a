"""What the command line tells of few-shot episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcutrain.cli.output import percent, show

if TYPE_CHECKING:
    from mcutrain.data import Episodes
    from mcutrain.functions.simulating import Learnt


def episodes_facts(
    episodes: Episodes, learnt: Sequence[Learnt], facts: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return values for --json. facts: of each run."""
    from mcutrain.report.learning import interval_of, mean_of

    accuracies = [one.result.accuracy for one in learnt]
    return {
        "model": learnt[0].step.graph.name,
        "scheme": learnt[0].step.scheme.name,
        "ways": episodes.ways,
        "shots": episodes.shots,
        "accuracy_before": mean_of([one.result.before for one in learnt]),
        "accuracy": mean_of(accuracies),
        "interval": interval_of(accuracies),
        "episodes": list(facts),
    }


def print_episodes(learnt: Sequence[Learnt]) -> None:
    """A line for each, and one for all."""
    from mcutrain.report.learning import interval_of, mean_of

    for one in learnt:
        names = ", ".join(one.run.samples.split.names)
        scores = f"{percent(one.result.before)} before, {percent(one.result.accuracy)} after"
        show(f"{f'episode {one.run.settings.seed}':15} {scores}: {names}")
    accuracies = [one.result.accuracy for one in learnt]
    error = interval_of(accuracies)
    mean = 100 * mean_of(accuracies)
    if error is not None:
        show(
            f"test accuracy   {mean:.1f} ± {100 * error:.1f} %, the mean of {len(learnt)} episodes "
            "and its 95 % confidence interval"
        )

"""Few-shot episodes on the command line: which flags go with them, and what is told of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mcutrain.cli.output import percent, show

if TYPE_CHECKING:
    from mcutrain.cli.automatic import Used
    from mcutrain.cli.options import StepRequest
    from mcutrain.data import Episodes, Split
    from mcutrain.functions.automatic import AutoScheme
    from mcutrain.pipeline import TrainingStep
    from mcutrain.runs.training import SimulationResult
    from mcutrain.simulation import Run, RunSettings


@dataclass(frozen=True)
class Learnt:
    """A run that is over. warning: what is to be said of it, if anything. used: of the memory.

    choice: of the scheme, if it was chosen.
    """

    step: TrainingStep
    run: Run
    result: SimulationResult
    warning: str
    used: Used
    choice: AutoScheme | None = None


def check_flags(episodes: Episodes, flags: StepRequest, of_one_run: Mapping[str, object]) -> None:
    """Raise DataError for flags that do not go with episodes. of_one_run: by name."""
    from mcutrain.errors import DataError

    if flags.options.added:
        raise DataError("--add-class keeps the model's classifier, but an episode has a new one")
    if flags.options.loss == "mse":
        raise DataError("an episode learns classes, which --loss mse does not: leave it out")
    if of_one_run.get("--after"):
        raise DataError("--after goes on with a run's classifier, but an episode has a new one")
    for flag, value in of_one_run.items():
        if value is not None and episodes.count > 1:
            raise DataError(
                f"{flag} is of one run, but these are {episodes.count} episodes: leave it out, or "
                "give --episodes 1"
            )


def learn_all(
    episodes: Episodes,
    split: Split,
    settings: RunSettings,
    learn: Callable[[Split, RunSettings], Learnt],
) -> list[Learnt]:
    """Each of them from its seed, at the learning rate of the first."""
    episodes.check(split)
    learnt: list[Learnt] = []
    for seed in range(settings.seed, settings.seed + episodes.count):
        rate = learnt[0].run.settings.learning_rate if learnt else settings.learning_rate
        drawn = episodes.draw(split, seed)
        learnt.append(learn(drawn, replace(settings, seed=seed, learning_rate=rate)))
    return learnt


def episodes_facts(
    episodes: Episodes, learnt: Sequence[Learnt], facts: Callable[[Learnt], dict[str, Any]]
) -> dict[str, Any]:
    """Return values for --json. facts: of a run."""
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
        "episodes": [facts(one) for one in learnt],
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

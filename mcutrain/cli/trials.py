"""Many training runs on the screen: a bar over all steps, a line for each run that is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from mcutrain.cli import INTERRUPTED
from mcutrain.cli.output import count_bar, err, percent, say
from mcutrain.cli.training import Lines

if TYPE_CHECKING:
    from mcutrain.experiments.parallel import Standing
    from mcutrain.runs.result import SimulationResult


@contextmanager
def watching_trials(
    title: str, names: Sequence[str], count: int, each: str = "seed"
) -> Iterator[Callable[[Standing], None]]:
    """What to report to. names: of the schemes. count: of runs. At Ctrl-C all runs are saved.

    each: what the runs of a scheme differ in.
    """
    lines = Lines(title)
    width = max(map(len, names), default=0)
    done = 0
    with count_bar() as bar:
        task = bar.add_task(f"{title}: training steps", total=None)

        def report(status: Standing) -> None:
            nonlocal done
            bar.update(task, completed=status.steps, total=status.total)
            for trial, result in status.finished:
                done += 1
                err.print(
                    f"{names[trial.scheme]:{width}} {each} {trial.seed}: {_scores(result)}",
                    soft_wrap=True,
                )
            steps, total = status.steps, status.total
            lines.tell(f"{steps:,} of {total:,} training steps", steps, total)

        try:
            yield report
        except KeyboardInterrupt:
            say(
                f"mcutrain: interrupted, {done} of {count} runs are done; the same command "
                "continues, also the others"
            )
            raise typer.Exit(INTERRUPTED) from None


def _scores(result: SimulationResult) -> str:
    """What schemes are compared by, before and after: R² of real targets, AUC of anomalies."""
    for measure, name in (("r2", "R²"), ("auc", "AUC")):
        before, after = (getattr(result, f"{measure}{when}") for when in ("_before", ""))
        if math.isnan(result.accuracy) and after is not None:
            return f"{name} {before:.4f} before, {after:.4f} after"
    return f"{percent(result.before)} before, {percent(result.accuracy)} after"

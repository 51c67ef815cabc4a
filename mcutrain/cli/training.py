"""A training run on the screen: a bar on stderr, a line per epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcutrain.cli.output import err, percent, training_bar

if TYPE_CHECKING:
    from mcutrain.api import Watch
    from mcutrain.simulate import Progress, Run

SMOOTHING = 0.02
"""Weight of the newest sample in the shown loss and accuracy; like an average of the last 50."""


@contextmanager
def watching(run: Run, title: str) -> Iterator[Watch]:
    """Show a run while it lasts."""
    from mcutrain.api import Watch

    with training_bar() as bar:
        task = bar.add_task(title, total=run.total, facts="")
        shown = _Smoothed()

        def training(progress: Progress) -> None:
            shown.add(progress)
            facts = (
                f"epoch {len(run.state.epochs) + 1}/{run.settings.epochs}  loss {shown.loss:.3f}  "
                f"accuracy {percent(shown.accuracy)}  {progress.samples_per_second:,.0f} samples/s"
            )
            bar.update(task, completed=progress.trained, facts=facts)

        def evaluating(done: int) -> None:
            of = len(run.samples.split.test)
            bar.update(task, completed=run.state.trained, facts=f"testing {done:,} of {of:,}")

        yield Watch(training, evaluating)


def tell_epochs(run: Run, first: int = 0) -> None:
    """A line per epoch on stderr, from `first` on."""
    for epoch in run.state.epochs[first:]:
        err.print(
            f"epoch {epoch.epoch}/{run.settings.epochs}: loss {epoch.loss:.3f}, "
            f"training {percent(epoch.train_accuracy)}, test {percent(epoch.test_accuracy)}"
        )


class _Smoothed:
    """Exponential averages of loss and accuracy."""

    def __init__(self) -> None:
        self.loss = self.accuracy = 0.0
        self._trained: int | None = None

    def add(self, progress: Progress) -> None:
        if self._trained is None:
            keep = 0.0
        else:
            keep = (1 - SMOOTHING) ** (progress.trained - self._trained)
        self._trained = progress.trained
        self.loss = keep * self.loss + (1 - keep) * progress.loss
        self.accuracy = keep * self.accuracy + (1 - keep) * progress.accuracy

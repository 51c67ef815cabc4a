"""A training run on the screen: a bar on stderr, a line per epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcutrain.cli.output import count_bar, duration, err, percent, shortened, training_bar
from mcutrain.functions.smoothed import Smoothed

if TYPE_CHECKING:
    from mcutrain.autodiff.elastic import ElasticTensor
    from mcutrain.data import Split
    from mcutrain.features import Decision
    from mcutrain.runs.watch import Watch
    from mcutrain.simulation import EpochResult, FoundRate, Progress, Run

LEAST = 0.0005
"""A tensor is named if its share of all importances is at least this."""
LINE_SECONDS = 30.0
"""How often a line is printed where a bar cannot be drawn."""
LONGEST_TITLE = 24
"""A scheme's text may have hundreds of characters; its first ones tell it from others."""
QUIET_SECONDS = 2.0
"""What a search for a smaller arena may take before it is shown; most plans need none."""


@contextmanager
def watching(run: Run, title: str) -> Iterator[Watch]:
    """Show a run while it lasts."""
    from mcutrain.runs.watch import Watch

    title = shortened(title, LONGEST_TITLE)
    with training_bar() as bar:
        task = bar.add_task(title, total=run.total, facts="")
        shown = Smoothed()
        epochs = _Epochs(run, title)
        lines = Lines(title)

        def training(progress: Progress) -> None:
            shown.add(progress.trained, progress.loss, progress.accuracy)
            epochs.tell()
            facts = (
                f"epoch {len(run.state.epochs) + 1}/{run.settings.epochs}  {shown.text}  "
                f"{progress.samples_per_second:,.0f} samples/s"
            )
            bar.update(task, completed=progress.trained, facts=facts)
            steps = f"{progress.trained:,} of {progress.total:,} steps"
            lines.tell(f"{steps}  {facts}", progress.trained, progress.total)

        def evaluating(done: int) -> None:
            of = len(run.samples.split.test)
            facts = f"testing {done:,} of {of:,}"
            bar.update(task, completed=run.state.trained, facts=facts)
            lines.tell(facts)

        def resumed(done: int, of: int) -> None:
            epochs.tell()
            is_over = f"the checkpoint has all {of:,} steps"
            goes_on = f"goes on at step {done:,} of {of:,}, from the checkpoint"
            err.print(f"{title}  {goes_on if done < of else is_over}", soft_wrap=True)

        yield Watch(training, evaluating, resumed=resumed)
        epochs.tell()


@contextmanager
def searching(before: str = "") -> Iterator[Callable[[int, int], None]]:
    """Show how far the search for a learning rate is. before: what is done first."""
    lines = Lines("learning rate")
    with err.status(before or "looking for a learning rate") as status:

        def report(done: int, of: int) -> None:
            facts = f"{done} trials done, about {of} in all"
            status.update(f"looking for a learning rate: {facts}")
            lines.tell(facts)

        yield report


@contextmanager
def placing() -> Iterator[Callable[[int, int], None]]:
    """Show how far the search for a smaller arena is, if it takes long."""
    begin, lines = math.inf, Lines("placing buffers")
    lines.last = -math.inf
    status = err.status("placing buffers")

    def report(nodes: int, of: int) -> None:
        nonlocal begin
        begin = min(begin, time.monotonic())
        if time.monotonic() - begin < QUIET_SECONDS:
            return
        facts = f"a smaller arena is searched, {nodes:,} nodes of {of:,} at most"
        status.update(f"placing buffers: {facts}")
        status.start()
        lines.tell(facts)

    try:
        yield report
    finally:
        status.stop()


@contextmanager
def counting(title: str, is_quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show how far work in several parts is: what tells it the part, how much is done, and of what.

    title: shown before there is a part, and in the lines where a bar cannot be drawn.
    """
    with count_bar(is_quiet) as bar:
        task, lines = bar.add_task(title, total=None), Lines(title)

        def tell(what: str, done: int, of: int) -> None:
            bar.update(task, description=what, completed=done, total=of)
            lines.tell(f"{what}  {done:,} of {of:,}", done, of)

        yield tell


def rate_line(
    rate: float | None, found: FoundRate | None = None, split: Split | None = None
) -> str:
    """The rate that was found, as it can be given again, and below it what is doubtful about it.

    found: None for one that a checkpoint kept. split: whose trials found it.
    """
    judged = "" if split is None or split.validation is None else ", judged by validation samples"
    doubt = "" if found is None or not found.doubt else f"\nmcutrain: note: {found.doubt}"
    return f"learning rate found on training samples{judged}: --lr {rate:g}{doubt}"


def batch_line(mixed: int, updates: int) -> str:
    """Return how many updates had samples of several levels."""
    return (
        f"batches         {updates - mixed:,} updates from samples of one level, {mixed:,} from "
        "those that were left over"
    )


def selection_lines(
    decisions: Sequence[Decision], tensors: Sequence[ElasticTensor]
) -> Iterator[str]:
    """Return what an elastic run trained, a line for each selection."""
    from mcutrain.runs.log import decision_facts

    title = "trained"
    for decision in decisions:
        facts = decision_facts(decision, tensors)
        most = sorted(facts["importance"].items(), key=lambda item: -item[1])
        most = most[: 3 * decision.has_helped]
        because = ", ".join(f"{name} {percent(share)}" for name, share in most if share > LEAST)
        yield (
            f"{title:16}{len(decision.tensors)} of {len(tensors)} tensors from step "
            f"{decision.step + 1:,} on" + (f"; what helped: {because}" if because else "")
        )
        title = ""


OF_OUTPUTS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "accuracy": ("test accuracy", percent),
    "f1": ("mean F1", percent),
    "iou": ("mean IoU", percent),
    "mae": ("test MAE", "{:.4g}".format),
    "r2": ("R²", "{:.3f}".format),
}
"""Measures of one of several outputs: the title of a line, and how they are written."""


def score_lines(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Return what a test said of a network that reproduces its input: its loss, and AUC if known.

    Of one that gives a class for each position: the share of these, and intersections over unions.
    Of one with a label for each output: the share of these, F1 and AUC.
    """
    if "f1" in before:
        yield from _label_lines(before, after)
        return
    if "accuracy" in before:
        yield (
            f"test accuracy   {percent(before['accuracy'])} before, {percent(after['accuracy'])} "
            "after: of the labelled positions"
        )
        if before["iou"] is not None and after["iou"] is not None:
            of_each = " ".join("-" if s is None else percent(s) for s in after["class_iou"])
            yield (
                f"mean IoU        {percent(before['iou'])} before, {percent(after['iou'])} after; "
                f"of each class {of_each}"
            )
        return
    if "mae" in before:
        yield (
            f"test error      {before['mae']:.4g} before, {after['mae']:.4g} after: mean absolute "
            f"error (MAE), in the targets' unit"
        )
        if "r2" in before and "r2" in after:
            yield f"R²              {before['r2']:.3f} before, {after['r2']:.3f} after"
        return
    of_outputs = [name for name in before if name.rpartition(" ")[2] in OF_OUTPUTS]
    if of_outputs:
        yield (
            f"test loss       {before['loss']:.4f} before, {after['loss']:.4f} after: of all "
            "outputs"
        )
        for name in of_outputs:
            output, _, measure = name.rpartition(" ")
            title, said = OF_OUTPUTS[measure]
            scores = f"{said(before[name])} before, {said(after.get(name, math.nan))} after"
            yield f"{title:15} {scores}: {output}"
        return
    yield (
        f"test loss       {before['loss']:,.3f} before, {after['loss']:,.3f} after: mean squared "
        "error in squared steps of the input"
    )
    if "auc" in before and "auc" in after:
        yield (
            f"AUC             {before['auc']:.4f} before, {after['auc']:.4f} after: the loss as "
            "the score of anomalies"
        )


def class_lines(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """F1 in the mean over the classes, and the AUC of two: what accuracy hides of rare classes."""
    for title, name, said in (("mean F1", "f1", percent), ("AUC", "auc", "{:.4f}".format)):
        if before.get(name) is not None and after.get(name) is not None:
            yield f"{title:16}{said(before[name])} before, {said(after[name])} after"


def _label_lines(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"test accuracy   {percent(before['accuracy'])} before, {percent(after['accuracy'])} "
        "after: of the labels"
    )
    for title, name, said in (("mean F1", "f1", percent), ("mean AUC", "auc", "{:.4f}".format)):
        if before[name] is not None and after[name] is not None:
            of_each = " ".join("-" if s is None else said(s) for s in after[f"class_{name}"])
            yield (
                f"{title:16}{said(before[name])} before, {said(after[name])} after; of each label "
                f"{of_each}"
            )


class _Epochs:
    """A line per epoch that is over."""

    def __init__(self, run: Run, title: str) -> None:
        self.run, self.title, self.told = run, title, 0

    def tell(self) -> None:
        for epoch in self.run.state.epochs[self.told :]:
            err.print(
                f"{self.title}  epoch {epoch.epoch}/{self.run.settings.epochs}: "
                f"loss {epoch.loss:.3f}{_test(epoch)}",
                soft_wrap=True,
            )
        self.told = len(self.run.state.epochs)


def _test(epoch: EpochResult) -> str:
    """Accuracies where there are classes, else loss and AUC; without a test what there is."""
    from mcutrain.features import FACTS

    said = "" if math.isnan(epoch.train_accuracy) else f", training {percent(epoch.train_accuracy)}"
    if epoch.test_mae is not None:
        said += f", test MAE {epoch.test_mae:.4g}"
        said += "" if epoch.test_r2 is None else f", R² {epoch.test_r2:.3f}"
    elif epoch.test_loss is not None:
        said += f", test {epoch.test_loss:.3f}"
    elif epoch.test_accuracy is not None:
        said += f", test {percent(epoch.test_accuracy)}"
    if epoch.test_f1 is not None:
        said += f", F1 {percent(epoch.test_f1)}"
    if epoch.test_iou is not None:
        said += f", mean IoU {percent(epoch.test_iou)}"
    said += FACTS.brief(FACTS.of(epoch))
    return said if epoch.test_auc is None else f"{said}, AUC {epoch.test_auc:.4f}"


class Lines:
    """Progress where no bar can be drawn: a line every LINE_SECONDS."""

    def __init__(self, title: str) -> None:
        self.title, self.last = title, time.monotonic()
        self._since, self._first, self._done, self._of = self.last, 0, 0, 0

    def tell(self, text: str, done: int = 0, of: int = 0) -> None:
        """Print it, if it is time. done, of: how far it is, for the time left; of 0: nobody knows.

        Fewer done than before, or of another number, is another part of the work.
        """
        now = time.monotonic()
        if of and (of != self._of or done < self._done):
            self._since, self._first, self._of = now, done, of
        self._done = done if of else self._done
        if err.is_terminal or now - self.last < LINE_SECONDS:
            return
        self.last = now
        err.print("  ".join(filter(None, (self.title, text, self._left(now, of)))), soft_wrap=True)

    def _left(self, now: float, of: int) -> str:
        """Return how long the rest takes, if it goes on as since the first call."""
        done = self._done - self._first
        if not of or done <= 0:
            return ""
        return f"{duration((of - self._done) * (now - self._since) / done)} left"

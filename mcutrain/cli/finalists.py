"""`mcutrain select --finalists`: proposals are trained, and the best one is selected."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcutrain.cli import options
from mcutrain.cli.output import count_bar, percent, show, show_table
from mcutrain.cli.training import Lines
from mcutrain.cli.trials import watching_trials

if TYPE_CHECKING:
    from mcutrain.cli.samples import DataSource
    from mcutrain.data import Split
    from mcutrain.experiments.finalists import Finalist
    from mcutrain.experiments.parallel import Lesson
    from mcutrain.functions.choosing import Choice
    from mcutrain.ir.graph import Graph
    from mcutrain.selection.contribution import Contributions
    from mcutrain.selection.proposals import Proposal
    from mcutrain.simulation import RunSettings


@dataclass(frozen=True)
class SchemeTraining:
    """How schemes are trained. samples: to train on, None is all; jobs: None is one per core."""

    source: DataSource
    settings: RunSettings
    samples: int | None
    accumulate: int
    jobs: int | None

    @property
    def processes(self) -> int:
        """One per core unless told otherwise."""
        return self.jobs or os.cpu_count() or 1

    def read(self, graph: Graph, classes: int | None) -> Split:
        """The whole data set. classes: outputs of a new head, None keeps the model's own."""
        from mcutrain.runs.training import model_input

        whole = self.source.read_labelled(model_input(graph))
        wanted = options.KEEP if classes is None else str(classes)
        return options.fit_classes(graph, whole, wanted, self.source.class_names)[1]

    def some(self, graph: Graph, classes: int | None) -> Split:
        """As many training samples as asked for, and the test samples. classes: as `read`."""
        drawn = replace(self.source, samples=self.samples)
        return replace(self, source=drawn).read(graph, classes)

    def parted(self, graph: Graph, classes: int | None) -> Split:
        """Training samples only: some to train on, others to choose by. classes: as `read`."""
        from mcutrain.experiments.finalists import part

        whole = self.read(graph, classes)
        return part(whole.train, self.samples, self.settings.seed, whole.validation)

    def lesson(self, model: Path, classes: int | None, split: Split) -> Lesson:
        """Without schemes yet. classes: outputs of a new head, None keeps the model's own."""
        from mcutrain.experiments.parallel import Lesson
        from mcutrain.pipeline import StepOptions

        options = StepOptions(classes=classes, accumulate=self.accumulate)
        return Lesson(model, (), options, split, self.settings, self.source.normalization)


def proposals(choice: Choice, contributions: Contributions, count: int) -> list[Proposal]:
    """Found with progress: the costs are worked out for the first, the others follow quickly.

    contributions: the choice's, as they are to be read.
    """
    from mcutrain.selection.proposals import propose

    lines = Lines("proposing schemes")
    with count_bar() as bar:
        task = bar.add_task("proposing schemes", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            lines.tell(f"{done:,} of {total:,} costs")

        def report(found: int) -> None:
            lines.tell(f"{found} of {count}")

        return propose(
            choice.graph,
            contributions,
            choice.costs,
            choice.limits,
            count,
            by_gradient=choice.request.by_gradient,
            progress=progress,
            report=report,
        )


def final(found: Sequence[Proposal], lesson: Lesson, processes: int) -> list[Finalist]:
    """All proposals trained, the best first."""
    from mcutrain.experiments.finalists import trained

    names = [proposal.reading for proposal in found]
    with watching_trials("finalists", names, len(found)) as report:
        return trained(found, lesson, processes, report)


def finalist_facts(finalists: Sequence[Finalist]) -> list[dict[str, Any]]:
    """Return values for JSON."""
    return [
        {
            "reading": finalist.proposal.reading,
            "held_out_accuracy": finalist.accuracy,
            "learning_rate": finalist.learning_rate,
            "expected_gain": finalist.proposal.selection.gain,
            "sram_bytes": finalist.proposal.selection.measured.sram_bytes,
            "scheme": finalist.proposal.selection.scheme.to_toml(),
        }
        for finalist in finalists
    ]


def show_finalists(finalists: Sequence[Finalist], split: Split) -> None:
    """A row each, the best first."""
    rows = []
    for finalist in finalists:
        selection = finalist.proposal.selection
        rows.append(
            [
                finalist.proposal.reading,
                percent(finalist.accuracy),
                "" if finalist.learning_rate is None else f"{finalist.learning_rate:g}",
                selection.measured.sram_bytes,
                selection.scheme.bias_depth,
                len(selection.layers),
            ]
        )
    show_table(("best by", "accuracy", "lr", "SRAM", "biases", "weights"), rows)
    show(
        f"trained on {len(split.train):,} samples, accuracy on {len(split.test):,} other training "
        "samples; the first is selected"
    )

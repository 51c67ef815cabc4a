"""mcutrain compare: what schemes cost and how well they learn, in one table."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcutrain.cli import options
from mcutrain.cli import samples as inputs
from mcutrain.cli.automatic import Choosing
from mcutrain.cli.models import load_model
from mcutrain.cli.output import (
    check_writable_folder,
    count_bar,
    err,
    say,
    show,
    show_json,
    show_table,
)
from mcutrain.cli.pet import calibrating
from mcutrain.cli.training import placing
from mcutrain.cli.trials import watching_trials

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcutrain.data import Split
    from mcutrain.ir.graph import Graph
    from mcutrain.pipeline import StepOptions
    from mcutrain.report.compare import Budget, PlannedRow, Planner, Runs
    from mcutrain.report.content import Report
    from mcutrain.report.learning import Compared
    from mcutrain.runs.parallel import Lesson, Trial
    from mcutrain.runs.training import SimulationResult
    from mcutrain.simulation import RunSettings
    from mcutrain.sparse.contribution import Contributions
    from mcutrain.sparse.selection import Selection


@dataclass(frozen=True)
class RowFlags:
    """Flags of rows besides the usual ones."""

    scheme: Annotated[
        list[str] | None,
        typer.Option(
            help="Another row, as `mcutrain plan --scheme` takes it; may be given again.",
            show_default=False,
        ),
    ] = None
    pet: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND[:R]",
            help="Another row, as `mcutrain simulate --pet` takes it; may be given again.",
            show_default=False,
        ),
    ] = None
    update_rule: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="Another row for each --scheme, trained by this rule: momentum or rmsprop.",
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True)
class BudgetFlags(options.BoardFlags):
    """Flags of what there is for a scheme, and of the analysis that one is selected by."""

    sram: Annotated[
        int | None,
        typer.Option(
            parser=options.parse_bytes,
            metavar="BYTES",
            help="Bytes of arena and state, such as 64K, instead of a board's.",
            show_default=False,
        ),
    ] = None
    analysis: Annotated[
        Path | None,
        typer.Option(
            help="What `mcutrain analyze` wrote: adds the scheme that it selects for --board or "
            "--sram.",
            show_default=False,
        ),
    ] = None

    def check(self) -> None:
        """Raise typer.BadParameter for flags that do not go together."""
        if self.board is not None and self.sram is not None:
            raise typer.BadParameter("give either a board or bytes, not both", param_hint="--sram")
        if self.analysis is not None and self.board is None and self.sram is None:
            raise typer.BadParameter(
                "it needs --board or --sram to fit in", param_hint="--analysis"
            )

    @property
    def budget(self) -> Budget:
        """What schemes are measured against. Raises TargetError."""
        from mcutrain.report.compare import Budget

        return Budget(self.target, self.sram)

    def contributions(self, graph: Graph) -> Contributions | None:
        """Read the contributions of --analysis; None without it."""
        from mcutrain.sparse.contribution import read_contributions

        return None if self.analysis is None else read_contributions(self.analysis, graph)


def compare(
    model: options.Model,
    data: inputs.Data,
    *,
    asked: RowFlags,
    limits: BudgetFlags,
    classes: options.AutoClasses = options.AUTO,
    gate: options.Gate = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, max=100, help="Runs of each scheme; 3 by default.", show_default=False),
    ] = None,
    ladder: options.LadderFlags,
    few_shot: inputs.EpisodeFlags,
    learning: inputs.ScheduledLearningFlags,
    selecting: inputs.ShareFlags,
    reading: inputs.SourceFlags,
    jobs: inputs.Jobs = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write report.html and report.json there.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Compare head only, biases only, the last layers, everything, and given schemes.

    What does not fit is trained too: this computer can. Ctrl-C loses nothing: the same command
    continues, from the cache.

    Example: `mcutrain compare model.tflite --data images/ --board nucleo-f446re -o comparison`
    """
    from mcutrain.pipeline import StepOptions
    from mcutrain.report.compare import Proxies, Runs, with_results
    from mcutrain.report.folder import with_selection
    from mcutrain.report.write import write
    from mcutrain.simulation import check_can_build

    limits.check()
    check_can_build()  # a sentence before the data is read
    if output is not None:
        check_writable_folder(output)
    runs, budget = Runs.of(seeds, few_shot.of(classes)), limits.budget
    source, settings = reading.of(data, seed=0), learning.settings(seed=0)
    elastic, swapping = selecting.elastic_of, selecting.swapping_of
    proxies = Proxies.of(ladder.proxies, gate, ladder.drift)
    graph = load_model(model)
    contributions = limits.contributions(graph)
    few_shot.check_names(source, runs.episodes)
    fitted = runs.fitted(
        graph, _read(graph, source), options.as_classes(classes), source.class_names
    )
    wanted, split = fitted.classes, fitted.split
    for note in fitted.notes:
        say(f"mcutrain: note: {note}")
    of_all = StepOptions(classes=wanted, gate=gate if proxies is None else None)
    experiment = _Experiment(model, graph, source, split, of_all, budget, runs, settings)
    given = _with_rule(experiment.given(asked.scheme or []), asked.update_rule)
    chosen = None if contributions is None else experiment.select(contributions)
    augmented = experiment.with_modules(asked.pet or [])
    with err.status("planning"), placing() as told:
        planner = experiment.planner(told)
        candidates, usual_ones = experiment.candidates(given, chosen)
        candidates += augmented
        candidates, rows = planner.rows_with(
            candidates, usual_ones, len(given), elastic, swapping, proxies
        )
    lesson = experiment.lesson(candidates)
    results = _train(lesson, rows, runs.count, jobs or os.cpu_count() or 1)
    found = with_results(candidates, rows, results, runs.episodes)
    texts = (*_orders(results), *_saturations(rows, results), *_doubts(lesson, rows, results))
    for text in texts:
        say(f"mcutrain: {text}")
    if output is not None:
        report = _report(planner, candidates, found, results)
        if chosen is not None and contributions is not None:
            report = with_selection(report, chosen, contributions)
        path = write(report, output)
    if json:
        shared = settings if elastic is None else elastic.of(settings)
        show_json(_facts(graph, shared, runs, found))
        return
    _print(found, budget)
    if output is not None:
        show(f"The report is {path}")


def _with_rule(given: list[PlannedRow], rule: str | None) -> list[PlannedRow]:
    """The rows, and each of them again by a rule of updates. Raises McutrainError."""
    from mcutrain.report.compare import PlannedRow

    if rule is None:
        return given
    if not given:
        raise typer.BadParameter(
            "it adds a row for each --scheme: give one", param_hint="--update-rule"
        )
    by_rule = (replace(row.scheme, update_rule=rule) for row in given)
    return [*given, *(PlannedRow(f"{s.update_rule}: {s.name}", s) for s in by_rule)]


@dataclass(frozen=True)
class _Experiment:
    """What schemes are compared on. options: of the steps of all of them."""

    model: Path
    graph: Graph
    source: inputs.DataSource
    split: Split
    options: StepOptions
    budget: Budget
    runs: Runs
    settings: RunSettings

    def select(self, analysis: Contributions) -> Selection:
        """The best scheme by an analysis, with progress."""
        from mcutrain.report.compare import selected

        with count_bar() as bar:
            task = bar.add_task("selecting: costs", total=None)
            return selected(
                self.graph,
                self.options.classes,
                self.budget,
                analysis,
                lambda done, of: bar.update(task, completed=done, total=of),
            )

    def given(self, schemes: list[str]) -> list[PlannedRow]:
        """A row for each scheme that is asked for, of auto for what is chosen."""
        from mcutrain.functions.automatic import MemoryLimit, wanted_scheme
        from mcutrain.report.compare import PlannedRow
        from mcutrain.sparse import parse_scheme

        if options.AUTO not in schemes:
            return [PlannedRow(s.name, s) for s in map(options.scheme_of, schemes)]
        wanted_scheme(options.AUTO, (), {"--ways": self.runs.episodes})  # or a sentence
        memory = MemoryLimit.of(self.budget.target, self.budget.sram_bytes)
        flags = options.StepRequest(options.AUTO, self.options)
        choosing = Choosing(self.graph, self.options.classes, memory)
        _, found = choosing.chosen(flags, self.split, self.source.normalization)
        chosen = PlannedRow(options.AUTO, parse_scheme(found.scheme))
        return [chosen if text == options.AUTO else self.given([text])[0] for text in schemes]

    def with_modules(self, pets: list[str]) -> list[PlannedRow]:
        """A row for each, with modules from the training samples."""
        from mcutrain.functions.modules import pet_rows

        with calibrating() as tell:
            return pet_rows(self.graph, pets, self.split, self.source.normalization, tell)

    def planner(self, report: Callable[[int, int], None]) -> Planner:
        """Return what plans rows."""
        from mcutrain.report.compare import Planner

        samples = self.runs.samples(self.split)
        return Planner(self.graph, self.options, self.budget, self.settings, samples, report)

    def candidates(
        self, given: list[PlannedRow], chosen: Selection | None
    ) -> tuple[list[PlannedRow], int]:
        """The usual ones, those that were asked for, the selected one; and how many are usual."""
        from mcutrain.report.compare import PlannedRow, usual

        found = usual(self.graph, self.options.classes, self.budget)
        usual_ones = len(found)
        found += given
        if chosen is not None:
            found.append(PlannedRow("selected", chosen.scheme))
        return found, usual_ones

    def lesson(self, candidates: list[PlannedRow]) -> Lesson:
        """Return what every row learns."""
        from mcutrain.report.compare import elastic_of, graphs_of, makings_of, swapping_of
        from mcutrain.runs.parallel import Lesson

        return Lesson(
            self.model,
            tuple(c.scheme for c in candidates),
            self.options,
            self.split,
            self.settings,
            self.source.normalization,
            elastic=elastic_of(candidates),
            swapping=swapping_of(candidates),
            isa=self.budget.isa,
            episodes=self.runs.episodes,
            graphs=graphs_of(candidates),
            makings=makings_of(candidates),
        )


def _read(graph: Graph, source: inputs.DataSource) -> Split:
    from mcutrain.runs.training import model_input
    from mcutrain.sparse import find_head

    find_head(graph)  # a sentence before the data is read
    return source.read_labelled(model_input(graph))


def _train(
    lesson: Lesson, rows: list[Compared], seeds: int, jobs: int
) -> dict[Trial, SimulationResult]:
    """Every row from every seed, with progress and a line for each that is done."""
    from mcutrain.report.compare import trials
    from mcutrain.runs.parallel import train_all

    wanted = trials(len(rows), seeds)
    each = "seed" if lesson.episodes is None else "episode"
    with watching_trials("compare", [row.name for row in rows], len(wanted), each) as report:
        results = train_all(lesson, wanted, jobs, report)
    return dict(zip(wanted, results, strict=True))


def _orders(results: dict[Trial, SimulationResult]) -> list[str]:
    """Return what the test before training says against the order of the classes, once."""
    return [r.order_doubt for r in results.values() if r.order_doubt][:1]


def _saturations(rows: list[Compared], results: dict[Trial, SimulationResult]) -> list[str]:
    """A sentence for each scheme some of whose biases would have moved further."""
    from mcutrain.runs.training import saturation_warning

    counts = dict.fromkeys(range(len(rows)), 0)
    for trial, result in results.items():
        counts[trial.scheme] = max(counts[trial.scheme], result.saturated_biases)
    return [f"{rows[i].name}: {saturation_warning(count)}" for i, count in counts.items() if count]


def _doubts(
    lesson: Lesson, rows: list[Compared], results: dict[Trial, SimulationResult]
) -> list[str]:
    """A sentence for each elastic row whose choices were no more than chance."""
    from mcutrain.simulation import doubt

    found = []
    for number in lesson.elastic:
        periods = lesson.settings_of(number).periods(lesson.samples, lesson.options.accumulate)
        own = [d for trial, r in results.items() if trial.scheme == number for d in r.decisions]
        found.append((rows[number].name, doubt(own, periods.look)))
    return [f"{name}: {text}" for name, text in found if text]


def _report(
    planner: Planner,
    candidates: list[PlannedRow],
    rows: list[Compared],
    results: dict[Trial, SimulationResult],
) -> Report:
    """The comparison, and all about the best scheme that fits."""
    from mcutrain.report.collect import collect, command_line, curve_of

    fitting = [i for i, row in enumerate(rows) if row.fits is not False] or [0]
    best = max(fitting, key=lambda i: rows[i].accuracy)
    with placing() as told:
        step = replace(planner, report=told).step(candidates[best])
    curves = [
        curve_of(rows[trial.scheme].name, result)
        for trial, result in results.items()
        if trial.seed == 0
    ]
    return replace(
        collect(step, planner.budget.target),
        comparison=tuple(rows),
        curves=tuple(curves),
        commands=(command_line(),),
    )


def _facts(
    graph: Graph,
    settings: RunSettings,
    runs: Runs,
    rows: list[Compared],
) -> dict[str, Any]:
    return {
        "model": graph.name,
        "seeds": runs.count if runs.episodes is None else None,
        "episodes": None if runs.episodes is None else asdict(runs.episodes),
        "settings": {k: v for k, v in asdict(settings).items() if k != "seed"},
        "rows": [
            {
                **asdict(row),
                "accuracy": row.accuracy,
                "spread": row.spread,
                "interval": row.interval,
                "fits": row.fits,
            }
            for row in rows
        ],
    }


def _print(rows: list[Compared], budget: Budget) -> None:
    from mcutrain.report.training_sections import comparison_table

    table = comparison_table(rows)
    show_table(table.columns, table.rows, table.left)
    if budget.target is not None and budget.target.ram is not None:
        show(f"SRAM: all that the firmware takes of {budget.target.title}, stack included.")
    else:
        show("SRAM: arena and trainable state, without stack and code's own variables.")
    if any(row.ways for row in rows):
        show("Accuracy: the mean of the episodes, and its 95 % confidence interval.")
    show("Flash and instructions are estimates. What does not fit was trained on this computer.")

"""What schemes cost and how well they learn, beside each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path

from mcutrain_host.dataclass import dataclass

from mcutrain.arguments import EPOCHS, Count, PathLike, checked
from mcutrain.data import Data, Split, is_path
from mcutrain.errors import DataError, OptionError
from mcutrain.experiments.parallel import Elastic, Lesson, Resampling, Standing, train_all
from mcutrain.experiments.planner import Budget, Planner, selected, usual
from mcutrain.experiments.results import Runs, check_targets, doubts_of, trials, with_results
from mcutrain.experiments.rows import PlannedRow, Proxies
from mcutrain.functions.automatic import AUTO, wanted_scheme
from mcutrain.functions.chosen import Choosing, read_samples
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.listener import SILENT, Listener
from mcutrain.functions.loading import loaded
from mcutrain.functions.memory_limit import MemoryLimit
from mcutrain.functions.modules import pet_rows
from mcutrain.functions.options import Classes, LearningRequest, ProxyCascade
from mcutrain.functions.preparing import Asked, Scheme, scheme_of
from mcutrain.functions.run_options import (
    BudgetOptions,
    DataOptions,
    EpisodeOptions,
    RowOptions,
    ScheduledOptions,
    ShareOptions,
)
from mcutrain.ir.graph import Graph
from mcutrain.pipeline.losses import MEAN_SQUARED_ERROR, Fitted
from mcutrain.report.collect import collect, command_line, curve_of
from mcutrain.report.content import Report
from mcutrain.report.folder import with_selection
from mcutrain.report.learning import ACCURACY, AUC, R2, Compared, LearningCurve
from mcutrain.report.write import write
from mcutrain.selection.contribution import Contributions, read_contributions
from mcutrain.selection.result import Selection
from mcutrain.shown import Record, Shown
from mcutrain.simulation import RunSettings, check_can_build
from mcutrain.sparse import UpdateScheme, find_head


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Schemes trained alike. rows: what each needs and reached. curves: how each learnt, seed 0.

    With few-shot episodes these are in the place of seeds. settings: of all runs but the seed.
    report: the file that was written, if one was.
    """

    model: str
    rows: tuple[Compared, ...]
    curves: tuple[LearningCurve, ...]
    settings: RunSettings = RunSettings()
    runs: Runs = Runs(0)
    report: Path | None = None

    @property
    def best(self) -> Compared:
        """The most accurate row that fits, or of all rows if none fits."""
        fitting = [row for row in self.rows if row.fits is not False]
        return max(fitting or self.rows, key=lambda row: row.accuracy)

    def summary(self) -> str:
        """Return a line that describes it."""
        best = self.best
        which = {None: "best is", True: "best that fits is", False: "none fits; best is"}[best.fits]
        reached = f"{100 * best.accuracy:.1f} %"
        if best.measure != ACCURACY:
            reached = f"an {best.measure} of {best.accuracy:.3f}"
        return (
            f"{self.model}, {len(self.rows)} schemes; {which} {best.name} with {reached} in "
            f"{best.sram_bytes:,} bytes of SRAM"
        )

    def records(self) -> list[Record]:
        """A row for each scheme."""
        names = (
            *("name", "scheme", "accuracy", "spread", "interval", "sram_bytes", "fits"),
            *("flash_bytes", "instructions", "learnt", "levels"),
        )
        return [{name: getattr(row, name) for name in names} for row in self.rows]

    def to_dict(self) -> Record:
        """Return rows with the accuracies of every seed, and the curves, ready for JSON."""
        return {
            "model": self.model,
            "rows": self.row_facts(),
            "curves": [asdict(c) for c in self.curves],
        }

    def row_facts(self) -> list[Record]:
        """Return all that is known of each row."""
        more = ("accuracy", "spread", "interval", "fits")
        return [{**asdict(row), **{n: getattr(row, n) for n in more}} for row in self.rows]


@with_keywords
@checked
def compare(
    model: PathLike,
    data: Data,
    schemes: Sequence[Scheme] = (),
    *,
    validation: Data | None = None,
    classes: Classes = "auto",
    request: LearningRequest = LearningRequest(),
    rows: RowOptions = RowOptions(),
    cascade: ProxyCascade = ProxyCascade(),
    share: ShareOptions = ShareOptions(),
    few_shot: EpisodeOptions = EpisodeOptions(),
    training: ScheduledOptions = ScheduledOptions(),
    reading: DataOptions = DataOptions(),
    budget: BudgetOptions = BudgetOptions(),
    analysis: Contributions | PathLike | None = None,
    jobs: Count | None = None,
    output: PathLike | None = None,
    progress: Callable[[Standing], None] | None = None,
    listener: Listener = SILENT,
) -> Comparison:
    """Train head only, biases only, the last layers, everything, and given schemes.

    Each scheme is trained from 3 seeds, or as many as asked for. In few-shot episodes
    (mcutrain.data.episode) it is trained 5 times, or as often as asked for, on `ways` classes with
    `shots` training samples each. Fields of request … budget are keywords, too;
    mcutrain.functions.options and mcutrain.functions.run_options explain each.

    model: the path of an int8 file; every process reads it.
    data, validation, classes: as `simulate` takes them.
    schemes: more rows; "auto" is what `auto_scheme` finds.
    request: how each row learns. update_rule adds a row by that rule for each of `schemes`. With
        loss mse the network learns its input, and rows have the AUC of labelled test samples
        instead of accuracies. With real targets they have R².
    rows: seeds; and pets, a row for each, as `simulate` takes pet.
    cascade: proxies, a folder that `mcutrain proxies` wrote. It adds three rows for each of
        `schemes` (or the scheme that they were made for): with a gate (0.8, or `gate`), with
        proxies, with both. Other rows then have no gate.
    share: elastic adds a row for each of `schemes` (or the largest that fits), trained elastically.
        swap, with every, adds a row with input-channel resampling for each of `schemes`.
    budget: what rows must fit in: the board, or sram, the bytes of arena and state.
    analysis: what `analyze` returned; adds the scheme that it selects.
    jobs: processes, by default one per CPU.
    output: a folder for report.html and report.json.
    progress: called with how far all runs are.
    listener: hears notes and progress; by default notes are Python warnings.

    An interrupted comparison continues from the cache. Raises DataError, ModelError, SchemeError,
    AnalysisError, BuildError, ArgumentError.

    >>> compare("model.int8.tflite", (x, y), ["22:0.5,bias:4"], board="nucleo-f446re").to_pandas()
    """
    budget.check()
    share.check()
    if analysis is not None and budget.board is None and budget.sram is None:
        raise OptionError("analysis", "it needs --board or --sram to fit in")
    check_can_build()
    runs = Runs.of(rows.seeds, few_shot.of(classes, reading.class_names))
    folder = None if cascade.proxies is None else Path(cascade.proxies)
    corrections = {name: value for name, value in vars(cascade).items() if name != "proxies"}
    proxies = Proxies.of(folder, request.gate, corrections)
    settings, limits = training.settings(seed=0), Budget(budget.target, budget.sram)
    if progress is not None:
        listener = _ToldOfRuns(progress)
    graph = loaded(model, listener)
    find_head(graph)  # fail before the data is read
    found = None if analysis is None else _contributions(analysis, graph)
    asked = Asked.of(replace(request, update_rule=None))
    rule = request.update_rule
    if rule is not None and not schemes:
        raise OptionError("update_rule", "it adds a row for each scheme: give one")
    given = (graph, data, reading, asked, 0, listener, validation)
    split = read_samples(*given, keeps_raw=settings.varies_raw)
    name = f"{data}" if is_path(data) else "the data"
    _check_labels(split, request, name)
    fitted = runs.fitted(graph, split, classes, reading.class_names or (), request.loss)
    for note in fitted.notes:
        listener.note(note)
    gate = request.gate if proxies is None else None
    asked = asked.fitted(graph, fitted, listener.note).having(
        classes=fitted.classes, class_names=asked.options.class_names, gate=gate
    )
    _check_scores(fitted, name)
    experiment = _Experiment(
        Path(model), graph, fitted.split, asked, limits, runs, settings, reading, listener
    )
    planned = experiment.planned(schemes, rule, rows.pets, share, proxies, found)
    learnt = experiment.train(planned, jobs or os.cpu_count() or 1)
    file = (
        None if output is None else write(experiment.report(planned, learnt, found), Path(output))
    )
    own = settings if share.elastic is None else share.of(settings)
    return Comparison(graph.name, learnt.rows, learnt.curves, own, runs, file)


class _ToldOfRuns(Listener):
    """Turns notes into Python warnings, and tells how far all runs are."""

    def __init__(self, progress: Callable[[Standing], None]) -> None:
        self.progress = progress

    def trials(
        self, title: str, names: Sequence[str], count: int, each: str
    ) -> AbstractContextManager[Callable[[Standing], None]]:
        """Tell it."""
        return nullcontext(self.progress)


@dataclass(frozen=True)
class _Planned:
    """Rows that are planned. chosen: what an analysis selected."""

    planner: Planner
    candidates: list[PlannedRow]
    rows: list[Compared]
    chosen: Selection | None


@dataclass(frozen=True)
class _Learnt:
    """Rows that have learnt."""

    rows: tuple[Compared, ...]
    curves: tuple[LearningCurve, ...]


def _with_rule(given: list[PlannedRow], rule: str | None) -> list[PlannedRow]:
    """The rows, and each of them again by a rule of updates."""
    if rule is None:
        return given
    by_rule = (replace(row.scheme, update_rule=rule) for row in given)
    return [*given, *(PlannedRow(f"{s.update_rule}: {s.name}", s) for s in by_rule)]


@dataclass(frozen=True)
class _Experiment:
    """What schemes are compared on. asked: of the steps of all of them."""

    model: Path
    graph: Graph
    split: Split
    asked: Asked
    budget: Budget
    runs: Runs
    settings: RunSettings
    reading: DataOptions
    listener: Listener

    def planned(
        self,
        schemes: Sequence[Scheme],
        rule: str | None,
        pets: Sequence[str],
        share: ShareOptions,
        proxies: Proxies | None,
        analysis: Contributions | None,
    ) -> _Planned:
        """The usual rows, those that were asked for, and the selected one."""
        given = _with_rule(self._given(schemes), rule)
        chosen = None if analysis is None else self._selected(analysis)
        with self.listener.counting("calibrating") as tell:
            augmented = pet_rows(self.graph, pets, self.split, self.reading.normalization, tell)
        with self.listener.placing() as report:
            candidates = self._usual(given)
            usual_ones = len(candidates)
            candidates += given
            if chosen is not None:
                candidates.append(PlannedRow("selected", chosen.scheme))
            planner = Planner(
                self.graph,
                self.asked.options,
                self.budget,
                self.settings,
                self.runs.samples(self.split),
                report,
            )
            found, rows = planner.rows_with(
                [*candidates, *augmented],
                usual_ones,
                len(given),
                _elastic(share),
                Resampling(share.swap, share.every) if share.swap else None,
                proxies,
            )
        return _Planned(planner, found, rows, chosen)

    def _usual(self, given: Sequence[PlannedRow]) -> list[PlannedRow]:
        """Return the rows that nobody has to ask for, but those that are given."""
        found = usual(self.graph, self.asked.options, self.budget)
        rows = [replace(row, scheme=self._changed(row.scheme)) for row in found]
        asked = [(row.scheme, row.way) for row in given]
        return [row for row in rows if (row.scheme, row.way) not in asked]

    def _changed(self, scheme: Scheme) -> UpdateScheme:
        """Return a scheme with what is asked of all of them."""
        return replace(self.asked, scheme=scheme).update_scheme()

    def _given(self, schemes: Sequence[Scheme]) -> list[PlannedRow]:
        """A row for each scheme that is asked for, of auto for what is chosen."""
        chosen: Scheme = AUTO
        if AUTO in schemes:
            wanted_scheme(AUTO, (), {"--ways": self.runs.episodes})  # or a sentence
            memory = MemoryLimit.of(self.budget.target, self.budget.sram_bytes)
            classes = self.asked.options.classes
            epochs = self.settings.epochs or EPOCHS
            choosing = Choosing(self.graph, classes, memory, listener=self.listener, epochs=epochs)
            found, _ = choosing.chosen(self.asked, self.split, self.reading.normalization)
            chosen = found.scheme
        return [
            PlannedRow(AUTO, self._changed(chosen))
            if text == AUTO
            else PlannedRow(scheme_of(text).name, self._changed(text))
            for text in schemes
        ]

    def _selected(self, analysis: Contributions) -> Selection:
        """Return the best scheme by an analysis."""
        with self.listener.counting("selecting") as tell:
            return selected(
                self.graph,
                self.asked.options.classes,
                self.budget,
                analysis,
                lambda done, of: tell("selecting: costs", done, of),
            )

    def train(self, planned: _Planned, processes: int) -> _Learnt:
        """Every row from every seed."""
        lesson, rows = self._lesson(planned.candidates), planned.rows
        wanted = trials(len(rows), self.runs.count)
        each = "seed" if self.runs.episodes is None else "episode"
        names = [row.name for row in rows]
        with self.listener.trials("compare", names, len(wanted), each) as report:
            found = dict(zip(wanted, train_all(lesson, wanted, processes, report), strict=True))
        options = self.asked.options
        measure = AUC if options.loss == MEAN_SQUARED_ERROR else ACCURACY
        measure = measure if options.targets is None else R2
        learnt = with_results(planned.candidates, rows, found, self.runs.episodes, measure)
        for text in doubts_of(lesson, rows, found):
            self.listener.doubt(text)
        curves = [
            curve_of(rows[trial.scheme].name, result)
            for trial, result in found.items()
            if trial.seed == 0
        ]
        return _Learnt(tuple(learnt), tuple(curves))

    def _lesson(self, candidates: Sequence[PlannedRow]) -> Lesson:
        """Return what every row learns."""
        return Lesson(
            self.model,
            tuple(c.scheme for c in candidates),
            self.asked.options,
            self.split,
            self.settings,
            self.reading.normalization,
            isa=self.budget.isa,
            episodes=self.runs.episodes,
            ways={i: c.way for i, c in enumerate(candidates)},
        )

    def report(self, planned: _Planned, learnt: _Learnt, analysis: Contributions | None) -> Report:
        """The comparison, and all about the best scheme that fits."""
        rows = learnt.rows
        fitting = [i for i, row in enumerate(rows) if row.fits is not False] or [0]
        best = max(fitting, key=lambda i: rows[i].accuracy)
        with self.listener.placing() as told:
            step = replace(planned.planner, report=told).step(planned.candidates[best])
        found = replace(
            collect(step, self.budget.target),
            comparison=rows,
            curves=learnt.curves,
            commands=(command_line(),),
        )
        if planned.chosen is None or analysis is None:
            return found
        return with_selection(found, planned.chosen, analysis)


def _elastic(share: ShareOptions) -> Elastic | None:
    if share.elastic is None:
        return None
    return Elastic(share.elastic, share.every, share.profile_file, share.importance)


def _check_labels(split: Split, request: LearningRequest, name: str) -> None:
    """Raise DataError where labels are missing that are needed. name: of the data."""
    if not split.is_labelled and request.loss == "cross-entropy":
        raise DataError(
            f"{name} has no labels, which are needed to compare what is learnt: give (x, y), or "
            "save y (or y_train and y_test) beside the samples"
        )


def _check_scores(fitted: Fitted, name: str) -> None:
    """Raise DataError where nothing tells how well a network has learnt."""
    loss, split = fitted.loss, fitted.split
    if fitted.targets is not None:
        check_targets(split.test, name, "test samples")
        return
    if loss == MEAN_SQUARED_ERROR and not split.test.is_labelled:
        raise DataError(
            f"{name} has no labels that tell normal test samples from anomalies (y_test of 0 and "
            "1), which are needed to compare what a network with --loss mse has learnt: save them, "
            "or take --loss cross-entropy"
        )


def _contributions(analysis: Contributions | PathLike, graph: Graph) -> Contributions:
    if isinstance(analysis, Contributions):
        return analysis
    return read_contributions(Path(analysis), graph)

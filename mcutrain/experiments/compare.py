"""Schemes compared: what each needs on a board, and how well it learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mcutrain.autodiff import Gate
from mcutrain.cost.executed import StepParts
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.cost.profile import times_of
from mcutrain.cost.schemes import cost_model
from mcutrain.data import Episodes, Split
from mcutrain.errors import ArgumentError, DataError, ModelError, PlanError, SchemeError
from mcutrain.experiments.parallel import Elastic, StepMaking, Swapping, Trial
from mcutrain.features import why_no_ladder
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import StepOptions, TrainingStep, prepare
from mcutrain.pipeline.losses import (
    CROSS_ENTROPY,
    MEAN_SQUARED_ERROR,
    Fitted,
    fit_classes,
    fit_to_data,
)
from mcutrain.proxies import kept_ladder, read_facts
from mcutrain.quant import replace_head
from mcutrain.report.collect import planned_flash
from mcutrain.report.learning import Compared
from mcutrain.runs.training import SimulationResult, selector_of
from mcutrain.selection.contribution import Contributions, check_model
from mcutrain.selection.cost import Limits
from mcutrain.selection.result import Selection
from mcutrain.selection.select import Selector
from mcutrain.simulation import RunSettings
from mcutrain.sparse import UpdateScheme, find_head, layers_of, parse_scheme
from mcutrain.target import Target

SEEDS = 3
"""Runs of each row if nobody says how many."""
ALPHA = 0.8
"""Of a gate beside a ladder, if nobody says another."""
ACCURACY, AUC = "accuracy", "AUC"
"""What rows are compared by: AUC where a network reproduces its input."""
LAST = 6
"""Layers that `last k` trains where no limit says otherwise."""


@dataclass(frozen=True)
class PlannedRow:
    """A row that is to be: what to call it, and what it trains.

    elastic: if it trains a part at a time; swapping: if it trains other columns in turn. graph: the
    model with modules, if it trains those. making: if its step is made in another way than those of
    all rows. parts: what a step is made of, once it is planned.
    """

    name: str
    scheme: UpdateScheme
    elastic: Elastic | None = None
    swapping: Swapping | None = None
    graph: Graph | None = None
    making: StepMaking | None = None
    parts: StepParts | None = None


@dataclass(frozen=True)
class Proxies:
    """Rows with a ladder of fronts, as `mcutrain proxies` wrote it into a folder.

    gate: alpha of the rows that have a gate. drift: of those that have the ladder.
    """

    folder: Path
    gate: float = ALPHA
    drift: bool = False

    @staticmethod
    def of(folder: Path | None, gate: float | None, drift: bool) -> Proxies | None:
        """What was asked for; None without a folder. Raises ArgumentError, McutrainError."""
        if folder is None and drift:
            raise ArgumentError(why_no_ladder(StepOptions(drift=drift)))
        if folder is None:
            return None
        read_facts(folder)  # a sentence before the data is read
        alpha = ALPHA if gate is None else gate
        Gate.of(alpha)
        return Proxies(folder, alpha, drift)

    def scheme_row(self) -> PlannedRow:
        """What it was made for. Raises SchemeError if only a file knows that."""
        name = str(read_facts(self.folder).get("scheme", ""))
        try:
            return PlannedRow(name, parse_scheme(name))
        except SchemeError as error:
            called = f", {name!r}," if name else ""
            raise SchemeError(
                f"the scheme that {self.folder} was made for{called} is known by its file alone: "
                "give that, too (--scheme)"
            ) from error

    def rows(self, asked: Sequence[PlannedRow], options: StepOptions) -> list[PlannedRow]:
        """Each scheme with the gate alone, with the ladder alone, and with both.

        options: of the steps of all rows.
        """
        ladder = kept_ladder(self.folder)
        with_drift = ", drift" if self.drift else ""
        plain, gated = (replace(options, gate=gate) for gate in (None, self.gate))
        ways = {
            f"gate {self.gate:g}": StepMaking(gated),
            f"proxies{with_drift}": StepMaking(replace(plain, drift=self.drift), ladder),
            f"proxies{with_drift}, gate {self.gate:g}": StepMaking(
                replace(gated, drift=self.drift), ladder
            ),
        }
        return [
            PlannedRow(
                name if len(asked) == 1 else f"{name}: {row.name}", row.scheme, making=making
            )
            for row in asked
            for name, making in ways.items()
        ]


@dataclass(frozen=True)
class Budget:
    """What schemes are measured against. sram_bytes: of arena and state, without a board."""

    target: Target | None = None
    sram_bytes: int | None = None

    @property
    def limit(self) -> int | None:
        """Bytes of SRAM, or None."""
        if self.target is not None and self.target.ram is not None:
            return self.target.ram.size_bytes
        return self.sram_bytes

    def needs(self, step: TrainingStep) -> int:
        """Bytes of SRAM: with a board all that firmware takes, otherwise arena and state."""
        if self.target is not None and self.target.ram is not None:
            return self.target.sram_bytes(step.plan.arena_bytes, step.plan.resident_bytes)
        return step.plan.sram_bytes

    @property
    def isa(self) -> str:
        """Of the chip."""
        return USUAL_ISA if self.target is None else self.target.isa

    def row(self, candidate: PlannedRow, step: TrainingStep) -> Compared:
        """What a scheme needs; it has not learnt yet. Of an elastic one the mean step's time."""
        isa, parts = self.isa, candidate.parts
        share = 1.0 if candidate.elastic is None else candidate.elastic.share
        return Compared(
            name=candidate.name,
            scheme=candidate.scheme.name,
            accuracies=(),
            sram_bytes=self.needs(step),
            arena_bytes=step.plan.arena_bytes,
            state_bytes=step.plan.state_bytes,
            flash_bytes=sum(part.size_bytes for part in planned_flash(step.plan, isa)),
            sram_limit=self.limit,
            instructions=None if parts is None else round(share * parts.whole),
        )


@dataclass(frozen=True)
class Planner:
    """Plans rows. options: of the steps of all. settings, samples: of the runs to come; samples of
    an epoch.

    report: as `mcutrain.pipeline.prepare` takes it.
    """

    graph: Graph
    options: StepOptions
    budget: Budget
    settings: RunSettings
    samples: int
    report: Callable[[int, int], None] = lambda nodes, of: None

    def step(self, candidate: PlannedRow) -> TrainingStep:
        """What is trained. Raises ArgumentError if an elastic row cannot keep to its share.

        Raises PlanError for a ladder that the scheme cannot use.
        """
        way = candidate.elastic or candidate.swapping
        settings = self.settings if way is None else way.of(self.settings)
        making = (candidate.making or StepMaking(self.options)).run_with(settings)
        try:
            step = prepare(
                candidate.graph or self.graph,
                candidate.scheme,
                making.options,
                ladder=making.ladder,
                report=self.report,
            )
        except PlanError as error:
            if making.ladder is None:
                raise
            raise PlanError(f"{candidate.name}: {error}") from error
        if candidate.elastic is not None:
            self._check(candidate.name, step, candidate.elastic)
        return step

    def _check(self, name: str, step: TrainingStep, elastic: Elastic) -> None:
        """Raise ArgumentError if an elastic step cannot keep to its share."""
        try:
            times = times_of(step.plan, self.budget.isa, elastic.profile)
            selector_of(step, elastic.of(self.settings), self.samples, times)
        except (ArgumentError, ModelError) as error:
            raise ArgumentError(f"{name}: {error}") from error

    def planned(self, candidates: Sequence[PlannedRow]) -> tuple[list[PlannedRow], list[Compared]]:
        """Each with its parts, and what it needs; none has learnt yet."""
        found, rows = [], []
        for candidate in candidates:
            step = self.step(candidate)
            found.append(replace(candidate, parts=StepParts.of(step.plan, self.budget.isa)))
            rows.append(self.budget.row(found[-1], step))
        return found, rows

    def rows_with(
        self,
        candidates: Sequence[PlannedRow],
        usual_ones: int,
        given: int,
        elastic: Elastic | None,
        swapping: Swapping | None,
        proxies: Proxies | None = None,
    ) -> tuple[list[PlannedRow], list[Compared]]:
        """The candidates and what they need, and those that are elastic, swap columns, or have
        cheaper fronts.

        usual_ones: so many of the candidates nobody asked for. given: so many behind them are
        schemes that were given; then rows with modules, and one that was selected. Raises
        ArgumentError if there is nothing to swap, or an elastic row cannot keep to its share;
        McutrainError for a ladder that cannot be read or used.
        """
        with_proxies: list[PlannedRow] = []
        count = len(candidates)
        if proxies is not None:
            candidates, asked = with_ladders_scheme(candidates, usual_ones, given, proxies)
            with_proxies = proxies.rows(asked, self.options)
        candidates, rows = self.planned(candidates)
        without_ladders = candidates[:count]  # nobody asked for the scheme of a ladder
        more: list[PlannedRow] = []
        if elastic is not None:
            more += elastic_rows(without_ladders, rows[:count], usual_ones, given, elastic)
        if swapping is not None:
            more += swapped_rows(without_ladders[usual_ones : usual_ones + given], swapping)
        more, of_more = self.planned([*with_proxies, *more])
        return [*candidates, *more], rows + of_more


def elastic_rows(
    candidates: Sequence[PlannedRow],
    rows: Sequence[Compared],
    usual_ones: int,
    given: int,
    elastic: Elastic,
) -> list[PlannedRow]:
    """The schemes and modules that were given, trained elastically; not one that was selected.

    If there are none it is the largest of the usual ones that fits, or full if none does.
    rows: of the candidates. usual_ones, given: as Planner.rows_with takes them.
    """
    asked = [*candidates[usual_ones : usual_ones + given]]
    asked += [row for row in candidates[usual_ones + given :] if row.graph is not None]
    if not asked:
        usual_rows = rows[:usual_ones]
        fitting = [i for i, row in enumerate(usual_rows) if row.fits is not False]
        largest = max(fitting, key=lambda i: rows[i].sram_bytes, default=usual_ones - 1)
        asked = [candidates[largest]]
    return [
        replace(row, name=f"elastic {elastic.share:g} of {row.name}", elastic=elastic)
        for row in asked
    ]


def swapped_rows(given: Sequence[PlannedRow], swapping: Swapping) -> list[PlannedRow]:
    """The schemes behind the usual ones, with other columns in turn.

    Raises ArgumentError if there are none: the usual ones train no layer in part.
    """
    if not given:
        raise ArgumentError(
            "columns are swapped of a scheme that trains layers in part: give one, as in 22:0.25"
        )
    return [
        PlannedRow(f"swapped, {swapping.rule}: {row.name}", row.scheme, swapping=swapping)
        for row in given
    ]


def with_ladders_scheme(
    candidates: Sequence[PlannedRow], usual_ones: int, given: int, proxies: Proxies
) -> tuple[list[PlannedRow], list[PlannedRow]]:
    """All candidates, and those of them that get a ladder: as many as were given, behind the usual
    ones.

    If there are none it is the scheme that the ladder was made for, which is added if no row has
    it.
    """
    if given:
        return list(candidates), list(candidates[usual_ones : usual_ones + given])
    own = proxies.scheme_row()
    alike = [row for row in candidates if row.graph is None and row.scheme == own.scheme]
    return ([*candidates], alike[:1]) if alike else ([*candidates, own], [own])


def makings_of(candidates: Sequence[PlannedRow]) -> dict[int, StepMaking]:
    """Whose step is made in another way than all, by number, as a Lesson has it."""
    return {i: row.making for i, row in enumerate(candidates) if row.making is not None}


def swapping_of(candidates: Sequence[PlannedRow]) -> dict[int, Swapping]:
    """Which of them swap columns, by number, as a Lesson has it."""
    return {i: row.swapping for i, row in enumerate(candidates) if row.swapping is not None}


def graphs_of(candidates: Sequence[PlannedRow]) -> dict[int, Graph]:
    """The models with modules, by number of the row, as a Lesson has it."""
    return {i: row.graph for i, row in enumerate(candidates) if row.graph is not None}


def elastic_of(candidates: Sequence[PlannedRow]) -> dict[int, Elastic]:
    """Which of them are trained elastically, by number, as a Lesson has it."""
    return {i: row.elastic for i, row in enumerate(candidates) if row.elastic is not None}


def usual(graph: Graph, classes: int | None, budget: Budget) -> list[PlannedRow]:
    """Head only, all biases, the last k layers that fit, everything."""
    count = len(layers_of(graph, find_head(graph)))
    k = last_that_fits(graph, classes, budget, count)
    named = [("head only", "head"), ("biases only", f"bias:{count}")]
    if 0 < k < count:
        named.append((f"last {k}", f"last:{k}"))
    named.append(("full", "full"))
    return [PlannedRow(name, parse_scheme(text)) for name, text in named]


def selected(
    graph: Graph,
    classes: int | None,
    budget: Budget,
    analysis: Contributions,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Selection:
    """The best scheme for the budget by an analysis of this model.

    Raises AnalysisError for an analysis of another model, PlanError if nothing fits.
    """
    check_model(analysis, graph)
    if classes is not None:
        graph = replace_head(graph, find_head(graph).node, classes)
    target = budget.target
    flash = None if target is None or target.flash is None else target.flash.size_bytes
    chooser = Selector(graph, analysis.smoothed(), cost_model(graph, target), progress=progress)
    of_slots = 0 if target is None else target.slots_flash_bytes
    return chooser.select(Limits(budget.limit, flash, slots_flash_bytes=of_slots))


def last_that_fits(graph: Graph, classes: int | None, budget: Budget, count: int) -> int:
    """The most layers from the end that fit, all weights and biases of them; 1 if none does.

    Needs grow with k, so halving finds it. Without a limit it is LAST.
    """
    limit = budget.limit
    if limit is None:
        return min(LAST, count)
    low, high = min(1, count), count
    while low < high:
        k = (low + high + 1) // 2
        step = prepare(graph, f"last:{k}", StepOptions(classes=classes))
        low, high = (k, high) if budget.needs(step) <= limit else (low, k - 1)
    return low


@dataclass(frozen=True)
class Runs:
    """How often each row is trained: from so many seeds, or in few-shot episodes."""

    count: int
    episodes: Episodes | None = None

    @staticmethod
    def of(seeds: int | None, episodes: Episodes | None) -> Runs:
        """Raises ArgumentError if both are given."""
        if episodes is None:
            return Runs(SEEDS if seeds is None else seeds)
        if seeds is not None:
            raise ArgumentError("episodes take the place of seeds: leave these out")
        return Runs(episodes.count, episodes)

    def fitted(
        self,
        graph: Graph,
        split: Split,
        wanted: int | str,
        class_names: Sequence[str] = (),
        loss: str = CROSS_ENTROPY,
    ) -> Fitted:
        """The outputs of a new head, the loss, and the data with labels that are output numbers.

        wanted, class_names, loss: as mcutrain.pipeline.losses.fit_to_data takes them, for runs that
        are no episodes. Raises DataError if the data has not what the runs take.
        """
        if self.episodes is None and loss == CROSS_ENTROPY:
            return fit_classes(graph, split, wanted, class_names)
        if self.episodes is None:
            return fit_to_data(graph, split, wanted, loss, (), class_names)
        if loss == MEAN_SQUARED_ERROR:
            raise DataError("an episode learns classes, which --loss mse does not: leave it out")
        self.episodes.check(split)
        return Fitted(self.episodes.ways, CROSS_ENTROPY, split)

    def samples(self, split: Split) -> int:
        """Of an epoch."""
        return len(split.train) if self.episodes is None else self.episodes.samples


def trials(schemes: int, seeds: int) -> list[Trial]:
    """Every scheme from every seed, seed by seed: an interrupted comparison has whole columns."""
    return [Trial(i, seed) for seed in range(seeds) for i in range(schemes)]


def with_results(
    candidates: Sequence[PlannedRow],
    rows: Sequence[Compared],
    results: Mapping[Trial, SimulationResult],
    episodes: Episodes | None = None,
    measure: str = ACCURACY,
) -> list[Compared]:
    """The rows with what their schemes learnt, seeds, or episodes, in order. measure: see AUC.

    Instructions are those of a step in the mean, where samples are skipped or take one front or
    another. Of an elastic row they stay its share of a step, as if none was skipped.
    """
    found = []
    for i, (candidate, planned) in enumerate(zip(candidates, rows, strict=True)):
        own = [
            results[trial] for trial in sorted(results, key=lambda t: t.seed) if trial.scheme == i
        ]
        row = _executed(planned, candidate, own)
        found.append(
            replace(
                row,
                accuracies=tuple(_score(r.accuracy, r.auc, measure) for r in own),
                before=tuple(_score(r.before, r.auc_before, measure) for r in own),
                measure=measure,
                learning_rate=next((r.learning_rate for r in own), None),
                ways=0 if episodes is None else episodes.ways,
                shots=0 if episodes is None else episodes.shots,
            )
        )
    return found


def _score(accuracy: float, auc: float | None, measure: str) -> float:
    return accuracy if measure == ACCURACY or auc is None else auc


def _executed(
    row: Compared, candidate: PlannedRow, results: Sequence[SimulationResult]
) -> Compared:
    """With the shares of samples that were learnt, and of each front, and what a step took."""
    steps = sum(result.steps for result in results)
    if not steps:
        return row
    learnt, levels = None, None
    if any(result.skipped is not None for result in results):
        learnt = 1 - sum(result.skipped or 0 for result in results) / steps
    counts = [result.levels for result in results if result.levels is not None]
    if counts:
        levels = tuple(sum(own) / steps for own in zip(*counts, strict=True))
    changed = replace(row, learnt=learnt, levels=levels or ())
    if candidate.parts is None or candidate.elastic is not None:
        return changed
    mean = candidate.parts.mean(1.0 if learnt is None else learnt, levels)
    return replace(changed, instructions=round(mean))

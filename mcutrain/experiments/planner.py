"""What the rows of a comparison need, and which of them fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mcutrain_host.dataclass import dataclass

from mcutrain.cost.executed import StepParts
from mcutrain.cost.instructions import USUAL_ISA
from mcutrain.cost.profile import times_of
from mcutrain.cost.schemes import cost_model
from mcutrain.errors import ArgumentError, ModelError, PlanError
from mcutrain.experiments.parallel import Elastic, Resampling
from mcutrain.experiments.rows import (
    PlannedRow,
    Proxies,
    elastic_rows,
    resampled_rows,
    with_ladders_scheme,
)
from mcutrain.ir.graph import Graph
from mcutrain.pipeline import StepOptions, TrainingStep, prepare
from mcutrain.quant import replace_head
from mcutrain.report.collect import planned_flash
from mcutrain.report.learning import Compared
from mcutrain.runs.training import turns_of
from mcutrain.selection.contribution import Contributions, check_model
from mcutrain.selection.cost import Limits
from mcutrain.selection.result import Selection
from mcutrain.selection.select import Selector
from mcutrain.simulation import RunSettings
from mcutrain.sparse import find_head, layers_of, parse_scheme
from mcutrain.target import Target

LAST = 6
"""Layers that `last k` trains where no limit says otherwise."""


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
        """The chip's instruction set."""
        return USUAL_ISA if self.target is None else self.target.costs

    def row(self, candidate: PlannedRow, step: TrainingStep) -> Compared:
        """What a scheme needs; it has not learnt yet. Of an elastic one the mean step's time."""
        isa, parts = self.isa, candidate.parts
        share = 1.0 if candidate.way.elastic is None else candidate.way.elastic.share
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
        """Return what is trained. Raises ArgumentError if an elastic row cannot keep to its share.

        Raises PlanError for a proxy cascade that the scheme cannot use.
        """
        way = candidate.way
        making = way.making_of(self.options, self.settings)
        try:
            step = prepare(
                way.graph or self.graph,
                candidate.scheme,
                making.options,
                ladder=making.ladder,
                report=self.report,
            )
        except PlanError as error:
            if making.ladder is None:
                raise
            raise PlanError(f"{candidate.name}: {error}") from error
        if way.elastic is not None:
            self._check(candidate.name, step, way.elastic)
        return step

    def _check(self, name: str, step: TrainingStep, elastic: Elastic) -> None:
        """Raise ArgumentError if an elastic step cannot keep to its share."""
        try:
            times = times_of(step.plan, self.budget.isa, elastic.profile)
            turns_of(step, elastic.of(self.settings), self.samples, times)
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
        resampling: Resampling | None,
        proxies: Proxies | None = None,
    ) -> tuple[list[PlannedRow], list[Compared]]:
        """The candidates and what they need, and those that are elastic, resample columns, or have
        cheaper fronts.

        usual_ones: so many of the candidates nobody asked for. given: so many behind them are
        schemes that were given; then rows with modules, and one that was selected. Raises
        ArgumentError if there is nothing to resample, or an elastic row cannot keep to its share;
        McutrainError for a proxy cascade that cannot be read or used.
        """
        with_proxies: list[PlannedRow] = []
        count = len(candidates)
        if proxies is not None:
            candidates, asked = with_ladders_scheme(candidates, usual_ones, given, proxies)
            with_proxies = proxies.rows(asked, self.options)
        candidates, rows = self.planned(candidates)
        without_ladders = candidates[:count]  # nobody asked for the scheme of a proxy cascade
        more: list[PlannedRow] = []
        if elastic is not None:
            more += elastic_rows(without_ladders, rows[:count], usual_ones, given, elastic)
        if resampling is not None:
            more += resampled_rows(without_ladders[usual_ones : usual_ones + given], resampling)
        more, of_more = self.planned([*with_proxies, *more])
        return [*candidates, *more], rows + of_more


def usual(graph: Graph, options: StepOptions, budget: Budget) -> list[PlannedRow]:
    """Head only, all biases, the last k layers that fit, everything."""
    count = len(layers_of(graph, find_head(graph)))
    k = last_that_fits(graph, options, budget, count)
    named = [("head only", "head"), ("biases only", f"bias:{count}")]
    if 0 < k < count:
        named.append((f"last {k}", f"last:{k}"))
    named.append(("full", "full"))
    return [PlannedRow(name, parse_scheme(text)) for name, text in named]


def last_that_fits(graph: Graph, options: StepOptions, budget: Budget, count: int) -> int:
    """The most layers from the end that fit, all weights and biases of them; 1 if none does.

    Needs grow with k, so halving finds it. Without a limit it is LAST.
    """
    limit = budget.limit
    if limit is None:
        return min(LAST, count)
    outputs = StepOptions(classes=options.classes, loss=options.loss, targets=options.targets)
    low, high = min(1, count), count
    while low < high:
        k = (low + high + 1) // 2
        step = prepare(graph, f"last:{k}", outputs)
        low, high = (k, high) if budget.needs(step) <= limit else (low, k - 1)
    return low


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

"""The scheme that gains most within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from mcutrain_host.dataclass import dataclass
from mcutrain_host.json_values import ValuesError, from_values

from mcutrain.arguments import PathLike, Within, checked
from mcutrain.cost.flash import code_sizes
from mcutrain.cost.ladder import front_flash_bytes
from mcutrain.cost.profile import times_of
from mcutrain.cost.schemes import cost_model, has_compiler
from mcutrain.data import Targets
from mcutrain.errors import AnalysisError, ArgumentError, OptionError, PlanError
from mcutrain.functions.keywords import with_keywords
from mcutrain.functions.memory_limit import limits_of
from mcutrain.functions.options import Classes
from mcutrain.functions.run_options import LimitOptions, SelectOptions
from mcutrain.ir.graph import Graph
from mcutrain.memplan import Ladder
from mcutrain.pipeline import StepOptions, TrainingStep, front_of, load, prepare, with_head
from mcutrain.pipeline.losses import MEAN_SQUARED_ERROR
from mcutrain.proxies import drop_ladder, kept_ladder, read_facts, write_ladder
from mcutrain.proxies.fewer import FittingLevels, levels_that_fit
from mcutrain.quant import told_apart
from mcutrain.runs.training import turns_of
from mcutrain.selection.contribution import Contributions, check_model, read_contributions
from mcutrain.selection.cost import CostModel, Limits, Needs
from mcutrain.selection.result import Selection
from mcutrain.selection.select import Selector, fits
from mcutrain.shown import Record
from mcutrain.simulation import RunSettings
from mcutrain.sparse import find_head
from mcutrain.sparse.scheme import BIAS_BITS
from mcutrain.target import Slots, Target, target_of
from mcutrain.update_rules import SGD

USUAL_PERIOD = 1000
"""Steps from one choice of an elastic run to the next, where nobody has said how many."""


@dataclass(frozen=True)
class Choice:
    """What schemes of a model are chosen from, and what they may cost.

    file: the model's, if it was read. graph: with the head that is trained. classes: its outputs if
    it is new. options: of the step of such a graph.
    """

    request: SelectOptions
    file: Path | None
    graph: Graph
    classes: int | None
    options: StepOptions
    contributions: Contributions
    target: Target | None
    limits: Limits
    costs: CostModel

    @staticmethod
    def of(
        model: Graph | PathLike,
        analysis: Contributions | PathLike,
        request: SelectOptions,
        limits: Limits | None = None,
        classes: int | str = "auto",
        *,
        builds: bool = True,
    ) -> Choice:
        """All that the answer depends on. builds: the winner is compiled, if there is a compiler.

        limits: what a step may take; None where budgets are given one after the other. Raises
        McutrainError.
        """
        target = request.target
        graph = model if isinstance(model, Graph) else load(model)
        find_head(graph)
        contributions = analysis_for(graph, analysis, request.measure, request.by_gradient)
        name = "" if isinstance(analysis, Contributions) else f" {analysis}"
        contributions = at_joint_rate(contributions, request, name)
        wanted = classes_of(graph, contributions, classes, name)
        options = StepOptions(accumulate=request.accumulate, elastic=request.elastic)
        if (said := contributions.settings.get("targets")) is not None:
            options = replace(options, loss=MEAN_SQUARED_ERROR, targets=_targets(said, name))
        graph = with_head(graph, replace(options, classes=wanted))
        can_build = builds and target is not None and has_compiler(target)
        bits = BIAS_BITS if request.bias_bits == "any" else (request.bias_bits,)
        rule = request.update_rule or SGD
        costs = cost_model(graph, target, options, can_build, bits, request.layer_bits, rule)
        limits = Limits(None) if limits is None else limits
        file = None if isinstance(model, Graph) else Path(model)
        return Choice(request, file, graph, wanted, options, contributions, target, limits, costs)

    @property
    def facts(self) -> Record:
        """Values for JSON."""
        target = self.target
        return {
            "model": self.graph.name,
            "classes": self.contributions.classes,
            "learns": "classes" if self.options.targets is None else "targets",
            "board": None if target is None else target.name,
            "slots": self.request.slots,
        }

    def selector(self, progress: Callable[[int, int], None] | None = None) -> Selector:
        """Return what selects. progress: called with the costs done, of how many."""
        read, measure = self.contributions.smoothed(), self.request.measure
        tell = progress or (lambda done, of: None)
        found = Selector(self.graph, read, self.costs, measure, tell)
        found.by_gradient = self.request.by_gradient
        return found

    def best(self, selector: Selector) -> Selection:
        """The best scheme; of an elastic one also the share of its time that it may take."""
        if not self.request.elastic:
            return selector.select(self.limits)
        return select_elastic(selector, self.limits, self.graph, self.target, self.options)


@with_keywords
@checked
def select(
    model: Graph | PathLike,
    analysis: Contributions | PathLike,
    *,
    classes: Classes = "auto",
    request: SelectOptions = SelectOptions(),
    limits: LimitOptions = LimitOptions(),
    build: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Selection:
    """Select what to train: the scheme with the largest expected gain that fits.

    The answer is exact: by this analysis, no other choice of bias depth, layers, shares and bits
    within the limits gains more. With the measure `joint`, none gains more by over 1/2000 of the
    samples. Fields of request and limits are keywords, too; mcutrain.functions.run_options explains
    each.

    analysis: what `analyze` returned, or its file.
    request: what is asked for.
    board: a board's name or folder; the limits are all SRAM and flash that its firmware can take.
    measure: by default the analysis' first one.
    joint_rate: the share of the analysis' learning rate at which `joint` is measured.
    bias_bits: the bits of each trained bias, see UpdateScheme; "any" takes what gains more.
    layer_bits: each layer has residual bits of its own.
    update_rule: the rule of all schemes.
    elastic: for firmware that leaves tensors out while it runs, so only memory limits the choice.
        With instructions or step_seconds the result has the share that keeps the mean step within
        them.
    limits: sram, flash, instructions (of a training step), step_seconds. Without a board only sram
        counts, of arena and state.
    build: compile the winner, if there is a compiler.
    progress: called with the number of costs done, and how many there are.

    Raises PlanError if nothing fits, or a share is too small for the last layer alone. Raises
    AnalysisError if the analysis is of another model or lacks the measure. Raises ModelError,
    TargetError, BuildError, ArgumentError.

    >>> select("model.int8.tflite", found, board="nucleo-f446re", sram=48 * 1024).scheme
    """
    allowed = all_limits(request, limits)
    choice = Choice.of(model, analysis, request, allowed, classes, builds=build)
    return choice.best(choice.selector(progress))


def all_limits(request: SelectOptions, limits: LimitOptions) -> Limits:
    """Return what all limits and the board together allow. Raises OptionError, ArgumentError."""
    return limits_of(
        request.target, limits.sram, limits.flash, limits.instructions, limits.step_seconds
    )


def select_elastic(
    selector: Selector, limits: Limits, graph: Graph, target: Target | None, options: StepOptions
) -> Selection:
    """The best scheme by memory, with the share of its time that a step may take in the mean.

    graph: with the head that is trained. Raises PlanError if nothing fits, or forward pass, loss
    and the last layer take more than the limit of a step.
    """
    selection = selector.select(replace(limits, instructions=None))
    instructions = limits.instructions
    if instructions is None or target is None:
        return selection
    share = min(math.floor(1000 * instructions / selection.measured.instructions) / 1000, 1.0)
    if share < 1:
        step = prepare(graph, selection.scheme, options)
        times = times_of(step.plan, target.costs)
        try:
            period = USUAL_PERIOD * options.accumulate
            turns_of(step, RunSettings(elastic=share), period, times)
        except ArgumentError as error:
            raise PlanError(
                f"an elastic step takes {selection.measured.instructions:,} instructions if "
                f"nothing is left out; its mean cannot be kept to {instructions:,}: {error}"
            ) from error
    return replace(selection, share=share)


@dataclass(frozen=True)
class LevelsBeside:
    """How many levels of a proxy cascade fit beside a selected scheme.

    front: the network's own, level 0. measured: what the scheme takes with those that do.
    """

    levels: FittingLevels
    front: Graph
    measured: Needs

    def to_dict(self) -> Record:
        """Return values for JSON; levels as the proxies that were given count them."""
        return {
            "kept": [0, *self.levels.kept],
            "left_out": list(self.levels.left_out),
            "sram_bytes": self.measured.sram_bytes,
            "flash_bytes": self.measured.flash_bytes,
        }

    def write(self, given: PathLike, folder: PathLike) -> None:
        """Write a proxy cascade of the levels that fit, in the place of one that is there.

        Write none if only the whole front fits. given: the cascade's own folder. Raises
        McutrainError.
        """
        if self.levels.ladder is None:
            drop_ladder(Path(folder))  # of an earlier call
            return
        facts = read_facts(Path(given))
        known = facts.get("levels")
        if isinstance(known, list) and len(known) > max(self.levels.kept):
            facts["levels"] = [known[level] for level in (0, *self.levels.kept)]
        names = ("model", "scheme", "isa", "delta", "threshold", "levels")
        more: dict[str, Any] = {name: facts[name] for name in names if name in facts}
        write_ladder(self.levels.ladder, Path(folder), self.front, more)


@checked
def levels_beside(
    selection: Selection,
    model: Graph,
    proxies: PathLike,
    *,
    board: PathLike | Target | None = None,
    slots: Slots = "on",
    accumulate: Annotated[int, Within(1, 65535)] = 1,
    elastic: bool = False,
) -> LevelsBeside:
    """Return how many levels of a proxy cascade fit beside the selection, within its limits.

    Those that save most instructions are taken first. model: with the head that is trained.
    proxies: a folder of `mcutrain proxies`, made for the scheme that was selected. board, slots:
    as `select` took them. Raises PlanError if it was made for another scheme, McutrainError if it
    is none.
    """
    target = target_of(board, slots)
    options = StepOptions(accumulate=accumulate, elastic=elastic)

    def step_with(ladder: Ladder | None) -> TrainingStep:
        return prepare(model, selection.scheme, options, ladder=ladder)

    plain = step_with(None)
    ladder = kept_ladder(Path(proxies))(lambda latent: front_of(plain, latent))
    code = None if target is None or target.is_hosted else code_sizes(target.costs)

    def measured(beside: Ladder) -> Needs:
        step = step_with(beside)
        more = 0 if code is None else sum(front_flash_bytes(step.plan, code))
        return replace(
            selection.measured,
            sram_bytes=selection.measured.sram_bytes + _sram(step, target) - _sram(plain, target),
            flash_bytes=selection.measured.flash_bytes + more,
        )

    levels = levels_that_fit(ladder, lambda fewer: fits(selection.limits, measured(fewer)))
    own = selection.measured if levels.ladder is None else measured(levels.ladder)
    return LevelsBeside(levels, front_of(plain, ladder.latent), own)


def _sram(step: TrainingStep, target: Target | None) -> int:
    plan = step.plan
    if target is None:
        return plan.sram_bytes
    return target.sram_bytes(plan.arena_bytes, plan.resident_bytes)


def analysis_for(
    graph: Graph, analysis: Contributions | PathLike, measure: str | None, by_gradient: bool
) -> Contributions:
    """An analysis of this model that has the measure, and channels if they are needed.

    Raises AnalysisError.
    """
    if isinstance(analysis, Contributions):
        check_model(analysis, graph)
        found, name = analysis, ""
    else:
        found, name = read_contributions(Path(analysis), graph), f" {analysis}"
    found.gain(measure)
    if by_gradient and not found.channels:
        raise AnalysisError(
            f"the analysis{name} has no channels; make one with `mcutrain analyze --by gradient`, "
            "or leave out --channels"
        )
    return found


def at_joint_rate(found: Contributions, request: SelectOptions, name: str = "") -> Contributions:
    """The analysis with the kernels of `joint` at the wanted share of its rate, if it has any.

    name: of the analysis, for sentences. Raises OptionError.
    """
    if found.kernels is not None:
        return replace(found, kernels=found.kernels.at(request.joint_rate))
    if request.joint_rate != SelectOptions.joint_rate:
        raise OptionError(
            "joint_rate",
            f"needs the measure joint, which the analysis{name} does not have: make one with "
            "`mcutrain analyze --by gradient`, or leave out --joint-rate",
        )
    return found


def _targets(said: Any, name: str) -> Targets:
    """Return what an analysis' settings say of real targets. Raises AnalysisError."""
    try:
        return from_values(Targets, said, f"the analysis{name}")
    except ValuesError as error:
        raise AnalysisError(f"{error}: analyze again") from error


def classes_of(
    graph: Graph, found: Contributions, classes: int | str, name: str = ""
) -> int | None:
    """The outputs of a new head, None to keep the model's own. Raises AnalysisError.

    name: of the analysis, for sentences.
    """
    outputs = told_apart(graph, find_head(graph).node)
    if classes == "auto":
        wanted = None if found.classes == outputs else found.classes
    else:
        wanted = classes if isinstance(classes, int) else None
    if (wanted or outputs) != found.classes:
        raise AnalysisError(
            f"the analysis{name} was made with {found.classes} classes, not {wanted or outputs}; "
            "leave out --classes, or analyze with that many"
        )
    return wanted

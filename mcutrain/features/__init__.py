"""Features: of a training step, and of the program around it.

A feature is a folder here: `__init__.py` describes it as a StepFeature or a ProgramFeature,
`model.c.j2` and `model.h.j2` are its C (mcutrain.codegen.slots says where that goes). A StepFeature
changes what a step computes or keeps; a ProgramFeature leaves the bits as they are and adds
functions.

FEATURES and PROGRAM_FEATURES are the one place that names them all, in order. Sections of the state
lie in this order, and their C runs in it. Where several would fill the same place, the last one
does. So what builds on another feature stands behind it. tests/features checks this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.rewriting import Rewriting
from mcutrain.autodiff.train_graph import Levels, TrainGraph
from mcutrain.errors import DataError
from mcutrain.features import (
    budgeted,
    cascade,
    elastic,
    gate,
    imprint,
    latents,
    learning,
    listening,
    policy_feedback,
    replay,
    resampling,
    selection,
    steps,
    timing,
)
from mcutrain.features.cascade.reference import LadderState
from mcutrain.features.elastic.reference import ElasticState
from mcutrain.features.facts import FactTable
from mcutrain.features.feature import (
    Code,
    LevelChoice,
    PlannedMemory,
    ProgramFeature,
    StepFeature,
    Told,
    Words,
)
from mcutrain.features.gate.reference import GateState
from mcutrain.features.learning import check_learning
from mcutrain.features.listening import check_listening, frontend_of, heard_bytes, listening_bytes
from mcutrain.features.reference import WORD, StepRate
from mcutrain.features.replay import bytes_of_ring
from mcutrain.features.resampling.reference import ResamplingState
from mcutrain.features.turns import Decision, RunPart, Turn, TurnedPlan, TurnState
from mcutrain.sparse.elastic import ElasticTimes

__all__ = [
    "FACTS",
    "FEATURES",
    "IMPRINT",
    "LATENTS",
    "LATER",
    "PROGRAM_FEATURES",
    "REPLAY",
    "WORD",
    "Code",
    "Decision",
    "FeatureFacts",
    "FeatureOptions",
    "FeatureSettings",
    "FeatureState",
    "LevelChoice",
    "ProgramChoices",
    "ProgramFeature",
    "StepFeature",
    "StepRate",
    "Turn",
    "TurnState",
    "Words",
    "bytes_of_ring",
    "check_learning",
    "check_listening",
    "conflict",
    "correcting",
    "features_of",
    "features_of_program",
    "following",
    "frontend_of",
    "heard_bytes",
    "listening_bytes",
    "plan_lines",
    "plan_values",
    "program_choices",
    "rewritings",
    "why_no_ladder",
]

FEATURES: tuple[StepFeature, ...] = (
    cascade.FEATURE,
    policy_feedback.FEATURE,
    resampling.FEATURE,
    elastic.FEATURE,
    gate.FEATURE,
)
"""Policy feedback corrects a cascade. A gate is last: it decides whether a step, as all others have
made it, learns at all, and when its updates are applied."""


REPLAY, IMPRINT, LATENTS = replay.FEATURE, imprint.FEATURE, latents.FEATURE
"""Features of a program whose C stands among that of its other parts."""
LATER = (
    selection.FEATURE,
    timing.FEATURE,
    budgeted.FEATURE,
    listening.FEATURE,
    learning.FEATURE,
    steps.FEATURE,
)
"""Those whose C fills slots behind that of all other parts, in this order."""
PROGRAM_FEATURES: tuple[ProgramFeature, ...] = (REPLAY, IMPRINT, LATENTS, *LATER)


@dataclass(frozen=True, kw_only=True)
class ProgramChoices(budgeted.BudgetedChoice, listening.ListeningChoice):
    """Fields of an Interface that features of a program add, with the names of their flags."""


def program_choices(options: object) -> dict[str, Any]:
    """Return the fields of ProgramChoices by what options of the same names say."""
    return {f.name: getattr(options, f.name) for f in fields(ProgramChoices)}


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(
    policy_feedback.DriftOption, resampling.ResamplingOption, elastic.ElasticOption, gate.GateOption
):
    """Fields of StepOptions that features add."""


@dataclass(frozen=True, kw_only=True)
class FeatureFacts(policy_feedback.DriftFacts, cascade.LadderFacts, gate.GateFacts):
    """Fields of results that features add: what they counted, None where a step has them not.

    FACTS says the fields from the last of these classes to the first.
    """


FACTS = FactTable.of_fields(FeatureFacts)
"""How each of them is read from a state, and said."""


R = TypeVar("R", bound="FeatureSettings")
RUN_PARTS = tuple(feature.run for feature in FEATURES if feature.run is not None)


@dataclass(frozen=True, kw_only=True)
class FeatureSettings(elastic.ElasticSettings, resampling.ResamplingSettings):
    """Fields of RunSettings that features add: what happens between the steps of a run."""

    @property
    def parts(self) -> tuple[RunPart, ...]:
        """What features do in such a run, in order."""
        return tuple(part for part in RUN_PARTS if part.is_on(self))

    @property
    def step_options(self) -> dict[str, Any]:
        """Fields of the StepOptions that the step of such a run has."""
        return {name: value for part in RUN_PARTS for name, value in part.options(self).items()}

    @property
    def unsaid(self) -> frozenset[str]:
        """Names of these fields that mean nothing in such a run."""
        usual = {f.name for f in fields(FeatureSettings) if getattr(self, f.name) == f.default}
        return frozenset(usual - {"every"} if self.parts else usual | {"every"})

    def without_turns(self: R) -> R:
        """Return the settings of a run in which features do nothing between steps."""
        usual: dict[str, Any] = {f.name: f.default for f in fields(FeatureSettings)}
        return replace(self, **usual)

    def check(self) -> None:
        """Raise DataError for settings that do not go together."""
        for part in RUN_PARTS:
            part.check(self)
        if self.every and not self.parts:
            raise DataError(
                f"every = {self.every} is for runs that select tensors or resample input channels: "
                "give elastic (the share of a step that one may take) or swap, too"
            )

    def check_after(self) -> None:
        """Raise DataError for a run that cannot go on from another one."""
        for part in self.parts:
            raise DataError(part.anew)

    def turns(
        self, plan: TurnedPlan, epoch_steps: int, times: Callable[[], ElasticTimes]
    ) -> tuple[Turn, ...]:
        """Return what is done between steps. times: what tensors take, asked where it matters.

        Raises ArgumentError for a step that cannot be run so.
        """
        return tuple(part.turn(plan, self, epoch_steps, times) for part in self.parts)


class FeatureState(LadderState, ResamplingState, ElasticState, GateState):
    """What features add to the step by numpy."""


def features_of(training: TrainGraph) -> tuple[StepFeature, ...]:
    """The features that a step has."""
    return tuple(feature for feature in FEATURES if feature.is_on(training))


def features_of_program(code: Code, told: Told) -> tuple[ProgramFeature, ...]:
    """The features that a program has besides its step. told: an Interface."""
    return tuple(feature for feature in PROGRAM_FEATURES if feature.is_on(code, told))


def plan_values(plan: PlannedMemory) -> dict[str, Any]:
    """Return what a plan says of features by name, ready for JSON; None of those it has not."""
    rows = [(f, f.plan_row) for f in reversed(FEATURES) if f.plan_row is not None]
    return {row.name: row.value(plan) if f.is_on(plan.training) else None for f, row in rows}


def plan_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """Return the lines of a plan. values: plan_values, maybe among others."""
    for row in (f.plan_row for f in reversed(FEATURES)):
        if row is not None and values[row.name] is not None:
            yield f"{row.name:16}{row.line(values[row.name])}"


def rewritings(options: FeatureOptions) -> tuple[Rewriting, ...]:
    """Return what features add to the training graph that options ask for.

    Raises ArgumentError for an option of no meaning.
    """
    found = (feature.rewriting(options) for feature in FEATURES)
    return tuple(rewriting for rewriting in found if rewriting is not None)


def conflict(training: TrainGraph, wish: str) -> str:
    """Return why a run cannot have what it wishes, by the first feature that says so; "" if it can.

    wish: a key of `StepFeature.conflicts`.
    """
    reasons = (feature.conflicts.get(wish, "") for feature in features_of(training))
    return next(filter(None, reasons), "")


def correcting(options: FeatureOptions) -> Iterator[StepFeature]:
    """The features by which options ask that something corrects the choice of a proxy cascade."""
    for feature in FEATURES:
        if feature.level_choice is not None and getattr(options, feature.option):
            yield feature


def following(levels: Levels | None) -> dict[str, bool]:
    """The options that files say with the cascade that they correct, by name."""
    is_corrected = levels is not None and levels.drifts
    return {feature.option: is_corrected for feature in FEATURES if feature.level_choice}


def why_no_ladder(options: FeatureOptions) -> str:
    """Return why options need a proxy cascade; "" if they do not."""
    return next((feature.conflicts["no ladder"] for feature in correcting(options)), "")

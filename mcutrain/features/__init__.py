"""Features of a training step: what each adds to the state, the C and the numpy reference.

A feature is a folder here: `__init__.py` describes it as a StepFeature, `model.c.j2` and
`model.h.j2` are its C (mcutrain.codegen.slots says where that goes). FEATURES is the one place that
names them all, in the order in which everything of theirs happens: sections of the state lie so,
their C runs so, and where several would fill the same place the last one does. So what builds on
another feature stands behind it. tests/features checks this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mcutrain.autodiff.rewriting import Rewriting
from mcutrain.autodiff.train_graph import Levels, TrainGraph
from mcutrain.features import drift, elastic, gate, ladder, swap
from mcutrain.features.elastic.reference import ElasticState
from mcutrain.features.facts import FactTable
from mcutrain.features.feature import Code, LevelChoice, StepFeature, Words
from mcutrain.features.gate.reference import GateState
from mcutrain.features.ladder.reference import LadderState
from mcutrain.features.reference import WORD, StepRate
from mcutrain.features.swap.reference import SwapState

__all__ = [
    "FACTS",
    "FEATURES",
    "WORD",
    "Code",
    "FeatureFacts",
    "FeatureOptions",
    "FeatureState",
    "LevelChoice",
    "StepFeature",
    "StepRate",
    "Words",
    "conflict",
    "correcting",
    "features_of",
    "following",
    "rewritings",
    "why_no_ladder",
]

FEATURES: tuple[StepFeature, ...] = (
    ladder.FEATURE,
    drift.FEATURE,
    swap.FEATURE,
    elastic.FEATURE,
    gate.FEATURE,
)
"""Drift corrects a ladder. A gate is last: it decides whether a step, as all others have made it,
learns at all, and when its updates are applied."""


@dataclass(frozen=True, kw_only=True)
class FeatureOptions(drift.DriftOption, swap.SwapOption, elastic.ElasticOption, gate.GateOption):
    """Fields of StepOptions that features add."""


@dataclass(frozen=True, kw_only=True)
class FeatureFacts(drift.DriftFacts, ladder.LadderFacts, gate.GateFacts):
    """Fields of results that features add: what they counted, None where a step has them not.

    FACTS says the fields from the last of these classes to the first.
    """


FACTS = FactTable.of_fields(FeatureFacts)
"""How each of them is read from a state, and said."""


class FeatureState(LadderState, SwapState, ElasticState, GateState):
    """What features add to the step by numpy."""


def features_of(training: TrainGraph) -> tuple[StepFeature, ...]:
    """The features that a step has."""
    return tuple(feature for feature in FEATURES if feature.is_on(training))


def rewritings(options: FeatureOptions) -> tuple[Rewriting, ...]:
    """What features add to the training graph that options ask for.

    Raises ArgumentError for an option of no meaning.
    """
    found = (feature.rewriting(options) for feature in FEATURES)
    return tuple(rewriting for rewriting in found if rewriting is not None)


def conflict(training: TrainGraph, wish: str) -> str:
    """Why a run cannot have what it wishes, by the first feature that says so; "" if it can.

    wish: a key of `StepFeature.conflicts`.
    """
    reasons = (feature.conflicts.get(wish, "") for feature in features_of(training))
    return next(filter(None, reasons), "")


def correcting(options: FeatureOptions) -> Iterator[StepFeature]:
    """The features by which options ask that something corrects the choice of a ladder."""
    for feature in FEATURES:
        if feature.level_choice is not None and getattr(options, feature.option):
            yield feature


def following(levels: Levels | None) -> dict[str, bool]:
    """The options that files say with the ladder that they correct, by name."""
    is_corrected = levels is not None and levels.drifts
    return {feature.option: is_corrected for feature in FEATURES if feature.level_choice}


def why_no_ladder(options: FeatureOptions) -> str:
    """Why options need a ladder; "" if they do not."""
    return next((feature.conflicts["no ladder"] for feature in correcting(options)), "")

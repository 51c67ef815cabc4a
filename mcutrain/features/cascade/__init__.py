"""Ladder, or proxy cascade: a policy chooses one of several fronts for each sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcutrain_host.manifest import FrontCost, LadderFronts
from mcutrain_host.state import LEVEL_SAMPLES

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.features.cascade.facts import LadderFacts
from mcutrain.features.feature import Code, StepFeature, Told, Words

__all__ = ["FEATURE", "LadderFacts"]


def _count(training: TrainGraph) -> int:
    return 0 if training.levels is None else training.levels.count


def _code(code: Code) -> Mapping[str, Any] | None:
    """The functions of its fronts; a step whose fronts are not at hand has none."""
    fronts = code.fronts
    if fronts is None:
        return None
    return {
        "policy": fronts.policy,
        "proxies": fronts.proxies,
        "whole": fronts.whole,
        "scores": fronts.scores,
        "counts": code.words(LEVEL_SAMPLES, "uint32_t"),
        "levels": _count(code.training),
    }


def _sources(training: TrainGraph) -> tuple[str, ...]:
    """The policy's own choice, unless something corrects it."""
    is_corrected = training.levels is not None and training.levels.drifts
    return () if is_corrected else ("runtime/mct_ladder.h",)


def _manifest(code: Code, told: Told) -> Mapping[str, Any]:
    """Where its counts are, and what its fronts take: multiply-accumulates, if nobody said more."""
    levels = code.training.levels
    if code.fronts is None or levels is None:
        return {}
    policy, *fronts = told.fronts or [FrontCost(macs=macs) for macs in code.front_macs()]
    offset = code.words_offset(LEVEL_SAMPLES)
    found = LadderFronts(offset=offset, policy=policy, fronts=tuple(fronts), drifts=levels.drifts)
    return {"levels": found}


FEATURE = StepFeature(
    name="cascade",
    is_on=lambda training: training.levels is not None,
    over=("latents",),
    words=(
        Words(
            LEVEL_SAMPLES, "uint32", _count, "samples that each front of the cascade was taken for"
        ),
    ),
    identity=lambda training: repr(training.levels),
    code=_code,
    sources=_sources,
    manifest=_manifest,
    flags={
        "--proxies": lambda options: (
            f"--proxies of {options.levels.count} levels" if options.levels else "no --proxies"
        )
    },
)

"""Policy feedback: what samples taught corrects which front of a proxy cascade a sample takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.features.feature import Code, StepFeature, Words
from mcutrain.features.policy_feedback.facts import DriftFacts
from mcutrain.features.policy_feedback.option import DriftOption
from mcutrain.features.policy_feedback.policy import LEVEL_DRIFT, Drift, DriftChoice

__all__ = ["FEATURE", "Drift", "DriftFacts", "DriftOption"]


def _is_on(training: TrainGraph) -> bool:
    return training.levels is not None and training.levels.drifts


def _code(code: Code) -> Mapping[str, Any] | None:
    """Return where it lies; a step whose fronts are not at hand has no code of it."""
    return None if code.fronts is None else {"place": code.words(LEVEL_DRIFT, "mct_drift")}


FEATURE = StepFeature(
    name="policy_feedback",
    is_on=_is_on,
    over=("cascade", "latents"),
    words=(
        Words(
            LEVEL_DRIFT,
            "int32",
            lambda training: 2 * _is_on(training),
            "mean loss with the whole front times 2^19, and what is added to the policy's scores",
        ),
    ),
    code=_code,
    sources=lambda training: ("runtime/mct_drift.h",),
    resident_bytes=8,  # the level that the policy chose, and whether a probe takes its place
    level_choice=DriftChoice(),
    flags={
        "--policy-feedback": lambda options: (
            "--policy-feedback" if options.drift else "no --policy-feedback"
        )
    },
    option="drift",
    conflicts={
        "no ladder": (
            "drift corrects which front of a cascade a sample takes, and there is no cascade: give "
            "one (--proxies), too, or leave out --policy-feedback"
        ),
        "batches": (
            "samples of one level in each update have to be known before it, and --policy-feedback "
            "decides with each sample: leave it out, or --batches level"
        ),
        "replay": (
            "a board replays the latents that its fronts made once, and with --policy-feedback a "
            "simulation might take others when it makes them again: leave out the replay, "
            "or --policy-feedback"
        ),
    },
)

"""Learning: a board's firmware infers on what it hears, and learns when it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import McutrainError
from mcutrain.features.feature import Code, ProgramFeature
from mcutrain.features.listening import LEARN

__all__ = ["FEATURE", "check_learning"]


def check_learning(training: TrainGraph, told: Any, is_board: bool) -> None:
    """Raise McutrainError for what cannot learn lessons."""
    if told.sensor and told.app != LEARN:
        raise McutrainError("a sensor is read by the application: give --app learn, too")
    if told.keep_samples and told.app != LEARN:
        raise McutrainError(
            "raw samples are kept for `mcutrain teach --record`: give --app learn, too"
        )
    if told.app != LEARN:
        return
    if not is_board:
        raise McutrainError(
            "an application is a board's firmware: give --board, too; in a library of --history N "
            "mct_learn.h has what it decides"
        )
    if not (told.listen and told.history):
        raise McutrainError(
            "the application learns windows that it has heard: give --listen and --history N, "
            "with N frames for a window and for what comes behind it"
        )
    if training.positions or not training.has_labels or training.takes_targets:
        raise McutrainError(
            "a lesson is of a class, but this model learns no classes: leave out --app"
        )
    if training.accumulate > 1:
        raise McutrainError(
            f"a lesson ends with its last step, but {training.accumulate} samples share an update: "
            "leave out --batch"
        )
    if training.backing or training.levels is not None or told.elastic is not None:
        raise McutrainError(
            "lessons go back to saved states, which --elastic, --resample and proxies use "
            "otherwise: leave out these, or --app"
        )


def _code(code: Code, told: Any) -> Mapping[str, Any]:
    return {"app": told.app}


FEATURE = ProgramFeature(
    name="learning",
    is_on=lambda code, told: told.app == LEARN and not code.is_library,
    check=check_learning,
    code=_code,
    sources=lambda code, told: ("runtime/mct_learn.c", "runtime/mct_learn.h"),
    commands="learn",
)

"""Steps in pieces: each call returns after about so many instructions, and the next goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcutrain_host.dataclass import dataclass

from mcutrain.autodiff.train_graph import TrainGraph
from mcutrain.errors import McutrainError
from mcutrain.features.budgeted.pieces import CLOSE, OPEN, cost_tables, pieces_of
from mcutrain.features.feature import Code, ProgramFeature, Told

__all__ = ["FEATURE", "BudgetedChoice"]


@dataclass(frozen=True, kw_only=True)
class BudgetedChoice:
    """A field of an Interface. budgeted: steps may return between their nodes."""

    budgeted: bool = False


def _check(training: TrainGraph, told: Any, is_board: bool) -> None:
    """Raise McutrainError for a program whose steps cannot return in between."""
    if not told.budgeted:
        return
    if is_board:
        raise McutrainError(
            "a board's firmware answers its host between steps, so its steps do not return in "
            "between: leave out --budgeted, or --board to get a library"
        )
    if training.is_tail and told.remember > 0:
        raise McutrainError(
            "a tail that remembers its input writes it in place, which a step under way would "
            "lose: leave out --budgeted, or --remember"
        )


def _code(code: Code, told: Told) -> Mapping[str, Any]:
    """The pieces of a step, and what each takes."""
    assert told.estimates, "a budget is of estimated instructions"
    step = pieces_of(code)
    return {
        "pieces": step.pieces,
        "conditional": step.conditional,
        "tables": cost_tables(code, step, told.estimates),
        "has_strips": any(piece.segment for piece in step.pieces),
        "first_change": step.first_change,
        "open": step.number_of(OPEN),
        "close": step.number_of(CLOSE),
    }


def _sources(code: Code, told: Told) -> tuple[str, ...]:
    has_strips = any(not segment.is_fed for segment in code.segments)
    return ("runtime/mct_budget.h", *(["runtime/mct_stream_some.c"] if has_strips else []))


FEATURE = ProgramFeature(
    name="budgeted",
    is_on=lambda code, told: told.budgeted,
    over=("accumulate", "latents", "gate"),
    check=_check,
    code=_code,
    sources=_sources,
)

"""Selection: an elastic program chooses by itself which tensors it trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mcutrain.autodiff.elastic import importance_of
from mcutrain.errors import McutrainError
from mcutrain.features.feature import Code, ProgramFeature, Told

__all__ = ["FEATURE"]

IMPORTANCE_BYTES = 12
"""Bytes of a tensor, and of the number that it is made of, while tensors are selected."""


def _code(code: Code, told: Told) -> Mapping[str, Any]:
    """What the program decides by. Raises McutrainError for an arena too small to do it in."""
    training, times = code.training, told.elastic
    assert times is not None, "it is asked for"
    needs = times.problem.scratch_bytes + IMPORTANCE_BYTES * len(training.elastic)
    if code.arena_bytes < needs:
        raise McutrainError(
            f"the choice of tensors computes in {needs:,} bytes of the arena, and this one has "
            f"{code.arena_bytes:,}: train so small a network without --elastic"
        )
    factors: list[int] = []
    rows = []
    for tensor in training.elastic:
        value = np.asarray(training.state[tensor.name])
        importance = importance_of(tensor, value.shape)
        residual = 0 if tensor.residual is None else code.state_offset(tensor.residual)
        places = (code.state_offset(tensor.name), residual)
        sizes = (
            importance.count,
            len(importance.factors),
            importance.inner,
            importance.exponent,
            value.itemsize,
        )
        bits = (0 if tensor.residual is None else tensor.bits, importance.dropped_bits)
        numbers = ", ".join(map(str, (*places, *sizes, *bits)))
        rows.append((f"factors + {len(factors)}, {numbers}", tensor.name))
        factors += importance.factors
    problem = times.problem
    return {
        "tensors": rows,
        "factors": np.array(factors),
        "forward_time": times.forward,
        "backward_time": problem.backward_time,
        "unit": times.unit,
        "update_times": np.array(problem.update_times),
        "reach_tensors": np.array(problem.reach_tensors),
        "reaches": [", ".join(map(str, row)) for row in problem.reach_rows],
    }


FEATURE = ProgramFeature(
    name="selection",
    is_on=lambda code, told: told.elastic is not None,
    over=("elastic",),
    code=_code,
    sources=lambda code, told: (
        "runtime/mct_elastic.c",
        "runtime/mct_importance.c",
        "runtime/mct_selection.h",
    ),
    commands="select",
)

"""Plans of the published schemes against what the paper's released code needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcutrain import pipeline, prepare
from mcutrain.ir.graph import Graph
from mcutrain.memplan import validate

pytestmark = [pytest.mark.shared]

# TinyEngine's example for mcunet-5fps, "49 KB" scheme: arena and scratch, and what it trains.
RELEASED_ARENA_BYTES = 189_800
RELEASED_TRAINABLE_BYTES = 47_656
SCHEMES = [f"mcunet-5fps-{kb}kb" for kb in (49, 74, 100, 124, 148)]


@pytest.fixture(scope="module")
def mcunet(shared: Path) -> Graph:
    return pipeline.load(shared / "models/mcunet-5fps.int8.tflite")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_published_schemes_are_planned_at_their_lower_bound(scheme: str, mcunet: Graph) -> None:
    plan = prepare(mcunet, scheme, classes=10).plan
    validate(plan.arena)
    assert plan.arena_bytes == plan.arena.lower_bound_bytes


def test_the_49_kb_scheme_needs_less_than_the_released_code(mcunet: Graph) -> None:
    plan = prepare(mcunet, "mcunet-5fps-49kb", classes=10).plan
    assert plan.arena_bytes < RELEASED_ARENA_BYTES
    assert plan.state_bytes < RELEASED_TRAINABLE_BYTES

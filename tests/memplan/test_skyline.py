"""One attempt decides rightly from any state, and takes no more nodes than it needs."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from mcutrain.memplan import MemoryPlan, validate
from mcutrain.memplan.plan import Buffer
from mcutrain.memplan.skyline import Attempt, BoxIndex, Found, Guide, sections_of
from tests.memplan.brute_force import fit_above
from tests.memplan.test_exact import KNOWN, buffers_of, cut

PATIENCE = 1_000

OVER_FLOORS = {
    "a box above another rests on a third, and is larger than the loss below": (
        "0 0 1 2",
        "0-0:2 0-2:1 1-1:1 1-3:2",
        4,
    ),
    "a box above another lies in a valley that stays empty, and is larger than it": (
        "1 0 1 2",
        "0-2:1 1-1:2 2-3:2",
        4,
    ),
    "a valley is raised to its right wall": (
        "6 12 12 12 12 1 0",
        "0-0:1 6-6:12 0-0:1 5-6:11 0-0:5 1-5:12 0-0:1 0-0:7",
        24,
    ),
    "a valley is raised to its left wall, and a failure hangs on two choices": (
        "1 4 4 8 8 3 0 0",
        "0-0:25 0-7:7 1-1:25 0-0:2 2-7:25 6-7:8 5-5:3 5-5:2 0-2:4",
        40,
    ),
    "a loss is no larger than the wall, and what is outside the valley fills none": (
        "4 2 2 2 2",
        "0-2:3 0-1:11 0-4:1 2-4:4 4-4:6 1-4:5 3-3:14 0-0:5 4-4:11 2-2:9 0-2:2 0-1:2",
        29,
    ),
    "a state seen before fails by its own choices": (
        "3 0 0 0 0 0 0",
        "3-6:1 0-2:4 1-4:3 3-6:5 5-6:3 3-6:7 0-0:9 1-2:9",
        16,
    ),
    "a choice on which a failure does not hang is passed over, others are not": (
        "7 7 7 7 11 11 11 11",
        "1-1:1 0-0:1 3-7:5 1-3:1 1-3:1 1-1:1 0-2:5 2-3:1",
        16,
    ),
    "what is lost is no longer to spare": (
        "2 2 1 1 1 1 0 0",
        "3-7:1 2-7:1 7-7:4 0-0:2 1-3:6 0-6:4 7-7:1 0-1:2 4-7:3 0-7:1",
        15,
    ),
    "each section before a box has to spare what is lost there": (
        "1 1 1 1 1 1 1 1",
        "1-1:3 2-4:3 0-1:1 2-7:1 5-5:1 1-3:3 5-6:4",
        8,
    ),
}
"""Floors, boxes, and the smallest capacity: each refuted, or filled wrongly, by a search with one
rule too strong."""


def guides(boxes: int) -> list[Guide]:
    return [Guide(noise=(0,) * boxes), *(Guide.drawn(Random(i), boxes) for i in range(2))]


@pytest.mark.parametrize("name", OVER_FLOORS)
def test_what_fits_above_floors_is_found_and_what_does_not_is_refuted(name: str) -> None:
    heights, text, capacity = OVER_FLOORS[name]
    floors, buffers = [int(height) for height in heights.split()], buffers_of(text)
    layout = BoxIndex.of([(b.first, b.last + 1, b.size_bytes) for b in buffers])
    taken = tuple(Buffer(f"floor{i}", size, i, i) for i, size in enumerate(floors) if size)
    loads = (floor + load for floor, load in zip(floors, layout.load, strict=True))
    assert max(loads) == capacity or not fit_above(buffers, floors, capacity - 1)
    for guide in guides(len(buffers)):
        found = Attempt(layout, capacity, guide).run(PATIENCE, PATIENCE, floors)
        assert found.offsets is not None
        offsets = {b.name: start for b, start in zip(buffers, found.offsets, strict=True)}
        offsets |= dict.fromkeys((b.name for b in taken), 0)
        validate(MemoryPlan((*buffers, *taken), offsets, capacity, 1))
        refuted = Attempt(layout, capacity - 1, guide).run(PATIENCE, PATIENCE, floors)
        assert refuted.is_refuted


def first_attempt(buffers: Sequence[Buffer], capacity: int) -> Found:
    spans = sections_of([(b.first, b.last) for b in buffers])
    boxes = [(*span, b.size_bytes) for span, b in zip(spans, buffers, strict=True)]
    return Attempt(BoxIndex.of(boxes), capacity, guides(len(boxes))[0]).run(PATIENCE, PATIENCE)


def test_each_rule_saves_the_nodes_that_it_did() -> None:
    """What is weaker than it could be changes no answer, but takes more nodes than these."""
    above_bound = [(text, needed) for text, (bound, needed) in KNOWN.items() if needed > bound]
    refuted = [first_attempt(buffers_of(text), needed - 1) for text, needed in above_bound]
    assert [(found.is_refuted, found.nodes) for found in refuted] == [
        (True, nodes) for nodes in (15, 24, 74, 21, 77)
    ]
    filled = [first_attempt(cut(seed, 60, 1000, 40), 1000) for seed in (3, 9)]
    assert [(found.offsets is not None, found.nodes) for found in filled] == [
        (True, 111),
        (True, 301),
    ]

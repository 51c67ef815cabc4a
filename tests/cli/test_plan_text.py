"""What plan says of an arena above its lower bound."""

from __future__ import annotations

import pytest

from mcutrain.cli.plan import against_bound


@pytest.mark.parametrize(
    ("arena_bytes", "is_smallest", "text"),
    [
        (1000, True, "lower bound 1,000, 0 above it"),
        (1100, True, "lower bound 1,000, 100 above it; no arrangement is smaller"),
        (
            1100,
            False,
            "lower bound 1,000, 100 above it; a smaller one was neither found nor excluded",
        ),
    ],
)
def test_plan_says_whether_a_smaller_arena_is_possible(
    arena_bytes: int, is_smallest: bool, text: str
) -> None:
    found = {
        "arena_bytes": arena_bytes,
        "arena_lower_bound_bytes": 1000,
        "arena_is_smallest": is_smallest,
    }
    assert against_bound(found) == text

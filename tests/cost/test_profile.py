"""What a profile says of its estimate: by how much it errs, and what it gives to other nodes."""

from __future__ import annotations

from mcutrain.cost.profile import NANOSECONDS, NodeProfile, StepProfile


def profile(counted: tuple[int | None, ...], unit: str = "instructions") -> StepProfile:
    nodes = (NodeProfile(f"n{i}", "mct", "forward", None, 10, c) for i, c in enumerate(counted))
    return StepProfile("dsp", tuple(nodes), (), unit)


def test_time_that_the_estimate_gives_to_another_node_counts_once() -> None:
    """Of 40 counted it expects 20 where 30 are: 10 are misplaced."""
    found = profile((30, 10))
    assert (found.per_instruction, found.error, found.misplaced) == (2.0, -0.5, 0.25)
    assert profile((5, 5)).misplaced == 0
    assert profile((40, 0)).misplaced == 0.5


def test_an_estimate_errs_only_against_instructions() -> None:
    found = profile((30, 10), NANOSECONDS)
    assert (found.per_instruction, found.error, found.misplaced) == (2.0, None, 0.25)
    none = profile((None, None))
    assert (none.per_instruction, none.error, none.misplaced) == (None, None, None)

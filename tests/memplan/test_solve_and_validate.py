"""The greedy solver and the validator, each against the other and against painted bytes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.errors import PlanError
from mcutrain.memplan import Buffer, MemoryPlan, solve, validate

FEW_NODES = 2_000
"""A short search, enough to run all of its code on drawn problems."""


@st.composite
def problems(draw: st.DrawFn, most: int = 14) -> tuple[Buffer, ...]:
    spans = st.tuples(st.integers(1, 40), st.integers(0, 9), st.integers(0, 9))
    drawn = draw(st.lists(spans, min_size=1, max_size=most))
    return tuple(
        Buffer(f"b{i}", size_bytes, min(steps), max(steps))
        for i, (size_bytes, *steps) in enumerate(drawn)
    )


alignments = st.sampled_from([1, 2, 4, 8, 16])


def painted_twice_or_outside(plan: MemoryPlan) -> bool:
    """Brute force: paint every byte of every buffer at every step of its life."""
    painted: set[tuple[int, int]] = set()
    for buffer in plan.buffers:
        begin = plan.offsets[buffer.name]
        for step in range(buffer.first, buffer.last + 1):
            for byte in range(begin, begin + buffer.size_bytes):
                if (step, byte) in painted or not 0 <= byte < plan.arena_bytes:
                    return True
                painted.add((step, byte))
    return False


@settings(deadline=None)
@given(problems(), alignments)
def test_every_solved_plan_is_valid_and_not_below_the_lower_bound(
    buffers: tuple[Buffer, ...], align_bytes: int
) -> None:
    plan = solve(buffers, align_bytes, FEW_NODES)
    validate(plan)
    assert not painted_twice_or_outside(plan)
    assert plan.arena_bytes >= plan.lower_bound_bytes
    assert plan.arena_bytes % align_bytes == 0


@settings(deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_the_buffers_does_not_change_their_offsets(
    buffers: tuple[Buffer, ...], rng: Random
) -> None:
    shuffled = list(buffers)
    rng.shuffle(shuffled)
    assert solve(buffers, 4, FEW_NODES).offsets == solve(shuffled, 4, FEW_NODES).offsets


@settings(deadline=None)
@given(problems(), alignments)
def test_lower_bound_is_the_largest_sum_of_live_aligned_sizes_and_peak_its_first_step(
    buffers: tuple[Buffer, ...], align_bytes: int
) -> None:
    plan = solve(buffers, align_bytes, 0)
    sums = [
        sum(-(-b.size_bytes // align_bytes) * align_bytes for b in plan.live_at(step))
        for step in range(10)
    ]
    assert plan.lower_bound_bytes == max(sums)
    assert plan.peak_step == sums.index(max(sums))


@settings(deadline=None)
@given(problems())
def test_search_never_raises_the_arena(buffers: tuple[Buffer, ...]) -> None:
    assert solve(buffers, 4, FEW_NODES).arena_bytes <= solve(buffers, 4, 0).arena_bytes


@settings(deadline=None, max_examples=300)
@given(problems(most=6), alignments, st.data())
def test_validator_agrees_with_painted_bytes_after_any_offset_is_changed(
    buffers: tuple[Buffer, ...], align_bytes: int, data: st.DataObject
) -> None:
    plan = solve(buffers, align_bytes, 0)
    name = data.draw(st.sampled_from([b.name for b in buffers]))
    units = st.integers(-2, plan.arena_bytes // align_bytes + 1)
    offset = data.draw(units) * align_bytes
    mutated = replace(plan, offsets={**plan.offsets, name: offset})
    if painted_twice_or_outside(mutated):
        with pytest.raises(PlanError):
            validate(mutated)
    else:
        validate(mutated)


def sound_plan() -> MemoryPlan:
    """Three buffers of 8 bytes; `c` reuses the bytes of `a`, and is born as `a` has just died."""
    buffers = (Buffer("a", 8, 0, 1), Buffer("b", 8, 1, 2), Buffer("c", 8, 2, 3))
    return MemoryPlan(buffers, {"a": 0, "b": 8, "c": 0}, 16, 4)


def with_first(plan: MemoryPlan, buffer: Buffer) -> MemoryPlan:
    return replace(plan, buffers=(buffer, *plan.buffers[1:]))


def test_a_buffer_may_take_the_bytes_of_one_that_died_a_step_before() -> None:
    validate(sound_plan())


MUTATIONS: dict[str, tuple[Callable[[MemoryPlan], MemoryPlan], str]] = {
    "overlap": (
        lambda plan: replace(plan, offsets={"a": 4, "b": 8, "c": 0}),
        r"'a' \(steps 0 to 1, bytes 4 to 11\) and buffer 'b' \(steps 1 to 2, bytes 8 to 15\) "
        r"overlap while both are alive, in step 1",
    ),
    "one step too long": (
        lambda plan: with_first(plan, Buffer("a", 8, 0, 2)),
        r"'a'.*'c'.*overlap while both are alive, in step 2",
    ),
    "misaligned": (
        lambda plan: replace(plan, offsets={"a": 0, "b": 8, "c": 6}),
        "'c' begins at byte 6, which is not a multiple of 4",
    ),
    "negative": (
        lambda plan: replace(plan, offsets={"a": -4, "b": 8, "c": 0}),
        "'a' begins before the arena, at byte -4",
    ),
    "overrun": (
        lambda plan: replace(plan, arena_bytes=15),
        r"'b' \(steps 1 to 2, bytes 8 to 15\) ends after the arena of 15 bytes",
    ),
    "no offset": (lambda plan: replace(plan, offsets={"a": 0, "b": 8}), "'c' has no offset"),
    "no buffer": (
        lambda plan: replace(plan, offsets={**plan.offsets, "d": 0}),
        "'d': there is no such buffer",
    ),
    "same name": (
        lambda plan: replace(plan, buffers=(*plan.buffers, Buffer("b", 8, 9, 9))),
        "two buffers are called 'b'",
    ),
    "no bytes": (lambda plan: with_first(plan, Buffer("a", 0, 0, 1)), "'a' has 0 bytes"),
    "no steps": (
        lambda plan: with_first(plan, Buffer("a", 8, 1, 0)),
        "'a' is alive from step 1 to step 0",
    ),
    "no alignment": (lambda plan: replace(plan, align_bytes=0), "alignment is 0 bytes"),
    "negative arena": (lambda plan: replace(plan, arena_bytes=-1), "arena has -1 bytes"),
}


@pytest.mark.parametrize("kind", MUTATIONS)
def test_validator_names_what_is_wrong_with_a_broken_plan(kind: str) -> None:
    mutate, message = MUTATIONS[kind]
    with pytest.raises(PlanError, match=message):
        validate(mutate(sound_plan()))


def test_validator_finds_an_overlap_born_before_the_last_birth() -> None:
    buffers = (Buffer("low", 32, 0, 9), Buffer("mid", 4, 0, 9), Buffer("high", 4, 5, 9))
    with pytest.raises(PlanError, match=r"'low'.*'mid'"):
        validate(MemoryPlan(buffers, {"low": 0, "mid": 4, "high": 24}, 32, 4))


def test_validator_imports_nothing_but_the_error_and_the_data_types() -> None:
    tree = ast.parse(Path(inspect.getfile(validate)).read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {"annotations", "pairwise", "PlanError", "Buffer", "MemoryPlan"}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not attributes & {"lower_bound_bytes", "peak_step", "live_at", "is_live"}


@pytest.mark.parametrize(
    ("buffers", "align_bytes", "message"),
    [
        ([Buffer("a", 1, 0, 0), Buffer("a", 2, 0, 0)], 4, "names repeat: \\['a'\\]"),
        ([Buffer("a", 0, 0, 0)], 4, "'a' has 0 bytes"),
        ([Buffer("a", 1, 1, 0)], 4, "steps 1 to 0"),
        ([], 0, "alignment is 0"),
    ],
)
def test_solver_refuses_a_malformed_problem(
    buffers: list[Buffer], align_bytes: int, message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        solve(buffers, align_bytes)


def test_a_problem_without_buffers_needs_no_arena() -> None:
    plan = solve([])
    validate(plan)
    assert (plan.arena_bytes, plan.lower_bound_bytes, plan.peak_step) == (0, 0, 0)


def test_of_two_equal_peaks_the_first_is_the_peak_step() -> None:
    assert solve([Buffer("a", 8, 2, 3), Buffer("b", 4, 4, 4), Buffer("c", 8, 5, 6)]).peak_step == 2


def test_a_chain_of_layers_with_a_saved_activation_reaches_its_lower_bound() -> None:
    saved = Buffer("saved", 60, 1, 12)
    chain = [Buffer(f"x{i}", 40 + 16 * (i % 3), i, i + 1) for i in range(12)]
    plan = solve([saved, *chain])
    validate(plan)
    assert plan.arena_bytes == plan.lower_bound_bytes

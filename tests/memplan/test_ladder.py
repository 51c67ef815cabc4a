"""Fronts of a ladder in one arena: what is planned, what is refused, what is said of others."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcutrain.autodiff import TrainGraph
from mcutrain.errors import PlanError
from mcutrain.ir.graph import Graph
from mcutrain.memplan import (
    Ladder,
    PlannedFront,
    Stream,
    TrainingPlan,
    check_contents,
    fronts,
    latents,
    lay_out,
    plan_training,
    read_csv,
    read_fronts,
    tail,
    to_csv,
    validate,
)
from mcutrain.memplan.fronts import front_constant_bytes
from mcutrain.memplan.plan import Buffer, MemoryPlan
from mcutrain.ops.lookup import Lookup
from mcutrain.sparse import UpdateScheme
from tests.memplan.fronts import draw_front
from tests.memplan.ladders import ladder_of, narrow_front, policy_of, with_ladder
from tests.memplan.test_stream import mobile_network
from tests.ops.drawing import drawn
from tests.simulation.networks import Network, draw_network, same, training_graph

LAST = UpdateScheme("last", 1, {}, 1)


@pytest.fixture(scope="module")
def training() -> TrainGraph:
    return training_graph(mobile_network(), LAST)


@pytest.fixture(scope="module")
def plan(training: TrainGraph) -> TrainingPlan:
    return with_ladder(training)


def moved(front: PlannedFront, tensor: str, by: int) -> PlannedFront:
    """The same with a tensor's buffer elsewhere."""
    buffer = front.buffer_of[tensor]
    offsets = {**front.arena.offsets, buffer: front.arena.offsets[buffer] + by}
    top = max(
        front.arena.arena_bytes, offsets[buffer] + front.graph.tensors[tensor].type.size_bytes
    )
    return replace(front, arena=replace(front.arena, offsets=offsets, arena_bytes=top))


@settings(max_examples=25)
@given(
    graph=drawn(draw_front) | drawn(draw_network),
    stream=st.sampled_from(["auto", "off", "max"]),
    levels=st.integers(2, 5),
    which=st.integers(0, 100),
)
def test_plans_of_drawn_ladders_are_sound(
    graph: Graph, stream: Stream, levels: int, which: int
) -> None:
    """They are validated, contents too; the arena is that of the largest."""
    step = training_graph(graph, LAST)
    found = latents(lay_out(step, 8, "off"))
    assume(found)
    plan = with_ladder(
        step, ladder_of(step, levels, which, found[which % len(found)].tensor), stream
    )
    assert plan.ladder is not None
    for front in plan.ladder.fronts:
        validate(front.arena)
    arenas = [front.arena.arena_bytes for front in plan.ladder.fronts]
    assert plan.arena_bytes == max(plan.arena.arena_bytes, *arenas)
    assert plan.ladder.latent == found[which % len(found)].tensor


def test_the_fronts_are_computed_row_by_row_only_as_far_as_they_need_to(
    training: TrainGraph,
) -> None:
    """A front that fits the arena anyway is not; the sample is in memory as a whole."""
    streamed, plain = with_ladder(training), with_ladder(training, stream="off")
    assert streamed.ladder is not None
    assert plain.ladder is not None
    assert streamed.arena_bytes < plain.arena_bytes
    assert [len(f.segments) for f in streamed.ladder.fronts] == [0, 1, 0]
    assert not any(s.is_fed for s in streamed.segments)
    assert any(s.is_fed for s in plan_training(training, 8).segments)
    assert streamed.segments[0].last < streamed.ladder.position


def test_fronts_have_the_room_that_the_policy_needs_anyway(training: TrainGraph) -> None:
    """Nothing is gained if one of them computes row by row below that."""
    net = Network((48, 12, 3), 7)
    y = net.slice(net.conv(net.x, 16, same(3)), range(2), range(2), range(16))
    y = net.conv(net.reshape(y, (1, 1, 1, 64)), 3, rounds_once=True)
    policy = net.graph(net.reshape(y, (1, 3)), "policy")
    ladder = with_ladder(training, replace(ladder_of(training), policy=policy)).ladder
    assert ladder is not None
    assert [len(front.segments) for front in ladder.fronts] == [0, 0, 0]
    assert ladder.arena_bytes == ladder.policy.arena.arena_bytes


def test_a_ladder_adds_its_counts_to_the_state_and_its_weights_to_the_flash(
    training: TrainGraph, plan: TrainingPlan
) -> None:
    plain = plan_training(training, 8)
    assert plan.ladder is not None
    assert plan.state_bytes == plain.state_bytes + 4 * 3
    assert plan.state_offsets == plain.state_offsets
    more = front_constant_bytes(plan, plan.ladder.fronts)
    assert plan.constant_bytes == plain.constant_bytes + sum(more)
    twice = front_constant_bytes(plan, (*plan.ladder.fronts, *plan.ladder.fronts))
    assert twice == [*more, 0, 0, 0]


@pytest.mark.parametrize("stream", ["auto", "off", "max"])
def test_a_file_of_the_plan_has_the_buffers_of_every_front(
    training: TrainGraph, stream: Stream
) -> None:
    """Whose they are, where they lie and in which of its steps; and all of it is one sound plan."""
    plan = with_ladder(training, stream=stream)
    assert plan.ladder is not None
    text = to_csv(plan.arena, plan.front_arenas)
    rows, whose = list(csv.DictReader(io.StringIO(text))), read_fronts(text)
    offsets = {row["id"]: int(row["offset"]) for row in rows}
    found = MemoryPlan(read_csv(text), offsets, plan.arena_bytes, plan.arena.align_bytes)
    validate(found)
    of_step = tuple(b for b in found.buffers if b.name not in whose)
    assert (of_step, {b.name: offsets[b.name] for b in of_step}) == (
        plan.arena.buffers,
        plan.arena.offsets,
    )
    assert list(dict.fromkeys(whose.values())) == ["policy", "level 1", "level 2"]
    begin = len(plan.nodes)
    for name, front in plan.ladder.named.items():
        own = [b for b in found.buffers if whose.get(b.name) == name]
        assert [replace(b, first=b.first - begin, last=b.last - begin) for b in own] == [
            *front.arena.buffers
        ]
        assert {b.name: offsets[b.name] for b in own} == front.arena.offsets
        begin += len(front.nodes)


def test_a_latent_that_lies_elsewhere_than_the_front_makes_it_is_noticed(
    plan: TrainingPlan,
) -> None:
    assert plan.ladder is not None
    position = replace(plan.ladder, position=plan.ladder.position + 1)
    with pytest.raises(AssertionError, match="reads"):
        check_contents(replace(plan, ladder=position))
    first, second = plan.ladder.proxies
    wrong = replace(first, buffer_of={**first.buffer_of, first.y: first.buffer_of[first.x]})
    with pytest.raises(AssertionError, match=r"reads|writes|scratch"):
        check_contents(replace(plan, ladder=replace(plan.ladder, proxies=(wrong, second))))


def test_a_front_beyond_the_arena_is_noticed(plan: TrainingPlan) -> None:
    assert plan.ladder is not None
    first, second = plan.ladder.proxies
    wrong = moved(second, second.x, plan.arena_bytes)
    smaller = replace(wrong, arena=replace(wrong.arena, arena_bytes=0))
    with pytest.raises(AssertionError, match="beyond the arena"):
        check_contents(replace(plan, ladder=replace(plan.ladder, proxies=(first, smaller))))


def test_a_policy_that_may_write_over_the_sample_is_noticed(
    training: TrainGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = fronts.lifetimes
    monkeypatch.setattr(fronts, "lifetimes", lambda *args: known(*args[:-1]))
    with pytest.raises(AssertionError, match=r"hands over reads 'policy:x'"):
        with_ladder(training)


def test_a_policy_that_begins_element_by_element_leaves_the_sample_as_it_is(
    training: TrainGraph,
) -> None:
    """A table could be looked up in the sample's own bytes, which the front needs behind it."""
    net = Network((48, 12, 3), 7)
    y = net.slice(net.activation(net.x, "hard_swish"), range(4), range(2), range(3))
    y = net.conv(net.reshape(y, (1, 1, 1, 24)), 3, rounds_once=True)
    policy = net.graph(net.reshape(y, (1, 3)), "policy")
    plan = with_ladder(training, replace(ladder_of(training), policy=policy))
    assert plan.ladder is not None
    found = plan.ladder.policy
    (first,) = (n for n in found.graph.nodes if isinstance(n.op, Lookup))
    assert (first.inputs, found.buffer_of[first.outputs[0]]) == ((found.x,), first.outputs[0])


@pytest.mark.parametrize(
    ("begin", "room", "offsets", "arena_bytes"),
    [
        (8, 12, (0, 8), 12),
        (0, 12, (4, 0), 12),
        (16, 20, (8, 16), 20),
        (16, 19, (0, 8), 12),
        (4, 19, (8, 4), 16),
        (4, 15, (0, 8), 12),
    ],
    ids=["as it is", "upside down", "higher", "no room", "both", "no room for both"],
)
def test_a_front_moves_to_where_the_sample_is_if_there_is_room(
    begin: int, room: int, offsets: tuple[int, int], arena_bytes: int
) -> None:
    buffers = (Buffer("a", 8, 0, 1), Buffer("x", 3, 0, 0))
    arena = MemoryPlan(buffers, {"a": 0, "x": 8}, 12, 4)
    found = fronts._moved(arena, "x", begin, room)
    assert found.offsets == dict(zip("ax", offsets, strict=True))
    assert found.arena_bytes == arena_bytes


def test_a_ladder_of_another_model_is_a_sentence(training: TrainGraph) -> None:
    ladder = ladder_of(training)
    shape, other = (48, 12, 3), replace(ladder.latent_type, scales=(0.5,))
    narrow = Ladder(ladder.latent, (narrow_front(shape, other, 1),), policy_of(shape, 2, 1))
    with pytest.raises(PlanError, match=r"make latents of int8 .*scale 0\.5.* from this model"):
        with_ladder(training, narrow)
    samples = Ladder(
        ladder.latent,
        (narrow_front((24, 12, 3), ladder.latent_type, 1),),
        policy_of((24, 12, 3), 2, 1),
    )
    with pytest.raises(PlanError, match=r"take samples of int8 24 x 12 x 3"):
        with_ladder(training, samples)
    with pytest.raises(PlanError, match=r"a cascade of fronts makes latents, and .*'elsewhere'"):
        with_ladder(training, replace(ladder, latent="elsewhere"))


def test_a_scheme_that_trains_before_the_latent_is_a_sentence(training: TrainGraph) -> None:
    ladder = ladder_of(training)
    with pytest.raises(PlanError, match="the first layer is trained"):
        with_ladder(training_graph(mobile_network()), ladder)


def test_a_tail_has_no_ladder(training: TrainGraph) -> None:
    layout = lay_out(training, 8, "off")
    ladder, latent = ladder_of(training), latents(layout)[-1]
    with pytest.raises(PlanError, match="a tail takes latents"):
        with_ladder(tail(layout.training, latent), ladder)

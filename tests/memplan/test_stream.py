"""What is computed row by row: chosen well, and never with a row too few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain.ir.graph import Graph
from mcutrain.memplan import Stream, TrainingPlan, check_contents, training_plan
from mcutrain.memplan.lifetimes import lifetimes
from mcutrain.memplan.stream import (
    CALL,
    MOST_ROWS,
    READ_AGAIN,
    WEIGHT,
    Segment,
    StreamableFront,
    in_strips,
)
from mcutrain.memplan.training_plan import lay_out
from mcutrain.ops.add import Add
from mcutrain.ops.spatial import Window
from mcutrain.sparse import UpdateScheme
from tests.memplan.fronts import (
    draw_front,
    draw_overwriting,
    draw_plan,
    planned,
    with_constant_image,
    with_two_stems,
)
from tests.ops.drawing import SeededSource, drawn
from tests.simulation.networks import POINT, Network, same, training_graph

STREAMS: tuple[Stream, ...] = ("off", "auto", "max")
SCHEMES = {
    "head": UpdateScheme(),
    "last": UpdateScheme("last", 1, {}, 1),
    "full": UpdateScheme("full", None, {}, None),
}


def mobile_network() -> Graph:
    """A front like those of mobile networks: 48 rows, strides, a shortcut, tall kernels."""
    net = Network((48, 12, 3), 1)
    y = net.conv(net.x, 4, same(3, 2), relu=True)
    first = net.conv(net.depthwise(y, same(3), relu=True), 4)
    y = net.depthwise(net.conv(first, 12, relu=True), same(5), relu=True)
    y = net.add(net.conv(y, 4), first)
    y = net.depthwise(net.conv(y, 12, relu=True), same(7, 2), relu=True)
    y = net.conv(net.mean(net.conv(y, 8)), 4, rounds_once=True)
    return net.graph(y)


@pytest.fixture(scope="module")
def plan() -> TrainingPlan:
    return planned(mobile_network(), "max")


def with_room(plan: TrainingPlan, segment: int, tensor: int, change: int) -> TrainingPlan:
    """A ring with more or fewer rows; its bytes stay where they are."""
    s = plan.segments[segment]
    tensors = list(s.tensors)
    tensors[tensor] = replace(tensors[tensor], room=tensors[tensor].room + change)
    segments = list(plan.segments)
    segments[segment] = replace(s, tensors=tuple(tensors))
    return replace(plan, segments=tuple(segments))


def calls(plan: TrainingPlan) -> int:
    """Of kernels, by segments, for one sample."""
    return sum(1 for s in plan.segments for stage, *_ in s.flow.strips() if stage >= 0)


def rings(plan: TrainingPlan) -> list[tuple[int, int]]:
    return [
        (i, j) for i, s in enumerate(plan.segments) for j, t in enumerate(s.tensors) if t.is_ring
    ]


def test_the_front_takes_less_and_all_of_it_is_computed_row_by_row(plan: TrainingPlan) -> None:
    off = planned(mobile_network(), "off")
    assert off.segments == ()
    assert plan.arena_bytes < off.arena_bytes / 2
    assert plan.segments[0].is_fed
    assert sum(len(s.stages) for s in plan.segments) >= 6


def test_a_front_with_a_row_less_anywhere_would_stop(plan: TrainingPlan) -> None:
    """So no ring has a row too many, and one is noticed that has too few."""
    assert len(rings(plan)) >= 4
    for segment, tensor in rings(plan):
        with pytest.raises(AssertionError, match=r"no room for rows|rows of .* are computed"):
            check_contents(with_room(plan, segment, tensor, -1))


def test_a_ring_that_grows_into_its_neighbour_is_found(plan: TrainingPlan) -> None:
    x = next(place for place in rings(plan) if place == (0, 0))
    with pytest.raises(AssertionError, match=r"reads|beyond the arena"):
        check_contents(with_room(plan, *x, 3))


@pytest.mark.parametrize("buffer", ["progress:", "fed"])
def test_what_counts_the_rows_may_not_be_overwritten(plan: TrainingPlan, buffer: str) -> None:
    name = next(n for n in plan.arena.offsets if n.startswith(buffer))
    place = plan.offset_of(plan.segments[0].tensors[1].name)
    arena = replace(plan.arena, offsets={**plan.arena.offsets, name: place})
    with pytest.raises(AssertionError, match=r"reads 'progress:|reads 'fed'"):
        check_contents(replace(plan, arena=arena))


def test_what_is_read_behind_its_segment_is_kept_whole() -> None:
    """A shortcut around a gate, which needs the mean of a whole image."""
    net = Network((24, 6, 3), 1)
    y = net.conv(net.x, 4, same(3), relu=True)
    wide = net.depthwise(net.conv(y, 16, relu=True), same(3))
    gated = net.conv(net.squeeze_and_excitation(wide), 4)
    graph = net.graph(net.conv(net.mean(net.add(gated, y)), 3, rounds_once=True))
    front = front_of(graph)
    segment = front.segment(*next(front.runs()))
    assert segment.is_fed
    rings = {t.name: t.is_ring for t in segment.tensors}
    assert (rings[net.x], rings[y], rings[wide]) == (True, False, False)
    assert list(rings.values()) == [True, False, True, False]


def front_of(graph: Graph) -> StreamableFront:
    return training_plan._front(lay_out(training_graph(graph, UpdateScheme()), 8, "off"), 8)


def shortcut(reader: str) -> Graph:
    """An image and a sum with it at the end; by what else the image is read, apart, last or
    beside the sum, a row later."""
    net = Network((24, 6, 3), 1)
    y = net.conv(net.x, 4, same(3), relu=True)
    if reader == "beside":
        z = net.add(net.depthwise(y, same(3)), y)
        return net.graph(net.conv(net.mean(z), 3, rounds_once=True))
    apart = net.conv(y, 4, same(3)) if reader == "apart" else y
    z = net.conv(net.depthwise(net.conv(y, 16, relu=True), same(5), relu=True), 4)
    z = net.depthwise(y, same(3)) if reader == "window" else net.add(z, y)
    z = net.add(z, apart) if reader == "apart" else z
    return net.graph(net.conv(net.mean(z), 3, rounds_once=True))


@pytest.mark.parametrize("reader", ["nothing", "apart", "window", "beside"])
def test_a_sum_takes_its_shortcut_s_place_if_all_others_are_done_with_each_row(reader: str) -> None:
    front = front_of(shortcut(reader))
    _, stages = next(front.runs())
    y = stages[0].node.outputs[0]
    over = [t.over for t in front.segment(1, stages[1:]).tensors]
    assert [name for name in over if name] == ([y] if reader == "nothing" else [])
    assert not any(t.over for t in front.segment(0, stages).tensors)  # y is a ring


@settings(max_examples=20)
@given(drawn(draw_front), st.sampled_from((1, 2, 4)))
def test_a_segment_is_as_large_as_the_choice_was_told(graph: Graph, strip: int) -> None:
    front = front_of(graph)
    for first, stages in front.runs():
        for begin, end, size_bytes, _ in front.sizes(first, stages, strip):
            inner = in_strips(stages[begin - first : end - first], strip)
            assert front._size(front.segment(begin, inner)) == size_bytes


@settings(max_examples=8)
@given(drawn(draw_overwriting), st.sampled_from((1, 2, 4)))
def test_a_segment_that_overwrites_is_no_larger_than_the_choice_was_told(
    graph: Graph, strip: int
) -> None:
    """It is smaller where an earlier node of the run is done with what the segment overwrites."""
    front = front_of(graph)
    for first, stages in front.runs():
        for begin, end, size_bytes, _ in front.sizes(first, stages, strip):
            inner = in_strips(stages[begin - first : end - first], strip)
            found = front._size(front.segment(begin, inner))
            assert found == size_bytes if begin == first else found <= size_bytes


def test_rows_that_nobody_reads_keep_no_rows_of_what_they_are_made_of() -> None:
    """The last rows of an image that every third is read of: alone and in a longer segment."""
    net = Network((10, 3, 1), 0)
    y = net.conv(net.conv(net.x, 2, Window((2, 1))), 2, Window((1, 1), (3, 1)))
    front = front_of(net.graph(net.conv(net.mean(y), 3, rounds_once=True)))
    _, stages = next(front.runs())
    rooms = [front.segment(0, stages[:end]).tensors[0].room for end in (1, 2)]
    assert rooms == [2, 2]
    sizes = {end: size for begin, end, size, _ in front.sizes(0, stages, 1) if begin == 0}
    assert sizes == {end: front._size(front.segment(0, stages[:end])) for end in sizes}


def test_rows_do_not_wait_for_a_reader_that_has_all_it_needs() -> None:
    """One of two reads the four top rows."""
    net = Network((24, 6, 3), 1)
    y = net.conv(net.x, 4, same(3), relu=True)
    top = net.conv(net.slice(y, range(4), range(6), range(4)), 4)
    z = net.conv(net.depthwise(net.conv(y, 12, relu=True), same(5), relu=True), 4)
    y = net.concatenation(net.mean(top), net.mean(z))
    front = front_of(net.graph(net.conv(y, 3, rounds_once=True)))
    segment = front.segment(*next(front.runs()))
    assert [t.room for t in segment.tensors] == [3, 1, 1, 4, 5, 1, 24]


def test_a_call_more_costs_its_setup_its_weights_and_the_rows_that_are_read_again() -> None:
    net = Network((24, 6, 3), 1)
    y = net.conv(net.x, 4, same(3, 2), relu=True)
    y = net.conv(y, 5)
    front = front_of(net.graph(net.conv(net.mean(y), 3, rounds_once=True)))
    _, (first, point) = next(front.runs())
    again = (3 - 2) * 6 * 3
    first_call = CALL + WEIGHT * (4 * 9 * 3 + 4) + READ_AGAIN * again
    point_call = CALL + WEIGHT * (5 * 4 + 5)
    for strip, calls in ((12, 1), (16, 1), (8, 2), (1, 12)):
        assert front._overhead(replace(first, strip=strip), 12) == (calls - 1) * first_call
        assert front._overhead(replace(point, strip=strip), 12) == (calls - 1) * point_call


def test_no_stage_is_given_more_rows_at_once_than_its_output_has() -> None:
    """Though there is room for them: its images have 8 rows, a power of two."""
    front = front_of(of_one_tap(12))
    first, stages = next(front.runs())
    widest = front._widened(front.segment(first, stages), 10**6)
    assert {stage.strip for stage in widest.stages} == {8}


def test_no_run_crosses_the_latent_of_a_ladder() -> None:
    front = front_of(of_one_tap(12))
    assert [(first, len(stages)) for first, stages in front.runs()] == [(0, 5)]
    cut = replace(front, cut=2)
    assert [(first, len(stages)) for first, stages in cut.runs()] == [(0, 2), (2, 3)]


def test_a_square_is_not_written_over_what_it_is_the_square_of() -> None:
    """The kernel may overwrite its first operand only, and here that is the second one, too."""
    net = Network((8, 6, 3), 1)
    y = net.conv(net.x, 12, same(3))
    front = front_of(net.graph(net.conv(net.mean(net.mul(y, y)), 3, rounds_once=True)))
    _, stages = next(front.runs())
    assert not any(t.over for t in front.segment(1, stages[1:2]).tensors)


@pytest.mark.parametrize("rows", [MOST_ROWS, MOST_ROWS + 1])
def test_a_stage_has_as_many_rows_as_a_device_can_count(rows: int) -> None:
    net = Network((rows, 1, 1), 1)
    front = front_of(net.graph(net.conv(net.mean(net.conv(net.x, 1)), 3, rounds_once=True)))
    assert (front.stage(front.nodes[0]) is not None) == (rows == MOST_ROWS)


def test_what_is_written_over_rows_that_are_still_read_is_found() -> None:
    plan = planned(shortcut("nothing"), "max")
    places = [
        (i, j)
        for i, s in enumerate(plan.segments)
        for j, t in enumerate(s.tensors[s.sources :], s.sources)
        if t.rows == s.tensors[0].rows and t.row_bytes == s.tensors[0].row_bytes
    ]
    found = 0
    for i, j in places:
        name, source = (plan.segments[i].tensors[k].name for k in (j, 0))
        buffer_of = {**plan.buffer_of, name: plan.buffer_of[source]}
        try:
            check_contents(replace(plan, buffer_of=buffer_of))
        except AssertionError:
            found += 1
        else:
            assert plan.segments[i].tensors[j].over == source
    assert found


def test_only_what_may_overwrite_its_input_does(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(mobile_network(), "auto")
    assert any(t.over for s in plan.segments for t in s.tensors)
    monkeypatch.setattr(Add, "may_overwrite", property(lambda _: {}))
    with pytest.raises(AssertionError, match="over its input"):
        check_contents(plan)


def of_one_tap(channels: int, window: Window = POINT) -> Graph:
    """With a depthwise layer of one tap, of which a node reads the whole image much later."""
    net = Network((8, 6, 3), 1)
    y = net.depthwise(net.conv(net.x, channels, same(3)), window)
    y = net.conv(net.add(net.conv(y, channels), y), 3)
    return net.graph(net.conv(net.mean(y), 3, rounds_once=True))


def over_itself(channels: int, strip: int) -> tuple[StreamableFront, Segment]:
    """That layer as a segment of its own, which begins with its input, so many rows at once."""
    front = front_of(of_one_tap(channels))
    _, stages = next(front.runs())
    return front, front.segment(1, in_strips(stages[1:2], strip))


def planned_upon_itself() -> TrainingPlan:
    """With that segment, of two rows at once; its contents are not checked."""
    plain = lay_out(training_graph(of_one_tap(12), UpdateScheme()), 8, "off")
    segment = over_itself(12, 2)[1]
    layout = training_plan._laid_out(plain.training, (segment,))
    return training_plan.place(layout, 8, 0)


@pytest.mark.parametrize(("strip", "rows"), [(1, 1), (2, 2), (8, 8), (16, 8)])
def test_what_a_stage_needs_to_overwrite_its_input_is_counted_for_its_rows(
    strip: int, rows: int
) -> None:
    """Four channels of the rows that it computes at once."""
    front, segment = over_itself(12, strip)
    assert segment.tensors[1].over == segment.tensors[0].name
    assert segment.scratch_bytes == 4 * rows * 6
    x, progress = 8 * 6 * 12, 8
    assert front._size(segment) == x + progress + segment.scratch_bytes


@pytest.mark.parametrize("padding", [(0, 2, 0, 0), (1, 1, 0, 0), (2, 0, 0, 0)], ids=str)
def test_a_window_of_several_rows_never_lies_upon_its_input(
    padding: tuple[int, int, int, int],
) -> None:
    """Also where it keeps the size, and its first row is the row that it makes."""
    front = front_of(of_one_tap(12, Window((3, 1), (1, 1), (1, 1), padding)))
    _, stages = next(front.runs())
    assert 0 in stages[1].node.op.may_overwrite[0]
    assert not any(t.over for t in front.segment(1, stages[1:2]).tensors)


def test_an_input_is_overwritten_only_where_that_takes_less_than_a_place_of_its_own() -> None:
    """Of its own it would need the whole image, since that is read behind the segment."""
    for channels, strip, is_over in ((4, 8, False), (5, 8, True), (4, 4, True), (3, 8, False)):
        _, segment = over_itself(channels, strip)
        assert (segment.tensors[1].over is not None) == is_over, (channels, strip)
        assert (segment.scratch_bytes > 0) == is_over


@pytest.mark.parametrize(
    ("planned_bytes", "sentence"),
    [
        (0, "node 'node1' has no scratch"),
        (40, "node 'node1' needs 48 bytes of scratch, and has 40"),
    ],
)
def test_a_planner_that_forgets_what_overwriting_needs_is_stopped(
    planned_bytes: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four channels of two rows of six columns."""
    check_contents(planned_upon_itself())
    monkeypatch.setattr("mcutrain.memplan.stream.overwriting_bytes", lambda *_: planned_bytes)
    with pytest.raises(AssertionError, match=sentence):
        check_contents(planned_upon_itself())


def test_scratch_upon_the_rows_that_a_strip_makes_is_found() -> None:
    plan = planned_upon_itself()
    (segment,) = plan.segments
    y = segment.tensors[1].name
    offsets = {**plan.arena.offsets, plan.scratch_buffer(segment.name): plan.offset_of(y)}
    with pytest.raises(AssertionError, match=f"'scratch' and '{y}' of node 'node1' overlap"):
        check_contents(replace(plan, arena=replace(plan.arena, offsets=offsets)))


def test_what_a_stage_reads_at_once_lives_as_long_as_its_segment() -> None:
    """The factors of a gate, which each strip reads anew."""
    net = Network((8, 6, 3), 1)
    y = net.squeeze_and_excitation(net.conv(net.x, 5, same(3)))
    y = net.conv(net.conv(y, 7, same(3)), 4)
    graph = net.graph(net.conv(net.mean(y), 3, rounds_once=True))
    front = front_of(graph)
    first, stages = list(front.runs())[-1]
    segment = front.segment(first, stages)
    factors = segment.stages[0].node.inputs[1]
    known = frozenset(n for n, t in front.graph.tensors.items() if t.is_constant)
    found = lifetimes(front.graph, front.nodes, known, (net.x,), (segment,))
    assert len(stages) > 2
    assert found.spans[found.buffer_of[factors]][2] == segment.last


@settings(max_examples=40)
@given(drawn(lambda s: draw_plan(s, draw_overwriting(s))))
def test_plans_with_any_segments_are_sound(plan: TrainingPlan) -> None:
    """Each is checked as it is drawn, with check_contents; all stages lie in the arena."""
    nodes = [name for segment in plan.segments for name in segment.nodes]
    assert len(nodes) == len(set(nodes))
    check_contents(plan)


@pytest.mark.parametrize("network", [with_constant_image, with_two_stems])
def test_odd_fronts_are_planned(network: Callable[[], Graph]) -> None:
    """plan_training checks them."""
    for stream in STREAMS:
        planned(network(), stream)


def test_an_input_that_is_read_again_later_stays() -> None:
    stems = planned(with_two_stems(), "max")
    assert stems.segments
    assert not any(s.is_fed for s in stems.segments)
    front = front_of(with_two_stems())
    first, stages = next(front.runs())
    assert not front.segment(first, stages).is_fed


def test_an_input_that_the_next_node_reads_stays() -> None:
    net = Network((8, 6, 3), 1)
    y = net.add(net.conv(net.x, 4), net.conv(net.x, 4))
    front = front_of(net.graph(net.conv(net.mean(y), 3, rounds_once=True)))
    first, stages = next(front.runs())
    assert not front.segment(first, stages[:1]).is_fed
    assert front.segment(first, stages[:2]).is_fed


def test_what_a_view_shows_is_not_written_over() -> None:
    """The sum is the last that reads the image by its name."""
    net = Network((24, 6, 3), 1)
    y = net.conv(net.x, 4, same(3), relu=True)
    flat = net.reshape(y, (1, 1, 1, 24 * 6 * 4))
    z = net.add(net.conv(net.conv(y, 16, relu=True), 4), y)
    y = net.concatenation(net.mean(z), net.conv(flat, 2))
    front = front_of(net.graph(net.conv(y, 3, rounds_once=True)))
    _, (first, stages) = front.runs()
    assert len(stages) == 3
    assert not any(t.over for t in front.segment(first, stages).tensors)


def test_an_arena_that_is_large_anyway_is_enough_for_whole_images() -> None:
    front = front_of(mobile_network())
    assert front.choose() != ()
    assert front.choose(enough_bytes=max(front.loads)) == ()
    assert front.choose(enough_bytes=max(front.loads) - 1) != ()


def test_where_nothing_is_gained_nothing_is_streamed() -> None:
    """The peak lies behind the front."""
    net = Network((4, 4, 1), 1)
    y = net.conv(net.x, 2, same(3))
    y = net.conv(net.reshape(y, (1, 1, 1, 32)), 200, relu=True)
    graph = net.graph(net.conv(y, 4, rounds_once=True))
    assert planned(graph, "auto", SCHEMES["full"]).segments == ()


def test_larger_strips_are_taken_where_they_cost_nothing() -> None:
    """The tail decides: training the last layers needs more than the front row by row."""
    graph = mobile_network()
    auto, least = (planned(graph, stream, SCHEMES["last"]) for stream in ("auto", "max"))
    assert auto.arena_bytes <= least.arena_bytes
    assert calls(auto) <= calls(least)


@pytest.mark.slow
@settings(max_examples=60)
@given(graph=drawn(draw_front), trained=st.sampled_from(["head", "last", "full"]))
def test_plans_of_drawn_fronts_are_sound(graph: Graph, trained: str) -> None:
    """Each is checked row by row; rows help or are left out."""
    off, auto, least = (planned(graph, s, SCHEMES[trained]) for s in ("off", "auto", "max"))
    assert auto.arena_bytes <= off.arena_bytes
    assert auto.arena.lower_bound_bytes <= least.arena.lower_bound_bytes
    for s in (*auto.segments, *least.segments):
        strips = list(s.flow.strips())
        for place, tensor in enumerate(s.tensors[s.sources :]):
            rows = [r for i, first, n, _ in strips if i == place for r in range(first, first + n)]
            assert rows == list(range(tensor.rows))


def test_drawn_fronts_have_every_operator_that_can() -> None:
    kinds = set()
    for seed in range(60):
        for s in planned(draw_front(SeededSource(seed)), "max").segments:
            kinds |= {type(stage.node.op).__name__ for stage in s.stages}
    able = {"Conv2D", "DepthwiseConv2D", "AveragePool2D", "MaxPool2D", "Pad", "Add", "Mul"}
    assert able | {"Concatenation", "Lookup", "Rescale", "Slice"} <= kinds
    assert {"BatchMatMul", "LayerNorm"} <= kinds

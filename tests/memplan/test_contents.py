"""The arena's contents: silent for sound plans; a sentence for each kind of wrong sharing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings

from mcutrain.ir.graph import Graph, Node
from mcutrain.memplan import TrainingPlan, check_contents, lifetimes
from mcutrain.memplan.lifetimes import SCRATCH_PREFIX
from tests.ops.drawing import drawn
from tests.simulation import networks


@pytest.fixture(scope="module")
def plan() -> TrainingPlan:
    """With shortcuts, views, masks, scratch and a softmax that only inference runs."""
    net = networks.Network((6, 6, 2), 3)
    y = net.conv(net.x, 4, networks.same(3), relu=True)
    y = net.conv(net.add(y, net.relu(y)), 4)
    y = net.mul(y, net.activation(y, "logistic"))
    y = net.reshape(y, (1, 1, 1, 144))
    y = net.softmax(net.reshape(net.conv(y, 3, rounds_once=True), (1, 3)))
    return networks.planned(networks.training_graph(net.graph(y)))


def moved(plan: TrainingPlan, offsets: Mapping[str, int], room: int = 0) -> TrainingPlan:
    """Buffers at other places, in an arena with `room` more bytes."""
    size_bytes = plan.arena_bytes + room
    arena = replace(plan.arena, offsets={**plan.arena.offsets, **offsets}, arena_bytes=size_bytes)
    return replace(plan, arena=arena)


def upon(plan: TrainingPlan, tensor: str, other: str, by: int = 0) -> TrainingPlan:
    """A tensor in a buffer of its own, `by` bytes behind where another one begins."""
    own = {**plan.buffer_of, tensor: "planted"}
    place = plan.offset_of(other) + by
    arena = replace(plan.arena, offsets={**plan.arena.offsets, "planted": place})
    return replace(plan, buffer_of=own, arena=arena)


def node_of(plan: TrainingPlan, kind: str) -> Node:
    return next(n for n in plan.nodes if type(n.op).__name__ == kind)


def overwrites_what_is_read_later(plan: TrainingPlan) -> TrainingPlan:
    """relu(x) upon x, of which add(x, relu(x)) still reads the value."""
    relu = node_of(plan, "Rescale")
    return upon(plan, relu.outputs[0], relu.inputs[0])


def overlaps_what_lives(plan: TrainingPlan) -> TrainingPlan:
    """From the middle of the input on, which the first weight's gradient still reads."""
    lookup = node_of(plan, "Lookup")
    return upon(plan, lookup.outputs[0], plan.training.x, 8)


def view_elsewhere(plan: TrainingPlan) -> TrainingPlan:
    view = node_of(plan, "Reshape")
    return upon(plan, view.outputs[0], plan.training.x)


def scratch_node(plan: TrainingPlan) -> Node:
    names = [n.removeprefix(SCRATCH_PREFIX) for n in plan.arena.offsets if SCRATCH_PREFIX in n]
    arena = plan.buffer_of
    nodes = [n for n in plan.nodes if n.name in names]
    return next(n for n in nodes if {*n.inputs} & {*arena} and {*n.outputs} & {*arena})


def scratch_upon_input(plan: TrainingPlan) -> TrainingPlan:
    node = scratch_node(plan)
    place = next(plan.offset_of(n) for n in node.inputs if n in plan.buffer_of)
    return moved(plan, {SCRATCH_PREFIX + node.name: place})


def scratch_upon_output(plan: TrainingPlan) -> TrainingPlan:
    node = scratch_node(plan)
    place = next(plan.offset_of(n) for n in node.outputs if n in plan.buffer_of)
    return moved(plan, {SCRATCH_PREFIX + node.name: place}, 1000)


def no_scratch(plan: TrainingPlan) -> TrainingPlan:
    name = SCRATCH_PREFIX + scratch_node(plan).name
    offsets = {n: o for n, o in plan.arena.offsets.items() if n != name}
    return replace(plan, arena=replace(plan.arena, offsets=offsets))


def little_scratch(plan: TrainingPlan) -> TrainingPlan:
    """A byte less than the call needs, with nothing behind it that it could hurt."""
    name = SCRATCH_PREFIX + scratch_node(plan).name
    buffers = [
        replace(b, size_bytes=b.size_bytes - 1) if b.name == name else b for b in plan.arena.buffers
    ]
    far = moved(plan, {name: plan.arena_bytes}, 4096)
    return replace(far, arena=replace(far.arena, buffers=tuple(buffers)))


def odd_scratch(plan: TrainingPlan) -> TrainingPlan:
    """In free memory, where no sum may lie."""
    name = SCRATCH_PREFIX + scratch_node(plan).name
    return moved(plan, {name: plan.arena_bytes + 2}, 4096)


def upon_an_input_that_it_reads_again(plan: TrainingPlan) -> TrainingPlan:
    """A convolution in place, though each of its outputs needs several inputs."""
    second = [n for n in plan.nodes if type(n.op).__name__ == "Conv2D"][1]
    return upon(plan, second.outputs[0], second.inputs[0])


def beside_an_input_that_it_may_replace(plan: TrainingPlan) -> TrainingPlan:
    add = node_of(plan, "Add")
    return upon(plan, add.outputs[0], add.inputs[1], 4)


def beyond_the_arena(plan: TrainingPlan) -> TrainingPlan:
    conv = node_of(plan, "Conv2D")
    return moved(plan, {plan.buffer_of[conv.outputs[0]]: plan.arena_bytes - 4})


def no_place(plan: TrainingPlan) -> TrainingPlan:
    lost = node_of(plan, "Conv2D").outputs[0]
    return replace(plan, buffer_of={n: b for n, b in plan.buffer_of.items() if n != lost})


def mask_upon_its_values(plan: TrainingPlan) -> TrainingPlan:
    node = next(n for n in plan.nodes if len(n.outputs) == 2 and n.outputs[1] in plan.buffer_of)
    return upon(plan, node.outputs[1], node.outputs[0])


def read_before_it_is_computed(plan: TrainingPlan) -> TrainingPlan:
    graph = plan.training.graph
    add = node_of(plan, "Add")
    others = [n for n in graph.nodes if n is not add]
    late = replace(graph, nodes=(add, *others))
    return replace(plan, training=replace(plan.training, graph=late))


def only_inference_is_wrong(plan: TrainingPlan) -> TrainingPlan:
    """The tail's logits upon the input that the head reads."""
    first = plan.tail[0]
    return upon(plan, first.outputs[0], first.inputs[0])


PLANTED: Mapping[Callable[[TrainingPlan], TrainingPlan], str] = {
    overwrites_what_is_read_later: "reads .* where the value of",
    overlaps_what_lives: "reads .* where the value of 'lookup",
    view_elsewhere: "the view .* does not lie where",
    scratch_upon_input: "overlap",
    scratch_upon_output: "overlap",
    no_scratch: "has no scratch",
    little_scratch: "bytes of scratch, and has",
    odd_scratch: "is not aligned",
    upon_an_input_that_it_reads_again: "over its input",
    beside_an_input_that_it_may_replace: "over its input",
    beyond_the_arena: "ends beyond the arena",
    no_place: "has no place",
    mask_upon_its_values: "overlap",
    read_before_it_is_computed: "where no tensor's value lies|where the value of",
    only_inference_is_wrong: "over its input",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda f: f.__name__)
def test_each_kind_of_wrong_sharing_is_found(
    plan: TrainingPlan, plant: Callable[[TrainingPlan], TrainingPlan]
) -> None:
    check_contents(plan)
    with pytest.raises(AssertionError, match=PLANTED[plant]):
        check_contents(plant(plan))


def test_a_planner_that_shares_too_much_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lifetimes that look at the next reader only."""
    monkeypatch.setattr(lifetimes, "_last_uses", lambda nodes, kept: {})
    graph = networks.shortcuts_network()
    with pytest.raises(AssertionError, match="reads"):
        networks.planned(networks.training_graph(graph))


@settings(max_examples=25)
@given(graph=drawn(networks.draw_network))
def test_plans_of_drawn_networks_are_sound(graph: Graph) -> None:
    """plan_training checks each."""
    networks.planned(networks.training_graph(graph))

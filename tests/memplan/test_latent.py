"""What a step may begin with instead of its input. That the bits are the same: tests/simulation."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain import prepare
from mcutrain.errors import PlanError
from mcutrain.ir.graph import Graph
from mcutrain.memplan import Stream, TrainingPlan, find_latent, latents, saves_much
from mcutrain.sparse import UpdateScheme
from tests.memplan.fronts import draw_front, planned
from tests.memplan.test_stream import mobile_network
from tests.ops.drawing import drawn
from tests.simulation import networks
from tests.simulation.test_reconstruction import GRAPHS

SCHEMES = (UpdateScheme(), UpdateScheme("last", 1, {}, 1), UpdateScheme("bias", None))


def brute_force(plan: TrainingPlan) -> list[tuple[str, int]]:
    """(tensor, nodes before it): one tensor goes from them to all else, and nothing trained in."""
    training = plan.training
    nodes = (*training.graph.nodes, *training.apply, *plan.tail)
    found = []
    for position in range(1, len(training.forward.nodes)):
        before, behind = nodes[:position], nodes[position:]
        made = {training.x, *(name for node in before for name in node.outputs)}
        read_before = {name for node in before for name in node.inputs}
        read_behind = {name for node in behind for name in node.inputs}
        is_within = any(s.first < position <= s.last for s in plan.segments)
        is_trained = not read_before.isdisjoint({*training.state, *training.updated.values()})
        names = [node.name for node in before]
        is_front = names == [node.name for node in training.forward.nodes[:position]]
        crossing = made & read_behind
        if len(crossing) == 1 and is_front and not is_within and not is_trained:
            found.append((crossing.pop(), position))
    return found


@settings(max_examples=30)
@given(
    graph=drawn(draw_front),
    scheme=st.sampled_from(SCHEMES),
    stream=st.sampled_from(["auto", "off", "max"]),
)
def test_every_latent_alone_crosses_and_nothing_before_it_is_trained(
    graph: Graph, scheme: UpdateScheme, stream: Stream
) -> None:
    plan = planned(graph, stream, scheme)
    found = latents(plan)
    assert [(latent.tensor, latent.position) for latent in found] == brute_force(plan)
    assert all(a.macs <= b.macs for a, b in pairwise(found))


def test_a_mobile_network_has_latents_where_no_shortcut_passes() -> None:
    plan = planned(mobile_network(), "off", SCHEMES[0])
    names = [latent.tensor for latent in latents(plan)]
    inner = {t for t in names if t.endswith((".expand", ".depthwise"))}
    assert len(names) >= 3
    assert find_latent(plan).tensor in names
    assert find_latent(plan, names[1]).position < find_latent(plan, names[-1]).position
    assert not inner


@pytest.mark.parametrize(("channels", "is_worth_it"), [(12, False), (64, True)])
def test_a_larger_latent_is_chosen_where_it_saves_three_percent(
    channels: int, is_worth_it: bool
) -> None:
    """Its layer has 1,536 of 56,384 products, or 8,192 of 76,352."""
    net = networks.Network((16, 16, 3), 1)
    y = net.conv(net.x, 8, networks.same(3, 2))
    small = net.conv(net.conv(y, 8, networks.same(3)), 2)
    wide = net.conv(small, channels)
    graph = net.graph(net.conv(net.mean(net.conv(wide, 4)), 3, rounds_once=True))
    plan = planned(graph, "off", SCHEMES[1])
    assert [latent.tensor for latent in latents(plan)][-2:] == [small, wide]
    assert find_latent(plan).tensor == (wide if is_worth_it else small)


def test_of_latents_of_one_size_the_one_that_saves_more_is_chosen() -> None:
    net = networks.Network((16, 16, 3), 1)
    small = net.conv(net.conv(net.x, 8, networks.same(3, 2)), 2)
    again = net.conv(small, 2)
    graph = net.graph(net.conv(net.mean(net.conv(again, 4)), 3, rounds_once=True))
    plan = planned(graph, "off", SCHEMES[1])
    assert [latent.tensor for latent in latents(plan)][-2:] == [small, again]
    assert find_latent(plan).tensor == again


def test_three_percent_are_of_the_whole_inference() -> None:
    """The front has 5,888 of its 153,540 products, the layer of the larger latent 2,304."""
    net = networks.Network((16, 16, 3), 1)
    small = net.conv(net.conv(net.x, 2, networks.same(3, 2)), 1)
    wide = net.conv(small, 4, networks.same(3))
    y = net.conv(wide, 64, networks.same(3))
    plan = planned(net.graph(net.conv(net.mean(y), 3, rounds_once=True)), "off", SCHEMES[1])
    *_, first, second = latents(plan)
    assert (first.tensor, second.tensor) == (small, wide)
    assert find_latent(plan) == first
    assert not saves_much(plan, first)
    assert saves_much(plan, second)


def test_what_is_trained_wholly_begins_with_its_input() -> None:
    plan = planned(mobile_network(), "off", UpdateScheme("full", None, {}, None))
    assert latents(plan) == ()
    with pytest.raises(PlanError, match="no training step can begin behind the input"):
        find_latent(plan)


def test_a_network_that_reproduces_its_input_has_none_and_that_is_said() -> None:
    plan = prepare(GRAPHS["dense"], "head", loss="mse").plan
    assert latents(plan) == ()
    with pytest.raises(PlanError, match="reproduces it, so the loss needs the sample"):
        find_latent(plan)


def test_another_name_gets_those_that_there_are() -> None:
    plan = planned(mobile_network(), "off", SCHEMES[0])
    (first, *_) = latents(plan)
    with pytest.raises(PlanError, match=f"cannot begin with '{first.tensor}x': give one of") as e:
        find_latent(plan, f"{first.tensor}x")
    assert "did you mean" in str(e.value)


def test_a_tensor_that_is_computed_row_by_row_is_none_and_that_is_said() -> None:
    plan = planned(mobile_network(), "max", SCHEMES[0])
    (ring, *_) = (t.name for s in plan.segments for t in s.tensors[s.sources :] if t.is_ring)
    with pytest.raises(PlanError, match="row by row, which --stream off does not"):
        find_latent(plan, ring)

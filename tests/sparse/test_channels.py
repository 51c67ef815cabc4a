"""Permuted channels: the same forward bits, the trained ones in front, and the way back."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain import demo
from mcutrain.autodiff import TrainGraph, TrainOptions, differentiate
from mcutrain.errors import SchemeError
from mcutrain.formats import load
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ir.op import expanded_order
from mcutrain.ir.verify import verify
from mcutrain.ops.lookup import Lookup
from mcutrain.ops.mul import Mul
from mcutrain.ops.pooling import MaxPool2D
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.ops.spatial import Window
from mcutrain.pipeline import prepare
from mcutrain.simulation import ReferenceSimulator
from mcutrain.sparse import (
    ChannelOrder,
    UpdateScheme,
    arrange,
    find_head,
    layers_of,
    parse_scheme,
    resolve,
)
from mcutrain.sparse.channels import Wish, common_order, order_channels, permuted
from mcutrain.sparse.groups import channel_groups
from mcutrain.sparse.resolution import wanted_channels
from tests.ops.drawing import Source, drawn
from tests.simulation.networks import (
    Network,
    draw_network,
    modern_network,
    rates,
    residual_network,
    same,
    samples,
    training_graph,
)
from tests.simulation.test_training_steps import assert_same_bits, draw_scheme

MODELS = ("mcunet-5fps", "mbv2-w0.35", "proxyless-w0.3")
ROUNDING = 1e-9
"""Sums of normalised importance in another order of summation."""


def draw_case(s: Source) -> tuple[Graph, UpdateScheme]:
    graph = draw_network(s)
    return graph, draw_scheme(s, len(layers_of(graph, find_head(graph))))


def shares(graph: Graph, *choices: float) -> UpdateScheme:
    """Every layer in part, by turns."""
    count = len(layers_of(graph, find_head(graph)))
    return UpdateScheme("shares", None, {str(i): choices[i % len(choices)] for i in range(count)})


def assert_same_outputs(graph: Graph, other: Graph, count: int = 2) -> None:
    x, _ = samples(graph, count, 2)
    for i in range(count):
        inputs = {graph.inputs[0]: x[i : i + 1]}
        expected, found = interpret(graph, inputs), interpret(other, inputs)
        for name in graph.outputs:
            np.testing.assert_array_equal(found[name], expected[name])


def assert_trained_in_front(graph: Graph, scheme: UpdateScheme) -> ChannelOrder:
    """A layer that alone reads a free group trains its largest; with others, as many of the first.

    Where channels cannot move to the front, those that the layer wants are found where they are.
    """
    order, updates = arrange(scheme, graph)
    verify(order.graph)
    groups = channel_groups(graph)
    wishes = wanted_channels(scheme, graph)
    places = {name: (name, len(graph.tensors[name].type.shape) - 1) for name in wishes}
    free = {
        name: i
        for name, place in places.items()
        for i, group in enumerate(groups)
        if group.members.get(place) == (1, 1)
    }
    readers = Counter(free.values())
    for name, wish in wishes.items():
        trained = updates[name].channels
        assert trained is not None
        assert len(trained) == wish.count
        moved = order.orders.get(places[name], range(len(wish.importance)))
        original = tuple(sorted(moved[c] for c in trained))
        if name in free:
            assert trained == tuple(range(wish.count))
        if name not in free or readers[free[name]] == 1:
            assert original == wish.largest()
    return order


# ------------------------------------------------------------------------------- whole networks


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(case=drawn(draw_case))
def test_drawn_networks_compute_the_same_bits_with_what_they_train_in_front(
    case: tuple[Graph, UpdateScheme],
) -> None:
    graph, scheme = case
    order = assert_trained_in_front(graph, scheme)
    assert_same_outputs(graph, order.graph)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(graph=drawn(draw_network), seed=st.integers(0, 2**32 - 1))
def test_any_order_of_any_groups_leaves_the_bits_and_has_a_way_back(
    graph: Graph, seed: int
) -> None:
    """Not only those orders that some scheme asks for."""
    rng = np.random.default_rng(seed)
    wishes = {}
    for layer in layers_of(graph, find_head(graph)):
        channels = graph.tensors[layer.weight].type.shape[-1]
        if channels > 1 and rng.random() < 0.8:
            count = int(rng.integers(1, channels))
            wishes[layer.weight] = Wish(rng.random(channels), count)
    order = order_channels(graph, wishes)
    assert_same_outputs(graph, order.graph)
    for name, tensor in graph.tensors.items():
        if tensor.data is not None:
            now = order.graph.tensors[name]
            assert now.data is not None
            np.testing.assert_array_equal(order.restored(name, now.data), tensor.data)
        if len(tensor.type.scales) > 1:
            scales, axis = np.array(tensor.type.scales), tensor.type.axis
            moved = order.orders.get((name, axis), range(len(scales)))
            assert order.graph.tensors[name].type.scales == tuple(scales[list(moved)])
    back = {place: np.argsort(o) for place, o in order.orders.items()}
    again = permuted(order.graph, back)
    assert again.tensors == graph.tensors
    assert again.nodes == graph.nodes


@pytest.mark.parametrize("text", ["fashion-sparse", "shares"])
def test_the_demo_network_computes_the_same_bits(text: str) -> None:
    graph = demo.network()
    scheme = shares(graph, 0.5, 0.25, 0.3) if text == "shares" else parse_scheme(text)
    assert_same_outputs(graph, assert_trained_in_front(graph, scheme).graph)


@pytest.mark.shared
@pytest.mark.parametrize("model", MODELS)
def test_published_networks_compute_the_same_bits(shared: Path, model: str) -> None:
    graph = load(shared / "models" / f"{model}.int8.tflite")
    for scheme in (parse_scheme(f"{model}-49kb"), shares(graph, 0.5, 0.125, 0.25)):
        assert_same_outputs(graph, assert_trained_in_front(graph, scheme).graph, 1)


def test_products_tables_and_joins_of_permuted_channels_compute_the_same_bits() -> None:
    graph = modern_network()
    order = assert_trained_in_front(graph, shares(graph, 0.5, 0.25, 0.75))
    assert_same_outputs(graph, order.graph)
    moved = {name for name, _ in order.orders}
    gates = {node.outputs[0] for node in graph.nodes if isinstance(node.op, Mul | Lookup)}
    assert gates & moved


@pytest.mark.parametrize("text", ["head", "bias:3", "last:2", "full", "1:1,4:1,bias:2", "2:0"])
def test_schemes_without_shares_leave_the_network_as_it_is(text: str) -> None:
    graph, scheme = residual_network(), parse_scheme(text)
    order, updates = arrange(scheme, graph)
    assert order.graph is graph
    assert not order.orders
    assert updates == resolve(scheme, graph)


def test_a_training_step_needs_no_table_of_channels_and_keeps_the_way_back() -> None:
    step = prepare(demo.network(), "fashion-sparse")
    nodes = step.plan.training.graph.nodes
    tables = [
        (node.name, param.name)
        for node in nodes
        if not node.op.is_view
        for param in node.op.kernel(
            step.plan.training.graph.types(node.inputs),
            step.plan.training.graph.types(node.outputs),
        ).params
        if param.ctype == "const int16_t *" and param.value is not None
    ]
    assert tables == []
    frozen = {name: t.data for name, t in step.order.graph.tensors.items() if t.data is not None}
    for name, value in frozen.items():
        original = step.graph.tensors[name].data
        np.testing.assert_array_equal(step.order.restored(name, value), original)
    assert any((frozen[name] != step.graph.tensors[name].data).any() for name in frozen)


def arranged(scheme: UpdateScheme, options: TrainOptions) -> tuple[ChannelOrder, TrainGraph]:
    graph = residual_network()
    order, updates = arrange(scheme, graph)
    head = find_head(graph).name
    return order, differentiate(order.graph, head, updates, SoftmaxCrossEntropy, options)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_c_and_reference_train_permuted_networks_alike(dtype: str) -> None:
    """Convolutions and depthwise layers, several of them reading the same channels."""
    scheme = UpdateScheme("s", 3, {"1": 0.5, "2": 0.5, "3": 0.4, "4": 0.25, "5": 0.5})
    _, training = arranged(scheme, TrainOptions(dtype))
    assert_same_bits(training, portable=True, extra_flags=("-O1",))


def test_the_gradient_of_the_head_is_the_same_in_another_order() -> None:
    """Its sums come from unpermuted logits, so no random number of theirs has moved."""
    scheme, options = UpdateScheme("s", 0, {"3": 0.4}), TrainOptions(accumulate=2)
    order, training = arranged(scheme, options)
    sums = []
    for each in (training, training_graph(residual_network(), scheme, options)):
        simulator = ReferenceSimulator(each)
        x, labels = samples(each.forward, 1, each.classes)
        simulator.train(x, labels, rates(1))
        sums.append(simulator.state["w8.sum"])
    assert ("w8", 3) in order.orders
    assert sums[0].any()
    np.testing.assert_array_equal(order.restored("w8", sums[0]), sums[1])


# --------------------------------------------------------------------------------------- groups


def groups_of(graph: Graph) -> list[tuple[int, dict[tuple[str, int], tuple[int, int]]]]:
    return [(g.channels, dict(g.members)) for g in channel_groups(graph)]


def test_a_residual_stream_is_one_group_and_each_widening_another() -> None:
    """Layers 0 → 1 → 2 → stream; 3 → 4 → 5 → stream; mean; head 8."""
    graph = residual_network()
    weights = [
        {place for place in members if place[0].startswith(("w", "b"))}
        for _, members in groups_of(graph)
    ]
    assert weights == [
        {("w0", 0), ("b0", 0), ("w1", 3), ("b1", 0), ("w2", 3)},
        {("w2", 0), ("b2", 0), ("w3", 3), ("w5", 0), ("b5", 0), ("w8", 3)},
        {("w3", 0), ("b3", 0), ("w4", 3), ("b4", 0), ("w5", 3)},
    ]


def test_a_flattened_image_repeats_its_channels_and_its_reader_keeps_its_own_choice() -> None:
    net = Network((4, 4, 2), seed=3)
    y = net.conv(net.x, 5, same(3, 2))
    flat = net.reshape(y, (1, 1, 1, 20))
    hidden = net.conv(flat, 6)
    graph = net.graph(net.conv(hidden, 3))
    members = groups_of(graph)[0][1]
    assert members[y, 3] == (1, 1)
    assert members[flat, 3] == (4, 1)
    order, updates = arrange(shares(graph, 0.5), graph)
    assert order.orders == {}  # nothing prefers an order: layer 0 reads the input, 1 a flat image
    assert updates["w2"].channels == resolve(shares(graph, 0.5), graph)["w2"].channels
    assert updates["w2"].channels != tuple(range(10))
    moved = permuted(graph, everywhere(graph, "w0", [3, 1, 4, 0, 2]))
    assert_same_outputs(graph, moved)


def everywhere(graph: Graph, weight: str, order: list[int]) -> dict[tuple[str, int], np.ndarray]:
    """The order on all axes that go with a weight's rows."""
    (group,) = (g for g in channel_groups(graph) if (weight, 0) in g.members)
    return {
        place: expanded_order(np.array(order), *repeats) for place, repeats in group.members.items()
    }


def test_several_outputs_per_input_channel_stay_together() -> None:
    net = Network((4, 4, 2), seed=4)
    y = net.conv(net.x, 3)
    wide = net.depthwise(y, same(3), multiplier=2)
    graph = net.graph(net.conv(net.mean(net.conv(wide, 4)), 3))
    members = groups_of(graph)[0][1]
    assert members[wide, 3] == members["w1", 3] == members["w2", 3] == (1, 2)
    assert members["w0", 0] == (1, 1)
    assert_same_outputs(graph, permuted(graph, everywhere(graph, "w0", [2, 0, 1])))


def test_the_outputs_of_a_single_input_channel_are_free() -> None:
    net = Network((4, 4, 1), seed=5)
    wide = net.depthwise(net.x, same(3), multiplier=6)
    graph = net.graph(net.conv(net.mean(wide), 3))
    ((channels, members),) = groups_of(graph)
    assert channels == 6
    assert members["w0", 3] == members["b0", 0] == (1, 1)
    assert_trained_in_front(graph, parse_scheme("0:0.5"))
    assert_same_outputs(graph, arrange(parse_scheme("0:0.5"), graph)[0].graph)


def test_what_repeats_in_two_ways_moves_in_blocks_that_suit_both() -> None:
    """Twice 6 channels and three times 4: only the halves of both can change places."""
    net = Network((6, 1, 2), seed=9)
    twice = net.reshape(net.pool(net.conv(net.x, 6), MaxPool2D, Window((5, 1))), (1, 1, 1, 12))
    thrice = net.reshape(net.pool(net.conv(net.x, 4), MaxPool2D, Window((4, 1))), (1, 1, 1, 12))
    graph = net.graph(net.conv(net.add(twice, thrice), 3))
    ((channels, members),) = groups_of(graph)
    assert channels == 2
    assert members[twice, 3] == members[thrice, 3] == (6, 1)
    assert members["w0", 0] == (3, 1)
    assert_same_outputs(graph, permuted(graph, everywhere(graph, "w0", [1, 0])))


def test_what_repeats_around_here_and_inside_there_keeps_its_order() -> None:
    net = Network((2, 1, 2), seed=10)
    y = net.conv(net.x, 4)
    flat, wide = net.reshape(y, (1, 1, 1, 8)), net.depthwise(net.mean(y), Window((1, 1)), 2)
    graph = net.graph(net.conv(net.add(flat, wide), 3))
    assert groups_of(graph) == []


def test_what_is_tied_to_the_input_or_output_keeps_its_order() -> None:
    net = Network((4, 4, 4), seed=6)
    graph = net.graph(net.conv(net.add(net.conv(net.x, 4), net.x), 3))
    assert groups_of(graph) == []
    scheme = parse_scheme("0:0.5")
    order, updates = arrange(scheme, graph)
    assert order.graph is graph
    assert updates == resolve(scheme, graph)


def test_an_operator_that_says_nothing_keeps_its_channels_in_order() -> None:
    net = Network((4, 4, 2), seed=7)
    y = net.softmax(net.reshape(net.conv(net.x, 6), (16, 6)))
    graph = net.graph(net.conv(net.reshape(y, (1, 4, 4, 6)), 3))
    assert groups_of(graph) == []


# --------------------------------------------------------------------------------------- orders


@given(seed=st.integers(0, 10**6), channels=st.integers(2, 6), readers=st.integers(1, 4))
def test_a_common_order_covers_as_much_importance_as_any(
    seed: int, channels: int, readers: int
) -> None:
    rng = np.random.default_rng(seed)
    wishes = [
        Wish(rng.integers(0, 9, channels).astype(float), int(rng.integers(1, channels)))
        for _ in range(readers)
    ]
    order = common_order(wishes)
    assert sorted(order.tolist()) == list(range(channels))

    def covered(order: tuple[int, ...]) -> float:
        """Each reader's share of what it could cover at best."""
        return sum(
            w.importance[list(order[: w.count])].sum()
            / (w.importance[list(w.largest())].sum() or 1)
            for w in wishes
        )

    best = max(map(covered, itertools.permutations(range(channels))))
    assert covered(tuple(order.tolist())) >= best - ROUNDING


def test_one_reader_gets_its_order_by_importance_and_the_first_of_equals_first() -> None:
    wish = Wish(np.array([1.0, 3.0, 0.0, 3.0, 2.0]), 2)
    assert common_order([wish]).tolist() == [1, 3, 4, 0, 2]
    assert wish.largest() == (1, 3)


# ----------------------------------------------------------------------------------- importance


def test_a_scheme_can_say_which_channels_count(tmp_path: Path) -> None:
    graph = residual_network()
    scheme = replace(parse_scheme("2:0.5"), importance={"node2": (0, 9, 1, 8, 2, 7.5)})
    assert resolve(scheme, graph)["w2"].channels == (1, 3, 5)
    order, updates = arrange(scheme, graph)
    assert updates["w2"].channels == (0, 1, 2)
    assert order.orders["w2", 3] == (1, 3, 5, 4, 2, 0)
    path = tmp_path / "x.toml"
    path.write_text(scheme.to_toml(), encoding="utf-8")
    assert parse_scheme(str(path)) == scheme


@pytest.mark.parametrize(
    ("importance", "sentence"),
    [
        ({"2": (1.0, 2.0)}, "layer '2' the importance of 2 channels; it has 6 input channels"),
        ({"9": (1.0,)}, "names the layer '9'; the model has layers 0 to 5"),
        ({"2": (1.0, -1.0)}, "an importance of layer 2 is negative or infinite"),
        ({"2": (1.0, float("inf"))}, "an importance of layer 2 is negative or infinite"),
        ({"2": (1.0, float("nan"))}, "an importance of layer 2 is negative or infinite"),
    ],
)
def test_importance_that_does_not_fit_is_refused(
    importance: dict[str, tuple[float, ...]], sentence: str
) -> None:
    with pytest.raises(SchemeError, match=sentence):
        resolve(replace(parse_scheme("2:0.5"), importance=importance), residual_network())


def test_a_weight_of_two_layers_can_only_stay_frozen() -> None:
    net = Network((4, 4, 3), seed=8)
    y = net.conv(net.conv(net.x, 3), 3)
    net.nodes[1] = replace(net.nodes[1], inputs=(net.nodes[1].inputs[0], *net.nodes[0].inputs[1:]))
    graph = net.graph(net.conv(y, 2))
    for text in ("0:1", "1:0.5", "bias:1", "full"):
        with pytest.raises(SchemeError, match="shared by the layers node0, node1; shared weights"):
            resolve(parse_scheme(text), graph)
        with pytest.raises(SchemeError, match="can only stay frozen"):
            arrange(parse_scheme(text), graph)
    assert set(resolve(parse_scheme("head"), graph)) == {"w2", "b2"}

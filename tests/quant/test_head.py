"""Classes added to a classifier leave the others as they were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcutrain import prepare
from mcutrain.errors import SchemeError
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.quant import add_classes, random_start, replace_head
from mcutrain.quant.head import OUTPUT_ZERO_POINT, outputs_reaching
from mcutrain.sparse import find_head
from tests.simulation.networks import Network, rates, residual_network, samples

CLASSES, ADDED = 4, 3


def per_channel() -> Graph:
    """Scales per class, and a softmax behind."""
    net = Network((4, 4, 3), 5)
    y = net.conv(net.mean(net.conv(net.x, 6)), CLASSES, rounds_once=True)
    return net.graph(net.softmax(net.reshape(y, (1, CLASSES))))


def per_tensor() -> Graph:
    """One scale for all classes, as a new head has it."""
    graph = residual_network(classes=2)
    head = find_head(graph).node
    return replace_head(graph, head, CLASSES, random_start(graph, head, CLASSES, seed=3))


def averaged(high: int = 127) -> Graph:
    """Classes that are means of what a ReLU lets pass, up to `high`."""
    net = Network((4, 4, 3), 5)
    y = net.conv(net.conv(net.x, 6), CLASSES, relu=True)
    head = net.nodes[-1]
    net.nodes[-1] = replace(head, op=head.op.with_channel_limits(-128, high))
    return net.graph(net.reshape(net.mean(y), (1, CLASSES)))


GRAPHS = {"per channel": per_channel(), "per tensor": per_tensor(), "averaged": averaged()}


def logits(graph: Graph, x: np.ndarray) -> np.ndarray:
    """int8 outputs of the head or their means, [n, classes]."""
    name = graph.logits_node(find_head(graph).node).outputs[0]
    found = [interpret(graph, {graph.inputs[0]: sample[None]}, [name])[name] for sample in x]
    return np.concatenate([y.reshape(1, -1) for y in found])


@pytest.mark.parametrize("name", GRAPHS)
def test_the_old_classes_have_the_same_integers(name: str) -> None:
    graph = GRAPHS[name]
    more = add_classes(graph, find_head(graph).node, ADDED, seed=1)
    x, _ = samples(graph, 40, CLASSES)
    found = logits(more, x)
    assert found.shape == (40, CLASSES + ADDED)
    np.testing.assert_array_equal(found[:, :CLASSES], logits(graph, x))
    kinds = [g.tensors[find_head(g).node.outputs[0]].type for g in (graph, more)]
    assert kinds[0].scales == kinds[1].scales
    assert kinds[0].zero_point == kinds[1].zero_point


@pytest.mark.parametrize("name", GRAPHS)
def test_weights_biases_and_scales_of_the_old_classes_stay(name: str) -> None:
    graph = GRAPHS[name]
    more = add_classes(graph, find_head(graph).node, ADDED, seed=1)
    for old_name, new_name in zip(
        find_head(graph).node.inputs[1:], find_head(more).node.inputs[1:], strict=True
    ):
        old, new = graph.tensors[old_name], more.tensors[new_name]
        np.testing.assert_array_equal(new.data[:CLASSES], old.data)
        assert new.type.scales[: len(old.type.scales)] == old.type.scales
        assert len(new.type.scales) in (1, CLASSES + ADDED)


def test_a_new_class_is_quantized_like_the_old_one_of_the_largest_scale() -> None:
    """Its weights are means of all, and fit no smaller scale for certain."""
    graph = GRAPHS["per channel"]
    head, more = find_head(graph), add_classes(graph, find_head(graph).node, ADDED, seed=1)
    scales = graph.tensors[head.weight].type.scales
    like = scales.index(max(scales))
    assert len(set(scales)) == CLASSES
    found = more.tensors[find_head(more).weight].type.scales
    assert found == (*scales, *[scales[like]] * ADDED)
    old, new = head.node.op, find_head(more).node.op
    for name in ("mult_q31", "shift"):
        before = getattr(old.requantize, name)
        assert getattr(new.requantize, name) == (*before, *[before[like]] * ADDED)


def test_a_new_head_has_the_largest_of_the_old_scales() -> None:
    graph = GRAPHS["per channel"]
    scales = graph.tensors[find_head(graph).weight].type.scales
    new = replace_head(graph, find_head(graph).node, CLASSES + 1)
    assert new.tensors[find_head(new).weight].type.scales == (max(scales),)


@settings(max_examples=30, deadline=None)
@given(reach=st.tuples(st.floats(0, 300), st.floats(0, 300)))
def test_outputs_reach_as_far_as_is_asked_and_no_power_of_two_farther(
    reach: tuple[float, float],
) -> None:
    graph = replace_head(GRAPHS["per channel"], find_head(GRAPHS["per channel"]).node, CLASSES)
    wider = outputs_reaching(graph, find_head(graph).node, reach)
    old, new = (g.tensors[g.outputs[0]].type for g in (graph, wider))

    def is_enough(scale: float) -> bool:
        return (127 - new.zero_point) * scale >= reach[0] and (
            (128 + new.zero_point) * scale >= reach[1]
        )

    assert new.zero_point == old.zero_point == OUTPUT_ZERO_POINT
    assert is_enough(new.scale)
    assert new.scale == old.scale or not is_enough(new.scale / 2)


def test_a_new_class_wins_nowhere_where_the_old_ones_differ() -> None:
    graph = GRAPHS["per channel"]
    more = add_classes(graph, find_head(graph).node, ADDED, seed=1)
    x, _ = samples(graph, 60, CLASSES)
    found = logits(more, x).astype(int)
    ordered = np.sort(found[:, :CLASSES], axis=1)
    clear = ordered[:, -1] - ordered[:, :CLASSES].mean(axis=1) > 8  # weights are rounded
    assert clear.sum() > 30
    assert (found[clear].argmax(axis=1) < CLASSES).all()


def test_the_seed_decides_how_new_weights_are_rounded() -> None:
    graph = GRAPHS["per channel"]
    head = find_head(graph).node
    first, same, other = (
        add_classes(graph, head, ADDED, seed).tensors[f"{head.inputs[1]}.new"].data
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()
    assert np.abs(first.astype(int) - other).max() <= 1


def test_the_added_classes_are_learnt() -> None:
    graph = GRAPHS["per channel"]
    step = prepare(graph, "head", added=("left", "right"))
    assert step.plan.training.classes == CLASSES + 2
    simulator = step.simulator()
    x, _ = samples(graph, 2, 2)
    labels = np.tile([CLASSES, CLASSES + 1], 150)
    simulator.train(np.concatenate([x] * 150), labels, rates(300, 0.05))
    assert simulator.infer(x).argmax(axis=1).tolist() == [CLASSES, CLASSES + 1]


@pytest.mark.parametrize("high", [127, 30])
def test_all_classes_of_a_new_averaged_head_begin_in_the_middle_of_its_activation(
    high: int,
) -> None:
    graph = averaged(high)
    new = replace_head(graph, find_head(graph).node, 3)
    head = find_head(new)
    kinds = [new.tensors[n].type for n in (*head.node.outputs, *new.outputs)]
    old = [graph.tensors[n.outputs[0]].type for n in graph.nodes[-3:-1]]
    assert [k.shape for k in kinds] == [(1, 4, 4, 3), (1, 1, 1, 3)]
    assert kinds[0].scale / old[0].scale == kinds[1].scale / old[1].scale
    assert new.nodes[-1].op == graph.nodes[-2].op
    if high == 127:
        assert 8 <= 127.5 * kinds[0].scale < 16.1
    else:
        assert kinds[0].scale == old[0].scale
    x, _ = samples(graph, 8, 3)
    positions = [
        interpret(new, {new.inputs[0]: one[None]}, head.node.outputs)[head.node.outputs[0]]
        for one in x
    ]
    assert abs(np.mean(positions) - (-128 + high) / 2) < 0.1 * (128 + high)


def test_what_cannot_get_more_classes_is_refused() -> None:
    graph = GRAPHS["per tensor"]
    head = find_head(graph).node
    with pytest.raises(SchemeError, match="0 classes cannot be added"):
        add_classes(graph, head, 0)
    with pytest.raises(SchemeError, match="2 to 65536 classes"):
        add_classes(graph, head, 65536)
    convolution = next(n for n in graph.nodes if len(n.inputs) == 3)
    with pytest.raises(SchemeError, match="no fully connected layer"):
        add_classes(graph, convolution, 1)
    nameless = replace(head, op=replace(head.op, requantize=None))
    with pytest.raises(SchemeError, match="no fully connected layer"):
        add_classes(graph, nameless, 1)

"""The scale of a trained head's int8 outputs follows its logits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcutrain import prepare
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.ops.loss import OutputRange
from mcutrain.ops.softmax_cross_entropy import NEAR_Q16, OUTPUT_WINDOW, SoftmaxCrossEntropy
from mcutrain.pipeline import TrainingStep
from mcutrain.quant import add_classes, replace_head
from mcutrain.runs.doubts import coarseness_warning
from mcutrain.runs.result import SimulationResult
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import find_head
from mcutrain.trained import output_exponent, trained_graph
from tests.simulation.networks import Network, rates, residual_network, samples

CLASSES = 40


def own_head(classes: int = CLASSES, probabilities: bool = False) -> Graph:
    """A head with scales per class, whose outputs reach to one or two steps of its own logits."""
    net = Network((4, 4, 3), 5)
    y = net.reshape(
        net.conv(net.mean(net.conv(net.x, 24)), classes, rounds_once=True), (1, classes)
    )
    return net.graph(net.softmax(y) if probabilities else y)


def trained(step: TrainingStep, rate: float = 0.3, epochs: int = 12):
    """A simulator whose logits have become large, its samples and their labels."""
    simulator = step.simulator()
    x, y = samples(step.graph, 2 * CLASSES, step.plan.training.classes)
    for _ in range(epochs):
        simulator.train(x, y, rates(len(x), rate))
    return simulator, x, y


def predictions_of_sums(simulator, x, y):
    """The class of the largest int32 sum: a step at rate 0 leaves weights and biases."""
    saved = simulator.save()
    _, found = simulator.train(x, y, [LearningRate.of(0)] * len(x))
    simulator.load(saved)
    return found


@pytest.mark.parametrize("kind", ["own", "own with softmax", "new", "added"])
def test_no_int8_output_is_above_that_of_the_largest_sum_and_none_clips(kind: str) -> None:
    graph = own_head(probabilities="softmax" in kind)
    more = {"new": {"classes": CLASSES}, "added": {"added": ("more", "yet more")}}.get(kind, {})
    step = prepare(graph, "head", **more)
    simulator, x, y = trained(step)
    outputs, wanted = simulator.infer(x), predictions_of_sums(simulator, x, y)
    np.testing.assert_array_equal(outputs[np.arange(len(x)), wanted], outputs.max(axis=1))
    assert outputs.max() < 127
    assert simulator.state["output.exponent"][0] > 0


def test_fewer_right_answers_at_a_larger_scale_are_said_with_it() -> None:
    step = prepare(own_head(), "head")
    simulator = trained(step)[0]
    exponent = output_exponent(step, simulator.save())
    assert exponent == simulator.state["output.exponent"][0] > 0
    worse = SimulationResult(
        before=0.6,
        accuracy=0.59,
        epochs=(),
        steps=80,
        seconds=1.0,
        arena_bytes=0,
        state_bytes=0,
        saved=b"",
        output_exponent=exponent,
    )
    assert f"have {2**exponent} times the scale" in coarseness_warning(worse)
    for other in (
        replace(worse, before=0.4),
        replace(worse, before=0.7),
        replace(worse, output_exponent=0),
    ):
        assert coarseness_warning(other) == ""


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_numpy_and_c_choose_the_same_scale(accumulate: int, dtype: str) -> None:
    step = prepare(own_head(6, True), "last:1", accumulate=accumulate, gradient_dtype=dtype)
    simulator, reference = step.simulator(), step.reference()
    x, y = samples(step.graph, 30, 6)
    for rate in (0.05, 4.0, 4.0):
        for one in (simulator, reference):
            one.train(x, y, rates(len(x), rate))
        assert simulator.save() == reference.save()
        np.testing.assert_array_equal(simulator.infer(x), reference.infer(x))
    assert simulator.state["output.exponent"][0] > 0


@pytest.mark.parametrize("more", [{}, {"added": ("more", "yet more")}, {"classes": 7}])
def test_an_untrained_network_computes_its_own_bits(more: dict[str, object]) -> None:
    step = prepare(residual_network(), "head", **more)
    x, _ = samples(step.graph, 4, 2)
    (name,), (output,) = step.graph.inputs, step.graph.outputs
    own = [interpret(step.graph, {name: one[None]})[output].ravel() for one in x]
    np.testing.assert_array_equal(step.simulator().infer(x), own)
    np.testing.assert_array_equal(step.reference().infer(x), own)


@pytest.mark.parametrize("probabilities", [False, True])
def test_the_trained_graph_has_the_scale_and_the_bits_of_the_device(probabilities: bool) -> None:
    original = own_head(probabilities=probabilities)
    step = prepare(original, "head")
    simulator, x, _ = trained(step)
    graph = trained_graph(step, simulator.save(), original)
    kinds = [g.tensors[find_head(g).node.outputs[0]].type for g in (original, graph)]
    exponent = int(simulator.state["output.exponent"][0])
    assert kinds[1].scale == kinds[0].scale * 2**exponent > kinds[0].scale
    (name,), (output,) = graph.inputs, graph.outputs
    found = [interpret(graph, {name: one[None]})[output].ravel() for one in x]
    np.testing.assert_array_equal(found, simulator.infer(x))


def test_learning_goes_on_from_a_trained_graph_at_its_scale() -> None:
    """Its exponent is 0 again; classes that are added leave the integers of the others."""
    original = own_head()
    step = prepare(original, "head")
    simulator, x, _ = trained(step)
    graph = trained_graph(step, simulator.save(), original)
    again, more = prepare(graph, "head"), prepare(graph, "head", added=("more",))
    np.testing.assert_array_equal(again.simulator().infer(x), simulator.infer(x))
    np.testing.assert_array_equal(more.simulator().infer(x)[:, :CLASSES], simulator.infer(x))


def test_outputs_that_mean_something_else_keep_their_scale() -> None:
    graph = residual_network()
    head = find_head(graph).node
    limited = [
        replace(n, op=n.op.with_channel_limits(-128, 100)) if n == head else n for n in graph.nodes
    ]
    assert prepare(graph, "head").plan.training.output_exponent is not None
    assert prepare(graph.with_nodes(limited), "head").plan.training.output_exponent is None
    net = Network((1, 1, 6), 5)
    reproduced = net.graph(net.conv(net.conv(net.x, 3), 6))
    step = prepare(reproduced, "head", loss="mse")
    assert step.plan.training.output_exponent is None
    assert "output.exponent" not in step.plan.state_offsets


# ------------------------------------------------------------------------- which exponent is chosen


LOSS = SoftmaxCrossEntropy((2.0**-16 * np.log(2),), "int8", True, 1)
"""Sums are logits * log2(e) in Q16, but for the last bit."""


def exponents(tops, reach: OutputRange, first_update: int = 0, low: int = 0):
    """The exponent after each sample with such a largest sum; the other is `low`."""
    op, state, found = LOSS.followed_by(reach), np.zeros(3, np.int8), []
    for i, top in enumerate(tops):
        step = np.array([1, first_update + i, 0, 0, 0])
        sums = np.array([[[[top, low]]]], np.int32)
        *_, state = op.reference(step, sums, np.zeros(1, np.int32), np.zeros(3, np.int8), state)
        found.append(int(state[0]))
    return found


def test_it_grows_at_once_and_shrinks_after_a_window_without_need() -> None:
    reach = OutputRange(1000, 1000, 15)
    assert exponents([900, 1100, 2100, 900], reach) == [0, 1, 2, 2]
    tops = [4100, *[900] * (2 * OUTPUT_WINDOW)]
    found = exponents(tops, reach, first_update=1)
    assert found[0] == found[2 * OUTPUT_WINDOW - 2] == 3
    assert found[2 * OUTPUT_WINDOW - 1] == 0


def test_it_is_the_least_with_which_the_largest_fits() -> None:
    reach = OutputRange(1000, 1000, 4)
    assert exponents([1000 * 2**4 - 99], reach) == [4]
    assert exponents([10**9], reach) == [4]
    assert exponents([990], reach) == [0]


def test_a_class_far_below_the_largest_may_clip() -> None:
    reach = OutputRange(2**30, 1000, 15)
    assert exponents([0], reach, low=-1100) == [1]
    assert exponents([NEAR_Q16 - 900], reach, low=-NEAR_Q16) == [0]
    assert exponents([0], reach, low=-(2**30)) == exponents([0], reach, low=-NEAR_Q16 * 2)


def test_a_new_head_reaches_eight_above_zero_and_keeps_the_rounding() -> None:
    graph = own_head()
    new = replace_head(graph, find_head(graph).node, 5)
    old, stage = (find_head(g).node.op.requantize for g in (graph, new))
    kind = new.tensors[find_head(new).node.outputs[0]].type
    assert 8 <= (127 - kind.zero_point) * kind.scale < 16
    assert stage.rounds_once == old.rounds_once
    more = add_classes(new, find_head(new).node, 2)
    assert more.tensors[find_head(more).node.outputs[0]].type.scale == kind.scale


def test_a_forged_exponent_is_held_in_its_range() -> None:
    step = prepare(own_head(6, True), "head")
    simulator, reference = step.simulator(), step.reference()
    x, _ = samples(step.graph, 3, 6)
    for forged in (-128, -1, 127):
        reference.state["output.exponent"] = np.full(3, forged, np.int8)
        simulator.load(reference.save())
        np.testing.assert_array_equal(simulator.infer(x), reference.infer(x))

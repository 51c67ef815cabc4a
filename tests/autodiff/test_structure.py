"""Only what a scheme needs is in the training graph, in an order in which it can run in place."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from mcutrain.autodiff import TrainGraph, TrainOptions, differentiate
from mcutrain.errors import SchemeError
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.op import ParameterUpdate
from mcutrain.ir.text import dump
from mcutrain.ir.verify import verify
from mcutrain.memplan import plan_training
from mcutrain.ops.add_difference import AddDifference
from mcutrain.ops.conv_2d import Conv2DGradWeight
from mcutrain.ops.depthwise_conv_2d import DepthwiseConv2DGradWeight
from mcutrain.ops.gradient_sum import GradientSum
from mcutrain.ops.gradients import GradientOp
from mcutrain.ops.select_channels import SelectChannels
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.ops.training import BiasGradient, ParameterGradientOp
from mcutrain.ops.updating import UpdateRule, unpack_residual
from mcutrain.sparse import UpdateScheme, find_head, layers_of
from tests.ops.drawing import drawn
from tests.simulation.networks import residual_network, training_graph
from tests.simulation.test_training_steps import draw_training

LAYERS = 6  # of residual_network, before its head
WEIGHT_GRADIENTS = (Conv2DGradWeight, DepthwiseConv2DGradWeight)


def train(scheme: UpdateScheme, options: TrainOptions | None = None) -> TrainGraph:
    return training_graph(residual_network(), scheme, options or TrainOptions())


def split_at_loss(training: TrainGraph) -> tuple[list[Node], list[Node]]:
    """The nodes before and after the loss."""
    nodes = list(training.graph.nodes)
    at = next(i for i, n in enumerate(nodes) if isinstance(n.op, SoftmaxCrossEntropy))
    return nodes[:at], nodes[at + 1 :]


def read_late(training: TrainGraph) -> set[str]:
    """What the forward pass computes and the backward pass reads: it must be kept."""
    before, after = split_at_loss(training)
    computed = {name for node in before for name in node.outputs}
    return computed.intersection(name for node in after for name in node.inputs)


def test_training_the_head_adds_two_nodes_and_keeps_only_its_input() -> None:
    training = train(UpdateScheme())
    _, after = split_at_loss(training)
    assert sorted(type(n.op).__name__ for n in after) == ["BiasGradient", "Conv2DGradWeight"]
    head = find_head(residual_network())
    assert read_late(training) == {head.node.inputs[0]}
    assert not any(name.endswith(".mask") for name in training.graph.tensors)


def test_training_biases_keeps_masks_but_no_activation() -> None:
    training = train(UpdateScheme("bias", None))
    _, after = split_at_loss(training)
    weights = [n for n in after if isinstance(n.op, WEIGHT_GRADIENTS)]
    assert [n.inputs[3] for n in weights] == [find_head(residual_network()).node.inputs[0]]
    assert sum(isinstance(n.op, BiasGradient) for n in after) == LAYERS + 1
    kept = read_late(training) - {weights[0].inputs[3]}
    assert kept
    assert {training.graph.tensors[name].type.dtype for name in kept} == {"uint8"}


@pytest.mark.parametrize("accumulate", [1, 2])
def test_of_a_bias_of_16_bits_the_difference_is_kept_and_added_before_its_layer(
    accumulate: int,
) -> None:
    """The head's has 32; all else, down to the random numbers, is as with whole biases."""
    graph, depth = residual_network(), 3
    options = TrainOptions(accumulate=accumulate)
    whole = train(UpdateScheme("last", depth, {}, depth, bias_bits=32), options)
    parts = train(UpdateScheme("last", depth, {}, depth, bias_bits=16), options)
    head = find_head(graph)
    for layer in layers_of(graph, head)[-depth:]:
        state, b = f"{layer.bias}.difference", graph.tensors[layer.bias].data
        assert parts.state[state].dtype == np.int16
        assert not parts.state[state].any()
        np.testing.assert_array_equal(parts.graph.tensors[f"{layer.bias}.frozen"].data, b)
        assert layer.bias not in parts.state
        for nodes in (list(parts.graph.nodes), list(parts.forward.nodes)):
            (at,) = (i for i, n in enumerate(nodes) if layer.bias in n.outputs)
            assert nodes[at].inputs == (f"{layer.bias}.frozen", state)
            readers = [i for i, n in enumerate(nodes) if layer.bias in n.inputs]
            assert readers[0] == at + 1
            assert len(readers) == 1
    assert parts.state[head.bias].dtype == np.int32
    added = [n for n in parts.graph.nodes if isinstance(n.op, AddDifference)]
    assert len(added) == depth
    assert [salt(n) for n in parts.graph.nodes if n not in added] == [
        salt(n) for n in whole.graph.nodes
    ]


def salt(node: Node) -> object:
    """Of a node's rule or stage."""
    part = getattr(node.op, "rule", None) or getattr(node.op, "stage", None)
    return getattr(part, "salt", None)


def test_a_mask_is_saved_only_where_a_gradient_passes() -> None:
    """The last two biases: the clamps of the layers before them have no masks."""
    whole = train(UpdateScheme("bias", None)).graph.tensors
    part = train(UpdateScheme("bias", 2)).graph.tensors
    masks = [{n for n in tensors if n.endswith(".mask")} for tensors in (whole, part)]
    assert masks[1] < masks[0]


def test_nothing_before_the_first_trained_layer_gets_a_gradient() -> None:
    for depth in range(1, LAYERS + 1):
        training = train(UpdateScheme("last", depth, {}, depth))
        first = LAYERS - depth
        below = [n.name for n in residual_network().nodes if len(n.inputs) == 3][:first]
        inputs = [n for n in training.graph.nodes if isinstance(n.op, GradientOp)]
        assert not [n.name for n in inputs if n.name.split("/")[0] in below]


def test_a_partly_trained_layer_saves_and_updates_only_its_channels() -> None:
    training = train(UpdateScheme("shares", 0, {"2": 0.5}))
    (selected,) = (n for n in training.graph.nodes if isinstance(n.op, SelectChannels))
    assert len(selected.op.channels) == 3  # type: ignore[attr-defined]
    assert training.state["w2.trained"].shape == (5, 1, 1, 3)
    assert "conv_2d1" not in read_late(training)


def test_what_is_trained_of_a_weight_is_zero_in_its_frozen_part() -> None:
    """So nobody finds old numbers in the flash, and which ones are trained shows in it."""
    training = train(UpdateScheme("shares", 0, {"2": 0.5}))
    (selected,) = (n for n in training.graph.nodes if isinstance(n.op, SelectChannels))
    channels = list(selected.op.channels)  # type: ignore[attr-defined]
    whole = residual_network().tensors["w2"].data
    frozen = training.graph.tensors["w2"].data
    assert whole is not None
    assert frozen is not None
    others = [c for c in range(whole.shape[-1]) if c not in channels]
    assert not frozen[..., channels].any()
    np.testing.assert_array_equal(frozen[..., others], whole[..., others])
    np.testing.assert_array_equal(training.state["w2.trained"], whole[..., channels])


@pytest.mark.parametrize("accumulate", [1, 3])
def test_no_node_reads_a_parameter_after_its_update(accumulate: int) -> None:
    for depth in range(LAYERS + 1):
        for scheme in (
            UpdateScheme("last", depth, {}, depth),
            UpdateScheme("shares", depth, {str(i): 0.5 for i in range(depth)}),
            UpdateScheme("differences", depth, bias_bits=16),
            UpdateScheme("whole", depth, bias_bits=32),
        ):
            assert_old_values(train(scheme, TrainOptions(accumulate=accumulate)))


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(training=drawn(draw_training))
def test_no_node_reads_old_state_after_its_update_on_drawn_networks(training: TrainGraph) -> None:
    assert_old_values(training)
    scheduled = plan_training(training, align_bytes=8, search=False).training
    assert_old_values(scheduled)
    verify(scheduled.graph)


def assert_old_values(training: TrainGraph) -> None:
    """State is updated where it lies, so its old value must not be read after a node wrote it."""
    written: set[str] = set()
    for node in (*training.graph.nodes, *training.apply):
        assert not written.intersection(node.inputs), node.name
        for output, place in node.op.updates.items():
            assert training.updated[node.inputs[place]] == node.outputs[output]
            written.add(node.inputs[place])
    assert written == set(training.updated)


def test_every_use_of_a_tensor_contributes_to_its_gradient() -> None:
    """A residual connection's tensor is used twice: one node sums, as an addend or by itself."""
    training = train(UpdateScheme("full", None, {}, None))
    sums = [
        n
        for n in training.graph.nodes
        if (isinstance(n.op, GradientOp) and n.op.stage.addend_scale)
        or (isinstance(n.op, GradientSum) and len(n.op.weights) == 2)
    ]
    assert len(sums) == 1


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_all_state_is_used_and_every_salt_differs(dtype: str) -> None:
    training = train(UpdateScheme("full", None, {}, None), TrainOptions(dtype, 2))
    nodes = (*training.graph.nodes, *training.apply)
    read = {name for node in nodes for name in node.inputs}
    assert set(training.state) <= read
    assert set(training.updated) <= set(training.state)
    holders = [getattr(n.op, "stage", None) or getattr(n.op, "rule", None) or n.op for n in nodes]
    salts = [holder.salt for holder in holders if hasattr(holder, "salt")]
    sums = [n.op.sum_rule for n in nodes if isinstance(n.op, ParameterGradientOp)]
    salts += [of.salt for of in sums if dtype == "int16"]
    assert len(salts) == len(set(salts)) > LAYERS


def test_int16_sums_of_a_group_fit_int32_and_keep_all_the_bits_that_fit() -> None:
    """However large gradients and inputs are; the rate of the update knows what is left."""
    group = 64
    training, other = (
        train(UpdateScheme("full", None, {}, None), TrainOptions("int16", n)) for n in (group, 2)
    )
    rates = [{n.name: n.op.rule.rate[0] for n in t.apply} for t in (training, other)]
    seen = set()
    for node in training.graph.nodes:
        if isinstance(node.op, ParameterGradientOp):
            shape = training.graph.tensors[node.inputs[1]].type.shape
            factor = 1 if isinstance(node.op, BiasGradient) else 255
            largest = 32_767 * factor * math.prod(shape[:-1]) * group
            dropped = node.op.sum_rule.dropped_bits
            assert largest >> dropped < 2**31
            assert dropped == 0 or largest >> (dropped - 1) >= 2**31
            name = node.name.replace(".grad", ".apply")
            earlier = max(dropped - 5, 0)  # of a group of 2
            assert rates[0][name] == rates[1][name] * 2.0 ** (dropped - earlier)
            seen.add(dropped)
    assert 0 in seen
    assert len(seen) > 1


def test_equal_inputs_give_equal_graphs_and_dumps() -> None:
    first, second = (train(UpdateScheme("last", 4, {"1": 0.5}, 2)) for _ in range(2))
    assert dump(first.graph) == dump(second.graph)
    assert first.graph.nodes == second.graph.nodes
    assert list(first.state) == list(second.state)


def test_a_parameter_that_the_model_does_not_have_is_refused() -> None:
    graph = residual_network()
    with pytest.raises(SchemeError, match=r"no parameters named \['nothing'\]"):
        differentiate(graph, "node8", {"nothing": ParameterUpdate((1.0,))}, SoftmaxCrossEntropy)


def test_an_activation_cannot_be_trained() -> None:
    graph = residual_network()
    name = graph.nodes[0].outputs[0]
    with pytest.raises(SchemeError, match="not a parameter of the model, it is computed"):
        differentiate(graph, "node8", {name: ParameterUpdate((1.0,))}, SoftmaxCrossEntropy)


def test_a_head_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SchemeError, match="no node 'nowhere' to take the logits from"):
        differentiate(residual_network(), "nowhere", {}, SoftmaxCrossEntropy)


RESERVED = ("step", "label", "loss", "prediction", "loss.exponent", "loss/gradient")


@pytest.mark.parametrize("name", RESERVED)
def test_a_model_may_call_its_tensors_as_training_calls_its_own(name: str) -> None:
    graph = residual_network()
    for old in (graph.inputs[0], "w0", graph.nodes[2].outputs[0], graph.outputs[0]):
        training = training_graph(renamed(graph, old, name), UpdateScheme("bias", None))
        verify(training.graph)
        assert len({training.x, training.step, training.label, training.loss}) == 4
        assert training.graph.tensors[training.step].type.dtype == "step"


def renamed(graph: Graph, old: str, new: str) -> Graph:
    """The graph with another name for one tensor."""

    def names(of: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new if n == old else n for n in of)

    return replace(
        graph,
        tensors={
            (new if n == old else n): replace(t, name=new if n == old else n)
            for n, t in graph.tensors.items()
        },
        nodes=tuple(
            replace(n, inputs=names(n.inputs), outputs=names(n.outputs)) for n in graph.nodes
        ),
        inputs=names(graph.inputs),
        outputs=names(graph.outputs),
    )


def test_a_frozen_network_is_computed_as_the_model_says() -> None:
    """Training changes how nodes save masks, not what they compute."""
    graph = residual_network()
    training = train(UpdateScheme("full", None, {}, None))
    before, _ = split_at_loss(training)
    forward = {n.outputs[0] for n in graph.nodes}
    computed = {n.outputs[0] for n in before}
    assert forward - computed == set(graph.outputs) | {find_head(graph).node.outputs[0]}
    assert np.all(
        [graph.tensors[n].type == training.graph.tensors[n].type for n in computed & forward]
    )


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_weight_starts_as_far_from_the_next_integer_below_as_from_the_one_above(
    bits: int,
) -> None:
    """So that updates of both signs are equally likely to move it: training starts unbiased."""
    scheme = replace(UpdateScheme("full", None, {}, None), residual_bits=bits)
    training = train(replace(scheme, head_residual_bits=bits))
    rule = UpdateRule((1.0,), bits, 0)
    weights = [n for n in training.parameters if f"{n}.residual" in training.state]
    assert len(weights) == LAYERS + 1
    for name in weights:
        w = np.clip(training.state[name].ravel(), -126, 126)
        residual = unpack_residual(training.state[f"{name}.residual"], bits, w.size)

        def moved(delta: int, w=w, residual=residual) -> set[int]:
            return set((rule.apply(w, residual, np.int64(delta))[0] - w).tolist())

        half = 1 << (bits - 1)
        assert moved(0) == moved(half - 1) == moved(-(half - 1)) == {0}
        assert (moved(half + 1), moved(-half)) == ({-1}, {1})

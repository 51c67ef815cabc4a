"""Integer gradients against the float model, which knows none of the gradient rules."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from mcutrain.autodiff import TrainOptions, differentiate
from mcutrain.data import IGNORED
from mcutrain.ir.graph import Graph
from mcutrain.ops.pooling import AveragePool2D, MaxPool2D
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.ops.spatial import Window
from mcutrain.sparse import find_head
from tests.autodiff.float_model import QUANTIZED
from tests.autodiff.measure import (
    cosine,
    float_derivatives,
    integer_derivatives,
    raw_training,
    size_ratio,
)
from tests.simulation.networks import (
    Network,
    raw_updates,
    residual_network,
    same,
    samples,
    transformer_network,
)

LEAST_COSINE = {"int16": 0.999, "int8": 0.99}
"""int16 keeps 15 bits of the largest element; int8 keeps 7, and
stochastic rounding adds up to one step of noise to every element, layer by layer."""
SIZE_TOLERANCE = 0.05
"""Of a gradient's norm. Seen are 0.004 for weights and 0.025 for biases, whose terms cancel; a
wrong exponent would be off by a factor of two."""
LEAST_QUIET_COSINE = 0.995
"""Of the mean of so many updates, each of which rounds a step up or down."""
QUIET_UPDATES = 100
CLASSES = 3

Middle = Callable[[Network, str], str]


def through(middle: Middle) -> Graph:
    """A convolution, what is tested, another convolution, a head that sees every pixel."""
    net = Network((5, 6, 2), seed=3)
    y = middle(net, net.conv(net.x, 4, same(3)))
    QUANTIZED.update(net.activations)
    y = net.conv(y, 3)
    flat = net.reshape(y, (1, 1, 1, math.prod(net.type(y).shape)))
    return net.graph(net.conv(flat, CLASSES))


MIDDLES: dict[str, Middle] = {
    "conv_2d": lambda net, x: net.conv(x, 5, Window((3, 2), (2, 1), (1, 2), (1, 0, 2, 1))),
    "conv_2d_relu": lambda net, x: net.conv(x, 5, same(3), relu=True),
    "conv_2d_rounds_once": lambda net, x: net.conv(x, 5, rounds_once=True),
    "grouped_conv_2d": lambda net, x: net.grouped(x, 2, 6, same(3), relu=True),
    "grouped_conv_2d_strided": lambda net, x: net.grouped(x, 4, 4, same(3, 2)),
    "depthwise_conv_2d": lambda net, x: net.depthwise(x, same(3), relu=True),
    "depthwise_conv_2d_multiplier": lambda net, x: net.depthwise(x, same(3, 2), 2),
    "rescale": lambda net, x: net.relu(x),
    "reshape": lambda net, x: net.reshape(x, (1, 6, 5, 4)),
    "pad": lambda net, x: net.pad(x, (1, 0, 2, 1)),
    "pad_of_channels": lambda net, x: net.pad(x, (0, 1, 0, 0), (2, 1)),
    "average_pool_2d": lambda net, x: net.pool(x, AveragePool2D, same(3, 2)),
    "scaled_average_pool_2d": lambda net, x: net.scaled_pool(x, same(3, 2)),
    "max_pool_2d": lambda net, x: net.pool(x, MaxPool2D, same(3, 2)),
    "mean": lambda net, x: net.mean(x),
    "resize_doubled": lambda net, x: net.doubled(x),
    "resize_nearest": lambda net, x: net.doubled(x, bilinear=False),
    "resize_smaller": lambda net, x: net.resize(x, (0, 341, 2047, 4096), (100, 1024, 5120)),
    "resize_much_larger": lambda net, x: net.resize(
        x, tuple(range(0, 4097, 101)), tuple(range(1, 5121, 67))
    ),
    "add_of_branches": lambda net, x: net.add(net.conv(x, 4, same(3)), net.relu(x)),
    "add_of_itself": lambda net, x: net.add(x, x),
    "difference": lambda net, x: net.add(x, net.conv(x, 4, same(3)), -1),
    "hard_swish": lambda net, x: net.activation(x, "hard_swish"),
    "logistic": lambda net, x: net.activation(x, "logistic"),
    "tanh": lambda net, x: net.activation(x, "tanh"),
    "elu": lambda net, x: net.activation(x, "elu"),
    "gelu": lambda net, x: net.activation(x, "gelu"),
    "div": lambda net, x: net.div(x, net.conv(x, 4, same(3))),
    "mul": lambda net, x: net.mul(x, net.conv(x, 4, same(3))),
    "mul_by_itself": lambda net, x: net.mul(x, x),
    "mul_per_channel": lambda net, x: net.mul(x, net.conv(net.mean(x), 4)),
    "mish": lambda net, x: net.activation(x, "mish"),
    "selu": lambda net, x: net.activation(x, "selu"),
    "softplus": lambda net, x: net.activation(x, "softplus"),
    "mul_per_position": lambda net, x: net.mul(
        x,
        net.reshape(
            net.resize(
                net.reshape(net.conv(x, 1), (1, 30, 1, 1)),
                tuple(range(0, 30 * 1024, 1024)),
                (0,) * 4,
            ),
            (1, 5, 6, 4),
        ),
    ),
    "batch_matmul": lambda net, x: net.batch_matmul(x, net.transpose(net.conv(x, 4), 0, 1, 3, 2)),
    "batch_matmul_transposed": lambda net, x: net.batch_matmul(
        net.conv(x, 5), net.conv(x, 4), transposed_a=True
    ),
    "batch_matmul_of_itself": lambda net, x: net.batch_matmul(x, x, transposed_b=True),
    "softmax": lambda net, x: net.softmax(net.conv(x, 6)),
    "softmax_of_columns": lambda net, x: net.softmax(net.transpose(x, 0, 3, 1, 2)),
    "attention": lambda net, x: net.attention(x),
    "squeeze_and_excitation": lambda net, x: net.squeeze_and_excitation(x),
    "layer_norm": lambda net, x: net.layer_norm(x),
    "layer_norm_of_many": lambda net, x: net.layer_norm(net.conv(x, 67), eps=1e-5),
    "layer_norm_without_epsilon": lambda net, x: net.layer_norm(net.conv(x, 7), eps=0.0),
    "rms_norm": lambda net, x: net.layer_norm(x, is_centred=False),
    "squared_difference": lambda net, x: net.squared_difference(net.conv(x, 8), net.conv(x, 8)),
    "layer_norm_of_two": lambda net, x: net.layer_norm(net.conv(x, 2)),
    "add_per_channel": lambda net, x: net.add(x, net.conv(net.mean(x), 4)),
    "difference_per_channel": lambda net, x: net.add(x, net.conv(net.mean(x), 4), -1),
    "concatenation_of_channels": lambda net, x: net.concatenation(
        net.conv(x, 3, relu=True), x, net.conv(x, 2)
    ),
    "concatenation_of_rows": lambda net, x: net.concatenation(net.relu(x), x, axis=1),
    "slice": lambda net, x: net.slice(x, range(1, 4), range(6), range(0, 4, 3)),
    "slice_of_every_second": lambda net, x: net.slice(x, range(0, 5, 2), range(1, 6, 2), range(4)),
    "split": lambda net, x: net.concatenation(
        net.slice(x, range(5), range(6), range(2, 4)),
        net.relu(net.slice(x, range(5), range(6), range(2))),
    ),
    "transpose": lambda net, x: net.transpose(net.conv(x, 4, relu=True), 0, 3, 1, 2),
    "three_consumers": lambda net, x: net.add(
        net.add(net.conv(x, 4), x), net.depthwise(x, same(3))
    ),
}


@lru_cache(maxsize=4)
def network_and_derivatives(name: str) -> tuple[Graph, dict[str, np.ndarray]]:
    """Of a middle: gradients of both widths are compared with the same."""
    graph = through(MIDDLES[name])
    x, labels = samples(graph, 1, CLASSES)
    return graph, float_derivatives(graph, x, int(labels[0]))


def assert_close(
    graph: Graph, dtype: str, seed: int = 0, expected: dict[str, np.ndarray] | None = None
) -> None:
    x, labels = samples(graph, 1, CLASSES, seed)
    expected = expected or float_derivatives(graph, x, int(labels[0]))
    found = integer_derivatives(raw_training(graph, dtype), x, int(labels[0]))
    assert found.keys() == expected.keys()
    for name, value in found.items():
        angle = cosine(value, expected[name])
        assert angle > LEAST_COSINE[dtype], f"{name}: cosine {angle:.5f}"
        ratio = size_ratio(value, expected[name])
        assert abs(ratio - 1) < SIZE_TOLERANCE, f"{name}: size {ratio:.4f} times"


@pytest.mark.slow
@pytest.mark.draws(40)
@pytest.mark.parametrize("dtype", ["int16", "int8"])
@pytest.mark.parametrize("name", MIDDLES)
def test_gradients_through_an_operator_agree_with_the_float_model(name: str, dtype: str) -> None:
    graph, expected = network_and_derivatives(name)
    assert_close(graph, dtype, expected=expected)


@pytest.mark.parametrize("dtype", ["int16", "int8"])
def test_gradients_of_a_head_over_positions_agree_with_the_float_model(dtype: str) -> None:
    net = Network((5, 6, 2), seed=3)
    graph = net.graph(net.conv(net.conv(net.x, 4, same(3), relu=True), CLASSES))
    x, _ = samples(graph, 1, CLASSES)
    labels = np.random.default_rng(1).integers(0, CLASSES, (5, 6)).astype(np.uint8)
    labels[0] = IGNORED
    expected = float_derivatives(graph, x, labels)
    for name, value in integer_derivatives(raw_training(graph, dtype), x, labels).items():
        assert cosine(value, expected[name]) > LEAST_COSINE[dtype], name
        assert abs(size_ratio(value, expected[name]) - 1) < SIZE_TOLERANCE, name


@pytest.mark.parametrize("dtype", ["int16", "int8"])
@pytest.mark.parametrize("relu", [True, False])
def test_gradients_of_a_head_that_is_averaged_agree_with_the_float_model(
    relu: bool, dtype: str
) -> None:
    """Some positions are at the ReLU's 0 and pass nothing."""
    net = Network((5, 6, 2), seed=3)
    y = net.conv(net.conv(net.x, 4, same(3), relu=True), CLASSES, relu=relu)
    assert_close(net.graph(net.reshape(net.mean(y), (1, CLASSES))), dtype)


def test_columns_of_a_grouped_layer_get_the_gradients_of_the_whole() -> None:
    """A column is the same channel of each group."""
    graph = through(lambda net, x: net.grouped(net.conv(x, 6), 2, 4, same(3)))
    (name,) = (n.inputs[1] for n in graph.nodes if type(n.op).__name__ == "GroupedConv2D")
    x, labels = samples(graph, 1, CLASSES)
    updates = raw_updates(graph)
    updates[name] = replace(updates[name], channels=(0, 2))
    options = TrainOptions("int16", accumulate=2)
    head = find_head(graph).name
    training = differentiate(graph, head, updates, SoftmaxCrossEntropy, options)
    found = integer_derivatives(training, x, int(labels[0]))[f"{name}.trained"]
    expected = float_derivatives(graph, x, int(labels[0]))[name][..., [0, 2]]
    assert cosine(found, expected) > LEAST_COSINE["int16"]
    assert abs(size_ratio(found, expected) - 1) < SIZE_TOLERANCE


@pytest.mark.parametrize("dtype", ["int16", "int8"])
def test_gradients_of_a_residual_network_agree_with_the_float_model(dtype: str) -> None:
    assert_close(residual_network(classes=CLASSES), dtype, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int16", "int8"])
def test_gradients_of_a_transformer_agree_with_the_float_model(dtype: str) -> None:
    """Through two blocks, to the patches: every weight and bias."""
    graph = transformer_network(classes=CLASSES, activations=QUANTIZED)
    x, labels = samples(graph, 1, CLASSES, 1)
    expected = float_derivatives(graph, x, int(labels[0]))
    found = integer_derivatives(raw_training(graph, dtype), x, int(labels[0]))
    assert found.keys() <= expected.keys()
    angles = {name: cosine(value, expected[name]) for name, value in found.items()}
    assert len(angles) == 2 * (1 + 2 * 6 + 1) + 2 * 5  # and of normalizations
    assert min(angles.values()) > {"int16": 0.99, "int8": 0.97}[dtype], angles


def with_a_loud_token(quieter: float) -> Graph:
    """A class token and patches in one tensor, of which the head hardly sees the patches.

    The gradient of the patches is less than `quieter` times the token's, under one exponent.
    """
    net = Network((6, 6, 3), 11)
    patches = net.reshape(net.conv(net.x, 8, Window((2, 2), (2, 2))), (1, 1, 9, 8))
    token = net.conv(net.constant((1, 1, 1, 8), net.type(patches)), 8)
    y = net.concatenation(token, patches, axis=2)
    loud = net.slice(y, range(1), range(1), range(8))
    quiet = net.mean(net.slice(y, range(1), range(1, 10), range(8)))
    return net.graph(net.conv(net.add(loud, net.shrunk(quiet, quieter)), CLASSES))


@pytest.mark.slow
@pytest.mark.parametrize("quieter", [2.0**-6, 2.0**-9, 2.0**-12])
def test_int16_gradients_of_patches_survive_beside_a_class_token(quieter: float) -> None:
    """At the last one theirs are about one step of the exponent that the token needs."""
    graph = with_a_loud_token(quieter)
    x, labels = samples(graph, 1, CLASSES)
    expected = float_derivatives(graph, x, int(labels[0]))
    training = raw_training(graph, "int16")
    found = integer_derivatives(training, x, int(labels[0]), QUIET_UPDATES)
    for name in found:
        assert cosine(found[name], expected[name]) > LEAST_QUIET_COSINE, name
        assert abs(size_ratio(found[name], expected[name]) - 1) < SIZE_TOLERANCE, name


@pytest.mark.parametrize("branch", [0, 1])
def test_a_dropped_contribution_of_a_residual_connection_would_be_noticed(branch: int) -> None:
    """The comparison above is sharp enough: without either path the float model disagrees."""
    graph = through(MIDDLES["add_of_branches"])
    x, labels = samples(graph, 1, CLASSES)
    found = integer_derivatives(raw_training(graph, "int16"), x, int(labels[0]))
    add = next(n for n in graph.nodes if len(n.inputs) == 2)
    dropped = float_derivatives(graph, x, int(labels[0]), ((add.name, branch),))
    assert cosine(found["w0"], dropped["w0"]) < LEAST_COSINE["int8"] - 0.05


def test_fusing_changes_no_gradient_beyond_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = residual_network(classes=CLASSES)
    x, labels = samples(graph, 1, CLASSES)
    fused = raw_training(graph, "int16")
    module = importlib.import_module("mcutrain.autodiff.differentiate")
    for name in ("fuse_rescales", "fuse_sums"):
        monkeypatch.setattr(module, name, lambda training: training)
    plain = raw_training(graph, "int16")
    assert len(plain.graph.nodes) > len(fused.graph.nodes)
    expected = integer_derivatives(plain, x, int(labels[0]))
    for name, value in integer_derivatives(fused, x, int(labels[0])).items():
        assert cosine(value, expected[name]) > LEAST_COSINE["int16"]
        assert abs(size_ratio(value, expected[name]) - 1) < SIZE_TOLERANCE

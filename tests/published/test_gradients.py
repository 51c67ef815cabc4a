"""Integer gradients of mcunet-5fps against float ones made by another program (shared/golden)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mcutrain import formats
from mcutrain.autodiff import TrainGraph, TrainOptions, differentiate
from mcutrain.ir.graph import Graph, Tensor
from mcutrain.memplan import plan_training
from mcutrain.ops.gradients import ACC_DROPPED_BITS
from mcutrain.ops.softmax_cross_entropy import SoftmaxCrossEntropy
from mcutrain.ops.training import ApplyUpdate
from mcutrain.quant import replace_head
from mcutrain.simulation import CompiledSimulator
from mcutrain.simulation.rates import LearningRate
from mcutrain.sparse import find_head, layers_of, parse_scheme, resolve

Array = npt.NDArray[Any]

pytestmark = [pytest.mark.shared]

LAYERS = range(18, 42)
SETTLING_STEPS = 81  # an exponent a step and layer, then some; odd, so that sums hold one sample
# The float reference has a float head; ours is int8, and each stochastic rounding adds noise.
LEAST_COSINE = {"int8": 0.97, "int16": 0.99}
LEAST_MEAN_COSINE = {"int8": 0.995, "int16": 0.999}
NORM_TOLERANCE = 0.05  # of the mean over DRAWS: one draw's rounding alone moves a norm by as much
DRAWS = 8


@pytest.fixture(scope="module")
def golden(shared: Path) -> dict[str, Array]:
    with np.load(shared / "golden/mcunet-5fps_grads.npz") as file:
        return {name: file[name] for name in file}


@pytest.fixture(scope="module")
def network(shared: Path, golden: dict[str, Array]) -> Graph:
    """mcunet-5fps with the reference's float head, quantized per class."""
    graph = formats.load(shared / "models/mcunet-5fps.int8.tflite")
    graph = replace_head(graph, find_head(graph).node, 10)
    head = find_head(graph)
    scale = np.abs(golden["head_weight"]).max(axis=1) / 127
    sum_scale = scale * graph.tensors[head.node.inputs[0]].type.scale
    w = np.rint(golden["head_weight"] / scale[:, None]).astype(np.int8).reshape(10, 1, 1, -1)
    b = np.rint(golden["head_bias"] / sum_scale).astype(np.int32)
    tensors = dict(graph.tensors)
    for name, scales, value in ((head.weight, scale, w), (head.bias, sum_scale, b)):
        quantized = replace(tensors[name].type, scales=tuple(scales.tolist()), axis=0)
        tensors[name] = Tensor(name, quantized, value)
    return replace(graph, tensors=tensors)


@pytest.fixture(scope="module", params=["int8", "int16"])
def simulated(request: pytest.FixtureRequest, network: Graph) -> tuple[str, CompiledSimulator]:
    """Two samples an update, so that gradients stay readable as sums; the rate is 0."""
    layers = ",".join(f"{i}:1" for i in LAYERS)
    updates = resolve(parse_scheme(f"bias:{len(LAYERS)},{layers}"), network)
    options = TrainOptions(request.param, accumulate=2)
    head = find_head(network).name
    training = differentiate(network, head, updates, SoftmaxCrossEntropy, options)
    return request.param, CompiledSimulator(plan_training(training, 8), "golden", seed=3)


def derivative(training: TrainGraph, state: dict[str, Array], name: str, scales: Array) -> Array:
    """The sum in the state as a real derivative by the stored integer."""
    node = next(n for n in training.apply if n.name == f"{name}.apply")
    assert isinstance(node.op, ApplyUpdate)
    mult, shift = node.op.rule.multipliers()
    rate = mult * 2.0 ** (shift - 31.0) * 2.0**-node.op.rule.residual_bits
    factor = rate * scales**2  # the rate holds quantization-aware scaling, which is scale**-2
    total = state[f"{name}.sum"].astype(float)
    if node.op.rate_axis == 0:
        factor = factor.reshape(-1, *[1] * (total.ndim - 1))
    exponent = next(k for k, new in training.updated.items() if new == node.inputs[2])
    power = int(state[exponent][0]) + ACC_DROPPED_BITS[node.op.dtype]
    result: Array = total * factor * 2.0**power
    return result


@pytest.mark.slow
@pytest.mark.parametrize("image", [0, 1])
def test_gradients_equal_the_float_reference_in_direction_and_length(
    image: int,
    simulated: tuple[str, CompiledSimulator],
    network: Graph,
    golden: dict[str, Array],
) -> None:
    dtype, simulator = simulated
    simulator.reset(3 + image)
    x = (golden["images"][image].astype(np.int16) - 128).astype(np.int8)
    label = int(golden["labels"][image])
    train(simulator, x, label, SETTLING_STEPS)
    draws = []
    for _ in range(DRAWS):
        draws.append(compare(simulator, network, golden, image))
        train(simulator, x, label, 2)
    cosines = np.array([[cosine for cosine, _ in draw] for draw in draws])
    norms = np.mean([[norm for _, norm in draw] for draw in draws], axis=0)
    print(f"{dtype}: cosine least {cosines.min():.4f} mean {cosines.mean():.4f}", end=" ")
    print(f"norm ratio {norms.min():.3f} to {norms.max():.3f}")
    assert cosines.min() >= LEAST_COSINE[dtype]
    assert cosines.mean() >= LEAST_MEAN_COSINE[dtype]
    assert np.abs(norms - 1).max() <= NORM_TOLERANCE


def train(simulator: CompiledSimulator, x: Array, label: int, steps: int) -> None:
    rates = [LearningRate.of(0.0)] * steps
    simulator.train(np.repeat(x[None], steps, axis=0), [label] * steps, rates)


def compare(
    simulator: CompiledSimulator, network: Graph, golden: dict[str, Array], image: int
) -> list[tuple[float, float]]:
    """Cosine and ratio of norms for every weight and bias gradient of LAYERS."""
    state = simulator.state
    layers = layers_of(network, find_head(network))
    found = []
    for i in LAYERS:
        for name, key in ((layers[i].weight, "weight_grad"), (layers[i].bias, "bias_grad")):
            scales = np.array(network.tensors[name].type.scales)
            ours = derivative(simulator.plan.training, state, name, scales)
            reference = golden[f"{image}/conv{i:02d}/{key}"].astype(float)
            if key == "weight_grad":  # [out, in, h, w] to ours
                axes = (1, 2, 3, 0) if ours.shape[0] == 1 else (0, 2, 3, 1)
                reference = reference.transpose(axes)
            lengths = np.linalg.norm(ours), np.linalg.norm(reference)
            dot = float((ours * reference.reshape(ours.shape)).sum())
            found.append((dot / float(np.prod(lengths)), float(lengths[0] / lengths[1])))
    return found

"""The demo's network before its trained layers, and a ladder without any fitting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain import demo, pipeline
from mcutrain.ir.graph import Graph, Node, Tensor, TensorType
from mcutrain.memplan import Ladder, Latent, find_latent, front
from mcutrain.ops.conv_2d import Conv2D, Requantize
from mcutrain.ops.pooling import AveragePool2D
from mcutrain.ops.reshape import Reshape
from mcutrain.ops.spatial import Window
from mcutrain.pipeline import TrainingStep
from mcutrain.proxies import inner_channels, keep_channels

SCHEME = "fashion-sparse"
BRIGHTNESS, SPREAD = -56, 20
"""Of the demo's images: about what the mean is in the middle, and how far they are from it."""


def step() -> TrainingStep:
    """Of the demo."""
    return pipeline.prepare(demo.network(), SCHEME)


def front_of(planned: TrainingStep) -> tuple[Graph, Latent]:
    """The network's own front."""
    latent = find_latent(planned.plan)
    return front(planned.plan.training, latent), latent


def first_channels(whole: Graph, share: float) -> Graph:
    """A front that keeps the first channels of each group."""
    groups = inner_channels(whole)
    return keep_channels(
        whole, [(group, np.arange(max(1, int(group.channels * share)))) for group in groups]
    )


def drawn_policy(whole: Graph, levels: int, seed: int = 0) -> Graph:
    """A policy of random weights on the whole image's mean."""
    (x,) = whole.inputs
    kind = whole.tensors[x].type
    height, width, channels = kind.shape[1:]
    w = np.random.default_rng(seed).integers(-127, 128, (levels, 1, 1, channels)).astype(np.int8)
    pooled = TensorType((1, 1, 1, channels), "int8", kind.scales, kind.zero_point)
    tensors = {
        x: whole.tensors[x],
        "mean": Tensor("mean", pooled),
        "policy.weight": Tensor("policy.weight", TensorType(w.shape, "int8", (0.0078125,)), w),
        "policy.bias": Tensor(
            "policy.bias",
            TensorType((levels,), "int32", (kind.scale * 0.0078125,)),
            np.zeros(levels, np.int32),
        ),
        "scores": Tensor("scores", TensorType((1, 1, 1, levels), "int8", (kind.scale,))),
        "policy": Tensor("policy", TensorType((1, levels), "int8", (kind.scale,))),
    }
    dense = Conv2D(Window((1, 1)), kind.zero_point, Requantize((2**30,), (-6,), 0))
    nodes = (
        Node("mean", AveragePool2D(Window((height, width), (height, width))), (x,), ("mean",)),
        Node("scores", dense, ("mean", "policy.weight", "policy.bias"), ("scores",)),
        Node("policy", Reshape((1, levels)), ("scores",), ("policy",)),
    )
    return Graph("policy", tensors, nodes, (x,), ("policy",))


def policy_of_brightness(whole: Graph, levels: int) -> Graph:
    """The brighter an image is, the higher its level: for tests that want all of them taken.

    Scores a_k m + b_k of the mean m, as those of tangents to a parabola.
    """
    drawn = drawn_policy(whole, levels)
    (x,) = whole.inputs
    middle = BRIGHTNESS - whole.tensors[x].type.zero_point
    places = np.arange(levels) - (levels - 1) // 2
    slopes = 40 * places
    weights = np.zeros(drawn.tensors["policy.weight"].type.shape, np.int8)
    weights[:] = slopes.reshape(-1, 1, 1, 1)
    channels = weights.shape[-1]
    biases = (-slopes * (middle + SPREAD * places) * channels).astype(np.int32)
    data = {"policy.weight": weights, "policy.bias": biases}
    tensors = {
        name: replace(tensor, data=data[name]) if name in data else tensor
        for name, tensor in drawn.tensors.items()
    }
    return replace(drawn, tensors=tensors)


def ladder(whole: Graph, shares: tuple[float, ...] = (0.75, 0.5)) -> Ladder:
    """Fronts of such shares."""
    proxies = tuple(first_channels(whole, share) for share in shares)
    return Ladder(whole.outputs[0], proxies, drawn_policy(whole, 1 + len(shares)))

"""Small ladders of random fronts, for networks of tests/simulation/networks.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcutrain.autodiff import Levels, TrainGraph
from mcutrain.ir.graph import Graph, TensorType
from mcutrain.memplan import (
    Ladder,
    Stream,
    TrainingPlan,
    find_latent,
    front,
    lay_out,
    plan_with_ladder,
)
from mcutrain.ops.resize import ONE
from tests.simulation.networks import Network, same


def ladder_of(training: TrainGraph, levels: int = 3, seed: int = 0, latent: str = "auto") -> Ladder:
    """The first proxy is the whole front with other weights, the others are two convolutions."""
    whole = lay_out(training, 8, "off")
    found = find_latent(whole, latent)
    shape = training.input_type.shape[1:]
    proxies = [with_other_weights(front(whole.training, found), seed)]
    proxies += [narrow_front(shape, found.type, seed + i) for i in range(2, levels)]
    return Ladder(found.tensor, tuple(proxies), policy_of(shape, levels, seed + 90))


def with_ladder(
    training: TrainGraph,
    ladder: Ladder | None = None,
    stream: Stream = "auto",
    drifts: bool = False,
) -> TrainingPlan:
    ladder = ladder or ladder_of(training)
    counting = replace(training, levels=Levels(ladder.levels, ladder.digest, drifts))
    return plan_with_ladder(counting, ladder, align_bytes=8, stream=stream)


def with_other_weights(graph: Graph, seed: int) -> Graph:
    """The weights of each layer in another order."""
    rng = np.random.default_rng(seed)
    tensors = {
        name: tensor
        if tensor.data is None or tensor.type.dtype != "int8"
        else replace(tensor, data=rng.permutation(tensor.data.ravel()).reshape(tensor.data.shape))
        for name, tensor in graph.tensors.items()
    }
    return replace(graph, tensors=tensors)


def narrow_front(shape: tuple[int, ...], latent: TensorType, seed: int) -> Graph:
    """Few channels, pixels that are picked, and the latent's scale at the end."""
    net = Network((shape[0], shape[1], shape[2]), seed)
    y = net.conv(net.x, 2, same(3, 2), relu=True)
    height, width, channels = (
        latent.shape[1:] if len(latent.shape) == 4 else (1, 1, latent.shape[1])
    )
    y = net.resize(y, *(_picked(net.type(y).shape[i], n) for i, n in ((1, height), (2, width))))
    y = net.rescaled(net.conv(y, channels), latent)
    return net.graph(net.reshape(y, latent.shape))


def _picked(of: int, count: int) -> tuple[int, ...]:
    return tuple(ONE * (i * of // count) for i in range(count))


def policy_of(shape: tuple[int, ...], levels: int, seed: int) -> Graph:
    """It looks at a corner, where random samples differ more than in their mean."""
    net = Network((shape[0], shape[1], shape[2]), seed)
    y = net.slice(net.conv(net.x, 4, same(3, 2)), range(2), range(2), range(4))
    y = net.conv(net.reshape(y, (1, 1, 1, 16)), levels, rounds_once=True)
    return net.graph(net.reshape(y, (1, levels)), "policy")

"""Networks small enough to plan every scheme of, and made-up analyses of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import product

import numpy as np

from mcutrain.cost.schemes import cost_model
from mcutrain.ir.graph import Graph
from mcutrain.ops.pooling import MaxPool2D
from mcutrain.ops.spatial import Window
from mcutrain.selection.contribution import SHARES, Contributions, Gains, digest
from mcutrain.selection.cost import CostModel, Needs
from mcutrain.selection.units import Shares
from mcutrain.sparse import UpdateScheme, find_head, layers_of
from mcutrain.sparse.scheme import USUAL_BIAS_BITS, USUAL_BITS
from mcutrain.target import load_target
from tests.simulation.networks import Network, same

BOARD = "nucleo-f446re"


def chain(seed: int) -> Graph:
    """Three layers in a row."""
    net = Network((8, 8, 3), seed)
    y = net.conv(net.x, 6, same(3, 2), relu=True)
    y = net.depthwise(y, same(3), relu=True)
    return net.graph(net.conv(net.mean(net.conv(y, 9)), 4))


def wide_head(seed: int) -> Graph:
    """Most memory is where the head reads."""
    net = Network((4, 4, 2), seed)
    y = net.conv(net.x, 5, same(3), relu=True)
    y = net.conv(y, 24, relu=True)
    y = net.reshape(y, (1, 1, 1, 16 * 24))
    return net.graph(net.conv(y, 3))


def residual(seed: int) -> Graph:
    """Two residual blocks, whose sums overwrite what they add."""
    net = Network((6, 6, 4), seed)
    y = net.conv(net.x, 4, relu=True)
    y = net.add(net.conv(y, 4), y)
    y = net.add(y, net.conv(y, 4, same(3)))
    return net.graph(net.conv(net.mean(y), 3))


def shortcut(seed: int) -> Graph:
    """Two convolutions read one tensor, as where a residual network gets narrower."""
    net = Network((8, 8, 2), seed)
    x = net.conv(net.x, 6, relu=True)
    y = net.conv(x, 8, same(3, 2), relu=True)
    y = net.add(y, net.conv(x, 8, Window((1, 1), (2, 2))))
    return net.graph(net.conv(net.mean(y), 3))


def three_branches(seed: int) -> Graph:
    """Three layers read one tensor, and a pool that keeps it, too."""
    net = Network((6, 6, 3), seed)
    x = net.conv(net.x, 5, relu=True)
    a = net.conv(x, 4)
    b = net.add(a, net.conv(x, 4, same(3)))
    c = net.conv(net.pool(x, MaxPool2D, same(3)), 4)
    return net.graph(net.conv(net.mean(net.add(b, c)), 3))


def inverted(seed: int) -> Graph:
    """An inverted residual block, of MobileNetV2."""
    net = Network((6, 6, 4), seed)
    y = net.conv(net.x, 12, relu=True)
    y = net.depthwise(y, same(3), relu=True)
    y = net.add(net.conv(y, 4), net.x)
    return net.graph(net.conv(net.mean(y), 4))


KINDS: Mapping[str, Callable[[int], Graph]] = {
    f.__name__: f for f in (chain, wide_head, residual, shortcut, three_branches, inverted)
}


@lru_cache(maxsize=32)
def graph_of(kind: str, seed: int) -> Graph:
    return KINDS[kind](seed)


@lru_cache(maxsize=32)
def cached_device(kind: str, seed: int, on_board: bool) -> CostModel:
    """Costs and plans of a network, each made once."""
    target = load_target(BOARD) if on_board else None
    return cost_model(graph_of(kind, seed), target)


def contributions(
    graph: Graph,
    rng: np.random.Generator,
    shares: tuple[float, ...] = SHARES,
    factors: Mapping[int, float] | None = None,
    digits: int = 6,
) -> Contributions:
    """An analysis as it might be: noisy, sometimes negative. digits: few of them make ties."""
    layers = layers_of(graph, find_head(graph))
    count = len(layers)
    bias = np.cumsum(rng.normal(0.02, 0.02, count)).round(digits).tolist()
    weights = {
        i: {s: round(float(rng.normal(0.05, 0.04) * s**0.5), digits) for s in shares}
        for i in range(count)
    }
    return Contributions(
        model=graph.name,
        model_digest=digest(graph),
        classes=3,
        method="made up",
        layers=tuple(layer.name for layer in layers),
        head={"accuracy": 0.5},
        gains={"accuracy": Gains((0.0, *bias), weights)},
        residual_factor=factors or {USUAL_BITS: 1.0},
    )


def all_schemes(found: Contributions, shares: tuple[float, ...]) -> list[tuple[int, Shares, int]]:
    """Every bias depth, share of the layers within it, and residual bits."""
    count = len(found.layers)
    schemes = []
    for depth, bits in product(range(count + 1), found.residual_factor):
        layers = range(count - depth, count)
        for chosen in product((0.0, *shares), repeat=depth):
            pairs = zip(layers, chosen, strict=True)
            schemes.append((depth, tuple((i, s) for i, s in pairs if s), bits))
    return schemes


def gain_of(found: Contributions, depth: int, shares: Shares, bits: int) -> float:
    gains = found.gain()
    factor = found.residual_factor[bits]
    return gains.bias[depth] + factor * sum(gains.weights[i][s] for i, s in shares)


def scheme_of(
    depth: int, shares: Shares, bits: int, bias_bits: int = USUAL_BIAS_BITS
) -> UpdateScheme:
    """Of layers; as selection writes it."""
    weights = {str(i): share for i, share in shares}
    return UpdateScheme("selected", depth, weights, residual_bits=bits, bias_bits=bias_bits)


def measured(
    costs: CostModel, depth: int, shares: Shares, bits: int, bias_bits: int = USUAL_BIAS_BITS
) -> Needs:
    return costs.plan(scheme_of(depth, shares, bits, bias_bits))

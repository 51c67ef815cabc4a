"""Which channels a network needs least: those that the others can stand in for.

Optimal brain surgeon (Hassibi, Stork 1993) for whole channels: the one goes without which the
convolution that sums over them, its other weights fitted anew, errs least, and again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph, Node
from mcutrain.ops.conv_2d import Conv2D
from mcutrain.proxies.inner import Inner, keep_channels
from mcutrain.proxies.layer_values import Positions, Values, weights_of

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]
RIDGE = 1e-4
"""Share of an input's mean variance: channels that never vary then do no harm."""
BLOCK = 4
"""Channels that go together: kernels with SIMD compute four at once."""


@dataclass(frozen=True)
class Ranking:
    """The channels of a group from the one that is needed least.

    errors: of each, the squared error that its going adds, as a share of the variance of what is
    computed of them all. cost: of a channel, in any unit.
    """

    inner: Inner
    order: tuple[int, ...]
    errors: tuple[float, ...]
    cost: float

    def without(self, count: int) -> Array:
        """The places of those that stay if so many go, ascending."""
        return np.sort(np.array(self.order[count:], np.int64))


def rank(
    graph: Graph,
    groups: Sequence[Inner],
    x: Array,
    cost: Callable[[Graph], float],
    report: Report = lambda *_: None,
) -> tuple[Ranking, ...]:
    """Rank each group by what unlabelled samples, int8 [n, …], make of it. cost: of a network."""
    readers = {_main_reader(graph, inner): inner for inner in groups}
    values, found, whole = Values(graph, x), [], cost(graph)
    for done, node in enumerate(graph.nodes):
        if node.name in readers:
            inner = readers[node.name]
            order, errors = _order(graph, node, values, inner.channels)
            gone = min(BLOCK, inner.channels - 1)
            fewer = keep_channels(graph, [(inner, np.arange(gone, inner.channels))])
            found.append(Ranking(inner, order, errors, (whole - cost(fewer)) / gone))
        values.run(node)
        report(done + 1, len(graph.nodes))
    return tuple(found)


def allocate(rankings: Sequence[Ranking], share: float) -> tuple[tuple[Inner, Array], ...]:
    """Return which channels stay, so that they cost this share of all of them.

    Those go first that add least error for what they cost; BLOCK at a time, and never all.
    """
    gone = [0] * len(rankings)
    left = (1 - share) * sum(r.cost * r.inner.channels for r in rankings)
    while left > 0:
        open_ = [i for i, r in enumerate(rankings) if gone[i] + BLOCK < r.inner.channels]
        if not open_:
            break
        i = min(open_, key=lambda i: _loss(rankings[i], gone[i]))
        gone[i] += BLOCK
        left -= BLOCK * rankings[i].cost
    return tuple((r.inner, r.without(count)) for r, count in zip(rankings, gone, strict=True))


def _loss(ranking: Ranking, gone: int) -> float:
    """Error of the next block for what it costs."""
    return sum(ranking.errors[gone : gone + BLOCK]) / max(ranking.cost, 1e-9)


def _main_reader(graph: Graph, inner: Inner) -> str:
    """The one that computes most."""
    nodes = [node for node in graph.nodes if node.name in inner.readers]
    macs = [n.op.macs(graph.types(n.inputs), graph.types(n.outputs)) for n in nodes]
    return nodes[int(np.argmax(macs))].name


def _order(
    graph: Graph, node: Node, values: Values, channels: int
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    assert isinstance(node.op, Conv2D)
    positions = Positions.drawn(graph, node, values.count)
    patches = positions.patches(node.op, values[node.inputs[0]])
    w, _ = weights_of(graph, node)
    taps = patches.shape[1] // channels
    moments = np.cov(patches, rowvar=False, bias=True).reshape(len(w.T), len(w.T))
    variance = float(np.sum(w @ moments * w))
    held = moments.copy()
    held[np.diag_indices_from(held)] += RIDGE * np.trace(moments) / len(moments) + 1e-9
    order, errors = removal_order(held, w.T, taps)
    return order, tuple(error / max(variance, 1e-30) for error in errors)


def removal_order(
    moments: Array, w: Array, taps: int = 1
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Channels from the least needed, and what error each going adds.

    moments: covariance of inputs; w: [inputs, outputs]; input t * channels + c is tap t of
    channel c.
    """
    inverse, w = np.linalg.inv(moments), w.copy()
    channels = len(w) // taps
    left, order, errors = list(range(channels)), [], []
    while left:
        found = [_error(inverse, w, _inputs_of(c, channels, taps)) for c in left]
        place = int(np.argmin(found))
        errors.append(found[place])
        order.append(left.pop(place))
        inputs = _inputs_of(order[-1], channels, taps)
        column = inverse[:, inputs] @ np.linalg.inv(inverse[np.ix_(inputs, inputs)])
        w -= column @ w[inputs]
        inverse -= column @ inverse[inputs]
        w[inputs], inverse[inputs], inverse[:, inputs] = 0, 0, 0
        inverse[inputs, inputs] = 1
    return tuple(order), tuple(errors)


def _inputs_of(channel: int, channels: int, taps: int) -> Array:
    return np.arange(taps) * channels + channel


def _error(inverse: Array, w: Array, inputs: Array) -> float:
    """Error of the outputs if these inputs go and the others make up for them."""
    block = inverse[np.ix_(inputs, inputs)]
    return float(np.sum(w[inputs] * np.linalg.solve(block, w[inputs])))

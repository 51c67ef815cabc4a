"""What tensors hold on calibration samples, and directions in which they vary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret

Array = npt.NDArray[Any]
Observed = Mapping[str, Array]
"""Tensor → its integers: [samples, h, w, c] int8."""
PERCENT = 99.9
"""Percent of what was seen that a range is to hold."""


def observe(
    graph: Graph,
    names: Iterable[str],
    samples: Array,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> Observed:
    """The named tensors on samples. samples: [n, …] int8, as the graph's input takes them."""
    wanted = tuple(dict.fromkeys(names))
    found: dict[str, list[Array]] = {name: [] for name in wanted}
    needed = graph.with_nodes(_needed(graph, wanted), wanted)
    for i, sample in enumerate(samples if wanted else samples[:0]):
        x = sample.reshape(graph.tensors[graph.inputs[0]].type.shape)
        for name, value in interpret(needed, {graph.inputs[0]: x}, wanted).items():
            found[name].append(value)
        report(i + 1, len(samples))
    return {name: np.concatenate(values) for name, values in found.items() if values}


def _needed(graph: Graph, wanted: Iterable[str]) -> tuple[Any, ...]:
    """The nodes up to the last one that computes a wanted tensor."""
    ends = [i for i, node in enumerate(graph.nodes) if not set(wanted).isdisjoint(node.outputs)]
    return graph.nodes[: max(ends, default=-1) + 1]


def directions(x: Array, count: int, start: str, seed: int) -> Array:
    """Unit vectors, [count, channels]. x: [n, channels], real numbers.

    principal: those of the largest variance, the largest first, each with the sign of its largest
    element; random: orthogonal ones, drawn by the seed. Raises ValueError if count > channels.
    """
    channels = x.shape[1]
    if count > channels:
        raise ValueError(f"{count} directions of {channels} channels")
    if start == "random":
        drawn = np.random.default_rng(seed).normal(size=(channels, count))
        q, _ = np.linalg.qr(drawn)
        return np.ascontiguousarray(q.T)
    centred = x - x.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    rows = vectors.T[::-1][:count]
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], 1)
    found: Array = rows * np.sign(largest)
    return found


def ranges(values: Array) -> tuple[Array, Array]:
    """Per column, the range that holds PERCENT of the numbers. values: [n, columns]."""
    share = (100 - PERCENT) / 2
    low, high = np.percentile(values, [share, 100 - share], axis=0)
    return low, high

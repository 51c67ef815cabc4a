"""Cross-layer equalization: channels of one tensor get similar ranges, the next layer compensates.

Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", ICCV 2019.
There weights have one scale per tensor. Here they have one per output channel, so dividing the
channels of an activation costs nothing in the layer before. It is balanced against the input
channels of the layer behind, as Xiao et al., "SmoothQuant", ICML 2023, do it. A depthwise layer has
a scale per channel too and takes any factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.quant.calibrate import Histogram
from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_sums import Sums

Array = npt.NDArray[Any]

HOMOGENEOUS = ((-math.inf, math.inf), (0.0, math.inf))
"""Limits that a positive factor does not move."""
LARGEST_RATIO = 64.0
"""Largest ratio of a tensor's factors; more would amplify noise in channels of little use."""


def equalize(graph: FloatGraph, statistics: Mapping[str, Histogram]) -> FloatGraph:
    """Return the graph with evened-out channels, the same function; `graph` itself if no pair fits.

    statistics: of the tensors of `graph`.
    """
    for first in graph.nodes:
        second = _partner(graph, first)
        if second is None or not isinstance(first.op, Sums) or not isinstance(second.op, Sums):
            continue
        current = graph.producers[first.output].op, graph.producers[second.output].op
        a, b = current
        assert isinstance(a, Sums)
        assert isinstance(b, Sums)
        factor = _factors(statistics[first.output].channel_largest, b)
        zeros = np.zeros_like(factor)
        bare = replace(a, low=-math.inf, high=math.inf).then(1 / factor, zeros)
        changed = {
            first.output: replace(bare, low=a.low, high=a.high),
            second.output: b.after(factor, zeros),
        }
        graph = replace(
            graph,
            nodes=tuple(
                replace(n, op=changed[n.output]) if n.output in changed else n for n in graph.nodes
            ),
        )
    return graph


def _partner(graph: FloatGraph, first: FloatNode) -> FloatNode | None:
    """The layer with weights that alone reads the output, through what commutes with factors."""
    if not isinstance(first.op, Sums) or first.op.limits not in HOMOGENEOUS:
        return None
    node = graph.sole_reader(first.output)
    while node is not None and node.op.is_homogeneous:
        node = graph.sole_reader(node.output)
    return node if node is not None and isinstance(node.op, Sums) else None


def _factors(largest: Array, b: Sums) -> Array:
    """Return what each channel is divided by: float64, positive, mean of logarithms 0."""
    spread = np.where(largest > 0, largest, np.nan).astype(np.float64)
    factor = b.evened(spread)
    if not np.isfinite(factor).any():
        return np.ones_like(spread)
    logs = np.log(factor)
    logs -= np.nanmean(logs)
    logs = np.where(np.isfinite(logs), logs, 0.0)
    bound = math.log(LARGEST_RATIO) / 2
    evened: Array = np.exp(np.clip(logs, -bound, bound))
    return evened

"""The int8 network in float arithmetic: every tensor and weight rounded to what has a code.

It differs from the integers only where a sum lies near the middle between two codes. It takes
batches, and can round just a part of the network, so choices are made by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_op import Quantization

Array = npt.NDArray[Any]
LARGEST_DB = 200.0
"""Shown where there is no error at all."""
SAME = 1e-5
"""Outputs that vary by less than this share of the largest one vary by rounding of float32."""


def decibels(signal: float, noise: float) -> float:
    """Signal to noise of two powers."""
    if noise <= 0:
        return LARGEST_DB
    if signal <= 0 or not math.isfinite(signal / noise) or not signal / noise > 0:
        return -LARGEST_DB
    return min(10 * math.log10(signal / noise), LARGEST_DB)


def snr_db(wanted: Array, found: Array) -> float:
    """Power of the wanted numbers by power of the differences, in dB."""
    wanted64 = wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        noise = float(np.square(found - wanted64).sum())
    return decibels(float(np.square(wanted64).sum()), noise)


def with_rounded_weights(graph: FloatGraph, q: Mapping[str, Quantization]) -> FloatGraph:
    """The graph with the weights that the int8 graph has."""
    return graph.with_nodes(
        replace(node, op=node.op.quantized(q[node.inputs[0]].scale)) for node in graph.nodes
    )


@dataclass(frozen=True, eq=False)
class Judge:
    """Measures the error of the outputs on samples; before a softmax, whose input tells more.

    wanted: what the float network computes for the samples, one array per output.
    """

    graph: FloatGraph
    samples: Array
    wanted: tuple[Array, ...]

    @staticmethod
    def of(graph: FloatGraph, samples: Array) -> Judge:
        """Make a judge for a float graph."""
        judged = judged_graph(graph)
        parts = [judged.run(batch) for batch in judged.batches(samples)]
        wanted = tuple(Judge.centred(graph, np.concatenate(ys)) for ys in zip(*parts, strict=True))
        return Judge(graph, samples, wanted)

    def errors(self, graph: FloatGraph, q: Mapping[str, Quantization]) -> tuple[float, float]:
        """Signal to noise of the int8 network that the (perhaps equalized) graph becomes, in dB.

        And the same around the outputs' means over the samples; both of the worst output.
        """
        judged = judged_graph(with_rounded_weights(graph, q))
        parts = [
            judged.run(batch, lambda name, x: q[name].fake(x))
            for batch in judged.batches(self.samples)
        ]
        found = [Judge.centred(graph, np.concatenate(ys)) for ys in zip(*parts, strict=True)]
        pairs = list(zip(self.wanted, found, strict=True))
        return min(snr_db(*pair) for pair in pairs), min(_varying_db(*pair) for pair in pairs)

    @staticmethod
    def centred(graph: FloatGraph, y: Array) -> Array:
        """Without what a softmax does not see: a number added to all logits."""
        if all(_logits(graph, name) == name for name in graph.outputs):
            return y
        with np.errstate(all="ignore"):
            centred: Array = y - y.mean(axis=-1, keepdims=True)
        return centred


def _varying_db(wanted: Array, found: Array) -> float:
    """Return the signal to noise of what varies; LARGEST_DB where nothing does."""
    with np.errstate(all="ignore"):
        parts = [y.astype(np.float64) - y.mean(axis=0, dtype=np.float64) for y in (wanted, found)]
    varies = np.abs(parts[0]).max() > SAME * np.abs(wanted).max()
    return snr_db(*parts) if varies else LARGEST_DB


def judged_graph(graph: FloatGraph) -> FloatGraph:
    """The graph whose outputs are the logits, where there is a softmax."""
    outputs = dict.fromkeys(_logits(graph, name) for name in graph.outputs)
    return replace(graph, outputs=tuple(outputs)).with_nodes(graph.nodes)


def _logits(graph: FloatGraph, name: str) -> str:
    node: FloatNode | None = graph.producers.get(name)
    view = node
    while view is not None and view.op.is_view:
        view = graph.producers.get(view.inputs[0])
    return view.inputs[0] if view is not None and view.op.is_probability else name

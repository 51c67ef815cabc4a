"""Empirical bias correction (Nagel et al., ICCV 2019, section 4.2).

Rounding weights and activations moves the mean of a layer's sums. The difference to the float
network, measured on samples, is added to the bias, layer by layer from the front, so that every
layer sees its inputs as already corrected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mcutrain.quant.calibrate import Progress
from mcutrain.quant.float_graph import FloatGraph
from mcutrain.quant.float_op import Quantization
from mcutrain.quant.float_sums import Sums

Array = npt.NDArray[Any]

ELEMENTS = 2**23
"""Most elements of the largest activation of all samples, which are kept at the same time."""


def correct_biases(
    graph: FloatGraph,
    q: Mapping[str, Quantization],
    samples: Array,
    report: Progress = lambda *_: None,
) -> FloatGraph:
    """The graph with biases that make up for the rounding of everything else."""
    x = samples[: graph.at_once(ELEMENTS)].astype(np.float32)
    exact, rounded = {graph.input: x}, {graph.input: q[graph.input].fake(x)}
    last_use = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
    nodes = []
    for i, node in enumerate(graph.nodes):
        report("correcting biases", i + 1, len(graph.nodes))
        op = node.op
        if isinstance(op, Sums):
            shift = _shift(op, exact[node.inputs[0]], rounded[node.inputs[0]], q[node.inputs[0]])
            node = replace(node, op=replace(op, b=op.b + shift))
        nodes.append(node)
        with np.errstate(all="ignore"):
            exact[node.output] = op.run(*(exact[n] for n in node.inputs))
            quantized = node.op.quantized(q[node.inputs[0]].scale)
            y = quantized.run(*(rounded[n] for n in node.inputs))
        rounded[node.output] = q[node.output].fake(y)
        for name in {*node.inputs, node.output}:
            if last_use.get(name, -1) <= i:
                del exact[name], rounded[name]
    return graph.with_nodes(nodes)


def _shift(op: Sums, exact: Array, rounded: Array, x: Quantization) -> Array:
    """Mean difference of the sums, per output channel."""
    quantized = op.quantized(x.scale)
    assert isinstance(quantized, Sums)
    with np.errstate(all="ignore"):
        wanted = op.sums(exact).mean(axis=(0, 1, 2), dtype=np.float64) + op.b
        found = quantized.sums(rounded).mean(axis=(0, 1, 2), dtype=np.float64) + quantized.b
        shift = wanted - found
    return np.where(np.isfinite(shift), shift, 0.0)

"""Which layers lose how much: signal to noise of every tensor, and of the outputs per layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.quant.calibrate import Progress
from mcutrain.quant.fake import Judge, decibels, judged_graph, snr_db
from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_op import Quantization
from mcutrain.quant.quantizer import Quantized, as_input

Array = npt.NDArray[Any]

MOST_SAMPLES = 16
PASSES = 12
"""Float passes that take as long as quantizing takes for each sample, in MobileNetV2."""
INT8_PASSES = 9
"""Float passes that take as long as one of its int8 graph takes in numpy."""
ACTIVATION_BYTES = 1 << 28
"""Bytes of the float activations that are held at a time."""


@dataclass(frozen=True)
class LayerError:
    """One layer. name: of the float graph's, or as `named_as` says. operator: of the int8 graph.

    snr_db: of its int8 output, all before it quantized too. alone_db: of the model's outputs if
    nothing but this layer (its weights and its output) is quantized; None where it does not reach
    them. Outputs are taken before a softmax.
    """

    name: str
    operator: str
    tensor: str
    scale: float
    zero_point: int
    snr_db: float
    alone_db: float | None


def layer_errors(
    quantized: Quantized, samples: Array, report: Progress = lambda *_: None
) -> tuple[LayerError, ...]:
    """Every layer with a rounding of its own, in execution order, the input first.

    Of the first compared_samples(quantized, len(samples)) samples.
    """
    graph = quantized.reference
    x = as_input(graph, samples)[: compared_samples(quantized, len(samples))]
    nodes = [n for n in graph.nodes if not n.op.keeps_values]
    kept = {graph.input, *(n.output for n in nodes)} & set(quantized.graph.tensors)
    measured = _int8_errors(quantized, x, kept, report)
    operators = {n.outputs[0]: type(n.op).__name__ for n in quantized.graph.nodes}
    alone = _alone(quantized, x, report)
    rows = []
    for name, tensor in (("input", graph.input), *((n.name, n.output) for n in nodes)):
        if tensor not in kept:
            continue
        q = quantized.quantizations[tensor]
        operator = operators.get(tensor, "")
        rows.append(
            LayerError(
                name, operator, tensor, *q, snr_db=measured[tensor], alone_db=alone.get(tensor)
            )
        )
    return tuple(rows)


def named_as(layers: Sequence[LayerError], graph: Graph) -> tuple[LayerError, ...]:
    """Return the layers with their names in a graph, such as that of the file that was written.

    A .tflite file has names of tensors only, of which its layers get theirs.
    """
    makers = {name: node for node in graph.nodes for name in node.outputs}
    named = []
    for layer in layers:
        node = makers.get(layer.tensor)
        while node is not None and node.op.is_view:
            node = makers.get(node.inputs[0])
        named.append(layer if node is None else replace(layer, name=node.name))
    return tuple(named)


def compared_samples(quantized: Quantized, samples: int) -> int:
    """Return how many samples compare layers in at most twice the time of quantizing.

    One layer at a time, the layers after it run once more: half the network in the mean.
    """
    layers = len(quantized.reference.nodes)
    return max(1, min(MOST_SAMPLES, 2 * PASSES * samples // (layers // 2 + INT8_PASSES)))


def target_errors(quantized: Quantized, x: Array, y: Array) -> tuple[float, float] | None:
    """The mean distance of the float and the int8 outputs to real targets; None for others.

    x: real samples [n, …]. y: [n, …]. Of as many samples as layers are compared on.
    """
    count = compared_samples(quantized, len(x))
    graph, reference = quantized.graph, quantized.reference
    name = graph.outputs[0]
    q = quantized.quantizations[name]
    if graph.gives_probabilities or graph.tensors[name].type.elements != y[0].size:
        return None
    exact, found = [], []
    for sample in x[:count]:
        exact.append(reference.values(sample[None])[name].ravel())
        said = interpret(graph, {graph.inputs[0]: codes(quantized, sample[None])}, {name})[name]
        found.append((said.ravel().astype(np.float64) - q.zero_point) * q.scale)
    wanted = y[:count].reshape(count, -1)
    mae = [float(np.abs(np.array(outputs) - wanted).mean()) for outputs in (exact, found)]
    return mae[0], mae[1]


def _int8_errors(
    quantized: Quantized, x: Array, kept: set[str], report: Progress
) -> dict[str, float]:
    """Signal to noise of tensors of the int8 graph, by its integers."""
    signal, noise = dict.fromkeys(kept, 0.0), dict.fromkeys(kept, 0.0)
    graph = quantized.graph
    for i, sample in enumerate(x):
        exact = quantized.reference.values(sample[None])
        found = interpret(graph, {graph.inputs[0]: codes(quantized, sample[None])}, kept)
        for name in kept:
            q = quantized.quantizations[name]
            real = (found[name].astype(np.float64) - q.zero_point) * q.scale
            wanted = exact[name].astype(np.float64).reshape(real.shape)
            signal[name] += float(np.square(wanted).sum())
            noise[name] += float(np.square(wanted - real).sum())
        report("measuring the int8 graph", i + 1, len(x))
    return {name: decibels(signal[name], noise[name]) for name in kept}


def codes(quantized: Quantized, x: Array) -> Array:
    """Real samples [n, …] as the int8 graph's input."""
    q = quantized.quantizations[quantized.reference.input]
    stored = np.rint(x / np.float32(q.scale)) + q.zero_point
    limited: Array = np.clip(stored, -128, 127).astype(np.int8)
    return limited


def _alone(quantized: Quantized, x: Array, report: Progress) -> dict[str, float]:
    """Signal to noise of the outputs when only one layer is quantized, by its output tensor."""
    graph = judged_graph(quantized.reference)
    tensors = [graph.input, *(n.output for n in graph.nodes if not n.op.keeps_values)]
    sample_bytes = 4 * sum(math.prod(graph.shapes[name][1:]) for name in tensors)
    batch = max(1, ACTIVATION_BYTES // sample_bytes)
    exact: list[dict[str, Array]] = []
    changed: list[dict[str, dict[str, Array]]] = []
    for first in range(0, len(x), batch):
        values = graph.values(x[first : first + batch])
        exact.append({name: values[name] for name in graph.outputs})
        changed.append({})
        for i, tensor in enumerate(tensors):
            report("one layer at a time", first * len(tensors) + i + 1, len(x) * len(tensors))
            changed[-1][tensor] = _outputs(graph, quantized.quantizations, values, tensor)

    def worst(tensor: str) -> float:
        return min(
            snr_db(
                Judge.centred(quantized.reference, np.concatenate([e[name] for e in exact])),
                Judge.centred(
                    quantized.reference, np.concatenate([c[tensor][name] for c in changed])
                ),
            )
            for name in changed[0][tensor]
        )

    return {tensor: worst(tensor) for tensor in tensors if changed[0][tensor]}


def _outputs(
    graph: FloatGraph, q: dict[str, Quantization], exact: dict[str, Array], tensor: str
) -> dict[str, Array]:
    """Compute the outputs that a layer reaches, if only it is quantized. tensor: its output."""
    changed = {tensor: _rounded(graph, q, exact, tensor)}
    for node in graph.nodes:
        if node.output != tensor and changed.keys() & set(node.inputs):
            inputs = (changed.get(n, exact[n]) for n in node.inputs)
            with np.errstate(all="ignore"):
                changed[node.output] = node.op.run(*inputs)
    return {name: changed[name] for name in graph.outputs if name in changed}


def _rounded(
    graph: FloatGraph, q: dict[str, Quantization], exact: dict[str, Array], tensor: str
) -> Array:
    """The tensor with its layer's weights and itself rounded."""
    node: FloatNode | None = graph.producers.get(tensor)
    y = exact[tensor]
    if node is not None:
        op = node.op.quantized(q[node.inputs[0]].scale)
        with np.errstate(all="ignore"):
            y = op.run(*(exact[n] for n in node.inputs))
    return q[tensor].fake(y)

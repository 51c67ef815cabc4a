"""Float network and samples in, int8 graph out: tries what is allowed and keeps what errs least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from mcutrain_host.dataclass import dataclass

from mcutrain.data import arranged
from mcutrain.errors import DataError
from mcutrain.ir.graph import Graph
from mcutrain.quant.calibrate import Histogram, Progress, calibrate
from mcutrain.quant.correct import correct_biases
from mcutrain.quant.emit import emit
from mcutrain.quant.equalize import equalize
from mcutrain.quant.fake import LARGEST_DB, Judge, judged_graph
from mcutrain.quant.float_elementwise import Function
from mcutrain.quant.float_graph import FloatGraph, FloatNode
from mcutrain.quant.float_op import Quantization
from mcutrain.quant.float_shapes import FloatReshape, FloatSoftmax
from mcutrain.quant.masks import clip_masks
from mcutrain.quant.parameters import Range, quantizations

Array = npt.NDArray[Any]

RangeMethod = Literal["auto", "minmax", "percentile", "mse"]
Choice = Literal["auto", "on", "off"]
JUDGED = 64
"""Samples, the last ones, by which ways to quantize are compared; none of them corrects biases."""
NOISE_DB, POOR_DB = 3.0, 10.0
"""Below the first, errors have half of the outputs' power; models that work have 15 and more."""
UNLIKE = 30.0
"""Times another column's span: of one that narrow, int8 has eight codes at most."""
METHODS: tuple[RangeMethod, ...] = ("minmax", "percentile", "mse")


@dataclass(frozen=True)
class QuantizeSettings:
    """How to quantize. "auto" tries all and keeps what has the least error at the outputs.

    ranges: of activations. percentile: how many percent of the numbers it keeps. input: the
    quantization of the model's input, None chooses it by the samples.
    """

    ranges: RangeMethod = "auto"
    percentile: float = 99.99
    equalization: Choice = "auto"
    bias_correction: Choice = "auto"
    input: Quantization | None = None


@dataclass(frozen=True)
class QuantizationTrial:
    """One way to quantize and what error the outputs had on the samples (before a softmax).

    varying_db: the same of how the outputs differ from their means over the samples.
    """

    ranges: str
    equalized: bool
    bias_corrected: bool
    snr_db: float
    varying_db: float = LARGEST_DB


@dataclass(frozen=True, eq=False)
class Quantized:
    """The int8 graph and what it was made from.

    reference: the float graph, equalized if `chosen` says so; its outputs are the original's. A
    tensor of the int8 graph has the name of the float tensor that it stands for. network: the same
    with corrected biases, where that was chosen. notes: what else was changed, in sentences.
    """

    graph: Graph
    reference: FloatGraph
    network: FloatGraph
    quantizations: dict[str, Quantization]
    chosen: QuantizationTrial
    trials: tuple[QuantizationTrial, ...]
    notes: tuple[str, ...] = ()


def quantize_network(
    graph: FloatGraph,
    samples: Array,
    settings: QuantizeSettings | None = None,
    report: Progress = lambda *_: None,
) -> Quantized:
    """Quantize a simplified float graph.

    samples: real numbers [n, …] as the network's input takes them. Raises DataError, ModelError.
    """
    settings = settings or QuantizeSettings()
    samples = as_input(graph, samples)
    judged = min(JUDGED, -(-len(samples) // 2))
    graph, logs = _without_logs(graph)
    judge = Judge.of(graph, samples[-judged:])
    graph, masks = clip_masks(graph, samples)
    notes = (*logs, *masks)
    candidates = [_candidate(graph, samples, False, report)]
    if settings.equalization != "off":
        evened = equalize(graph, candidates[0].statistics)
        if evened is not graph:
            candidates.append(_candidate(evened, samples, True, report))
            if settings.equalization == "on":
                del candidates[0]
    methods = METHODS if settings.ranges == "auto" else (settings.ranges,)
    plans = [(c, m) for c in candidates for m in methods]
    trials: list[QuantizationTrial] = []
    made: list[tuple[FloatGraph, FloatGraph, dict[str, Quantization]]] = []
    for i, (candidate, method) in enumerate(plans):
        report("trying ranges", i + 1, len(plans))
        q = candidate.quantizations(method, settings)
        made.append((candidate.graph, candidate.graph, q))
        errors = judge.errors(candidate.graph, q)
        trials.append(QuantizationTrial(method, candidate.equalized, False, *errors))
    best = _best(trials)
    if settings.bias_correction != "off":
        reference, network, q = made[best]
        corrected = correct_biases(network, q, samples[: max(1, len(samples) - judged)], report)
        made.append((reference, corrected, q))
        base = trials[best]
        trials.append(
            QuantizationTrial(base.ranges, base.equalized, True, *judge.errors(corrected, q))
        )
        best = len(trials) - 1 if settings.bias_correction == "on" else _best(trials)
    reference, network, q = made[best]
    made_of = (reference, network, q, trials[best], tuple(trials), notes)
    return Quantized(emit(network, q), *made_of)


def _without_logs(graph: FloatGraph) -> tuple[FloatGraph, tuple[str, ...]]:
    """The graph with probabilities where its outputs are their logarithms, and what was done.

    Their order is the same, and a loss takes the logits before them in any case.
    """
    gone: dict[str, FloatNode] = {}
    for node in graph.nodes:
        before = graph.producers.get(node.inputs[0])
        is_log = isinstance(node.op, Function) and node.op.name == "log"
        is_of_softmax = before is not None and isinstance(before.op, FloatSoftmax)
        if is_log and is_of_softmax and _gives_output(graph, node.output):
            gone[node.output] = replace(node, op=FloatReshape(graph.shapes[node.output]))
    if not gone:
        return graph, ()
    note = (
        "logarithms of probabilities are given as the probabilities themselves, whose order is the "
        "same"
    )
    return graph.with_nodes(gone.get(n.output, n) for n in graph.nodes), (note,)


def _gives_output(graph: FloatGraph, name: str) -> bool:
    """Return whether an output is this tensor, or a view of it."""
    while name not in graph.outputs:
        reader = graph.sole_reader(name)
        if reader is None or not reader.op.is_view:
            return False
        name = reader.output
    return True


def useful(result: Quantized, samples: Array) -> str:
    """Return what to say of an int8 network whose outputs are poor; nothing of a good one.

    Raises DataError where they are noise, so that no one takes it for the model.
    """
    chosen = result.chosen
    values = f"the samples' values go from {samples.min():.4g} to {samples.max():.4g}"
    unlike = _unlike_columns(samples)
    if chosen.snr_db < NOISE_DB:
        advice = unlike or (
            f"{values}: calibrate with samples as the model was trained on (--pixels, --mean and "
            "--std say how pixels were scaled), and see with --report which layers hurt"
        )
        raise DataError(
            f"the int8 outputs are noise: of {len(result.trials)} ways to quantize the best has "
            f"{chosen.snr_db:.1f} dB signal to noise; {advice}"
        )
    if unlike and chosen.snr_db < POOR_DB:
        return f"the int8 outputs are far from the float model's; {unlike}"
    if chosen.varying_db < NOISE_DB:
        return (
            f"the int8 outputs hardly tell one sample from another ({chosen.varying_db:.1f} dB "
            f"signal to noise around their means); {values}: are they as the model was trained on?"
        )
    if chosen.snr_db < POOR_DB:
        return (
            f"the int8 outputs are far from the float model's; {values}: are they as the model was "
            "trained on? --report says which layers hurt"
        )
    return ""


def _unlike_columns(samples: Array) -> str:
    """Return what to do about columns so unlike that one int8 scale loses some; or nothing."""
    spans = np.ptp(samples.reshape(-1, samples.shape[-1]), axis=0)
    varying = np.flatnonzero(spans)
    if len(varying) == 0:
        return ""
    small, large = varying[np.argmin(spans[varying])], np.argmax(spans)
    if spans[large] < UNLIKE * spans[small]:
        return ""
    return (
        f"column {large + 1} of the samples spans {spans[large]:.4g} and column {small + 1} "
        f"{spans[small]:.4g}, but int8 has one scale for all: bring each to the same range in the "
        "data, and leave that out of the model"
    )


def as_input(graph: FloatGraph, samples: Array) -> Array:
    """Samples as float32 [n, …] of the input's shape. Raises DataError if they do not fit.

    Samples with channels first are turned, see mcutrain.data.arranged.
    """
    shape = graph.input_shape[1:]
    samples = arranged(samples, shape)
    given = samples.shape[1:]
    if len(samples) == 0 or [d for d in given if d > 1] != [d for d in shape if d > 1]:
        raise DataError(
            f"the samples have the shape {given} but the model takes {shape}: save or "
            "resize them to that shape"
        )
    real = samples.reshape(len(samples), *shape).astype(np.float32, copy=False)
    if not np.isfinite(real).all():
        raise DataError("the samples hold NaN or infinity: remove or replace them")
    return real


@dataclass(frozen=True, eq=False)
class _Candidate:
    graph: FloatGraph
    statistics: Mapping[str, Histogram]
    equalized: bool

    def quantizations(self, method: str, settings: QuantizeSettings) -> dict[str, Quantization]:
        """Quantize all tensors by one method, but the outputs, whose extremes are what matters."""
        ranges: dict[str, Range] = {}
        outputs = judged_graph(self.graph).outputs
        for name, seen in self.statistics.items():
            if method == "minmax" or name in outputs:
                ranges[name] = seen.minmax()
            elif method == "percentile":
                ranges[name] = seen.percentile(settings.percentile)
            else:
                ranges[name] = seen.least_error()
        return quantizations(self.graph, ranges, settings.input)


def _candidate(graph: FloatGraph, samples: Array, equalized: bool, report: Progress) -> _Candidate:
    return _Candidate(graph, calibrate(graph, samples, report), equalized)


def _best(trials: list[QuantizationTrial]) -> int:
    return max(range(len(trials)), key=lambda i: trials[i].snr_db)

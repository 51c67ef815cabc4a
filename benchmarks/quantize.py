"""Post-training quantization: ours, the published int8 file, onnxruntime's quantize_static.

    .venv/bin/python benchmarks/quantize.py --shared ../shared

The MLPerf Tiny models, from their float files, calibrated with 200 samples. Accuracy where
there is data: CIFAR-10 test images (ResNets, calibrated with training images) and kws01, whose int8
features are dequantized for the float model, and every fifth of which calibrates. Elsewhere, and
beside it, the signal to noise of the outputs before a softmax against the float model, in dB: for
vww_96 on CIFAR-10 images enlarged to 96x96, for ad01 on drawn spectra; "order" is Spearman's
correlation between ad01's reconstruction errors before and after quantization, on which its AUC
depends. onnxruntime is its quantize_static: QDQ, weights per channel, ranges by min-max.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from float_to_onnx import channels_first, to_onnx
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from mcutrain.data import Transform
from mcutrain.formats import load, read_float
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ir.graph import Graph
from mcutrain.oracle.tflite import tflite_outputs
from mcutrain.pipeline import prepare
from mcutrain.quant import Quantization, Quantized, QuantizeSettings
from mcutrain.quant.fake import judged_graph, snr_db
from mcutrain.quant.float_graph import FloatGraph

Array = npt.NDArray[Any]

CALIBRATION = 200
CHECKED = 10  # samples whose bits are compared with the interpreter's
KWS_INPUT = Quantization(0.5847029089927673, 83)
PIXELS = Quantization.of_range(0, 255)
UNIT = Quantization.of_range(0, 1)


@dataclass(frozen=True, eq=False)
class Samples:
    """Real inputs; labels where there are some. input: the quantization that the data tells."""

    calibration: Array
    test: Array
    labels: Array | None = None
    input: Quantization | None = None


@dataclass(frozen=True)
class Case:
    """A pair of files and what to measure them on."""

    name: str
    float_file: str
    int8_file: str
    samples: Callable[[Path], Samples]
    is_autoencoder: bool = False


def cifar(shared: Path) -> Samples:
    """Pixels as they are."""
    with np.load(shared / "data/cifar10_10k2k.npz") as data:
        train, test, y = data["x_train"][:CALIBRATION], data["x_test"], data["y_test"]
    return Samples(train.astype(np.float32), test.astype(np.float32), y, PIXELS)


def enlarged(shared: Path) -> Samples:
    """Take the same images at 96x96, as pixel / 255, without labels."""
    found = cifar(shared)
    fit = Transform(96, 96, 3).fit
    both = [fit(x.astype(np.uint8)) / 255 for x in (found.calibration, found.test[:400])]
    return Samples(both[0].astype(np.float32), both[1].astype(np.float32), None, UNIT)


def keywords(shared: Path) -> Samples:
    """Every fifth sample calibrates; accuracy is of all, as published."""
    with np.load(shared / "data/kws01.npz") as data:
        x, y = data["x"], data["y"]
    real = (x.astype(np.float32) - KWS_INPUT.zero_point) * np.float32(KWS_INPUT.scale)
    return Samples(real[::5], real, y, KWS_INPUT)


def spectra(shared: Path) -> Samples:
    """Five frames of 128 mel bands in dB: a spectral slope and resonances that stay, and noise."""
    rng = np.random.default_rng(0)
    count, frames, bands = CALIBRATION + 1000, 5, 128
    slope = np.linspace(-10, -45, bands) + rng.normal(0, 4, (count, 1, 1))
    centre, height = rng.uniform(0, bands, (count, 1, 4)), rng.uniform(0, 15, (count, 1, 4))
    distance = (np.arange(bands)[:, None] - centre[:, :, None, :]) / 6
    peaks = (height[:, :, None, :] * np.exp(-(distance**2))).sum(axis=-1)
    noise = rng.normal(0, 2, (count, frames, bands))
    x = (slope + peaks + noise).reshape(count, -1).astype(np.float32)
    return Samples(x[:CALIBRATION], x[CALIBRATION:])


CASES = (
    Case("kws (DS-CNN)", "kws_ref_model_float32", "kws_ref_model", keywords),
    Case("ResNet-8", "pretrainedResnet", "pretrainedResnet_quant", cifar),
    Case("ResNet-8, large", "pretrainedResnet_large_float", "pretrainedResnet_large_int8", cifar),
    Case("vww (MobileNet)", "vww_96_float", "vww_96_int8", enlarged),
    Case("ad01 (autoencoder)", "ad01_fp32", "ad01_int8", spectra, is_autoencoder=True),
)


def main() -> None:
    """Print the table, a model at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", default=os.environ.get("MCUTRAIN_SHARED", "../shared"))
    parser.add_argument("--models", default="", help="only those whose name holds this")
    arguments = parser.parse_args()
    console = Console(width=120)
    columns = ("model", "", "accuracy %", "order", "SNR dB", "as interpreter", "seconds")
    table = Table(*columns)
    for case in CASES:
        if arguments.models in case.name:
            for row in measure(Path(arguments.shared), case):
                console.print("  ".join(row))
                table.add_row(*row)
    console.print(table)


def measure(shared: Path, case: Case) -> list[tuple[str, ...]]:
    """The rows of a model."""
    samples = case.samples(shared)
    model = read_float(shared / f"models/{case.float_file}.tflite")
    started = time.monotonic()
    settings = QuantizeSettings(input=samples.input)
    ours = model.quantize(samples.calibration, settings)
    seconds = time.monotonic() - started
    wanted = _run(judged_graph(model.network), samples.test)
    judge = _Judge(case, samples, wanted)
    published = load(shared / f"models/{case.int8_file}.tflite")
    started = time.monotonic()
    theirs = quantize_static(model.network, samples)
    static_seconds = time.monotonic() - started
    return [
        judge.row("float", wanted),
        judge.row("published int8", int8_logits(published, samples.test)),
        judge.row("onnxruntime", theirs, seconds=f"{static_seconds:.0f}"),
        judge.row(
            "mcutrain",
            int8_logits(ours.graph, samples.test),
            same_bits(ours, samples.test),
            f"{seconds:.0f}",
        ),
    ]


@dataclass(frozen=True, eq=False)
class _Judge:
    case: Case
    samples: Samples
    wanted: Array

    def row(self, what: str, found: Array, bits: str = "", seconds: str = "") -> tuple[str, ...]:
        """Accuracy, order, signal to noise."""
        accuracy = order = snr = ""
        labels = self.samples.labels
        wanted = self.wanted
        if labels is not None:
            accuracy = f"{100 * (found.argmax(axis=1) == labels).mean():.2f}"
        if self.case.is_autoencoder:
            errors = [np.square(y - self.samples.test).mean(axis=1) for y in (wanted, found)]
            order = f"{spearmanr(*errors).statistic:.4f}"
        else:
            wanted, found = (y - y.mean(axis=1, keepdims=True) for y in (wanted, found))
        if what != "float":
            snr = f"{snr_db(wanted, found):.1f}"
        return (self.case.name, what, accuracy, order, snr, bits, seconds)


def _run(graph: FloatGraph, x: Array) -> Array:
    y = np.concatenate([graph.run(batch)[0] for batch in graph.batches(x)])
    return y.reshape(len(y), -1)


def int8_logits(graph: Graph, x: Array) -> Array:
    """The outputs before a softmax, in real numbers, by the generated C."""
    last = graph.producer(graph.outputs[0])
    while last is not None and (last.op.is_view or last.op.is_probability):
        graph = Graph(graph.name, graph.tensors, graph.nodes, graph.inputs, last.inputs[:1])
        graph = graph.with_nodes(n for n in graph.nodes if n is not last)
        last = graph.producer(graph.outputs[0])
    y = graph.tensors[graph.outputs[0]].type
    integers = prepare(graph, "head").simulator().infer(codes(graph, x))
    return (integers.reshape(len(x), -1).astype(np.float32) - y.zero_point) * np.float32(y.scale)


def codes(graph: Graph, x: Array) -> Array:
    """Real samples as the graph's int8 input."""
    kind = graph.tensors[graph.inputs[0]].type
    stored = np.rint(x / np.float32(kind.scale)) + kind.zero_point
    return np.clip(stored, -128, 127).astype(np.int8)


def same_bits(ours: Quantized, x: Array) -> str:
    """Whether the TFLite interpreter computes the same integers from the written file."""
    inputs = codes(ours.graph, x[:CHECKED])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        write_tflite(ours.graph, path)
        expected = tflite_outputs(path, inputs, ours.graph)
    found = prepare(ours.graph, "head").simulator().infer(inputs)
    return "equal" if (found.ravel() == expected.ravel()).all() else "DIFFERS"


def quantize_static(network: FloatGraph, samples: Samples) -> Array:
    """The outputs of onnxruntime's int8 model (QDQ, weights per channel, min-max)."""
    from onnxruntime import InferenceSession, SessionOptions
    from onnxruntime.quantization import CalibrationDataReader, QuantType
    from onnxruntime.quantization import quantize_static as quantize

    graph = judged_graph(network)
    inputs = [{graph.input: channels_first(x[None])} for x in samples.calibration]

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """One sample at a time."""

        def __init__(self) -> None:
            self.left = iter(inputs)

        def get_next(self) -> Any:
            """The next one, None at the end."""
            return next(self.left, None)

    with tempfile.TemporaryDirectory() as folder:
        source, target = (str(Path(folder) / name) for name in ("float.onnx", "int8.onnx"))
        onnx.save(to_onnx(graph), source)
        kinds = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
        quantize(source, target, Reader(), per_channel=True, **kinds)
        options = SessionOptions()
        options.intra_op_num_threads = 1
        session = InferenceSession(target, options, providers=["CPUExecutionProvider"])
        parts = [
            session.run(None, {graph.input: channels_first(batch)})[0]
            for batch in graph.batches(samples.test)
        ]
    y = np.concatenate(parts)
    return y.reshape(len(y), -1)


if __name__ == "__main__":
    main()

"""Small members of families of networks, as PyTorch's two exporters and those of JAX write them.

The files are made by benchmarks/export_networks.py --small and benchmarks/export_jax.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from mcutrain.formats import as_format, load, read_float, write
from mcutrain.ir.difference import difference
from mcutrain.oracle.forward import compare
from mcutrain.oracle.original import compare_with_original
from mcutrain.pipeline import prepare
from mcutrain.simulation import ReferenceSimulator
from mcutrain.simulation.rates import LearningRate
from tests.drawing import drawn_by_commit
from tests.simulation.networks import samples, states_differ

FOLDER = Path(__file__).parent / "exported"
FILES = sorted(FOLDER.glob("*.onnx"))
TFLITE = sorted(set(FOLDER.glob("*.tflite")) - set(FOLDER.glob("*.int8.tflite")))
INT8_TFLITE = sorted(FOLDER.glob("*.int8.tflite"))
LEAST_DB = 100.0  # float32 sums in another order
INT8_DB = 20.0  # untrained: numbers are less apart than those of a trained network
STEPS = 2.0  # mean, of the output's scale: a sum in a hundred is rounded once, not twice, and grows
QDQ_STEPS = 4.0

WHOLE = [f for f in FILES if f.stem.endswith("new") and not f.stem.startswith("densenet")]
"""Whose layer normalizations are one node, and that have no batch norm that nothing takes in."""


def each(files: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", files, ids=lambda path: path.stem)


def noise(count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 1, (count, 32, 32, 3)).astype(np.float32)


@pytest.mark.draws(5)
@each(FILES)
def test_the_float_network_computes_what_onnxruntime_does(path: Path) -> None:
    pytest.importorskip("onnxruntime")
    said = compare_with_original(read_float(path), noise(4))
    assert said.endswith("dB to onnxruntime")
    assert float(said.split()[0]) > LEAST_DB


@each(TFLITE)
def test_the_float_network_computes_what_tflite_does(path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    said = compare_with_original(read_float(path), noise(4))
    assert said.endswith("dB to the TFLite interpreter")
    assert float(said.split()[0]) > LEAST_DB


@each(TFLITE)
def test_float_tflite_is_quantized_as_the_same_network_in_onnx_is(path: Path) -> None:
    made = read_float(path).quantize(noise(24))
    assert made.chosen.snr_db > INT8_DB
    other = read_float(path.with_suffix(".onnx")).quantize(noise(24))
    kinds = [
        sorted(type(n.op).__name__ for n in q.graph.nodes if not n.op.is_view)
        for q in (made, other)
    ]
    assert kinds[0] == kinds[1]


@each(INT8_TFLITE)
def test_int8_of_tflite_itself_is_trained_to_the_bit(path: Path) -> None:
    """Its means are a SUM, which TFLite's reference kernel does not compute."""
    pytest.importorskip("ai_edge_litert")
    graph = load(path)
    verdict = compare(path, samples=4, reference_samples=2)
    ours = [c for c in verdict.comparisons if c.of == "host C"]
    assert ours
    assert [c.differing for c in ours] == [0] * len(ours)
    step = prepare(graph, "last:5")
    x, y = samples(graph, 4, 4)
    rates = [LearningRate(2**30, -4)] * len(x)
    reference, device = ReferenceSimulator(step.plan.training, 3), step.simulator(3)
    reference.train(x, y, rates)
    device.train(x, y, rates)
    assert not states_differ(reference.state, device.state)


@pytest.mark.slow
@each(drawn_by_commit(FILES, 4))
def test_it_is_quantized_written_and_trained_to_the_bit(path: Path, tmp_path: Path) -> None:
    """Numpy, the generated C and the file agree; onnxruntime is within a few steps."""
    pytest.importorskip("onnxruntime")
    made = read_float(path).quantize(noise(24))
    assert made.chosen.snr_db > INT8_DB
    written = tmp_path / "int8.onnx"
    quantized = as_format(made.graph, written)
    assert write(quantized, written) == ""
    graph = load(written)
    assert difference(quantized, graph) == ""
    verdict = compare(written, samples=4, reference_samples=2)
    ours = [c for c in verdict.comparisons if c.of == "host C" and c.against == "onnxruntime"]
    assert [c.mean <= STEPS for c in ours] == [True], ours
    step = prepare(graph, "last:5")
    x, y = samples(graph, 4, 4)
    rates = [LearningRate(2**30, -4)] * len(x)
    reference, device = ReferenceSimulator(step.plan.training, 3), step.simulator(3)
    reference.train(x, y, rates)
    device.train(x, y, rates)
    assert not states_differ(reference.state, device.state)


class Noise:
    """What onnxruntime's quantizer calibrates with."""

    def __init__(self, name: str) -> None:
        self._samples = iter([{name: x[None].transpose(0, 3, 1, 2)} for x in noise(8)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._samples, None)


@pytest.mark.slow
@each(drawn_by_commit(WHOLE, 2))
def test_what_onnxruntime_quantizes_is_read(path: Path, tmp_path: Path) -> None:
    """Its own QDQ file: it quantizes each node by itself."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    written = tmp_path / "int8.onnx"
    quantization.quantize_static(
        path,
        written,
        Noise(onnx.load(path).graph.input[0].name),
        per_channel=True,
        extra_options={"WeightSymmetric": True},
    )
    verdict = compare(written, samples=4, reference_samples=2)
    ours = [c for c in verdict.comparisons if c.of == "host C" and c.against == "onnxruntime"]
    assert [c.mean <= QDQ_STEPS for c in ours] == [True], ours

"""Float file → int8 file → training in C → exported file → TFLite: equal bits at each hand-over.

The float files are PyTorch's exports: the demo's (examples/fashion/pretrain.py), and two that
export_networks.py wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcutrain import demo, prepare
from mcutrain.formats import read_float
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ir.graph import Graph
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.tflite import as_installed, find_interpreter, tflite_outputs
from mcutrain.pipeline import load
from mcutrain.simulation.rates import LearningRate
from mcutrain.trained import export
from tests.trained.training import RATE, train

INTERPRETER = find_interpreter()
ROUNDS_ONCE = INTERPRETER is None or INTERPRETER.rounds_once
needs_interpreter = pytest.mark.skipif(INTERPRETER is None, reason="no TFLite interpreter")
CALIBRATION, SAMPLES = 24, 6
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """A float file, what of it is trained, and how many classes a new head has, if any."""

    path: Path
    scheme: str
    classes: int | None = None


CASES = {
    "demo": Case(demo.FLOAT_MODEL, "last:3,bias:6"),
    "resnet8": Case(FOLDER / "resnet8.onnx", "last:2,bias:4", classes=4),
    "mobilenet_v3": Case(FOLDER / "mobilenet_v3.onnx", "bias:4"),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(scope="module")
def quantized(case: Case) -> Graph:
    """In int8, as the quantizer has it."""
    found = read_float(case.path)
    shape = found.network.input_shape[1:]
    x = np.random.default_rng(2).uniform(0, 1, (CALIBRATION, *shape)).astype(np.float32)
    return found.quantize(x).graph


@pytest.fixture(scope="module")
def int8_file(quantized: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("int8") / "model.int8.tflite"
    write_tflite(quantized, path)
    return path


def samples(graph: Graph, count: int = SAMPLES) -> Any:
    shape = graph.tensors[graph.inputs[0]].type.shape[1:]
    return np.random.default_rng(4).integers(-128, 128, (count, *shape)).astype(np.int8)


def meaning(graph: Graph, x: Any) -> Any:
    """The outputs by numpy."""
    (name,), (output,) = graph.inputs, graph.outputs
    return np.concatenate([interpret(graph, {name: one[None]})[output] for one in x])


@pytest.mark.slow
@needs_interpreter
def test_the_interpreter_computes_what_the_quantizer_made(quantized: Graph, int8_file: Path):
    read = load(int8_file)
    x = samples(quantized)
    expected = meaning(quantized, x)
    assert np.array_equal(meaning(read, x), expected)
    if not ROUNDS_ONCE:  # the old runtime's FULLY_CONNECTED rounds otherwise than the device's
        expected = meaning(as_installed(read), x)
    assert np.array_equal(tflite_outputs(int8_file, x, read), expected)


def test_numpy_trains_what_the_c_trains(case: Case, int8_file: Path):
    step = prepare(load(int8_file), case.scheme, classes=case.classes)
    x, rates = samples(step.graph, 3), [LearningRate.of(RATE)] * 3
    simulator, reference = step.simulator(), step.reference()
    for one in (simulator, reference):
        one.train(x, np.array([1, 0, 2], np.int32), rates)
    assert simulator.save() == reference.save()


@needs_interpreter
def test_the_interpreter_computes_the_trained_bits(case: Case, int8_file: Path, tmp_path: Path):
    original = load(int8_file)
    trained = train(original, case.scheme, classes=case.classes)
    path = tmp_path / "trained.tflite"
    done = export(int8_file, original, trained.graph, path)
    read = load(path)
    assert done.changed
    assert not np.array_equal(trained.outputs, trained.step.simulator().infer(trained.x))
    expected = trained.outputs if ROUNDS_ONCE else meaning(as_installed(read), trained.x)
    assert np.array_equal(tflite_outputs(path, trained.x, read), expected)

"""Shortcuts of slices and added channels, from a float model to a trained file and back."""

from pathlib import Path

import numpy as np
import pytest

from mcutrain.formats import load, read_float
from mcutrain.formats.onnx.write import write_onnx
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ir.difference import difference
from mcutrain.ops.pad import Pad
from mcutrain.ops.slice import Slice
from mcutrain.oracle.tflite import as_installed, tflite_outputs
from mcutrain.trained import export
from tests.formats.oracle import ROUNDS_ONCE, needs_interpreter
from tests.quant.networks import parameter_free_shortcuts
from tests.trained.test_trained import run
from tests.trained.training import train

SCHEMES = {
    "full": {},
    "bias:4,1:0.5,3:0.34,6:0.25": {},  # layers in part, on both sides of cut and added channels
    "last:3": {"gradient_dtype": "int16", "accumulate": 3},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network in int8."""
    folder = tmp_path_factory.mktemp("sliced")
    model = read_float(parameter_free_shortcuts(folder / "float.onnx"))
    x = np.random.default_rng(0).uniform(-2, 2, (16, *model.network.input_shape[1:]))
    write_tflite(model.quantize(x).graph, folder / "int8.tflite")
    return folder / "int8.tflite"


def test_both_formats_hold_the_network_bit_for_bit(source: Path, tmp_path: Path) -> None:
    """Every second row, then every second column of it, is one slice."""
    graph = load(source)
    kinds = [type(node.op) for node in graph.nodes]
    assert (kinds.count(Slice), kinds.count(Pad)) == (8, 2)
    assert write_onnx(graph, tmp_path / "int8.onnx") == ""
    assert difference(graph, load(tmp_path / "int8.onnx")) == ""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_trained_files_compute_the_bits_of_the_device(
    source: Path, scheme: str, tmp_path: Path
) -> None:
    original = load(source)
    trained = train(original, scheme, **SCHEMES[scheme])
    for name in ("trained.tflite", "trained.onnx"):
        done = export(source, original, trained.graph, tmp_path / name)
        assert not done.other_bits
        assert done.changed
        assert np.array_equal(run(load(tmp_path / name), trained.x), trained.outputs)


@pytest.mark.oracle
@needs_interpreter
def test_the_interpreter_computes_the_bits_of_the_device(source: Path, tmp_path: Path) -> None:
    trained = train(load(source), "full")
    path = tmp_path / "trained.tflite"
    export(source, load(source), trained.graph, path)
    graph = load(path)
    expected = trained.outputs if ROUNDS_ONCE else run(as_installed(graph), trained.x)
    assert np.array_equal(tflite_outputs(path, trained.x, graph), expected)

"""What holds of any network's files: from a float model to trained ones, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mcutrain.formats import load, read_float
from mcutrain.formats.onnx.write import write_onnx
from mcutrain.formats.tflite.write import write_tflite
from mcutrain.ir.difference import difference
from mcutrain.ir.graph import Graph
from mcutrain.oracle.tflite import as_installed, tflite_outputs
from mcutrain.trained import export
from tests.formats.oracle import ROUNDS_ONCE
from tests.trained.test_trained import run
from tests.trained.training import Trained, train


def int8_file(write: Callable[[Path], Path], folder: Path) -> Path:
    """The float model that `write` makes, in int8."""
    model = read_float(write(folder / "float.onnx"))
    x = np.random.default_rng(0).uniform(-2, 2, (16, *model.network.input_shape[1:]))
    write_tflite(model.quantize(x).graph, folder / "int8.tflite")
    return folder / "int8.tflite"


def assert_onnx_holds(graph: Graph, folder: Path) -> None:
    """The same network, read back from an .onnx file."""
    assert write_onnx(graph, folder / "int8.onnx") == ""
    assert difference(graph, load(folder / "int8.onnx")) == ""


def assert_trained_files_hold(source: Path, scheme: str, folder: Path, **options: Any) -> Trained:
    """Trained, in both formats; they compute the bits of the device."""
    original = load(source)
    trained = train(original, scheme, **options)
    for name in ("trained.tflite", "trained.onnx"):
        done = export(source, original, trained.graph, folder / name)
        assert not done.other_bits
        assert done.changed
        assert np.array_equal(run(load(folder / name), trained.x), trained.outputs)
    return trained


def assert_interpreter_agrees(source: Path, folder: Path) -> None:
    """The runtime that is installed computes the bits of the device."""
    trained = train(load(source), "full")
    path = folder / "trained.tflite"
    export(source, load(source), trained.graph, path)
    graph = load(path)
    expected = trained.outputs if ROUNDS_ONCE else run(as_installed(graph), trained.x)
    assert np.array_equal(tflite_outputs(path, trained.x, graph), expected)

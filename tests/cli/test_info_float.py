"""mcutrain info of float models: what people look at before they quantize."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import run
from tests.quant.networks import OnnxNetwork

__all__ = ["run"]

ALIKE = ("macs", "weights", "bytes", "trainable_layers", "largest_activation_bytes")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mcutrain.oracle.original._original_outputs", lambda *_: None)


def network(curve: str = "Relu", normalizes: bool = False) -> Path:
    net = OnnxNetwork(["batch", 3, 8, 6])
    x = net.op("Relu", net.batch_norm(net.conv("input", 3, 8), 8))
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.op(curve, net.conv(x, 8, 16, group=4, bias=True))
    if normalizes:
        x = net.op("Transpose", x, perm=[0, 2, 3, 1])
        ones, zeros = net.real(np.ones(16)), net.real(np.zeros(16))
        x = net.op("LayerNormalization", x, ones, zeros, axis=-1)
        x = net.op("Transpose", x, perm=[0, 3, 1, 2])
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    return net.save(Path("m.onnx"), net.op("Softmax", net.gemm(x, 16, 4)))


@pytest.mark.parametrize("outputs", [1, 3])
def test_sigmoids_are_behind_the_head(run, outputs):
    net = OnnxNetwork(["batch", 3, 8, 6])
    x = net.op("Flatten", net.op("GlobalAveragePool", net.conv("input", 3, 8)))
    y = net.op("Sigmoid", net.gemm(x, 8, outputs))
    found = run("info", net.save(Path("one.onnx"), y), "--json").json
    assert found["head"] is not None
    np.savez("x.npz", x=np.random.default_rng(0).normal(0, 1, (8, 8, 6, 3)).astype(np.float32))
    assert run("quantize", "one.onnx", "--calibration", "x.npz", "-o", "one.tflite").code == 0
    quantized = run("info", "one.tflite", "--json").json
    assert quantized["head"] is not None


def test_layers_and_sums_are_those_of_the_int8_model(run):
    found = run("info", network(), "--json").json
    x = np.random.default_rng(0).normal(0, 1, (8, 8, 6, 3)).astype(np.float32)
    np.savez("x.npz", x=x)
    assert run("quantize", "m.onnx", "--calibration", "x.npz", "-o", "m.tflite").code == 0
    quantized = run("info", "m.tflite", "--json").json
    assert {key: found[key] for key in ALIKE} == {key: quantized[key] for key in ALIKE}
    mine, theirs = (
        [(la["index"], la["macs"], la["bytes"]) for la in facts["layers"] if la["weights"]]
        for facts in (found, quantized)
    )
    assert mine == theirs
    assert (found["is_float"], found["obstacles"]) == (True, [])
    assert found["quantized_as"] == ".tflite"


def test_the_text_has_layers_the_files_own_shapes_and_what_comes_next(run):
    outcome = run("info", network("Sigmoid"))
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    operators = [
        line[9:].split() for line in lines[2:] if line.startswith((" 0", " 1", " head", "  "))
    ]
    assert [words[1] for words in operators if len(words) > 1][:4] == [
        "Conv",
        "MaxPool",
        "GroupedConv",
        "logistic",
    ]
    assert "input   ?×3×8×6 float32   input" in lines
    assert any(line.startswith("head    ") and "none" not in line for line in lines)
    assert lines[-1] == (
        "float   nothing is in the way of `mcutrain quantize`, which writes it as .tflite"
    )


def test_a_model_that_tflite_cannot_hold_is_said_to_become_onnx(run):
    facts = run("info", network(normalizes=True), "--json").json
    assert facts["quantized_as"] == ".onnx"
    assert "LayerNorm" in {layer["operator"] for layer in facts["layers"]}


def obstructed() -> Path:
    net = OnnxNetwork([1, 3, 8, 8])
    x = net.op("Sin", net.conv("input", 3, 8))
    x = net.op("Relu", net.op("TopK", x, net.constant(np.array([3], np.int64))))
    return net.save(Path("m.onnx"), net.op("Sin", x))


def test_what_cannot_be_read_is_shown_as_far_as_it_goes_with_all_obstacles(run):
    outcome = run("info", obstructed())
    assert outcome.code == 2
    assert "the model has 2 obstacles, in 3 nodes" in outcome.err
    assert "• Sin (2 nodes, the first " in outcome.err
    assert "• TopK (node " in outcome.err
    rows = [line.split() for line in outcome.out.splitlines()]
    assert [row for row in rows if len(row) == 2 and row[1].isdigit()] == [
        ["Conv", "1"],
        ["Relu", "1"],
        ["Sin", "2"],
        ["TopK", "1"],
    ]
    assert "input   1×3×8×8 float32   input" in outcome.out
    assert "total   5 nodes, 216 parameters; float, not read" in outcome.out


def test_obstacles_are_a_list_for_scripts(run):
    outcome = run("info", obstructed(), "--json")
    assert outcome.code == 2
    facts = json.loads(outcome.out)
    assert [text.split()[0] for text in facts["obstacles"]] == ["Sin", "TopK"]
    assert facts["operators"] == {"Conv": 1, "Relu": 1, "Sin": 2, "TopK": 1}
    assert facts["parameters"] == 216
    assert [text.split(";")[0] for text in facts["likely"]] == [
        "likely post-processing of detections"
    ]
    assert "layers" not in facts


def test_a_float_tflite_file_is_listed_too(run):
    from tests.formats.tflite_builder import TfliteBuilder

    model = TfliteBuilder()
    x, y = (model.tensor(name, (1, 4), "float32") for name in "xy")
    w = model.constant("w", np.ones((4, 4), np.float32))
    b = model.constant("b", np.zeros(4, np.float32))
    model.operator("FULLY_CONNECTED", [x, w, b], y, "FullyConnectedOptions")
    Path("m.tflite").write_bytes(model.content([x], [y]))
    facts = run("info", "m.tflite", "--json").json
    assert (facts["macs"], facts["weights"], facts["parameters"]) == (16, 16, 20)
    assert facts["inputs"] == [{"name": "x", "shape": [1, 4], "dtype": "float32"}]


def test_a_dump_is_of_int8_graphs(run):
    outcome = run("info", network(), "--dump")
    assert outcome.code == 2
    assert "the model is float" in outcome.sentence


def test_an_int8_model_that_cannot_be_read_is_not_taken_for_a_float_one(run):
    from tests.formats.onnx_builder import QdqModel

    model = QdqModel((1, 2, 6, 6))
    model.save(Path("q.onnx"), model.requantize(model.op("Sin", model.op("TopK", model.x)), 0.1, 0))
    outcome = run("info", "q.onnx")
    assert (outcome.code, outcome.out) == (2, "")

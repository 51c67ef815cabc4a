"""What a refusal says: the cause, where, and what to do. A table of models and sentences."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mcutrain.errors import McutrainError
from mcutrain.formats import load, read_float
from mcutrain.sparse import find_head
from tests.cli.conftest import run
from tests.formats.oracle import PACKAGE, needs_interpreter
from tests.formats.tflite_builder import TfliteBuilder
from tests.quant.networks import OnnxNetwork

__all__ = ["run"]

IMAGE = [1, 3, 8, 8]
SAMPLES = np.random.default_rng(0).normal(0, 1, (8, 8, 8, 3)).astype(np.float32)


def classified(net: OnnxNetwork, x: str, channels: int) -> str:
    return net.gemm(net.op("Flatten", net.op("GlobalAveragePool", x)), channels, 4)


def integers(net: OnnxNetwork, *values: int) -> str:
    return net.constant(np.array(values, np.int64))


def volumes(net: OnnxNetwork) -> str:
    w = net.real(net.rng.normal(0, 1, (4, 3, 3, 3, 3)))
    return classified(net, net.op("Conv", "input", w, pads=[1] * 6), 4)


def negative_pads(net: OnnxNetwork) -> str:
    cut = net.op("Pad", net.conv("input", 3, 8), integers(net, 0, 0, -1, -1, 0, 0, -1, -1))
    return classified(net, cut, 8)


def wide_batch_pads(net: OnnxNetwork) -> str:
    grown = net.op("Pad", net.conv("input", 3, 8), integers(net, 1, 0, 0, 0, 0, 0, 0, 0))
    return classified(net, grown, 8)


def no_layer_behind_a_curve(net: OnnxNetwork) -> str:
    return net.op("Sigmoid", classified(net, net.op("Relu", net.conv("input", 3, 8)), 8))


FLOAT: dict[Callable[[OnnxNetwork], str], tuple[list[int], str]] = {
    volumes: (
        [1, 3, 4, 8, 8],
        "input 'input' has 5 axes, (1, 3, 4, 8, 8): volumes and videos (Conv3d) are not supported; "
        "images [1, c, h, w] and sequences [1, c, l] are",
    ),
    negative_pads: (
        IMAGE,
        "pads (0, 0, -1, -1, 0, 0, -1, -1), which cut something off where they are negative, are "
        "not supported; a Slice that cuts, and pads from 0 on, are supported",
    ),
    wide_batch_pads: (
        IMAGE,
        "with 0.0 are not supported; pads of channels, height and width with a finite number are "
        "supported",
    ),
}


@pytest.mark.parametrize("make", FLOAT, ids=lambda f: f.__name__)
def test_a_float_model_is_refused_with_its_cause_and_what_to_do(make, tmp_path):
    shape, sentence = FLOAT[make]
    net = OnnxNetwork(shape)
    path = net.save(tmp_path / "m.onnx", make(net))
    with pytest.raises(McutrainError) as caught:
        read_float(path)
    assert sentence in str(caught.value)


def test_an_input_beyond_any_board_is_not_called_impossible(tmp_path):
    net = OnnxNetwork([1, 3, 4000, 4000])
    path = net.save(tmp_path / "m.onnx", net.op("Relu", "input"))
    with pytest.raises(McutrainError, match=r"more than [\d,]+ numbers, which no microcontroller"):
        read_float(path)


@pytest.mark.parametrize("read", [load, read_float])
def test_sixteen_bit_activations_are_named_as_the_cause(read, tmp_path):
    model = TfliteBuilder()
    x, y = (model.tensor(name, (1, 4, 4, 2), "int16", 0.01) for name in "xy")
    model.operator("RELU", [x], y)
    path = tmp_path / "m.tflite"
    path.write_bytes(model.content([x], [y]))
    with pytest.raises(McutrainError) as caught:
        read(path)
    assert "the activations are int16 (tensor '" in str(caught.value)
    assert "supported are int8 ones: convert the model with TFLITE_BUILTINS_INT8" in str(
        caught.value
    )


@pytest.fixture
def one_output(run, tmp_path, monkeypatch) -> Path:
    """A classifier that ends in a curve which no loss knows, quantized."""
    monkeypatch.setattr("mcutrain.oracle.original._original_outputs", lambda *_: None)
    net = OnnxNetwork(IMAGE)
    curve = net.op("Tanh", classified(net, net.op("Relu", net.conv("input", 3, 8)), 8))
    net.save(tmp_path / "f.onnx", curve)
    np.savez(tmp_path / "x.npz", x=SAMPLES)
    made = run(
        "quantize", tmp_path / "f.onnx", "--calibration", tmp_path / "x.npz", "-o", "m.tflite"
    )
    assert made.code == 0, made.err
    return tmp_path / "m.tflite"


def test_a_model_without_a_head_is_told_the_way_out(one_output):
    with pytest.raises(McutrainError) as caught:
        find_head(load(one_output))
    assert re.search(
        r"there is no head to train; export the model so that it ends with its last layer "
        r"'/?Gemm_\d+', without '/?Tanh\S*' \(Lookup\); two classes take two outputs",
        str(caught.value),
    )


@pytest.mark.oracle
@needs_interpreter
def test_verify_says_what_it_did_not_compare_last(run, one_output):
    lines = run("verify", one_output).out.strip().splitlines()
    assert lines[-2].startswith("every output that was compared is equal: ")
    assert lines[-1].startswith("NOT checked: the C: the output ")


@pytest.mark.oracle
@needs_interpreter
@pytest.mark.skipif("litert" not in PACKAGE, reason="other interpreters have other kernels")
def test_an_operator_that_reference_kernels_lack_is_the_cause(run, tmp_path, monkeypatch):
    monkeypatch.setattr("mcutrain.oracle.original._original_outputs", lambda *_: None)
    net = OnnxNetwork(IMAGE)
    net.save(tmp_path / "f.onnx", classified(net, net.op("Elu", net.conv("input", 3, 8)), 8))
    np.savez(tmp_path / "x.npz", x=SAMPLES)
    run("quantize", tmp_path / "f.onnx", "--calibration", tmp_path / "x.npz", "-o", "m.tflite")
    outcome = run("verify", "m.tflite")
    assert outcome.code == 2
    assert "the reference kernels of ai-edge-litert have no ELU" in outcome.sentence
    assert "old" not in outcome.sentence


# ----------------------------------------------------------------------- what was refused wrongly


def test_standardized_weights_are_constants_not_a_layer_normalization(tmp_path):
    net = OnnxNetwork(IMAGE)
    w = net.real(net.rng.normal(0, 1, (8, 3, 3, 3)))
    d = net.op("Sub", w, net.op("ReduceMean", w, axes=[1, 2, 3]))
    variance = net.op("ReduceMean", net.op("Mul", d, d), axes=[1, 2, 3])
    root = net.op("Sqrt", net.op("Add", variance, net.real(1e-5)))
    w = net.op("Mul", net.op("Div", d, root), net.real(0.2))
    path = net.save(tmp_path / "m.onnx", classified(net, net.op("Conv", "input", w), 8))
    network = read_float(path).network
    (conv, *_) = [n.op for n in network.nodes if hasattr(n.op, "w")]
    assert abs(float(conv.w.std()) - 0.2) < 1e-3
    assert np.abs(conv.w.reshape(8, -1).mean(axis=1)).max() < 1e-6


def test_a_gate_without_its_axes_of_1_multiplies_channels_of_each_sample(tmp_path):
    from mcutrain.quant.float_elementwise import FloatMul

    op = FloatMul()
    assert op.shape((1, 4, 5, 3), (1, 3)) == (1, 4, 5, 3)
    rng = np.random.default_rng(0)
    x, gate = rng.normal(0, 1, (6, 4, 5, 3)), rng.normal(0, 1, (6, 3))
    for operands in ((x, gate), (gate, x)):
        assert np.array_equal(op.run(*operands), x * gate[:, None, None, :])
    with pytest.raises(ValueError, match="are multiplied"):
        op.shape((1, 4, 5, 3), (1, 5))

"""Files of uint8: the int8 graph that they stand for, and the interpreter's uint8 kernels."""

import numpy as np
import pytest
import tflite
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from mcutrain.cli.listening import OnScreen
from mcutrain.errors import ModelError
from mcutrain.formats import load, patch
from mcutrain.formats.tflite.flatbuffer import read_model
from mcutrain.formats.tflite.read import rounding_of_uint8
from mcutrain.functions.loading import loaded
from mcutrain.ir.difference import difference
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.forward import compare
from tests.formats.oracle import as_installed, needs_interpreter, run_reference
from tests.formats.test_tflite_oracle import draw_inputs
from tests.formats.tflite_builder import TfliteBuilder
from tests.formats.tflite_models import SINGLE_OPERATORS

OFFSET = 128
NAME = "mobilenet_v1_0.25_128_quant_uint8"
EQUAL = ("add", "pad", "leaky_relu", "softmax")
"""Whose kernels of uint8 round as those of int8 do."""
BY_A_STEP = ("conv_2d", "depthwise_conv_2d", "fully_connected", "pool", "activation")
"""Halves, or products of scales in single precision."""


def as_uint8(content):
    """The same model with every int8 number stored 128 higher."""
    root = read_model(content)
    for tensor in root["Subgraphs"][0]["Tensors"]:
        if tensor.get("Type", 0) != tflite.TensorType.INT8:
            continue
        quantization = tensor["Quantization"]
        assume(len(quantization["Scale"]) == 1)  # no kernel of uint8 has one for each channel
        tensor["Type"] = tflite.TensorType.UINT8
        quantization["ZeroPoint"] = quantization.get("ZeroPoint", np.zeros(1, np.int64)) + OFFSET
        buffer = root["Buffers"][tensor.get("Buffer", 0)]
        if buffer.get("Data") is not None:
            buffer["Data"] = buffer["Data"] ^ np.uint8(OFFSET)
    return root.file()


def stored(values):
    return [(v.astype(np.int16) + OFFSET).astype(np.uint8) for v in values]


def written(folder, content, name="model"):
    path = folder / f"{name}.tflite"
    path.write_bytes(content)
    return path


def names(content):
    root = read_model(content)
    codes = vars(tflite.BuiltinOperator)
    return [n for c in root["OperatorCodes"] for n, v in codes.items() if v == c["BuiltinCode"]]


def steps(content, inputs, found):
    """How far outputs are from those of the file's own kernels."""
    (outputs,) = run_reference(content, [stored(inputs)])
    return max(
        int(np.abs(y.astype(int) - mine.astype(int) - OFFSET).max(initial=0))
        for mine, y in zip(found, outputs, strict=True)
    )


@pytest.mark.parametrize("operator", [*EQUAL, *BY_A_STEP])
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_model_shifted_by_128_is_the_same_graph(tmp_path_factory, operator, data):
    content = data.draw(SINGLE_OPERATORS[operator])
    folder = tmp_path_factory.mktemp("uint8")
    graph = load(written(folder, content, "model"))
    shifted = as_uint8(content)
    path = written(folder, shifted, "shifted")
    assert difference(graph, load(path)) == ""
    is_edge = any(n in ("QUANTIZE", "RESHAPE") for n in names(shifted))
    assert rounding_of_uint8(path) == ("" if is_edge else "the file is uint8; all weights fit int8")


@needs_interpreter
@pytest.mark.oracle
@pytest.mark.parametrize("operator", [*EQUAL, *BY_A_STEP])
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_kernels_of_uint8_round_as_those_of_int8_or_a_step_beside(tmp_path_factory, operator, data):
    shifted = as_uint8(data.draw(SINGLE_OPERATORS[operator]))
    graph = load(written(tmp_path_factory.mktemp("uint8"), shifted))
    for inputs in draw_inputs(graph, 5):
        computed = interpret(graph, dict(zip(graph.inputs, inputs, strict=True)))
        found = [computed[n] for n in graph.outputs]
        assert steps(shifted, inputs, found) <= (operator in BY_A_STEP)


def dense(weights, zero_point, bias, x_scale=0.5, w_scale=0.25):
    """A FULLY_CONNECTED of uint8; float32 holds the products of the scales."""
    b = TfliteBuilder()
    x = b.tensor("x", (1, weights.shape[1]), "uint8", scale=x_scale, zero_point=100)
    w = b.constant("w", weights.astype(np.uint8), scale=w_scale, zero_point=zero_point)
    values = b.constant("b", np.array(bias, np.int32), scale=x_scale * w_scale)
    y = b.tensor("y", (1, len(weights)), "uint8", scale=64.0, zero_point=20)
    b.operator("FULLY_CONNECTED", [x, w, values], y, table="FullyConnectedOptions")
    return b.content([x], [y])


def test_weights_that_fit_without_their_zero_point_are_kept(tmp_path):
    weights = np.array([[72, 200, 199], [73, 200, 327 - 100]])
    graph = load(written(tmp_path, dense(weights, 200, [5, -7])))
    (w, bias) = (graph.tensors[n] for n in ("w", "b"))
    assert (w.type.scales, w.type.zero_point) == ((0.25,), 0)
    assert (w.data.reshape(2, 3) == weights - 200).all()
    assert bias.data.tolist() == [5, -7]


def test_a_channel_that_does_not_fit_gets_a_larger_step_and_its_bias_with_it(tmp_path):
    weights = np.array([[0, 200, 255], [72, 200, 255]])
    path = written(tmp_path, dense(weights, 200, [1000, 1000]))
    graph = load(path)
    w, bias = (graph.tensors[n] for n in ("w", "b"))
    step = np.float32(0.25 * 200 / 127)
    assert w.type.scales == (step, 0.25)
    assert w.data.reshape(2, 3).tolist() == [[-127, 0, 35], [-128, 0, 55]]
    assert bias.data.tolist() == [635, 1000]
    error = 55 - 35 * step / 0.25
    ratio = 10 * np.log10((200**2 + 55**2) / error**2)
    assert rounding_of_uint8(path) == (
        "the file is uint8; 1 of 2 channels of its weights do not fit int8 and were rounded, at "
        f"{ratio:.0f} dB signal to noise or more"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (dense(np.array([[0, 255]]), 200, [0]), "1 of 1 channels of its weights do not fit int8"),
        (dense(np.array([[100, 255]]), 128, [0]), "all weights fit int8"),
    ],
)
def test_commands_say_how_the_weights_fit(tmp_path, capsys, content, said):
    path = written(tmp_path, content)
    assert loaded(path, OnScreen()) == load(path)
    assert f"mcutrain: note: {path}: the file is uint8; {said}" in capsys.readouterr().err


@needs_interpreter
@pytest.mark.oracle
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(zero_point=st.integers(0, 255), seed=st.integers(0, 99))
@example(zero_point=127, seed=39)  # a sum that tflite-runtime, which rounds twice, rounds up
def test_recentred_weights_give_the_file_s_own_outputs(tmp_path_factory, zero_point, seed):
    rng = np.random.default_rng(seed)
    low, high = max(0, zero_point - OFFSET), min(255, zero_point + 127)
    weights = rng.integers(low, high + 1, (4, 9))
    content = dense(weights, zero_point, rng.integers(-500, 500, 4), w_scale=0.5)
    graph = as_installed(load(written(tmp_path_factory.mktemp("dense"), content)))
    for inputs in draw_inputs(graph, seed):
        (y,) = (interpret(graph, {"x": inputs[0]})[n] for n in graph.outputs)
        assert steps(content, inputs, [y]) == 0


def test_a_file_of_uint8_is_written_anew(tmp_path):
    path = written(tmp_path, dense(np.full((2, 3), 130), 128, [0, 0]))
    graph = load(path)
    reason = patch(path, graph, graph, tmp_path / "out.tflite")
    assert reason == "the file is uint8; all weights fit int8"
    assert not (tmp_path / "out.tflite").exists()


@pytest.mark.parametrize("zero_point", [-1, 256, 2**40])
def test_an_impossible_zero_point_of_uint8_is_refused(tmp_path, zero_point):
    path = written(tmp_path, dense(np.ones((2, 3)), zero_point, [0, 0]))
    with pytest.raises(ModelError, match=f"'w' has the impossible zero point {zero_point}"):
        load(path)


@pytest.mark.slow
@needs_interpreter
@pytest.mark.oracle
def test_a_published_network_of_uint8_equals_its_int8_form_and_is_near_the_file(shared):
    verdict = compare(shared / "models" / f"{NAME}.tflite", samples=12, reference_samples=2)
    assert verdict.is_right
    assert [c.differing for c in verdict.comparisons] == [0, 0, 0]
    assert verdict.note.startswith("the file is uint8; 56 of 3,737 channels")
    assert 0 < verdict.original.differing < 0.02 * verdict.original.outputs

"""Mutated model files: a graph or one sentence, in bounded time and memory; never a traceback."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import McutrainError, ModelError
from mcutrain.formats import read_float
from mcutrain.ops.spatial import Window
from mcutrain.quant import Quantized, QuantizeSettings
from mcutrain.quant.float_graph import MAX_SCRATCH, FloatGraph, FloatNode
from mcutrain.quant.float_sums import Conv
from tests.formats.bounded import read_bounded, with_huge_numbers, with_huge_words
from tests.formats.test_tflite_float import MAKERS, FloatModel
from tests.quant.networks import OnnxNetwork

MUTATIONS = 40  # of each kind and of each of four files
GROWN_BYTES = 256 * 2**20  # measured: below 1 MiB here, 167 MiB over 1,500 such files
SETTINGS = QuantizeSettings("minmax", equalization="off")


def small_onnx(path: Path) -> Path:
    net = OnnxNetwork([1, 3, 8, 8])
    x = net.op("Relu", net.batch_norm(net.conv("input", 3, 4, 3, 2), 4))
    gate = net.op("HardSigmoid", net.conv(net.op("GlobalAveragePool", x), 4, 4, 1), alpha=1 / 6)
    x = net.op("Mul", net.op("HardSwish", net.conv(x, 4, 4, group=4)), gate)
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    x = net.op("Reshape", x, net.constant(np.array([1, -1], np.int64)))
    return net.save(path.with_suffix(".onnx"), net.op("Softmax", net.gemm(x, 16, 3)))


def small_tflite(make):
    def write(path: Path) -> Path:
        m = FloatModel()
        return m.save(path.with_suffix(".tflite"), make(m))

    return write


def mutated(content: bytes, rng: random.Random) -> bytes:
    """With some bytes changed, cut out, repeated or cut off."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        i = rng.randrange(len(data))
        kind = rng.randrange(8)
        if kind < 4:
            data[i] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        elif kind < 6:
            data[i] ^= 1 << rng.randrange(8)
        elif kind == 6:
            del data[i : i + rng.choice((1, 4, 32))]
        else:
            data[i:i] = data[i : i + rng.choice((1, 4, 32))]
        if len(data) < 8:
            break
    return bytes(data if rng.random() > 0.1 else data[: rng.randrange(len(data)) + 1])


def quantized(path: Path) -> Quantized:
    model = read_float(path)
    x = np.random.default_rng(0).normal(0, 1, (2, *model.network.input_shape[1:]))
    return model.quantize(x, SETTINGS)


each_model = pytest.mark.parametrize(
    "model",
    [small_onnx, *(small_tflite(make) for make in (MAKERS[0], MAKERS[1], MAKERS[3]))],
    ids=["onnx", "convolutions", "classifier", "excitation"],
    indirect=True,
)


@pytest.fixture
def model(request, tmp_path):
    """The path and the content of a small model file."""
    path = request.param(tmp_path / "model")
    return path, path.read_bytes()


@each_model
@settings(max_examples=MUTATIONS, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rng=st.randoms(use_true_random=False))
def test_whatever_is_mutated_there_is_a_model_or_a_sentence(model, rng):
    """Hypothesis chooses the mutations, and finds the smallest that fails."""
    path, content = model
    path.write_bytes(mutated(content, rng))
    sentence = ""
    try:
        quantized(path)
    except McutrainError as error:
        sentence = str(error)
    assert "\n" not in sentence


@pytest.mark.slow
@pytest.mark.draws(2)
@each_model
def test_mutated_models_take_bounded_memory(model):
    path, content = model
    rng = random.Random(5)
    damaged = [mutated(content, rng) for _ in range(MUTATIONS)]
    huge = with_huge_numbers if path.suffix == ".onnx" else with_huge_words
    damaged += huge(content, rng, MUTATIONS)
    outcome = read_bounded(quantized, path, content, damaged)
    assert not outcome.out_of_memory
    assert outcome.grown_bytes < GROWN_BYTES
    assert 0 < outcome.sentences.count("") < len(damaged)
    assert not [sentence for sentence in outcome.sentences if "\n" in sentence]


def test_padding_that_only_a_huge_stride_hides_is_refused():
    """As of a damaged .tflite with padding SAME, which asked for 18 GiB around 9 x 9 numbers."""
    window = Window((3, 3), (2**26, 1), (1, 1), (0, 2**26, 1, 1))
    conv = Conv(window, np.ones((1, 3, 3, 4), np.float32), np.zeros(1))
    node = FloatNode("conv", conv, ("x",), "y")
    graph = FloatGraph("model", "x", (1, 9, 9, 4), (node,), ("y",))
    with pytest.raises(ModelError, match=r"node 'conv' needs .* numbers beside its input"):
        graph.at_once(1)


def test_a_runtime_gets_no_endless_memory():
    code = (
        "from mcutrain.oracle.run_original import bound_memory; import numpy\n"
        "bound_memory(2**31)\nnumpy.empty(2**32, numpy.uint8)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Unable to allocate 4.00 GiB" in done.stderr


def test_samples_are_taken_in_portions_that_patches_allow():
    window = Window((64, 64), padding=(32, 31, 32, 31))
    conv = Conv(window, np.ones((1, 64, 64, 1), np.float32), np.zeros(1))
    node = FloatNode("conv", conv, ("x",), "y")
    graph = FloatGraph("model", "x", (1, 64, 64, 1), (node,), ("y",))
    assert conv.scratch((1, 64, 64, 1)) == 127**2 + 64**4
    assert graph.at_once(2**30) == MAX_SCRATCH // (127**2 + 64**4) == 3

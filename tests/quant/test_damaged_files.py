"""Mutated model files: a graph or one sentence, in bounded time and memory; never a traceback."""

import random
from pathlib import Path

import numpy as np
import pytest

from mcutrain.errors import McutrainError
from mcutrain.quant import Settings, read_float
from tests.quant.networks import OnnxNetwork
from tests.quant.test_tflite_import import MAKERS, FloatModel

MUTATIONS = 75  # of each of four files
SETTINGS = Settings("minmax", equalization="off")


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


@pytest.mark.parametrize(
    "write",
    [small_onnx, *(small_tflite(make) for make in (MAKERS[0], MAKERS[1], MAKERS[3]))],
    ids=["onnx", "convolutions", "classifier", "excitation"],
)
def test_mutated_models_give_a_graph_or_a_sentence(tmp_path, write):
    path = write(tmp_path / "model")
    content, rng = path.read_bytes(), random.Random(5)
    refused: list[str] = []
    for _ in range(MUTATIONS):
        path.write_bytes(mutated(content, rng))
        try:
            model = read_float(path)
            x = np.random.default_rng(0).normal(0, 1, (2, *model.network.input_shape[1:]))
            model.quantize(x, SETTINGS)
        except McutrainError as error:
            refused.append(str(error))
    assert 0 < len(refused) < MUTATIONS
    assert not [sentence for sentence in refused if "\n" in sentence]

"""Normalizations of groups of channels in float .tflite files, as Keras 3 is converted."""

import numpy as np
import pytest

from mcutrain.errors import UnsupportedError
from mcutrain.formats import load, read_float, write
from mcutrain.ops.layer_norm import LayerNorm
from mcutrain.oracle.run_original import _run_tflite
from mcutrain.pipeline import prepare
from mcutrain.quant.fake import snr_db
from mcutrain.quant.float_elementwise import Function
from mcutrain.quant.float_norm import FloatLayerNorm
from tests.formats.oracle import PACKAGE, needs_interpreter
from tests.formats.test_tflite_float import (
    LEAST_DB,
    NONE,
    RELU,
    SHAPE,
    FloatModel,
    is_in_parts,
    number,
)

GROUPS = (1, 8, 7, 2, 2)


def of_groups(
    m, axes=(1, 2, 4), shape=GROUPS, own=(1, 1, 1, 2, 2), activation=NONE, wrong=NONE, last=""
):
    """x * g + (-mean * g + beta) with factors that vary along axes which are not normalized.

    last: (x - mean) * g instead, and this operator of it and beta.
    """
    inner = tuple(1 if i in axes else d for i, d in enumerate(shape))
    wide = tuple(np.broadcast_shapes(inner, own))
    keeps = {"KeepDims": True}
    x = m.op("RESHAPE", [m.conv(m.x, SHAPE), m.integers(*shape)], shape, "ReshapeOptions")
    mean = m.op("MEAN", [x, m.integers(*axes)], inner, "ReducerOptions", **keeps)
    apart = m.op("SUB", [x, mean], shape, "SubOptions")
    square = m.op("SQUARE", [apart], shape)
    variance = m.op("MEAN", [square, m.integers(*axes)], inner, "ReducerOptions", **keeps)
    variance = m.op("ADD", [variance, number(m, 1e-3)], inner, "AddOptions")
    g = m.op("MUL", [m.op("RSQRT", [variance], inner), m.real(*own, scale=1.0)], wide, "MulOptions")
    moved = m.op("MUL", [m.op("NEG", [mean], inner), g], wide, "MulOptions")
    limit = {"FusedActivationFunction": wrong}
    shift = m.op("ADD", [moved, m.real(*own)], wide, "AddOptions", **limit)
    parts = [m.op("MUL", [x, g], shape, "MulOptions"), shift]
    if last:
        parts = [m.op("MUL", [apart, g], shape, "MulOptions"), m.real(*own)]
    limit, table = {"FusedActivationFunction": activation}, "MulOptions" if last == "MUL" else ""
    y = m.op(last or "ADD", parts, shape, table or "AddOptions", **limit)
    return m.op("RESHAPE", [y, m.integers(*SHAPE)], SHAPE, "ReshapeOptions")


FORMS = {
    "groups": {},
    "before an activation": {"activation": RELU},
    "of each channel": {"shape": (1, 8, 7, 4, 1), "own": (1, 1, 1, 4, 1)},
    "of rows in the middle": {"axes": (2,), "own": (1, 1, 7, 1, 1), "activation": RELU},
    "of rows at the end": {"axes": (3, 4), "own": (1, 1, 1, 2, 2), "activation": RELU},
    "along other axes": {"axes": (3, 4), "own": (1, 8, 1, 1, 1)},
    "of one factor": {"own": (1, 1, 1, 1, 1)},
    "of differences": {"last": "ADD", "activation": RELU},
    "before a product": {"last": "MUL", "activation": RELU, "own": (1, 1, 1, 1, 2)},
}


@needs_interpreter
@pytest.mark.oracle
@pytest.mark.parametrize("form", FORMS)
def test_the_float_network_normalizes_as_the_interpreter_does(tmp_path, form):
    if PACKAGE == "tflite_runtime" and form in ("of rows in the middle", "of one factor"):
        pytest.skip("tflite-runtime ends the process where five axes are broadcast so")
    m = FloatModel()
    path = m.save(tmp_path / "m.tflite", of_groups(m, **FORMS[form]))
    x = np.random.default_rng(4).normal(0, 2, SHAPE).astype(np.float32)
    network = read_float(path).network
    assert sum(isinstance(n.op, FloatLayerNorm) for n in network.nodes) == 1
    assert snr_db(_run_tflite(path, x)[0][0], network.run(x)[0]) > LEAST_DB


def test_a_quantized_one_is_trained(tmp_path):
    m = FloatModel()
    y = m.op("MEAN", [of_groups(m, activation=RELU), m.integers(1, 2)], (1, 4), "ReducerOptions")
    model = read_float(m.save(tmp_path / "m.tflite", m.dense(y, 3, 4)))
    samples = np.random.default_rng(5).normal(0, 1, (16, *SHAPE[1:])).astype(np.float32)
    write(model.quantize(samples).graph, tmp_path / "int8.onnx")
    graph = load(tmp_path / "int8.onnx")
    assert sum(isinstance(n.op, LayerNorm) for n in graph.nodes) == 1
    assert prepare(graph, "full").plan.state_bytes > 0


def test_an_activation_inside_keeps_it_in_parts(tmp_path):
    m = FloatModel()
    path = m.save(tmp_path / "m.tflite", of_groups(m, own=(1, 1, 1, 1, 1), wrong=RELU))
    assert is_in_parts(path)


def test_the_batch_is_not_normalized_over(tmp_path):
    m = FloatModel()
    path = m.save(tmp_path / "m.tflite", of_groups(m, axes=(0, 1), own=(1, 1, 1, 1, 1)))
    with pytest.raises(
        UnsupportedError, match=r"over the axes \[0, 1\]; supported are all but the b"
    ):
        read_float(path)


def selu(m, x, gamma, alpha, dtype):
    """As Keras is converted, with constants that a DEQUANTIZE makes of float16."""

    def constant(value):
        if dtype == np.float32:
            return number(m, value)
        m.count += 1
        half = m.builder.constant(f"half_{m.count}", np.float16(value))
        return m.op("DEQUANTIZE", [half], (), "DequantizeOptions")

    m.count += 1
    is_more = m.builder.tensor(f"more_{m.count}", SHAPE, "bool")
    m.builder.operator("GREATER", [x, constant(0.0)], is_more)
    above = m.op("MUL", [x, constant(gamma)], SHAPE, "MulOptions")
    below = m.op("SUB", [m.op("EXP", [x], SHAPE), constant(1.0)], SHAPE, "SubOptions")
    below = m.op("MUL", [below, constant(gamma * alpha)], SHAPE, "MulOptions")
    return m.op("SELECT", [is_more, above, below], SHAPE)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_constants_of_half_precision_make_known_functions(tmp_path, dtype):
    m = FloatModel()
    path = m.save(tmp_path / "m.tflite", selu(m, m.conv(m.x, SHAPE), 1.0507, 1.67326, dtype))
    nodes = read_float(path).network.nodes
    assert [n.op.name for n in nodes if isinstance(n.op, Function)] == ["selu"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_near_functions_are_not_known_ones(tmp_path, dtype):
    m = FloatModel()
    gamma = 1.0507 * (1.003 if dtype == np.float16 else 1.0003)
    path = m.save(tmp_path / "m.tflite", selu(m, m.conv(m.x, SHAPE), gamma, 1.67326, dtype))
    with pytest.raises(UnsupportedError, match="SELECT"):
        read_float(path)

"""Operators on two tensors of different shapes: whatever has fewer numbers is repeated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import McutrainError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.ir.interpret import interpret
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.quant.fake import snr_db
from tests.formats.onnx_builder import QdqModel
from tests.quant.networks import OnnxNetwork

FEW = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
LEAST_DB = 100.0  # float32 sums in another order
KINDS = ("Add", "Sub", "Mul")


@st.composite
def shapes(draw):
    """Two shapes [1, …] of up to five axes, each of which may have a length of 1 on either side."""
    whole = draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    pair = []
    for _ in range(2):
        kept = draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
        pair.append((1, *(d if k else 1 for d, k in zip(whole, kept, strict=True))))
    more = draw(st.integers(0, len(whole)))
    is_short = all(d == 1 for d in pair[1][:more])
    return (pair[0], pair[1][more:]) if is_short and draw(st.booleans()) else tuple(pair)


def integers(net, *values):
    return net.constant(np.array(values, np.int64))


def operands(net, both):
    """Two parts of one input."""
    first, found = 0, []
    for shape in both:
        end = first + math.prod(shape)
        x = net.x if isinstance(net, QdqModel) else "input"
        x = net.op("Slice", x, *(integers(net, v) for v in (first, end, 1)))
        found.append(net.op("Reshape", x, integers(net, *shape)))
        first = end
    return found


def flat(net, y):
    return net.op("Reshape", y, integers(net, 1, -1))


@pytest.mark.draws(2)
@pytest.mark.oracle
@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(both=shapes())
def test_a_float_result_is_that_of_onnxruntime(kind, both, tmp_path_factory):
    onnxruntime = pytest.importorskip("onnxruntime")
    size = sum(map(math.prod, both))
    net = OnnxNetwork([1, size])
    a, b = operands(net, both)
    y = flat(net, net.op(kind, a, b))
    path = net.save(tmp_path_factory.mktemp("onnx") / "m.onnx", y)
    x = np.random.default_rng(0).uniform(0.5, 2, (1, size)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"input": x})
    (found,) = read_float(path).network.run(x)
    assert snr_db(wanted, found.reshape(wanted.shape)) > LEAST_DB


@pytest.mark.draws(2)
@pytest.mark.oracle
@pytest.mark.parametrize("kind", KINDS)
@FEW
@given(both=shapes(), seed=st.integers(0, 99))
def test_an_int8_result_is_within_one_step_of_onnxruntime(kind, both, seed, tmp_path_factory):
    pytest.importorskip("onnxruntime")
    size = sum(map(math.prod, both))
    model = QdqModel((1, size), 0.05, 3)
    a, b = operands(model, both)
    a, b = model.requantize(a, 0.05, 3), model.requantize(b, 0.05, 3)
    y = model.requantize(model.op(kind, a, b), 0.1, -5)
    path = model.save(tmp_path_factory.mktemp("onnx") / "m.onnx", flat(model, y))
    graph = load_onnx(path)
    x = np.random.default_rng(seed).integers(-128, 128, (1, size)).astype(np.int8)
    (name,) = graph.inputs
    ours = interpret(graph, {name: x})[graph.outputs[0]].astype(int)
    theirs = onnxruntime_outputs(path, x, graph, optimize=False)
    assert np.abs(ours - theirs.reshape(ours.shape)).max() <= 1


@pytest.mark.parametrize("kind", ["Add", "Mul"])
def test_shapes_that_do_not_fit_get_a_sentence(kind, tmp_path):
    model = QdqModel((1, 7), 0.05, 3)
    a, b = operands(model, ((1, 3), (1, 4)))
    path = model.save(tmp_path / "m.onnx", model.requantize(model.op(kind, a, b), 0.1, 0))
    with pytest.raises(McutrainError, match=r"\(1, 3\) and \(1, 4\) do not fit each other"):
        load_onnx(path)


@pytest.mark.oracle
@pytest.mark.parametrize("shape", [(1, 1, 6, 4), (6, 4), (1, 3, 1, 4)])
def test_a_product_with_constants_of_positions_is_that_of_onnxruntime(shape, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    net = OnnxNetwork([1, 3, 6, 4])
    y = net.op("Mul", "input", net.real(net.rng.normal(0, 1, shape)))
    path = net.save(tmp_path / "m.onnx", flat(net, y))
    x = net.rng.normal(0, 1, (1, 3, 6, 4)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"input": x})
    graph = read_float(path).network
    (found,) = graph.run(x.transpose(np.argsort(graph.file_axes[graph.input])))
    assert snr_db(wanted, found.reshape(wanted.shape)) > LEAST_DB

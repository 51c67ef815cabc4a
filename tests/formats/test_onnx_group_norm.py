"""InstanceNormalization and GroupNormalization of .onnx, float and int8, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcutrain.errors import McutrainError
from mcutrain.formats import read_float
from mcutrain.formats.onnx.read import load_onnx
from mcutrain.ir.interpret import interpret
from mcutrain.ops.layer_norm import LayerNorm
from mcutrain.oracle.onnxruntime import onnxruntime_outputs
from mcutrain.quant.fake import snr_db
from tests.formats.onnx_builder import QdqModel
from tests.quant.networks import OnnxNetwork

FEW = settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
LEAST_DB = 90.0  # float32 sums in another order, then a root


def listed(net, *values):
    return net.constant(np.array(values, np.int64))


def as_pytorch(net, x, shape, groups, gamma, beta):
    """What torch.onnx makes of a GroupNorm: instances of groups, then factors of channels."""
    rows = net.op("Reshape", x, listed(net, 1, groups, -1))
    ones, zeros = (net.constant(np.full(groups, v, np.float32)) for v in (1, 0))
    y = net.op("Reshape", net.op("InstanceNormalization", rows, ones, zeros), listed(net, *shape))
    own = [net.constant(v.astype(np.float32).reshape(-1, 1, 1)) for v in (gamma, beta)]
    return net.op("Add", net.op("Mul", y, own[0]), own[1])


def of_instances(net, x, shape, groups, gamma, beta):
    own = [net.constant(v.astype(np.float32)) for v in (gamma, beta)]
    return net.op("InstanceNormalization", x, *own, epsilon=1e-3)


def of_groups(net, x, shape, groups, gamma, beta):
    own = [net.constant(v[:groups].astype(np.float32)) for v in (gamma, beta)]
    return net.op("GroupNormalization", x, *own, num_groups=groups)


@pytest.mark.oracle
@pytest.mark.parametrize("make", [as_pytorch, of_instances, of_groups])
@FEW
@given(groups=st.integers(1, 3), each=st.integers(1, 4), rows=st.integers(2, 5))
def test_a_float_result_is_that_of_onnxruntime(make, groups, each, rows, tmp_path_factory):
    onnxruntime = pytest.importorskip("onnxruntime")
    shape = [1, groups * each, rows, 3]
    net = OnnxNetwork(shape, opset=18)
    gamma, beta = net.rng.normal(1, 0.3, (2, shape[1]))
    y = make(net, "input", shape, groups, gamma, beta)
    y = net.op("Reshape", y, listed(net, 1, -1))
    path = net.save(tmp_path_factory.mktemp("onnx") / "m.onnx", y)
    x = net.rng.normal(0.5, 2, shape).astype(np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"input": x})
    graph = read_float(path).network
    (found,) = graph.run(x.transpose(np.argsort(graph.file_axes[graph.input])))
    assert snr_db(wanted, found.reshape(wanted.shape)) > LEAST_DB


@pytest.mark.oracle
def test_an_int8_result_is_within_one_step_of_onnxruntime(tmp_path):
    pytest.importorskip("onnxruntime")
    model = QdqModel((1, 6, 4, 5), 0.03, 3)
    y = of_instances(model, model.x, None, 6, np.full(6, 1.5), np.full(6, 0.25))
    y = model.op("Reshape", model.requantize(y, 0.04, -7), listed(model, 1, -1))
    graph = load_onnx(model.save(tmp_path / "m.onnx", y))
    assert [type(n.op) for n in graph.nodes].count(LayerNorm) == 1
    x = np.random.default_rng(1).integers(-128, 128, (1, 6, 4, 5)).astype(np.int8)
    (name,) = graph.inputs
    stored = x if graph.tensors[name].type.shape == x.shape else x.transpose(0, 2, 3, 1)
    ours = interpret(graph, {name: stored})[graph.outputs[0]].astype(int)
    theirs = onnxruntime_outputs(tmp_path / "m.onnx", stored, graph, optimize=False)
    assert np.abs(ours - theirs.reshape(ours.shape)).max() <= 1


def test_int8_factors_of_channels_get_a_sentence(tmp_path):
    model = QdqModel((1, 3, 4, 5), 0.03, 3)
    y = of_instances(model, model.x, None, 3, np.arange(3), np.zeros(3))
    path = model.save(tmp_path / "m.onnx", model.requantize(y, 0.04, -7))
    with pytest.raises(McutrainError, match="factors of their own for channels"):
        load_onnx(path)


@pytest.mark.parametrize(
    ("opset", "factors", "words"),
    [
        (18, 2, "input 1 has 2 numbers, but 8 or 4 are needed"),
        (18, 4, ""),
        (18, 8, ""),
        (21, 4, "input 1 has 4 numbers, but 8 are needed"),
        (21, 8, ""),
    ],
)
def test_factors_are_those_of_groups_or_of_channels(opset, factors, words, tmp_path):
    net = OnnxNetwork([1, 8, 3, 4], opset=opset)
    own = [net.constant(np.arange(1, factors + 1, dtype=np.float32)) for _ in range(2)]
    y = net.op("GroupNormalization", "input", *own, num_groups=4)
    path = net.save(tmp_path / "m.onnx", net.op("Relu", y))
    if not words:
        assert read_float(path).network.nodes
        return
    with pytest.raises(McutrainError, match=words):
        read_float(path)


def test_another_shape_gets_a_sentence(tmp_path):
    net = OnnxNetwork([1, 4])
    own = [net.constant(np.ones(4, np.float32)) for _ in range(2)]
    path = net.save(tmp_path / "m.onnx", net.op("InstanceNormalization", "input", *own))
    with pytest.raises(McutrainError):
        read_float(path)

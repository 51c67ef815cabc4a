"""A Where that always gives one of its inputs: PyTorch's guard against NaN, and its Softplus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcutrain.errors import UnsupportedError
from mcutrain.formats import read_float
from mcutrain.oracle.run_original import _run_onnx
from mcutrain.quant.float_shapes import FloatSoftmax
from tests.quant.networks import OnnxNetwork

SHAPE = [1, 12, 6]


def test_a_guard_against_nan_is_x_itself(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    net = OnnxNetwork(SHAPE)
    y = net.op("Softmax", net.op("Tanh", "input"), axis=-1)
    zero = net.constant(np.array(0, np.float32))
    y = net.op("Where", net.op("IsNaN", y), zero, y)
    path = net.save(tmp_path / "m.onnx", y)
    network = read_float(path).network
    assert [type(n.op) for n in network.nodes].count(FloatSoftmax) == 1
    x = np.random.default_rng(3).normal(0, 1, SHAPE).astype(np.float32)
    assert network.input_shape == tuple(SHAPE)
    np.testing.assert_allclose(network.run(x)[0], _run_onnx(path, x)[0], atol=1e-6)


def test_another_choice_by_it_is_refused(tmp_path: Path) -> None:
    net = OnnxNetwork(SHAPE)
    y, other = net.op("Tanh", "input"), net.op("Relu", "input")
    y = net.op("Where", net.op("IsNaN", y), net.constant(np.array(0, np.float32)), other)
    with pytest.raises(UnsupportedError, match="IsNaN"):
        read_float(net.save(tmp_path / "m.onnx", y))


def _softplus(path: Path, limit: float) -> Path:
    net = OnnxNetwork(SHAPE)
    is_large = net.op("Greater", "input", net.constant(np.array(limit, np.float32)))
    return net.save(path, net.op("Where", is_large, "input", net.op("Softplus", "input")))


def test_a_softplus_that_is_x_where_x_is_large_is_a_softplus(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = _softplus(tmp_path / "m.onnx", 20.0)
    x = np.random.default_rng(4).normal(0, 12, SHAPE).astype(np.float32)
    assert x.max() > 20
    given = read_float(path).network.run(x)[0]
    np.testing.assert_allclose(given, _run_onnx(path, x)[0], atol=1e-5)


def test_a_softplus_that_is_x_from_a_low_limit_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="Greater"):
        read_float(_softplus(tmp_path / "m.onnx", 2.0))
